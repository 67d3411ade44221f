//! Reads the log of a thread: backward from its end, or a single item.

use contexture_history::compaction::message_handle;
use contexture_history::search::searchable;
use contexture_history::{Body, Item, Seq, Visibility};
use contexture_message::{Part, ToolOutput, ToolResult};
use contexture_session::{SessionError, Thread};
use serde_json::Value;

use crate::beside::is_beside;
use crate::text::fill;

/// The kind of application item that holds the full text of a result.
pub(crate) const TOOL_OUTPUT: &str = "contexture.tool_output";
/// How many items are read at once. Few, because each may be large.
const PAGE: u64 = 32;
/// How many handles are suggested if one is not found.
const NAMED: usize = 5;

/// The result of a search for a handle.
pub(super) enum Lookup {
    /// The newest result with that handle.
    Found { name: String, text: String },
    /// There is none. These are the newest handles, with the names of their tools.
    Missing(Vec<(String, String)>),
}

/// Finds the newest result with a handle.
pub(super) async fn result(thread: &Thread, handle: &str) -> Result<Lookup, SessionError> {
    let mut others = Vec::new();
    let mut found: Option<(String, String)> = None;
    let mut items = Backward::new(thread);
    while let Some(item) = items.next().await? {
        if let Some((name, text)) = found {
            if is_beside(&item) {
                found = Some((name, text));
                continue;
            }
            // The full text of a large result is in an item before its message, with nothing but such items between.
            match whole(&item) {
                Some((id, whole)) if id == handle => {
                    return Ok(Lookup::Found { name, text: whole.to_owned() });
                }
                Some(_) => found = Some((name, text)),
                None => return Ok(Lookup::Found { name, text }),
            }
            continue;
        }
        if let Some(text) = message_text(&item, handle) {
            return Ok(Lookup::Found { name: item.body.kind().to_owned(), text });
        }
        for result in results(&item) {
            if result.call_id == handle {
                found = Some((result.name.clone(), text_of(&result.output)));
            } else if others.len() < NAMED && !is_own(&result.name) {
                others.push((result.call_id.clone(), result.name.clone()));
            }
        }
    }
    Ok(match found {
        Some((name, text)) => Lookup::Found { name, text },
        None => Lookup::Missing(others),
    })
}

/// Returns the text of an item if the handle refers to it: a message that was cut.
fn message_text(item: &Item, handle: &str) -> Option<String> {
    let message = item.body.as_message().filter(|_| item.visibility.history)?;
    let is_meant = message_handle(&item.turn.to_string(), message).is_some_and(|it| it == handle);
    is_meant.then(|| searchable(item)).flatten()
}

/// Returns the results in an item that the model may read, newest first.
pub(super) fn results(item: &Item) -> impl Iterator<Item = &ToolResult> {
    let message = item.body.as_message().filter(|_| item.visibility.history);
    let parts = message.into_iter().flat_map(|it| it.content.iter().rev());
    parts.filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        Part::Text { .. }
        | Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolCall(_) => None,
    })
}

/// Whether all results of an item come from these tools. Their text is elsewhere in the log and would be found twice.
pub(super) fn is_echo(item: &Item) -> bool {
    results(item).next().is_some() && results(item).all(|it| is_own(&it.name))
}

fn is_own(tool: &str) -> bool {
    tool == super::READ_RESULT || tool == super::RECALL
}

/// Returns the handle and the text of an item that holds the full text of a result.
pub(super) fn whole(item: &Item) -> Option<(&str, &str)> {
    match &item.body {
        Body::Application(own) if own.kind == TOOL_OUTPUT && item.visibility == Visibility::NONE => {
            let text = |key: &str| own.value.get(key).and_then(Value::as_str);
            Some((text("call_id")?, text("text")?))
        }
        _ => None,
    }
}

/// Returns the item at a position, if there is one.
pub(super) async fn item(thread: &Thread, seq: Seq) -> Result<Option<Item>, SessionError> {
    let found = thread.after(Seq(seq.0.saturating_sub(1)), 1).await?;
    Ok(found.into_iter().find(|it| it.seq == seq))
}

/// The items of a thread since its last reset, newest first.
struct Backward<'a> {
    thread: &'a Thread,
    first: Seq,
    /// Everything after this position has been read.
    before: Seq,
    page: Vec<Item>,
}

impl<'a> Backward<'a> {
    fn new(thread: &'a Thread) -> Self {
        let snapshot = thread.get();
        let state = snapshot.state();
        Self { thread, first: state.history_after, before: state.end, page: Vec::new() }
    }

    async fn next(&mut self) -> Result<Option<Item>, SessionError> {
        while self.page.is_empty() && self.before > self.first {
            let after = Seq(self.before.0.saturating_sub(PAGE)).max(self.first);
            let max = usize::try_from(self.before.0 - after.0).unwrap_or(usize::MAX);
            self.page = self.thread.after(after, max).await?;
            self.before = after;
        }
        Ok(self.page.pop())
    }
}

/// Returns the text of an output: JSON is serialised, and notes replace the media in a list of parts.
fn text_of(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.to_string(),
        ToolOutput::ExecutionDenied { reason } => reason.clone().unwrap_or_default(),
        ToolOutput::Content(parts) => parts.iter().filter_map(part_text).collect::<Vec<_>>().join("\n"),
    }
}

fn part_text(part: &Part) -> Option<String> {
    match part {
        Part::Text { text, .. } => Some(text.clone()),
        Part::Image(_) => Some(media("image")),
        Part::File(_) => Some(media("file")),
        Part::Evidence(evidence) => Some(evidence.labelled_text()),
        // Tools never return these parts.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media(kind: &str) -> String {
    fill(include_str!("templates/media.txt"), &[("kind", kind)])
}
