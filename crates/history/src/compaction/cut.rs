//! Cuts the text of user and assistant messages, as a last resort to make a request fit.
//!
//! The input is a message and its token limit; the output is a message with shorter texts: the start and the end of
//! each, with a marker that names the handle of the full text in the log. Call arguments keep their shape; long
//! strings in them are cut, and so is the text of evidence. Images and files are not changed.

use std::collections::BTreeMap;

use contexture_message::{Evidence, Message, Part, Role, TokenCounter, Tokens, ToolCall, part_tokens};
use serde_json::{Value, json};

use crate::item::wording::{filled, summary_text};

/// Returns the handle of a message's own text in the turn `turn`; tool results have separate handles.
///
/// ```
/// use contexture_history::compaction::message_handle;
/// use contexture_message::{Message, Role};
///
/// assert_eq!(message_handle("t7", &Message::user("hi")).as_deref(), Some("user:t7"));
/// assert_eq!(message_handle("t7", &Message::parts(Role::Tool, vec![])), None);
/// ```
pub fn message_handle(turn: &str, message: &Message) -> Option<String> {
    let call = message.content.iter().find_map(|it| match it {
        Part::ToolCall(call) => Some(&call.id),
        _ => None,
    });
    match (message.role, call) {
        (Role::User, _) => Some(format!("user:{turn}")),
        (Role::Assistant, Some(call)) => Some(format!("call:{call}")),
        (Role::Assistant, None) => Some(format!("answer:{turn}")),
        (Role::System | Role::Tool, _) => None,
    }
}

/// Returns the cost of the parts of a message that can be cut.
pub(super) fn cuttable_tokens(message: &Message, counter: &dyn TokenCounter) -> Tokens {
    message.content.iter().filter(|it| is_cuttable(it)).map(|it| part_tokens(counter, it)).sum()
}

/// Returns the shorter form of a part of a message that has `of` tokens and may have `cap`.
pub(super) fn cut_part(
    part: &Part,
    (cap, of): (Tokens, Tokens),
    handle: &str,
    counter: &dyn TokenCounter,
) -> Option<Part> {
    let tokens = part_tokens(counter, part);
    let share = u64::from(cap.0) * u64::from(tokens.0) / u64::from(of.0.max(1));
    let limit = Tokens(u32::try_from(share).unwrap_or(u32::MAX)).max(Tokens(SHORTEST_PREVIEW.0 / 2));
    if tokens <= limit {
        return None;
    }
    match part {
        Part::Text { text, .. } => Some(Part::text(cut_text(text, limit, handle, counter))),
        Part::Evidence(evidence) => {
            let text = vec![cut_text(&evidence.joined_text(), limit, handle, counter)];
            Some(Part::Evidence(Evidence { text, ..evidence.clone() }))
        }
        Part::ToolCall(call) => {
            let arguments = cut_arguments(&call.arguments, limit, counter);
            Some(Part::ToolCall(ToolCall { arguments, ..call.clone() }))
        }
        Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolResult(_) => None,
    }
}

fn is_cuttable(part: &Part) -> bool {
    matches!(part, Part::Text { .. } | Part::Evidence(_) | Part::ToolCall(_))
}

fn cut_text(text: &str, limit: Tokens, handle: &str, counter: &dyn TokenCounter) -> String {
    let write = |head: &str, left_out: usize, tail: &str| {
        let left_out = left_out.to_string();
        let values = [("head", head), ("left_out", &*left_out), ("handle", handle), ("tail", tail)];
        filled(include_str!("../../templates/text-cut.txt"), &values)
    };
    shortest_that_fits(text, limit, &write, &|it| counter.count(it))
}

/// Writes the start and the end of a text, as much as `limit` allows. If nothing fits, returns the shortest form.
pub(super) fn shortest_that_fits<T>(
    text: &str,
    limit: Tokens,
    write: &dyn Fn(&str, usize, &str) -> T,
    count: &dyn Fn(&T) -> Tokens,
) -> T {
    // A token is seldom more than a few bytes, so the first guess is close, at a cost no higher than that of the
    // result.
    let mut room = (limit.0 as usize).saturating_mul(5).min(text.len());
    loop {
        let head = head(text, room - room / 3);
        let tail = tail(&text[head.len()..], room / 3);
        let left_out = text[head.len()..text.len() - tail.len()].chars().count();
        let written = write(head.trim_end_matches('\n'), left_out, tail.trim_start_matches('\n'));
        let tokens = count(&written);
        if tokens <= limit || room == 0 {
            return written;
        }
        let closer = room.saturating_mul(limit.0 as usize) / (tokens.0 as usize);
        room = closer.min(room - room.div_ceil(16));
    }
}

/// Cuts the long strings of a structure ever shorter until it fits. If it is too large even so, it becomes a text.
fn cut_arguments(arguments: &Value, limit: Tokens, counter: &dyn TokenCounter) -> Value {
    let fits = |it: &Value| counter.count(&it.to_string()) <= limit;
    let lengths = (5..=12).rev().map(|power| 1_usize << power);
    let cut = lengths.map(|it| with_short_strings(arguments, it)).find(fits);
    cut.unwrap_or_else(|| {
        let text = arguments.to_string();
        json!({"shortened": short(&text, limit.0 as usize)})
    })
}

fn with_short_strings(value: &Value, max_chars: usize) -> Value {
    match value {
        Value::String(text) => short(text, max_chars).into(),
        Value::Array(values) => values.iter().map(|it| with_short_strings(it, max_chars)).collect(),
        Value::Object(fields) => {
            let short = |(name, it): (&String, &Value)| (name.clone(), with_short_strings(it, max_chars));
            Value::Object(fields.iter().map(short).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn short(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the start of a text, at most `room` bytes; whole lines if that keeps most of it.
fn head(text: &str, room: usize) -> &str {
    let head = &text[..text.floor_char_boundary(room)];
    match head.rfind('\n') {
        Some(line) if head.len() < text.len() && line >= head.len() / 2 => &head[..=line],
        _ => head,
    }
}

/// Returns the end of a text, at most `room` bytes; whole lines if that keeps most of it.
fn tail(text: &str, room: usize) -> &str {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(room))..];
    match tail.find('\n') {
        Some(line) if tail.len() < text.len() && line < tail.len() / 2 => &tail[line + 1..],
        _ => tail,
    }
}

/// Token limits for single results, by call id, and for single messages, by
/// [handle](super::message_handle).
pub type Caps = BTreeMap<String, Tokens>;

/// The minimum size of a preview: it names the tool, the size and the handle.
pub const SHORTEST_PREVIEW: Tokens = Tokens(100);

/// Whether a message is a summary, whose facts must not be cut.
pub(super) fn is_summary(message: &Message) -> bool {
    let is_summary = |it: &Part| matches!(it, Part::Text { text, .. } if summary_text(text).is_some());
    message.content.iter().take(2).any(is_summary)
}
