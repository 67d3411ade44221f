//! Converts answers and results to items, and reads the text of messages.

use std::collections::HashSet;
use std::sync::Arc;

use contexture_compose::{Body as SegmentBody, Pass, Segment, Slot, Source};
use contexture_history::Visibility;
use contexture_message::{Message, Part, Role, ToolCall, ToolDefinition, ToolResult};
use contexture_session::{NewItem, Snapshot};
use serde_json::{Value, json};

use crate::depth::is_too_deep;
use crate::own_tools::has_preview;
use crate::round::Answered;
use crate::tool::check_name;

/// Returns the item for text streamed before the model broke off, unless it is blank.
pub(crate) fn spoken(text: String) -> Vec<NewItem> {
    let text = Some(text).filter(|it| !it.trim().is_empty());
    text.map(|it| NewItem::from(Message::assistant(it))).into_iter().collect()
}

/// Returns the item for an answer, unless it is blank.
pub(crate) fn said(message: &Arc<Message>) -> Vec<NewItem> {
    let message = Some(message).filter(|it| !it.is_blank());
    message.map(|it| NewItem::from(Arc::clone(it))).into_iter().collect()
}

/// The kind of application item that holds the full text of a result.
pub(crate) const TOOL_OUTPUT: &str = "contexture.tool_output";

/// Returns the results as one message, preceded by the full texts of those that the model sees as a preview.
pub(crate) fn result_items(answered: Vec<Answered>) -> Vec<NewItem> {
    let mut items: Vec<NewItem> = Vec::new();
    let mut parts = Vec::new();
    items.extend(answered.iter().any(|it| it.whole.is_some()).then(has_preview));
    for Answered { call, output, whole } in answered {
        items.extend(whole.map(|text| {
            let value = json!({"call_id": call.id, "name": call.name, "text": text});
            NewItem::application(TOOL_OUTPUT, value).visibility(Visibility::NONE)
        }));
        parts.push(Part::ToolResult(ToolResult { call_id: call.id, name: call.name, output }));
    }
    if !parts.is_empty() {
        items.push(NewItem::from(Message::parts(Role::Tool, parts)));
    }
    items
}

/// Returns the prompt's own user messages.
pub(crate) fn own_messages(pass: &Pass) -> Vec<Message> {
    let is_own = |it: &&Segment| it.slot == Slot::User && it.source == Source::User && it.fate.is_sent();
    let own = pass.segments().iter().filter(is_own);
    own.flat_map(|it| match &it.body {
        SegmentBody::Text(text) => vec![Message::user(text.as_str())],
        SegmentBody::Messages(messages) => messages.iter().map(|it| (**it).clone()).collect(),
        SegmentBody::Nothing | SegmentBody::Tags(_) | SegmentBody::Tool(_) => Vec::new(),
    })
    .collect()
}

/// Returns all text of a message.
pub(crate) fn text_of(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|it| match it {
        Part::Text { text } => Some(text.as_str()),
        Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    texts.collect()
}

/// Replaces all text of a message. Thinking is removed too, since it may repeat what was taken out.
pub(crate) fn with_text(message: Message, text: String) -> Message {
    let mut text = Some(Part::text(text));
    let content = message.content.into_iter().filter_map(|it| match it {
        Part::Text { .. } => text.take(),
        Part::Thinking(_) => None,
        part @ (Part::Image(_) | Part::File(_) | Part::ToolCall(_) | Part::ToolResult(_)) => Some(part),
    });
    let mut content: Vec<Part> = content.collect();
    content.extend(text);
    Message { content, ..message }
}

/// Returns the calls of a message.
pub(crate) fn calls_of(message: &Message) -> impl Iterator<Item = &ToolCall> {
    message.content.iter().filter_map(|it| match it {
        Part::ToolCall(call) => Some(call),
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolResult(_) => None,
    })
}

/// Makes the calls of an answer fit for the log. Missing or duplicate ids are replaced, because a result must belong
/// to one call. Arguments that are nested too deep become text. Names that a provider would refuse in every later
/// request are replaced by names that belong to no tool.
pub(crate) fn make_calls_recordable(
    message: &mut Message,
    snapshot: &Snapshot,
    offered: &[Arc<ToolDefinition>],
) {
    if calls_of(message).next().is_none() {
        return; // The whole history need not be looked at.
    }
    let known = snapshot.turns().iter().flat_map(|it| it.messages()).flat_map(|it| calls_of(it));
    let mut taken: HashSet<String> = known.map(|it| it.id.clone()).collect();
    for part in &mut message.content {
        let Part::ToolCall(call) = part else { continue };
        let is_offered = |name: &str| offered.iter().any(|it| it.name == name);
        if !is_offered(&call.name) && check_name(&call.name).is_err() {
            call.name = sendable(&call.name);
            while is_offered(&call.name) {
                call.name.insert(0, '_');
            }
        }
        if is_too_deep(&call.arguments) {
            call.arguments = Value::String(call.arguments.to_string());
        }
        if !call.id.is_empty() && taken.insert(call.id.clone()) {
            continue;
        }
        let base = if call.id.is_empty() { "call" } else { call.id.as_str() };
        let free = (2..).map(|n| format!("{base}_{n}")).find(|it| !taken.contains(it));
        call.id = free.unwrap_or_default();
        taken.insert(call.id.clone());
    }
}

/// Returns a name that every provider accepts.
fn sendable(name: &str) -> String {
    const MOST: usize = 60;
    let fits = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
    if name.is_empty() { "unnamed".to_owned() } else { name.chars().take(MOST).map(fits).collect() }
}
