//! Messages of OpenAI's Chat Completions.
//!
//! Calls are in an assistant's `tool_calls`; each result is a message with the role `tool`. The older `function_call`
//! and role `function` are read too; they have no ids, so the function's name is used as one.

use contexture_message::{File, MediaSource, Message, Part, Role, ToolCall, ToolOutput, ToolResult};
use serde_json::{Map, Value, json};

use super::json::{file_at, image_at, maybe_text, object, parts, text, unknown};
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
    Ok(match kind {
        "text" => Part::text(text(fields, "text")?),
        "refusal" => Part::text(text(fields, "refusal")?),
        "image_url" => match fields.get("image_url") {
            Some(Value::String(url)) => image_at(url),
            _ => image_at(text(object(fields, "image_url")?, "url")?),
        },
        "input_audio" => {
            let audio = object(fields, "input_audio")?;
            let format = maybe_text(audio, "format").unwrap_or("wav");
            file_at(&format!("data:audio/{format};base64,{}", text(audio, "data")?), None)
        }
        "file" => file(object(fields, "file")?)?,
        // Calls of another dialect would otherwise be accepted without their results.
        "tool_use" | "tool_result" | "tool_call" => {
            return Err(format!(
                "a part `{kind}` is not OpenAI's, which has `tool_calls` and the role `tool`"
            ));
        }
        _ => unknown(fields),
    })
}

fn file(file: &Map<String, Value>) -> Result<Part, String> {
    let name = maybe_text(file, "filename");
    match maybe_text(file, "file_data") {
        Some(data) if data.starts_with("data:") => Ok(file_at(data, name)),
        Some(data) => Ok(file_at(&format!("data:application/pdf;base64,{data}"), name)),
        None => {
            let source = MediaSource::Id(text(file, "file_id")?.to_owned());
            Ok(Part::File(File { source, media_type: None, name: name.map(str::to_owned) }))
        }
    }
}

fn asked(fields: &Map<String, Value>) -> Result<Vec<ToolCall>, String> {
    let mut asked = Vec::new();
    match fields.get("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Array(calls)) => {
            for (idx, call) in calls.iter().enumerate() {
                let call = call.as_object().ok_or_else(|| "it is not an object".to_owned());
                let call = call.and_then(tool_call);
                asked.push(call.map_err(|what| format!("call {} of `tool_calls`: {what}", idx + 1))?);
            }
        }
        Some(_) => return Err("`tool_calls` is not a list".to_owned()),
    }
    if fields.get("function_call").is_some_and(|it| !it.is_null()) {
        let function = object(fields, "function_call")?;
        let name = text(function, "name")?;
        asked.push(ToolCall {
            id: format!("{FUNCTION}{name}"),
            name: name.to_owned(),
            arguments: arguments(function.get("arguments")),
        });
    }
    Ok(asked)
}

fn tool_call(call: &Map<String, Value>) -> Result<ToolCall, String> {
    let id = text(call, "id")?.to_owned();
    let (function, arguments_key) = match call.contains_key("custom") {
        true => (object(call, "custom")?, "input"),
        false => (object(call, "function")?, "arguments"),
    };
    let name = text(function, "name")?.to_owned();
    Ok(ToolCall { id, name, arguments: arguments(function.get(arguments_key)) })
}

/// Arguments are a JSON string from the model, which may be invalid; then they stay a string.
fn arguments(arguments: Option<&Value>) -> Value {
    match arguments {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Some(other) => other.clone(),
        None => Value::Null,
    }
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
