//! Large tool results become previews with a handle.
//!
//! In come messages and a [`Frontier`], out come the same messages with shorter results; the log keeps the whole. The
//! rule, in full:
//!
//! 1. Results are numbered from the oldest. Those before the frontier are *old*, the others *recent*.
//! 2. An old result over `max_tokens_per_tool_result`, and a recent one over `max_tokens_per_recent_tool_result`,
//!    becomes a preview: what it was, how large, its beginning and its end, and the handle (the id of its call) by
//!    which `read_tool_result` reads the rest.
//! 3. Images and files of an old result, and of one that is too large, become a note that counts them. Where that is
//!    enough, the words stay.
//! 4. A preview costs `preview_tokens` at most, on both sides of the frontier: it does not change when the frontier
//!    passes it. A result that no preview would make smaller stays.
//!
//! What becomes of a result depends on it, the limits and the side of the frontier it is on. So the bytes
//! before a frontier that stays where it is never change, whatever is appended. Moving the frontier changes earlier
//! bytes, and the provider's cache ends there: [`candidates`] says what that would save.

use std::borrow::Borrow;
use std::sync::Arc;

use contexture_message::{Message, Part, TokenCounter, Tokens, ToolOutput, ToolResult, part_tokens};

use crate::neutral::neutralise;
use crate::transform::{has_media, noted, rewritten};
use crate::wording::{filled, media_note};

/// How large results may be. The names are those of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// Larger results become a preview.
    pub max_tokens_per_tool_result: Tokens,
    /// So many of the newest results may be larger.
    pub keep_recent_tool_results: usize,
    /// How large these may be.
    pub max_tokens_per_recent_tool_result: Tokens,
    /// How large a preview may be. A limit below it counts as it.
    pub preview_tokens: Tokens,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self {
            max_tokens_per_tool_result: Tokens(1500),
            keep_recent_tool_results: 2,
            max_tokens_per_recent_tool_result: Tokens(6000),
            preview_tokens: Tokens(500),
        }
    }
}

impl ResultLimits {
    pub(super) fn of(&self, is_old: bool) -> Tokens {
        let limit = match is_old {
            true => self.max_tokens_per_tool_result,
            false => self.max_tokens_per_recent_tool_result,
        };
        limit.max(self.preview_tokens)
    }
}

/// How many results, counted from the oldest of the list, are old.
///
/// Whoever hands in a list that begins later takes off the results that are not in it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frontier(pub usize);

impl Frontier {
    /// Returns the frontier that leaves as many recent results as the limits say.
    ///
    /// ```
    /// use contexture_history::compaction::{Frontier, ResultLimits};
    /// use contexture_message::Message;
    ///
    /// assert_eq!(Frontier::newest(&[Message::user("hi")], &ResultLimits::default()), Frontier(0));
    /// ```
    pub fn newest<M: Borrow<Message>>(messages: &[M], limits: &ResultLimits) -> Self {
        let parts = messages.iter().flat_map(|it| &it.borrow().content);
        let n_results = parts.filter(|it| matches!(it, Part::ToolResult(_))).count();
        Self(n_results.saturating_sub(limits.keep_recent_tool_results))
    }
}

/// A result that could be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number, counted from the oldest. It is old once the frontier is larger than that.
    pub number: usize,
    /// The position of its message.
    pub message: usize,
    /// The id of its call, which is its handle.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// Which limit it exceeds.
    pub exceeds: Exceeds,
    /// What it costs.
    pub before: Tokens,
    /// What it would cost.
    pub after: Tokens,
}

impl Candidate {
    /// Returns what shortening it saves.
    pub fn saves(&self) -> Tokens {
        self.before.saturating_sub(self.after)
    }
}

/// A limit of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeds {
    /// That of old results, or it holds images or files: it is shortened when the frontier passes it.
    Old,
    /// That of recent ones too: it is shortened at once.
    Recent,
}

/// Messages with shorter results.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortened {
    /// The messages; those that did not change are only shared.
    pub messages: Vec<Arc<Message>>,
    /// The ids of the calls whose results changed, in order.
    pub changed: Vec<String>,
}

/// Lists the results that are larger than a limit, oldest first, so that someone can decide where the frontier goes.
///
/// ```
/// use contexture_history::compaction::{Exceeds, ResultLimits, candidates};
/// use contexture_message::{Encoding, Message, Part, Role, ToolOutput, ToolResult};
///
/// let output = ToolOutput::Text("one line of a log\n".repeat(500));
/// let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output };
/// let messages = [Message::parts(Role::Tool, vec![Part::ToolResult(result)])];
/// let found = candidates(&messages, &ResultLimits::default(), &Encoding::O200kBase);
/// assert_eq!((found[0].exceeds, found[0].call_id.as_str()), (Exceeds::Old, "c1"));
/// assert!(found[0].saves() > found[0].after);
/// ```
pub fn candidates<M: Borrow<Message>>(
    messages: &[M],
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut number = 0;
    for (position, message) in messages.iter().enumerate() {
        for part in &message.borrow().content {
            let Part::ToolResult(result) = part else { continue };
            if let Some(Shorter { before, after, .. }) = shorter(part, result, true, limits, counter) {
                let is_large = before > limits.of(false);
                found.push(Candidate {
                    number,
                    message: position,
                    call_id: result.call_id.clone(),
                    name: result.name.clone(),
                    exceeds: if is_large { Exceeds::Recent } else { Exceeds::Old },
                    before,
                    after,
                });
            }
            number += 1;
        }
    }
    found
}

/// Returns the messages with previews in the place of large results.
///
/// ```
/// use std::sync::Arc;
///
/// use contexture_history::compaction::{Frontier, ResultLimits, shorten};
/// use contexture_message::{Encoding, Message, Part, Role, ToolOutput, ToolResult};
///
/// let output = ToolOutput::Text("one line of a log\n".repeat(500));
/// let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output };
/// let messages = [Arc::new(Message::parts(Role::Tool, vec![Part::ToolResult(result)]))];
/// let limits = ResultLimits::default();
/// assert!(shorten(&messages, Frontier(0), &limits, &Encoding::O200kBase).changed.is_empty());
/// assert_eq!(shorten(&messages, Frontier(1), &limits, &Encoding::O200kBase).changed, ["c1"]);
/// ```
pub fn shorten(
    messages: &[Arc<Message>],
    frontier: Frontier,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Shortened {
    let mut shortening = Shortening::new(frontier, limits, counter);
    let mut changed = Vec::new();
    let tell = &mut |result: &ToolResult, _, _| changed.push(result.call_id.clone());
    let messages = messages.iter().map(|it| shortening.message(it, tell)).collect();
    Shortened { messages, changed }
}

/// The way through a list of messages.
pub(super) struct Shortening<'a> {
    frontier: Frontier,
    limits: &'a ResultLimits,
    counter: &'a dyn TokenCounter,
    /// How many results were seen.
    n_results: usize,
}

impl<'a> Shortening<'a> {
    pub(super) fn new(frontier: Frontier, limits: &'a ResultLimits, counter: &'a dyn TokenCounter) -> Self {
        Self { frontier, limits, counter, n_results: 0 }
    }

    /// Returns the message with shorter results, and tells of each what it cost and costs now.
    pub(super) fn message(
        &mut self,
        message: &Arc<Message>,
        tell: &mut dyn FnMut(&ToolResult, Tokens, Tokens),
    ) -> Arc<Message> {
        let mut content: Option<Vec<Part>> = None;
        for (idx, part) in message.content.iter().enumerate() {
            let Part::ToolResult(result) = part else { continue };
            let is_old = self.n_results < self.frontier.0;
            if let Some(it) = shorter(part, result, is_old, self.limits, self.counter) {
                content.get_or_insert_with(|| message.content.clone())[idx] = with_output(result, it.output);
                tell(result, it.before, it.after);
            }
            self.n_results += 1;
        }
        content.map_or_else(|| Arc::clone(message), |it| rewritten(message, it))
    }

    /// Passes over results that are known to stay as they are.
    pub(super) fn pass_over(&mut self, n_results: usize) {
        self.n_results += n_results;
    }
}

fn with_output(result: &ToolResult, output: ToolOutput) -> Part {
    Part::ToolResult(ToolResult { call_id: result.call_id.clone(), name: result.name.clone(), output })
}

/// The shorter form of a result.
struct Shorter {
    output: ToolOutput,
    /// What the result costs.
    before: Tokens,
    /// What the shorter form costs.
    after: Tokens,
}

/// Returns the shorter form of a result, if it needs and has one.
fn shorter(
    part: &Part,
    result: &ToolResult,
    is_old: bool,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Option<Shorter> {
    let before = part_tokens(counter, part);
    let is_large = before > limits.of(false);
    if !is_large && !is_old {
        return None;
    }
    let without_media = match &result.output {
        ToolOutput::Content(parts) if parts.iter().any(has_media) => Some(ToolOutput::Content(noted(parts))),
        _ => None,
    };
    let tokens = match &without_media {
        Some(output) => part_tokens(counter, &with_output(result, output.clone())),
        None => before,
    };
    // What is shortened at once must look the same on both sides of the frontier.
    let limit = if is_large { limits.preview_tokens } else { limits.of(true) };
    let (output, after) = match tokens > limit {
        true => preview(result, before, limits.preview_tokens, counter)?,
        false => (without_media?, tokens),
    };
    Some(Shorter { output, before, after })
}

/// Returns the preview of a result with its cost, if there is room for one.
fn preview(
    result: &ToolResult,
    before: Tokens,
    limit: Tokens,
    counter: &dyn TokenCounter,
) -> Option<(ToolOutput, Tokens)> {
    let (kind, text) = read(&result.output);
    let write = |room: usize| {
        let head = head(&text, room - room / 3);
        let tail = tail(&text[head.len()..], room / 3);
        let left_out = text[head.len()..text.len() - tail.len()].chars().count();
        let values = [
            ("kind", kind),
            ("name", result.name.as_str()),
            ("tokens", &before.to_string()),
            ("handle", &result.call_id),
            ("head", head.trim_end_matches('\n')),
            ("left_out", &left_out.to_string()),
            ("tail", tail.trim_start_matches('\n')),
        ];
        let text = filled(include_str!("../../templates/result-preview.txt"), &values);
        like(&result.output, neutralise(&text).into_owned())
    };
    // A token is seldom more than a few bytes, so the first guess is close and never costs more than the preview does.
    let mut room = (limit.0 as usize).saturating_mul(5).min(text.len());
    while room > 0 {
        let output = write(room);
        let tokens = part_tokens(counter, &with_output(result, output.clone()));
        if tokens <= limit {
            return Some((output, tokens));
        }
        let closer = room.saturating_mul(limit.0 as usize) / (tokens.0 as usize);
        room = closer.min(room - room.div_ceil(16));
    }
    None
}

/// Returns what a result is called and what it says; images and files are counted.
fn read(output: &ToolOutput) -> (&'static str, String) {
    match output {
        ToolOutput::Text(text) => ("result", text.clone()),
        ToolOutput::Json(value) => ("JSON result", value.to_string()),
        ToolOutput::ErrorText(text) => ("error", text.clone()),
        ToolOutput::ErrorJson(value) => ("JSON error", value.to_string()),
        ToolOutput::ExecutionDenied { reason } => ("refusal", reason.clone().unwrap_or_default()),
        ToolOutput::Content(parts) => {
            let n_images = parts.iter().filter(|it| matches!(it, Part::Image(_))).count();
            let n_files = parts.iter().filter(|it| matches!(it, Part::File(_))).count();
            let note = (n_images + n_files > 0).then(|| media_note(n_images, n_files));
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text { text } => Some(text.clone()),
                _ => None,
            });
            ("result", note.into_iter().chain(texts).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Returns a text as an output of the same kind.
fn like(output: &ToolOutput, text: String) -> ToolOutput {
    match output {
        ToolOutput::Text(_) | ToolOutput::Json(_) | ToolOutput::Content(_) => ToolOutput::Text(text),
        ToolOutput::ErrorText(_) | ToolOutput::ErrorJson(_) => ToolOutput::ErrorText(text),
        ToolOutput::ExecutionDenied { .. } => ToolOutput::ExecutionDenied { reason: Some(text) },
    }
}

/// Returns the beginning of a text, so many bytes at most; whole lines if that leaves most of it.
fn head(text: &str, room: usize) -> &str {
    let head = &text[..text.floor_char_boundary(room)];
    match head.rfind('\n') {
        Some(line) if head.len() < text.len() && line >= head.len() / 2 => &head[..=line],
        _ => head,
    }
}

/// Returns the end of a text, so many bytes at most; whole lines if that leaves most of it.
fn tail(text: &str, room: usize) -> &str {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(room))..];
    match tail.find('\n') {
        Some(line) if tail.len() < text.len() && line < tail.len() / 2 => &tail[line + 1..],
        _ => tail,
    }
}
