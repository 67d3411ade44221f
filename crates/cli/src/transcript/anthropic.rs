//! Messages of Anthropic.
//!
//! Calls are `tool_use` blocks of the assistant, results are `tool_result` blocks at the start of the next user
//! message. All results for one assistant message belong in one user message, so results that a repair adds or moves
//! are merged into the existing one.

use contexture_message::{Message, Part, Role, ToolCall, ToolResult};
use contexture_wire::Dialect;
use serde_json::{Map, Value, json};

use super::json::{block, part_at, parts, text, with_content, with_parts};
use super::openai::said;
use super::trace::{Answer, Piece};
use super::{Calls, Entry, Made};

/// Reads a message.
///
/// A user message that answers calls continues their turn, even if it has other content too: it is read as a tool
/// message.
pub(super) fn read(fields: &Map<String, Value>, calls: &mut Calls) -> Result<Message, String> {
    let name = text(fields, "role")?;
    let role = match name {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => return Err(format!("unknown role `{other}`")),
    };
    let content = fields.get("content").ok_or("`content` is missing")?;
    let content = parts(content, |kind, block| match (kind, role) {
        ("tool_use", Role::System | Role::User) => Err("only the assistant calls tools".to_owned()),
        ("tool_result", Role::System | Role::Assistant) => Err("tool results come from the user".to_owned()),
        _ => read_block(name, kind, block, calls),
    })?;
    let is_answer = |it: &Part| matches!(it, Part::ToolResult(result) if calls.is_open(&result.call_id));
    if content.iter().any(is_answer) {
        return Ok(Message::parts(Role::Tool, content));
    }
    calls.ask(content.iter().filter_map(as_call));
    Ok(Message::parts(role, content))
}

/// Reads the `system` of a request.
pub(super) fn read_system(system: &Value) -> Result<Message, String> {
    let content = parts(system, |kind, block| read_block("user", kind, block, &Calls::default()))
        .map_err(|what| what.replace("`content`", "`system`"))?;
    Ok(Message::parts(Role::System, content))
}

fn as_call(part: &Part) -> Option<&ToolCall> {
    match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    }
}

/// Reads a block. A document of plain text counts as text.
fn read_block(role: &str, kind: &str, fields: &Map<String, Value>, calls: &Calls) -> Result<Part, String> {
    let source = fields.get("source").filter(|it| kind == "document" && it["type"] == "text");
    if let Some(Value::String(text)) = source.map(|it| &it["data"]) {
        return Ok(Part::text(text));
    }
    Ok(match block(Dialect::Anthropic, role, fields)? {
        Part::ToolResult(result) => {
            let name = calls.name(&result.call_id);
            Part::ToolResult(ToolResult { name, ..result })
        }
        part => part,
    })
}

/// Writes the pieces as messages, in order.
pub(super) fn write(entries: &[Entry<'_>], pieces: &[Piece]) -> Vec<Made> {
    let mut made = Vec::with_capacity(pieces.len());
    let mut rest = pieces;
    while let Some((piece, after)) = rest.split_first() {
        rest = after;
        let n_answers = if asks(entries, piece) { n_answers(entries, after) } else { 0 };
        let (answers, after) = after.split_at(n_answers);
        made.push(alone(entries, piece));
        match answers {
            [] => {}
            [answer] => made.push(alone(entries, answer)),
            several => made.push(Made::New(joined(entries, several))),
        }
        rest = if n_answers > 0 { after } else { rest };
    }
    made
}

fn alone(entries: &[Entry<'_>], piece: &Piece) -> Made {
    match piece {
        Piece::Whole(number) => Made::Same(*number),
        Piece::Rest(number, parts) => Made::New(with_parts(&entries[*number].fields, parts)),
        Piece::Results(_) => Made::New(joined(entries, std::slice::from_ref(piece))),
    }
}

/// Counts the pieces that answer the preceding calls: those that begin with results, and the rest of a message whose
/// results were moved to its front.
fn n_answers(entries: &[Entry<'_>], pieces: &[Piece]) -> usize {
    let mut n_answers = 0;
    let mut sources: Vec<usize> = Vec::new();
    for piece in pieces {
        let parts = read_parts(entries, piece);
        let n_results = parts.iter().take_while(|it| matches!(it, Part::ToolResult(_))).count();
        match piece {
            Piece::Rest(number, _) if n_results == 0 && sources.contains(number) => return n_answers + 1,
            Piece::Results(answers) => sources.extend(answers.iter().filter_map(source)),
            _ if n_results == 0 => return n_answers,
            Piece::Whole(_) | Piece::Rest(..) => {}
        }
        n_answers += 1;
        if !matches!(piece, Piece::Results(_)) && n_results < parts.len() {
            return n_answers;
        }
    }
    n_answers
}

fn source(answer: &Answer) -> Option<usize> {
    match answer {
        Answer::Moved(number, _) => Some(*number),
        Answer::New(_) => None,
    }
}

fn read_parts<'e>(entries: &'e [Entry<'_>], piece: &Piece) -> Vec<&'e Part> {
    match piece {
        Piece::Whole(number) => entries[*number].message.content.iter().collect(),
        Piece::Rest(number, parts) => {
            parts.iter().filter_map(|it| entries[*number].message.content.get(*it)).collect()
        }
        Piece::Results(_) => Vec::new(),
    }
}

fn asks(entries: &[Entry<'_>], piece: &Piece) -> bool {
    read_parts(entries, piece).into_iter().any(|it| as_call(it).is_some())
}

/// Merges several messages: all results first, then the other content.
fn joined(entries: &[Entry<'_>], pieces: &[Piece]) -> Map<String, Value> {
    let is_result = |it: &Value| it["type"] == "tool_result";
    let blocks = pieces.iter().flat_map(|it| blocks(entries, it));
    let (mut content, others): (Vec<Value>, Vec<Value>) = blocks.partition(is_result);
    content.extend(others);
    let number = pieces.iter().rev().find_map(|it| match it {
        Piece::Whole(number) | Piece::Rest(number, _) => Some(*number),
        Piece::Results(_) => None,
    });
    match number {
        Some(number) => with_content(&entries[number].fields, content),
        None => with_content(&Map::from_iter([("role".to_owned(), json!("user"))]), content),
    }
}

fn blocks(entries: &[Entry<'_>], piece: &Piece) -> Vec<Value> {
    match piece {
        Piece::Whole(number) => match entries[*number].fields.get("content") {
            Some(Value::Array(blocks)) => blocks.clone(),
            Some(text) => vec![json!({"type": "text", "text": text})],
            None => Vec::new(),
        },
        Piece::Rest(number, parts) => {
            parts.iter().filter_map(|it| part_at(&entries[*number].fields, *it)).collect()
        }
        Piece::Results(answers) => answers.iter().filter_map(|it| answer_block(entries, it)).collect(),
    }
}

fn answer_block(entries: &[Entry<'_>], answer: &Answer) -> Option<Value> {
    match answer {
        Answer::Moved(number, part) => part_at(&entries[*number].fields, *part),
        Answer::New(ToolResult { call_id, output, .. }) => Some(json!({
            "type": "tool_result", "tool_use_id": call_id, "content": said(output), "is_error": true,
        })),
    }
}
