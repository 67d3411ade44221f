//! Encodes requests.
//!
//! Turns a [`Request`] into the body of a `generateContent` call; the model is part of the URL. The bytes depend only
//! on the request and the target.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role, ToolCall, ToolDefinition};
use serde_json::{Map, Value, json};

use super::tools::{encode_choice, encode_tools};
use super::{encode_parts, settings};
use crate::citations::report_unsent;
use crate::loss::Losses;
use crate::{Encoded, Target, calls, passthrough, reference};

const GO_AHEAD: &str = include_str!("../templates/go-ahead.txt");

/// Encodes a request.
pub(crate) fn encode_request(target: &Target, request: &Request) -> Encoded {
    let mut losses = Losses::default();
    let (system, contents) = conversation(target, request, &mut losses);
    let tools = encode_tools(&request.tools, &mut losses);
    let tool_config = encode_choice(request, &mut losses);
    let generation = settings::encode(target, request, &mut losses);

    let mut body = Map::new();
    if !system.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({"parts": system}));
    }
    body.insert("contents".to_owned(), contents.into_iter().map(Turn::into_json).collect());
    if !tools.is_empty() {
        body.insert("tools".to_owned(), json!([{"functionDeclarations": tools}]));
    }
    body.extend(tool_config.map(|it| ("toolConfig".to_owned(), it)));
    if !generation.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(generation));
    }
    passthrough::merge(&mut body, target, &request.settings.provider);
    Encoded { body: Value::Object(body), losses: losses.into_vec() }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Speaker {
    User,
    Model,
}

/// The parts of consecutive messages from the same side.
struct Turn {
    speaker: Speaker,
    parts: Vec<Value>,
}

impl Turn {
    fn into_json(mut self) -> Value {
        let role = match self.speaker {
            Speaker::User => "user",
            Speaker::Model => "model",
        };
        // Results must directly follow the calls, so they come before the user's other parts.
        self.parts.sort_by_key(|it| self.speaker == Speaker::User && it.get("functionResponse").is_none());
        json!({"role": role, "parts": self.parts})
    }
}

fn conversation(target: &Target, request: &Request, losses: &mut Losses) -> (Vec<Value>, Vec<Turn>) {
    let tools = &request.tools;
    let mut writer = Writer { target, tools, losses, names: BTreeMap::new(), turns: Vec::new() };
    let mut system = Vec::new();
    let mut leading = true;
    for (index, message) in request.messages.iter().enumerate() {
        leading &= message.role == Role::System;
        match leading {
            true => system.extend(writer.system_message(index, message)),
            false => writer.message(index, message),
        }
    }
    writer.begin_with_user();
    (system, writer.turns)
}

struct Writer<'a> {
    target: &'a Target,
    tools: &'a [Arc<ToolDefinition>],
    losses: &'a mut Losses,
    /// Tool names by call id.
    names: BTreeMap<String, String>,
    turns: Vec<Turn>,
}

impl Writer<'_> {
    /// Inserts a user turn if there is none at the start: the API rejects empty conversations and those that begin
    /// with calls.
    fn begin_with_user(&mut self) {
        if self.turns.first().is_some_and(|it| it.speaker == Speaker::User) {
            return;
        }
        self.losses.add("messages", "the user must speak first: a short text was put before");
        let parts = vec![encode_parts::text(GO_AHEAD.trim_end())];
        self.turns.insert(0, Turn { speaker: Speaker::User, parts });
    }

    fn system_message(&mut self, index: usize, message: &Message) -> Vec<Value> {
        let mut texts = Vec::new();
        for (part_idx, part) in message.content.iter().enumerate() {
            let at = format!("messages[{index}].content[{part_idx}]");
            match part {
                Part::Text { text, .. } if text.is_empty() => {}
                Part::Text { text, .. } => texts.push(encode_parts::text(text)),
                Part::Evidence(it) => texts.push(encode_parts::text(&reference::evidence(it))),
                Part::Image(_) | Part::File(_) => {
                    self.losses.add(at, "said as a reference: the system instruction is text");
                    texts.push(encode_parts::text(&reference::part(part)));
                }
                Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                    self.losses.add(at, "left out: the system instruction is text");
                }
            }
        }
        texts
    }

    fn message(&mut self, index: usize, message: &Message) {
        let at = format!("messages[{index}]");
        if message.name.is_some() {
            self.losses.add(format!("{at}.name"), "speakers have no names here, left out");
        }
        if message.content.is_empty() {
            self.losses.add(at.as_str(), "left out: it is empty");
        }
        match message.role {
            Role::Assistant => self.model_message(&at, message),
            Role::System => {
                self.losses.add(at.as_str(), "said by the user: there are no later system messages");
                self.user_message(&at, message);
            }
            Role::User | Role::Tool => self.user_message(&at, message),
        }
    }

    fn user_message(&mut self, at: &str, message: &Message) {
        for (index, part) in message.content.iter().enumerate() {
            let at = format!("{at}.content[{index}]");
            match part {
                Part::Text { text, .. } if text.is_empty() => {}
                Part::Text { text, .. } => self.push(Speaker::User, encode_parts::text(text)),
                Part::Evidence(it) => {
                    self.push(Speaker::User, encode_parts::text(&reference::evidence(it)));
                }
                Part::Image(it) => {
                    let part = encode_parts::image(self.target, it, &at, self.losses);
                    self.push(Speaker::User, part);
                }
                Part::File(it) => {
                    let part = encode_parts::file(self.target, it, &at, self.losses);
                    self.push(Speaker::User, part);
                }
                Part::Thinking(_) => self.losses.add(at, "left out: only the model thinks"),
                Part::ToolCall(it) => {
                    self.losses.add(at.as_str(), "said by the model: only it calls tools");
                    let call = self.named(it, &at);
                    let part = encode_parts::call(&call, &at, self.losses);
                    self.push(Speaker::Model, part);
                }
                Part::ToolResult(it) => {
                    let part = encode_parts::response(it, &self.names, self.tools, &at, self.losses);
                    self.push(Speaker::User, part);
                }
            }
        }
    }

    fn model_message(&mut self, at: &str, message: &Message) {
        let mut own = encode_parts::ModelParts::new(self.target, false);
        let mut results = Vec::new();
        for (index, part) in message.content.iter().enumerate() {
            let at = format!("{at}.content[{index}]");
            match part {
                Part::ToolResult(it) => {
                    self.losses.add(at.as_str(), "said by the user: the model gives no results");
                    results.push(encode_parts::response(it, &self.names, self.tools, &at, self.losses));
                }
                Part::ToolCall(it) => match self.named(it, &at) {
                    Cow::Borrowed(_) => own.push(part, &at, self.losses),
                    Cow::Owned(call) => own.push(&Part::ToolCall(call), &at, self.losses),
                },
                Part::Text { citations, .. } => {
                    report_unsent(citations, &at, self.losses);
                    own.push(part, &at, self.losses);
                }
                Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::Thinking(_) => {
                    own.push(part, &at, self.losses);
                }
            }
        }
        own.flush();
        own.written.into_iter().for_each(|it| self.push(Speaker::Model, it));
        results.into_iter().for_each(|it| self.push(Speaker::User, it));
    }

    /// Returns a call with the name to send, and stores the name for its result.
    fn named<'c>(&mut self, call: &'c ToolCall, at: &str) -> Cow<'c, ToolCall> {
        let named = match calls::name(&call.name, self.tools, at, self.losses) {
            Cow::Borrowed(_) => Cow::Borrowed(call),
            Cow::Owned(name) => Cow::Owned(ToolCall { name, ..call.clone() }),
        };
        self.names.insert(call.id.clone(), named.name.clone());
        named
    }

    fn push(&mut self, speaker: Speaker, part: Value) {
        match self.turns.last_mut() {
            Some(turn) if turn.speaker == speaker => turn.parts.push(part),
            Some(_) | None => self.turns.push(Turn { speaker, parts: vec![part] }),
        }
    }
}
