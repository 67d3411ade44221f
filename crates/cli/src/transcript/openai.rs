//! Messages of OpenAI's Chat Completions.
//!
//! Calls are in an assistant's `tool_calls`; each result is a message with the role `tool`. The older `function_call`
//! and role `function` are read too; they have no ids, so the function's name is used as one.

use contexture_message::{Message, Part, Role, ToolCall, ToolOutput, ToolResult};
use contexture_wire::Dialect;
use serde_json::{Map, Value, json};

use super::json::{block, decoded, maybe_text, parts, text};
use super::trace::{Answer, Piece};
use super::{Calls, Entry, Made};

/// The prefix of ids made from the name of a function that was called without an id.
const FUNCTION: &str = "function:";

/// Reads a message.
pub(super) fn read(fields: &Map<String, Value>, calls: &mut Calls) -> Result<Message, String> {
    let role = match text(fields, "role")? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => return result(fields, text(fields, "tool_call_id")?.to_owned(), calls),
        "function" => return result(fields, format!("{FUNCTION}{}", text(fields, "name")?), calls),
        other => return Err(format!("unknown role `{other}`")),
    };
    let mut content = content(fields)?;
    content.extend(maybe_text(fields, "refusal").map(Part::text));
    let asked = asked(fields)?;
    if role != Role::Assistant && !asked.is_empty() {
        return Err("only the assistant calls tools".to_owned());
    }
    calls.ask(&asked);
    content.extend(asked.into_iter().map(Part::ToolCall));
    Ok(Message::parts(role, content))
}

fn content(fields: &Map<String, Value>) -> Result<Vec<Part>, String> {
    match fields.get("content") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(content) => parts(content, part),
    }
}

fn part(kind: &str, fields: &Map<String, Value>) -> Result<Part, String> {
    match (kind, fields.get("image_url")) {
        // Calls of another dialect would otherwise be accepted without their results.
        ("tool_use" | "tool_result" | "tool_call", _) => {
            Err(format!("a part `{kind}` is not OpenAI's, which has `tool_calls` and the role `tool`"))
        }
        // Some clients write the address alone.
        ("image_url", Some(Value::String(url))) => {
            let mut fields = fields.clone();
            fields.insert("image_url".to_owned(), json!({"url": url}));
            block(Dialect::Openai, "user", &fields)
        }
        _ => block(Dialect::Openai, "user", fields),
    }
}

fn asked(fields: &Map<String, Value>) -> Result<Vec<ToolCall>, String> {
    let mut asked = Vec::new();
    match fields.get("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Array(calls)) => {
            for (idx, call) in calls.iter().enumerate() {
                let call = tool_call(call.clone());
                asked.extend(call.map_err(|what| format!("call {} of `tool_calls`: {what}", idx + 1))?);
            }
        }
        Some(_) => return Err("`tool_calls` is not a list".to_owned()),
    }
    if let Some(function) = fields.get("function_call").filter(|it| !it.is_null()) {
        let id = format!("{FUNCTION}{}", function["name"].as_str().unwrap_or_default());
        asked.extend(tool_call(json!({"id": id, "type": "function", "function": function}))?);
    }
    Ok(asked)
}

fn tool_call(mut call: Value) -> Result<Option<ToolCall>, String> {
    // Some clients write the arguments as JSON instead of a text with JSON.
    if let Some(arguments) = call.pointer_mut("/function/arguments").filter(|it| !it.is_string()) {
        *arguments = Value::String(arguments.to_string());
    }
    Ok(match decoded(Dialect::Openai, json!({"role": "assistant", "tool_calls": [call]}))? {
        Some(Part::ToolCall(call)) => Some(call),
        _ => None,
    })
}

fn result(fields: &Map<String, Value>, call_id: String, calls: &Calls) -> Result<Message, String> {
    let output = match fields.get("content") {
        Some(Value::String(text)) => ToolOutput::Text(text.clone()),
        _ => ToolOutput::Content(content(fields)?),
    };
    let name = calls.name(&call_id);
    Ok(Message::parts(Role::Tool, vec![Part::ToolResult(ToolResult { call_id, name, output })]))
}

/// Writes a piece as messages. A message has at most one result, so no message loses only some of them.
pub(super) fn write(entries: &[Entry<'_>], piece: &Piece) -> Vec<Made> {
    match piece {
        Piece::Whole(number) | Piece::Rest(number, _) => vec![Made::Same(*number)],
        Piece::Results(answers) => answers.iter().map(|it| answered(entries, it)).collect(),
    }
}

fn answered(entries: &[Entry<'_>], answer: &Answer) -> Made {
    let (result, said) = match answer {
        Answer::Moved(number, _) => return Made::New(entries[*number].fields.clone()),
        Answer::New(result) => (result, said(&result.output)),
    };
    let pairs = match result.call_id.strip_prefix(FUNCTION).filter(|it| *it == result.name) {
        Some(name) => json!({"role": "function", "name": name, "content": said}),
        None => json!({"role": "tool", "tool_call_id": result.call_id, "content": said}),
    };
    Made::of(pairs)
}

/// Returns the text of a repair's result.
pub(super) fn said(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
        other => json!(other)["value"].to_string(),
    }
}
