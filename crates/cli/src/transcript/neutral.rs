//! The engine's own messages, each with an optional `turn`.

use contexture_message::{Message, Part, Role};
use serde_json::{Map, Value, json};

use super::json::{part_at, with_parts};
use super::trace::{Answer, Piece};
use super::{Entry, Made, Placed};

/// The fields of a message.
const FIELDS: [&str; 3] = ["role", "content", "id"];

/// How to handle fields that a message does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Keep them: they are printed again.
    Kept,
    /// Refuse them, because they would be lost.
    Refused,
}

/// Reads a message and the id of its turn.
pub(crate) fn read(
    fields: &Map<String, Value>,
    unknown: Unknown,
) -> Result<(Option<String>, Message), String> {
    let turn = match fields.get("turn") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => return Err("`turn` is neither a text nor a number".to_owned()),
    };
    if let Some(Value::String(role)) = fields.get("role").filter(|it| it.as_str().is_none_or(is_unknown)) {
        return Err(format!("unknown role `{role}`"));
    }
    let is_read = |key: &str| FIELDS.contains(&key) || (unknown == Unknown::Refused && key != "turn");
    let known: Map<String, Value> = fields
        .iter()
        .filter(|(key, _)| is_read(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let message: Message = serde_json::from_value(Value::Object(known))
        .map_err(|err| format!("the message is invalid: {err}"))?;
    let is_tool = |it: &Part| matches!(it, Part::ToolCall(_) | Part::ToolResult(_));
    if message.role == Role::System && message.content.iter().any(is_tool) {
        return Err("a system message neither calls tools nor brings their results".to_owned());
    }
    Ok((turn, message))
}

fn is_unknown(role: &str) -> bool {
    Role::parse(role).is_none()
}

/// Writes a piece as a message.
pub(super) fn write(entries: &[Entry<'_>], placed: &Placed<'_>) -> Made {
    match &placed.piece {
        Piece::Whole(number) => match says_its_turn(&entries[*number].fields, placed) {
            true => Made::Same(*number),
            false => Made::New(in_turn(entries[*number].fields.clone(), placed)),
        },
        Piece::Rest(number, parts) => Made::New(in_turn(with_parts(&entries[*number].fields, parts), placed)),
        Piece::Results(answers) => {
            let results: Vec<Value> = answers.iter().filter_map(|it| result(entries, it)).collect();
            let mut message = Map::new();
            message.extend(placed.turn.map(|it| ("turn".to_owned(), it.clone())));
            message.insert("role".to_owned(), json!("tool"));
            message.insert("content".to_owned(), Value::Array(results));
            Made::New(message)
        }
    }
}

fn result(entries: &[Entry<'_>], answer: &Answer) -> Option<Value> {
    match answer {
        Answer::Moved(number, part) => part_at(&entries[*number].fields, *part),
        Answer::New(result) => serde_json::to_value(Part::ToolResult(result.clone())).ok(),
    }
}

/// Whether a message would be read back as part of its turn. It would not if it was moved there, or if it is now the
/// first because the message that declared the id is gone.
fn says_its_turn(fields: &Map<String, Value>, placed: &Placed<'_>) -> bool {
    match fields.get("turn").filter(|it| !it.is_null()) {
        Some(turn) => placed.turn.is_some_and(|it| turn == it || plain(turn) == plain(it)),
        None => placed.turn.is_none() || !placed.begins,
    }
}

/// The id `7` denotes the same turn as `"7"`.
fn plain(turn: &Value) -> String {
    turn.as_str().map_or_else(|| turn.to_string(), str::to_owned)
}

fn in_turn(mut fields: Map<String, Value>, placed: &Placed<'_>) -> Map<String, Value> {
    if !says_its_turn(&fields, placed) {
        match placed.turn {
            Some(turn) => fields.insert("turn".to_owned(), turn.clone()),
            None => fields.shift_remove("turn"),
        };
    }
    fields
}
