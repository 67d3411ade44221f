//! The items of a turn: answers as they are recorded, and the prompt's own messages.

use std::collections::HashSet;
use std::sync::Arc;

use contexture_compose::{Body as SegmentBody, Pass, Segment, Slot, Source};
use contexture_message::{Message, Part, ToolDefinition};
use contexture_session::{NewItem, Snapshot};
use serde_json::Value;

use crate::text::calls_of;
use crate::tools::{check_name, is_too_deep};

/// Returns the item for text streamed before the model broke off, unless it is blank.
pub(crate) fn partial_items(text: String) -> Vec<NewItem> {
    let text = Some(text).filter(|it| !it.trim().is_empty());
    text.map(|it| NewItem::from(Message::assistant(it))).into_iter().collect()
}

/// Returns the item for an answer, unless it is blank.
pub(crate) fn answer_items(message: &Arc<Message>) -> Vec<NewItem> {
    let message = Some(message).filter(|it| !it.is_blank());
    message.map(|it| NewItem::from(Arc::clone(it))).into_iter().collect()
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
