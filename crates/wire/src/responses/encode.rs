//! Encodes requests for OpenAI Responses.
//!
//! Turns a [`Request`] into a body with a fixed key order, and lists the losses. The rules:
//!
//! 1. A leading system message with a single text becomes `instructions`, unless it is the only message. Any other
//!    system message becomes an item with the role `system`, which compatible servers understand too.
//! 2. The parts of an assistant message become separate items, in order: each text, each call, each `reasoning` item
//!    that this provider produced. A `reasoning` item without the item that it led to is left out.
//! 3. Each tool result becomes a `function_call_output`. Calls and results may occur in messages of any role.
//! 4. Only user messages can contain images and files; elsewhere a short text replaces them.
//! 5. Evidence becomes a tag in the text. Citations are not sent back.
//! 6. A message without parts is left out: the API rejects it. Message ids are not sent.

use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role, Thinking, ToolCall, ToolDefinition, ToolResult};
use serde_json::{Map, Value, json};

use super::encode_parts::{file_part, image_part, leads_on, message};
use super::tools::encode_tool;
use super::{reasoning, settings};
use crate::assembly::arguments_text;
use crate::calls::short_id;
use crate::citations::report_unsent;
use crate::loss::Losses;
use crate::openai::encode_parts::{image_url, output_text, shown_file};
use crate::openai::tools::encode_tools;
use crate::{Encoded, Target, calls, passthrough, reference};

/// The maximum length of a call id that OpenAI accepts.
const LONGEST_ID: usize = 64;

/// Encodes a request.
pub(crate) fn encode_request(target: &Target, request: &Request) -> Encoded {
    let mut writer = Writer { target, tools: &request.tools, items: Vec::new(), losses: Losses::default() };
    let mut instructions =
        request.messages.first().filter(|it| it.role == Role::System).and_then(|it| it.as_text());
    let messages = request.messages.iter().enumerate().skip(usize::from(instructions.is_some()));
    for (idx, message) in messages {
        writer.message(&format!("messages[{idx}]"), message);
    }
    let Writer { mut items, mut losses, .. } = writer;
    if items.is_empty() {
        // The API rejects an input without items.
        items.extend(instructions.take().map(|it| message(Role::System, json!(it))));
    }

    let mut body = Map::new();
    body.insert("model".to_owned(), json!(target.model));
    if let Some(text) = instructions {
        body.insert("instructions".to_owned(), json!(text));
    }
    body.insert("input".to_owned(), Value::Array(items));
    let named = |name: &str| json!({"type": "function", "name": name});
    encode_tools(request, encode_tool, named, &mut body, &mut losses);
    settings::encode_output(target, request, &mut body, &mut losses);
    settings::encode(target, request, &mut body, &mut losses);
    // Models without reasoning reject this field.
    if target.facts.capabilities.reasoning != Some(false) {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("store".to_owned(), json!(false));
    if target.stream {
        body.insert("stream".to_owned(), json!(true));
    }
    if let Some(key) = &target.cache_key {
        body.insert("prompt_cache_key".to_owned(), json!(key));
    }
    passthrough::merge(&mut body, target, &request.settings.provider);
    Encoded { body: Value::Object(body), losses: losses.into_vec() }
}

/// Collects the encoded items.
struct Writer<'a> {
    target: &'a Target,
    tools: &'a [Arc<ToolDefinition>],
    items: Vec<Value>,
    losses: Losses,
}

impl Writer<'_> {
    fn message(&mut self, at: &str, message: &Message) {
        if message.name.is_some() {
            self.losses.add(format!("{at}.name"), "speakers have no names here, left out");
        }
        if message.content.is_empty() {
            self.losses.add(at, "an empty message is refused, left out");
        }
        // A tool message can only hold results, so its other parts become a user message.
        let home = if message.role == Role::Tool { Role::User } else { message.role };
        let mut said = Vec::new();
        for (idx, part) in message.content.iter().enumerate() {
            let at = format!("{at}.content[{idx}]");
            match part {
                Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Evidence(_) => {
                    self.expect_role(&at, message.role, home);
                    said.push(self.content_part(&at, part, home));
                    if home == Role::Assistant {
                        self.said(home, &mut said);
                    }
                }
                Part::Thinking(thinking) => {
                    let followed = home == Role::Assistant && message.content[idx + 1..].iter().any(leads_on);
                    self.said(home, &mut said);
                    self.thinking(at, thinking, followed);
                }
                Part::ToolCall(call) => {
                    self.expect_role(&at, message.role, Role::Assistant);
                    self.said(home, &mut said);
                    self.call(&at, call);
                }
                Part::ToolResult(result) => {
                    self.expect_role(&at, message.role, Role::Tool);
                    self.said(home, &mut said);
                    self.result(&at, result);
                }
            }
        }
        self.said(home, &mut said);
    }

    fn thinking(&mut self, at: String, thinking: &Thinking, followed: bool) {
        match reasoning::replay(self.target, thinking) {
            Ok(item) if followed => self.items.push(item),
            Ok(_) => self.losses.add(at, "nothing follows that it led to, left out"),
            Err(reason) => self.losses.add(at, reason),
        }
    }

    fn call(&mut self, at: &str, call: &ToolCall) {
        let name = calls::name(&call.name, self.tools, at, &mut self.losses);
        let (id, arguments) = (short_id(&call.id, LONGEST_ID), arguments_text(&call.arguments));
        let item = json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
        self.items.push(item);
    }

    fn result(&mut self, at: &str, result: &ToolResult) {
        let text = output_text(&result.output, at, &mut self.losses);
        let call_id = short_id(&result.call_id, LONGEST_ID);
        self.items.push(json!({"type": "function_call_output", "call_id": call_id, "output": text}));
    }

    fn expect_role(&mut self, at: &str, role: Role, wanted: Role) {
        if role != wanted {
            let (role, wanted) = (role.as_str(), wanted.as_str());
            self.losses.add(at, format!("is not allowed in a message of `{role}`, sent as of `{wanted}`"));
        }
    }

    /// Ends the current message and adds it to the items.
    fn said(&mut self, role: Role, said: &mut Vec<Value>) {
        let mut content = std::mem::take(said);
        let content = match content.as_mut_slice() {
            [] => return,
            [only] if only["type"] == "input_text" => only["text"].take(),
            _ => Value::Array(content),
        };
        self.items.push(message(role, content));
    }

    fn content_part(&mut self, at: &str, part: &Part, role: Role) -> Value {
        let shown = match part {
            Part::Text { citations, .. } => {
                report_unsent(citations, at, &mut self.losses);
                Ok(None)
            }
            Part::Evidence(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => Ok(None),
            Part::Image(_) | Part::File(_) if role != Role::User => Err("only users may show it".to_owned()),
            Part::Image(image) => image_url(self.target, image).map(|it| Some(image_part(&it))),
            Part::File(file) => shown_file(self.target, file).map(|it| Some(file_part(&it))),
        };
        match shown {
            Ok(Some(shown)) => return shown,
            Ok(None) => {}
            Err(reason) => self.losses.add(at, format!("{reason}, sent as a reference")),
        }
        json!({"type": "input_text", "text": reference::part(part)})
    }
}
