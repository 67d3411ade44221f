//! Encodes requests for Chat Completions.
//!
//! Turns a [`Request`] into a body with a fixed key order, and lists the losses. The rules:
//!
//! 1. A message becomes one message of its role. A single text becomes a plain string; several texts stay separate.
//! 2. Each tool result becomes a `tool` message, directly after its call and the call's other results. Text that
//!    follows a call moves in front of it, since calls have a separate field.
//! 3. A misplaced part is moved to where the dialect allows it: a call into an assistant message, a result into a
//!    `tool` message, any other part of a tool message into a user message.
//! 4. Only user messages can contain images and files; elsewhere a short text replaces them. Thinking is never sent
//!    back.
//! 5. Evidence becomes a tag in the text. Citations are not sent back.
//! 6. A message without parts is left out: the API rejects it. Message ids are not sent.

use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role, ToolCall, ToolDefinition, ToolResult};
use serde_json::{Map, Value, json};

use super::encode_parts::{Content, file_part, image_part, image_url, joined, output_text, shown_file};
use super::settings;
use super::tools::{encode_tool, encode_tools};
use crate::assembly::arguments_text;
use crate::calls::short_id;
use crate::citations::report_unsent;
use crate::loss::Losses;
use crate::{Encoded, Target, calls, passthrough, reference};

/// The maximum length of a speaker's name that OpenAI accepts.
const LONGEST_NAME: usize = 64;

/// The maximum length of a call id that OpenAI accepts.
const LONGEST_ID: usize = 40;

/// Encodes a request.
pub(crate) fn encode_request(target: &Target, request: &Request) -> Encoded {
    let mut writer =
        Writer { target, tools: &request.tools, messages: Vec::new(), losses: Losses::default() };
    for (idx, message) in request.messages.iter().enumerate() {
        writer.message(idx, message);
    }
    let Writer { messages, mut losses, .. } = writer;

    let mut body = Map::new();
    body.insert("model".to_owned(), json!(target.model));
    body.insert("messages".to_owned(), Value::Array(messages));
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    encode_tools(request, encode_tool, named, &mut body, &mut losses);
    settings::encode_output(target, request, &mut body, &mut losses);
    settings::encode(target, request, &mut body, &mut losses);
    if target.stream {
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    if let Some(key) = &target.cache_key {
        body.insert("prompt_cache_key".to_owned(), json!(key));
    }
    passthrough::merge(&mut body, target, &request.settings.provider);
    Encoded { body: Value::Object(body), losses: losses.into_vec() }
}

/// Collects the encoded messages.
struct Writer<'a> {
    target: &'a Target,
    tools: &'a [Arc<ToolDefinition>],
    messages: Vec<Value>,
    losses: Losses,
}

/// A wire message under construction.
#[derive(Default)]
struct Run {
    role: Option<Role>,
    name: Option<String>,
    content: Vec<Content>,
    calls: Vec<Value>,
}

impl Writer<'_> {
    fn message(&mut self, idx: usize, message: &Message) {
        if message.content.is_empty() {
            self.losses.add(format!("messages[{idx}]"), "an empty message is refused, left out");
        }
        // A tool message can only hold results, so its other parts become a user message.
        let home = if message.role == Role::Tool { Role::User } else { message.role };
        let name = message.name.as_deref().filter(|it| self.takes_name(idx, it)).map(str::to_owned);
        let mut run = Run { name: name.clone(), ..Run::default() };
        for (part_idx, part) in message.content.iter().enumerate() {
            // Losses are rare, and there are many parts.
            let at = || format!("messages[{idx}].content[{part_idx}]");
            match part {
                Part::ToolResult(result) => {
                    self.expect_role(at, message.role, Role::Tool);
                    self.end(&mut run);
                    self.result(&at(), result);
                }
                Part::ToolCall(call) => {
                    self.expect_role(at, message.role, Role::Assistant);
                    self.enter(&mut run, Role::Assistant);
                    run.calls.push(self.tool_call(&at(), call));
                }
                Part::Thinking(_) => self.losses.add(at(), "thinking can't be sent back, left out"),
                Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Evidence(_) => {
                    self.expect_role(at, message.role, home);
                    self.enter(&mut run, home);
                    if !run.calls.is_empty() {
                        self.losses.add(at(), "moved in front of the tool calls");
                    }
                    run.content.push(self.content_part(at, part, home));
                }
            }
        }
        self.end(&mut run);
    }

    /// Returns whether a name can be sent: the API rejects whitespace, slashes and some other characters.
    fn takes_name(&mut self, idx: usize, name: &str) -> bool {
        let fits = |it: char| !it.is_whitespace() && !matches!(it, '<' | '|' | '\\' | '/' | '>');
        let takes = !name.is_empty() && name.chars().count() <= LONGEST_NAME && name.chars().all(fits);
        if !takes {
            self.losses.add(format!("messages[{idx}].name"), "such a name is refused, left out");
        }
        takes
    }

    fn expect_role(&mut self, at: impl Fn() -> String, role: Role, wanted: Role) {
        if role != wanted {
            let (role, wanted) = (role.as_str(), wanted.as_str());
            self.losses
                .add(at(), format!("is not allowed in a message of `{role}`, sent in one of `{wanted}`"));
        }
    }

    fn enter(&mut self, run: &mut Run, role: Role) {
        if run.role != Some(role) {
            self.end(run);
            run.role = Some(role);
        }
    }

    fn end(&mut self, run: &mut Run) {
        let next = Run { name: run.name.clone(), ..Run::default() };
        let Run { role: Some(role), name, content, calls } = std::mem::replace(run, next) else { return };
        let mut message = Map::with_capacity(2);
        message.insert("role".to_owned(), json!(role.as_str()));
        message.extend(name.map(|it| ("name".to_owned(), Value::String(it))));
        message.insert("content".to_owned(), joined(content));
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        self.messages.push(Value::Object(message));
    }

    fn tool_call(&mut self, at: &str, call: &ToolCall) -> Value {
        let name = calls::name(&call.name, self.tools, at, &mut self.losses);
        let function = json!({"name": name, "arguments": arguments_text(&call.arguments)});
        json!({"id": short_id(&call.id, LONGEST_ID), "type": "function", "function": function})
    }

    fn result(&mut self, at: &str, result: &ToolResult) {
        let text = output_text(&result.output, at, &mut self.losses);
        let id = short_id(&result.call_id, LONGEST_ID);
        let place = self.place_of_result(&id);
        if place < self.messages.len() {
            self.losses.add(at, "moved to its call: nothing may stand between them");
        }
        self.messages.insert(place, json!({"role": "tool", "tool_call_id": id, "content": text}));
    }

    /// Returns the position for a call's result: after the call and the results that follow it.
    fn place_of_result(&self, id: &str) -> usize {
        let calls = |it: &Value| it["tool_calls"].as_array().into_iter().flatten().any(|it| it["id"] == id);
        let Some(call) = self.messages.iter().rposition(calls) else { return self.messages.len() };
        let results = self.messages[call + 1..].iter().take_while(|it| it["role"] == "tool");
        call + 1 + results.count()
    }

    fn content_part(&mut self, at: impl Fn() -> String, part: &Part, role: Role) -> Content {
        let shown = match part {
            Part::Text { citations, .. } if !citations.is_empty() => {
                report_unsent(citations, &at(), &mut self.losses);
                Ok(None)
            }
            Part::Text { .. }
            | Part::Evidence(_)
            | Part::Thinking(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_) => Ok(None),
            Part::Image(_) | Part::File(_) if role != Role::User => Err("only users may show it".to_owned()),
            Part::Image(image) => image_url(self.target, image).map(|it| Some(image_part(&it))),
            Part::File(file) => shown_file(self.target, file).and_then(|it| file_part(&it)).map(Some),
        };
        match shown {
            Ok(Some(shown)) => return Content::Media(shown),
            Ok(None) => {}
            Err(reason) => self.losses.add(at(), format!("{reason}, sent as a reference")),
        }
        Content::Text(reference::part(part))
    }
}
