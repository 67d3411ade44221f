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
//! 5. A message without parts is left out: the API rejects it. Message ids are not sent.

use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role, ToolCall, ToolChoice, ToolDefinition, ToolResult};
use serde_json::{Map, Value, json};

use super::shown::{self, Shown};
use super::{limits, output, strict};
use crate::assembly::arguments_text;
use crate::calls::{self, short_id};
use crate::loss::Losses;
use crate::passthrough;
use crate::{Encoded, Target, reference};

/// The maximum number of stop sequences that the API accepts.
const MAX_STOPS: usize = 4;

/// The maximum length of a speaker's name that OpenAI accepts.
const LONGEST_NAME: usize = 64;

/// The maximum length of a call id that OpenAI accepts.
const LONGEST_ID: usize = 40;

/// Encodes a request.
pub(crate) fn encode_request(target: &Target, request: &Request) -> Encoded {
    let mut writer =
        Writer { target, tools: &request.tools, messages: Vec::new(), losses: Losses::default() };
    for (idx, message) in request.messages.iter().enumerate() {
        writer.message(&format!("messages[{idx}]"), message);
    }
    let Writer { messages, mut losses, .. } = writer;

    let mut body = Map::new();
    body.insert("model".to_owned(), json!(target.model));
    body.insert("messages".to_owned(), Value::Array(messages));
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    tools(request, tool, named, &mut body, &mut losses);
    response_format(target, request, &mut body, &mut losses);
    settings(target, request, &mut body, &mut losses);
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

/// Encodes the tools and the tool choice for either OpenAI dialect: `tool` encodes a tool, `named` the choice of one
/// tool.
pub(crate) fn tools(
    request: &Request,
    tool: fn(&ToolDefinition) -> Value,
    named: fn(&str) -> Value,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    if request.tools.is_empty() {
        if request.tool_choice.is_some() {
            losses.add("tool_choice", "left out: there are no tools");
        }
        return;
    }
    body.insert("tools".to_owned(), request.tools.iter().map(|it| tool(it)).collect());
    let choice = request.tool_choice.as_ref().map(|it| match it {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => named(name),
    });
    body.extend(choice.map(|it| ("tool_choice".to_owned(), it)));
}

fn tool(tool: &ToolDefinition) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(tool.name));
    if !tool.description.is_empty() {
        function.insert("description".to_owned(), json!(tool.description));
    }
    function.insert("parameters".to_owned(), tool.parameters.clone());
    json!({"type": "function", "function": function})
}

fn response_format(target: &Target, request: &Request, body: &mut Map<String, Value>, losses: &mut Losses) {
    let Some(schema) = &request.output else { return };
    if target.facts.capabilities.structured_output == Some(false) {
        losses.add("output", format!("`{}` keeps to no schema, left out", target.model));
        return;
    }
    let format = json!({"name": "answer", "schema": schema, "strict": strict::is_strict(schema)});
    body.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": format}));
}

fn settings(target: &Target, request: &Request, body: &mut Map<String, Value>, losses: &mut Losses) {
    let settings = &request.settings;
    limits::sampling(target, "temperature", settings.temperature.as_ref(), body, losses);
    if let Some(tokens) = limits::output_tokens(target, settings, losses) {
        let own = limits::is_openai_own(&target.model);
        let name = if own { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name.to_owned(), json!(tokens));
    }
    limits::sampling(target, "top_p", settings.top_p.as_ref(), body, losses);
    if settings.top_k.is_some() {
        losses.add("settings.top_k", "the dialect has no such setting, left out");
    }
    if !settings.stop.is_empty() {
        let kept = &settings.stop[..settings.stop.len().min(MAX_STOPS)];
        body.insert("stop".to_owned(), json!(kept));
        for idx in kept.len()..settings.stop.len() {
            losses.add(format!("settings.stop[{idx}]"), format!("at most {MAX_STOPS} texts, left out"));
        }
    }
    if let Some(seed) = settings.seed {
        body.insert("seed".to_owned(), json!(seed));
    }
    if let Some(effort) = limits::effort(target, settings, losses) {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
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
    content: Vec<Value>,
    calls: Vec<Value>,
}

impl Writer<'_> {
    fn message(&mut self, at: &str, message: &Message) {
        if message.content.is_empty() {
            self.losses.add(at, "an empty message is refused, left out");
        }
        // A tool message can only hold results, so its other parts become a user message.
        let home = if message.role == Role::Tool { Role::User } else { message.role };
        let name = message.name.as_deref().filter(|it| self.takes_name(at, it)).map(str::to_owned);
        let mut run = Run { name: name.clone(), ..Run::default() };
        for (idx, part) in message.content.iter().enumerate() {
            let at = format!("{at}.content[{idx}]");
            match part {
                Part::ToolResult(result) => {
                    self.expect_role(&at, message.role, Role::Tool);
                    self.end(&mut run);
                    self.result(&at, result);
                }
                Part::ToolCall(call) => {
                    self.expect_role(&at, message.role, Role::Assistant);
                    self.enter(&mut run, Role::Assistant);
                    run.calls.push(self.tool_call(&at, call));
                }
                Part::Thinking(_) => self.losses.add(at, "thinking can't be sent back, left out"),
                Part::Text { .. } | Part::Image(_) | Part::File(_) => {
                    self.expect_role(&at, message.role, home);
                    self.enter(&mut run, home);
                    if !run.calls.is_empty() {
                        self.losses.add(&at, "moved in front of the tool calls");
                    }
                    run.content.push(self.content_part(&at, part, home));
                }
            }
        }
        self.end(&mut run);
    }

    /// Returns whether a name can be sent: the API rejects whitespace, slashes and some other characters.
    fn takes_name(&mut self, at: &str, name: &str) -> bool {
        let fits = |it: char| !it.is_whitespace() && !matches!(it, '<' | '|' | '\\' | '/' | '>');
        let takes = !name.is_empty() && name.chars().count() <= LONGEST_NAME && name.chars().all(fits);
        if !takes {
            self.losses.add(format!("{at}.name"), "such a name is refused, left out");
        }
        takes
    }

    fn expect_role(&mut self, at: &str, role: Role, wanted: Role) {
        if role != wanted {
            let (role, wanted) = (role.as_str(), wanted.as_str());
            self.losses.add(at, format!("has no place in a message of `{role}`, sent in one of `{wanted}`"));
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
        let mut message = Map::new();
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
        let text = output::text(&result.output, at, &mut self.losses);
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

    fn content_part(&mut self, at: &str, part: &Part, role: Role) -> Value {
        let shown = match part {
            Part::Text { .. } | Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => Ok(None),
            Part::Image(_) | Part::File(_) if role != Role::User => Err("only users may show it".to_owned()),
            Part::Image(image) => shown::image_url(self.target, image).map(|it| Some(image_part(&it))),
            Part::File(file) => shown::file(self.target, file).and_then(|it| file_part(&it)).map(Some),
        };
        match shown {
            Ok(Some(shown)) => return shown,
            Ok(None) => {}
            Err(reason) => self.losses.add(at, format!("{reason}, sent as a reference")),
        }
        json!({"type": "text", "text": reference::part(part)})
    }
}

/// Encodes content: a single text as a plain string, no content as null.
fn joined(mut content: Vec<Value>) -> Value {
    match content.as_mut_slice() {
        [] => Value::Null,
        [only] if only["type"] == "text" => only["text"].take(),
        _ => Value::Array(content),
    }
}

fn image_part(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn file_part(file: &Shown<'_>) -> Result<Value, String> {
    let file = match file {
        Shown::Data { name, data } => json!({"filename": name, "file_data": data}),
        Shown::Id(id) => json!({"file_id": id}),
        Shown::Url(_) => return Err("a file behind an address can't be sent".to_owned()),
    };
    Ok(json!({"type": "file", "file": file}))
}
