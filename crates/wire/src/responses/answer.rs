//! Encodes and decodes OpenAI Responses answers that are not streamed.
//!
//! An answer is a list of items: `reasoning`, `message` with its texts, `function_call`. Their order is kept. Items
//! of the provider's built-in tools cannot be represented and are reported as losses. There is no clock here:
//! `created_at` is 0.

use contexture_message::{Answer, Message, Part, Role, StopReason, ToolCall};
use serde_json::{Value, json};

use super::reasoning;
use super::usage::{read_stop, read_usage, write_stop, write_usage};
use crate::assembly::{arguments_text, parse_arguments};
use crate::loss::Losses;
use crate::openai::citations::{self, Form, annotations};
use crate::read::Place;
use crate::{DecodeError, Decoded, Encoded, Target};

/// Encodes an answer.
pub(crate) fn encode_answer(target: &Target, answer: &Answer) -> Encoded {
    let mut losses = Losses::default();
    let body = response(target, answer, &mut losses);
    Encoded { body, losses: losses.into_vec() }
}

/// Returns the whole response, which also ends a stream.
pub(super) fn response(target: &Target, answer: &Answer, losses: &mut Losses) -> Value {
    let output = items(target, &answer.message, losses);
    let (status, reason) = write_stop(&answer.stop, losses);
    let model = answer.model.as_ref().unwrap_or(&target.model);
    let mut response = shell(answer.id.as_deref().unwrap_or_default(), model, status);
    response["incomplete_details"] = reason.map_or(Value::Null, |it| json!({"reason": it}));
    response["output"] = Value::Array(output);
    response["usage"] = write_usage(answer.usage, losses);
    response
}

/// Returns a response without output.
pub(super) fn shell(id: &str, model: &str, status: &str) -> Value {
    json!({
        "id": id,
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": true,
        "temperature": null,
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "usage": null,
    })
}

fn items(target: &Target, message: &Message, losses: &mut Losses) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for (idx, part) in message.content.iter().enumerate() {
        let at = format!("message.content[{idx}]");
        let n_items = items.len();
        match part {
            Part::Text { text, citations } => {
                let annotations = annotations(target, Form::Flat, citations, (text, 0), &at, losses);
                let part = text_part(text, annotations);
                match items.last_mut().filter(|it| it["type"] == "message") {
                    Some(Value::Object(message)) => {
                        if let Some(Value::Array(content)) = message.get_mut("content") {
                            content.push(part);
                        }
                    }
                    _ => items.push(message_item(n_items, json!([part]), "completed")),
                }
            }
            Part::Thinking(thinking) => {
                let item = reasoning::write(target, thinking, &format!("rs_{n_items}"));
                if reasoning::read(target, &item).as_ref() != Some(thinking) {
                    losses.add(at, "only the text of thinking is sent");
                }
                items.push(item);
            }
            Part::ToolCall(call) => {
                let arguments = arguments_text(&call.arguments);
                items.push(call_item(&call.id, &call.name, &arguments, "completed"));
            }
            Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolResult(_) => {
                losses.add(at, "is not allowed in an answer, left out");
            }
        }
    }
    items
}

pub(super) fn text_part(text: &str, annotations: Vec<Value>) -> Value {
    json!({"type": "output_text", "text": text, "annotations": annotations})
}

pub(super) fn message_item(idx: usize, content: Value, status: &str) -> Value {
    json!({"type": "message", "id": format!("msg_{idx}"), "status": status, "role": "assistant", "content": content})
}

/// Encodes a call. The item's id is derived from the call's: SDKs reject a stream in which the id of a call changes.
pub(super) fn call_item(call_id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{call_id}"), "status": status,
        "call_id": call_id, "name": name, "arguments": arguments,
    })
}

/// Decodes an answer.
pub(crate) fn decode_answer(target: &Target, body: &Value) -> Result<Decoded<Answer>, DecodeError> {
    let body = Place::root(body);
    if let Some(error) = body.get("error") {
        return Err(DecodeError::new(error.at(), format!("the answer is an error: {}", error.value)));
    }
    let mut losses = Losses::default();
    let answer = read_response(target, &body, &mut losses)?;
    Ok(Decoded { value: answer, losses: losses.into_vec() })
}

/// Decodes a response, which may also be the one that ends a stream.
pub(super) fn read_response(
    target: &Target,
    body: &Place<'_>,
    losses: &mut Losses,
) -> Result<Answer, DecodeError> {
    let mut content = Vec::new();
    let mut refused = false;
    for item in body.need("output")?.list()? {
        refused |= read_item(target, &item, &mut content, losses)?;
    }
    let has_calls = content.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let stop = match read_stop(body)? {
        StopReason::End if refused => StopReason::Refused,
        StopReason::End if has_calls => StopReason::ToolCalls,
        stop => stop,
    };
    Ok(Answer {
        message: Message::parts(Role::Assistant, content),
        stop,
        usage: body.get("usage").map(|it| read_usage(&it)).unwrap_or_default(),
        model: body.name("model"),
        id: body.name("id"),
    })
}

/// Decodes a text with its annotations.
pub(super) fn read_text(target: &Target, part: &Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    let text = part.need("text")?.str()?.to_owned();
    let annotations = part.get_list("annotations")?;
    let citations = annotations.iter().filter_map(|it| citations::read(target, it, &text, losses)).collect();
    Ok(Part::Text { text, citations })
}

/// Decodes one item, and returns whether it is a refusal.
fn read_item(
    target: &Target,
    item: &Place<'_>,
    content: &mut Vec<Part>,
    losses: &mut Losses,
) -> Result<bool, DecodeError> {
    let mut refused = false;
    match item.need("type")?.str()? {
        "message" => {
            for part in item.get_list("content")? {
                match part.need("type")?.str()? {
                    "output_text" => content.push(read_text(target, &part, losses)?),
                    "refusal" => {
                        refused = true;
                        content.push(Part::text(part.need("refusal")?.str()?));
                    }
                    other => losses.add(part.at(), format!("unknown part of type `{other}`, left out")),
                }
            }
        }
        "reasoning" => content.extend(reasoning::read(target, item.value).map(Part::Thinking)),
        "function_call" => content.push(Part::ToolCall(ToolCall {
            id: item.need("call_id")?.str()?.to_owned(),
            name: item.need("name")?.str()?.to_owned(),
            arguments: parse_arguments(item.get_str("arguments")?.unwrap_or_default()),
        })),
        other => losses.add(item.at(), format!("an item of type `{other}` is not supported, left out")),
    }
    Ok(refused)
}
