//! Messages of Anthropic.
//!
//! Calls are `tool_use` blocks of the assistant, results are `tool_result` blocks at the start of the next user
//! message. All results for one assistant message belong in one user message, so results that a repair adds or moves
//! are merged into the existing one.

use contexture_message::{
    File, Image, MediaSource, Message, Part, Role, Thinking, ToolCall, ToolOutput, ToolResult,
};
use serde_json::{Map, Value, json};

use super::json::{
    file_at, image_at, maybe_text, object, part_at, parts, text, unknown, with_content, with_parts,
};
use super::openai::said;
use super::trace::{Answer, Piece};
use super::{Calls, Entry, Made};

const PDF: &str = "application/pdf";

/// Reads a message.
///
/// A user message that answers calls continues their turn, even if it has other content too: it is read as a tool
/// message.
pub(super) fn read(fields: &Map<String, Value>, calls: &mut Calls) -> Result<Message, String> {
    let role = match text(fields, "role")? {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => return Err(format!("unknown role `{other}`")),
    };
    let content = fields.get("content").ok_or("`content` is missing")?;
    let content = parts(content, |kind, block| match (kind, role) {
        ("tool_use", Role::Assistant) => call(block),
        ("tool_use", _) => Err("only the assistant calls tools".to_owned()),
        ("tool_result", Role::User) => result(block, calls),
        ("tool_result", _) => Err("results of tools come from the user".to_owned()),
        (kind, _) => said_block(kind, block),
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
    let content = parts(system, said_block).map_err(|what| what.replace("`content`", "`system`"))?;
    Ok(Message::parts(Role::System, content))
}

fn as_call(part: &Part) -> Option<&ToolCall> {
    match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    }
}

fn call(block: &Map<String, Value>) -> Result<Part, String> {
    let arguments = block.get("input").cloned().unwrap_or_default();
    Ok(Part::ToolCall(ToolCall {
        id: text(block, "id")?.to_owned(),
        name: text(block, "name")?.to_owned(),
        arguments,
    }))
}

fn result(block: &Map<String, Value>, calls: &Calls) -> Result<Part, String> {
    let call_id = text(block, "tool_use_id")?.to_owned();
    let output = match block.get("content") {
        None | Some(Value::Null) => ToolOutput::Text(String::new()),
        Some(Value::String(text)) => ToolOutput::Text(text.clone()),
        Some(content) => ToolOutput::Content(parts(content, said_block)?),
    };
    let name = calls.name(&call_id);
    Ok(Part::ToolResult(ToolResult { call_id, name, output }))
}

/// Reads a block that is neither a call nor a result.
fn said_block(kind: &str, block: &Map<String, Value>) -> Result<Part, String> {
    Ok(match kind {
        "text" => Part::text(text(block, "text")?),
        "thinking" => {
            let signature = maybe_text(block, "signature").map(str::to_owned);
            let text = text(block, "thinking")?.to_owned();
            Part::Thinking(Thinking {
                text,
                signature,
                provider: Some("anthropic".to_owned()),
                ..Thinking::default()
            })
        }
        "redacted_thinking" => Part::Thinking(Thinking::default()),
        "image" => image(object(block, "source")?)?,
        "document" => document(object(block, "source")?, maybe_text(block, "title"))?,
        _ => unknown(block),
    })
}

fn image(source: &Map<String, Value>) -> Result<Part, String> {
    match text(source, "type")? {
        "base64" => {
            let source_ = MediaSource::Data(text(source, "data")?.to_owned());
            let media_type = maybe_text(source, "media_type").map(str::to_owned);
            Ok(Part::Image(Image { source: source_, media_type }))
        }
        "url" => Ok(image_at(text(source, "url")?)),
        "file" => Ok(image_at(text(source, "file_id")?)),
        other => Err(format!("unknown source `{other}`")),
    }
}

fn document(source: &Map<String, Value>, title: Option<&str>) -> Result<Part, String> {
    let file = |source: MediaSource, media_type: &str| {
        let (media_type, name) = (Some(media_type.to_owned()), title.map(str::to_owned));
        Part::File(File { source, media_type, name })
    };
    match text(source, "type")? {
        "base64" => {
            let data = MediaSource::Data(text(source, "data")?.to_owned());
            Ok(file(data, maybe_text(source, "media_type").unwrap_or(PDF)))
        }
        "url" => match text(source, "url")? {
            inline if inline.starts_with("data:") => Ok(file_at(inline, title)),
            url => Ok(file(MediaSource::Url(url.to_owned()), PDF)),
        },
        "file" => Ok(file(MediaSource::Id(text(source, "file_id")?.to_owned()), PDF)),
        "text" => Ok(Part::text(text(source, "data")?)),
        _ => Ok(unknown(source)),
    }
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
        Piece::Results(answers) => answers.iter().filter_map(|it| block(entries, it)).collect(),
    }
}

fn block(entries: &[Entry<'_>], answer: &Answer) -> Option<Value> {
    match answer {
        Answer::Moved(number, part) => part_at(&entries[*number].fields, *part),
        Answer::New(ToolResult { call_id, output, .. }) => Some(json!({
            "type": "tool_result", "tool_use_id": call_id, "content": said(output), "is_error": true,
        })),
    }
}
