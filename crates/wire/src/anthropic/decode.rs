//! Decodes requests in the form that the official SDKs send.
//!
//! Turns a body of the Messages API into a [`Request`]. A user message with tool results is split into tool messages
//! and user messages in the same order; cache marks become breakpoints; fields that only Anthropic has are kept under
//! `anthropic` in the settings.

use std::sync::Arc;

use contexture_message::{Breakpoint, Message, Part, Request, Role};
use serde_json::Value;

use super::decode_parts::{Blocks, Marked};
use super::settings;
use super::tools::{decode_choice, decode_tools};
use crate::read::Place;
use crate::{DecodeError, Decoded, Target};

/// Decodes a request.
pub(crate) fn decode_request(target: &Target, body: &Value) -> Result<Decoded<Request>, DecodeError> {
    let doc = Place::root_object(body)?;
    let model = doc.get_string("model")?.map(|it| format!("{}/{it}", target.provider));
    doc.flag("stream")?; // The target says how the answer comes.
    let mut reader = Reader::new(&target.provider);
    if let Some(system) = doc.get("system") {
        reader.system(&system)?;
    }
    for message in doc.need("messages")?.objects()? {
        reader.message(message)?;
    }
    let tools = decode_tools(&doc, &mut reader.breakpoints, &mut reader.blocks.losses)?;
    let tool_choice = decode_choice(&doc, &mut reader.blocks.losses)?;
    let (settings, output) = settings::decode(&doc)?;
    let Reader { messages, breakpoints, blocks } = reader;
    let value = Request {
        model,
        messages: messages.into_iter().map(Arc::new).collect(),
        tools,
        tool_choice,
        output,
        settings,
        breakpoints,
    };
    Ok(Decoded { value, losses: blocks.losses.into_vec() })
}

struct Reader {
    messages: Vec<Message>,
    breakpoints: Vec<Breakpoint>,
    blocks: Blocks,
}

impl Reader {
    fn new(provider: &str) -> Self {
        Self { messages: Vec::new(), breakpoints: Vec::new(), blocks: Blocks::new(provider) }
    }

    /// Decodes the system blocks. The encoder splits text at cache marks, so blocks are joined again there.
    fn system(&mut self, system: &Place<'_>) -> Result<(), DecodeError> {
        let mut texts: Vec<String> = Vec::new();
        let mut joins = false;
        let mut n_bytes = 0;
        for (index, (part, marked)) in self.blocks.content(system)?.into_iter().enumerate() {
            let Part::Text { text, .. } = part else {
                return Err(DecodeError::new(format!("system[{index}].type"), "expected `text`"));
            };
            n_bytes += text.len();
            match texts.last_mut() {
                Some(last) if joins => last.push_str(&text),
                Some(_) | None => texts.push(text),
            }
            joins = marked;
            if marked {
                self.breakpoints.push(Breakpoint::Text { message: 0, byte: n_bytes });
            }
        }
        let parts = texts.into_iter().map(Part::text).collect();
        self.messages.push(Message::parts(Role::System, parts));
        Ok(())
    }

    fn message(&mut self, doc: Place<'_>) -> Result<(), DecodeError> {
        let role_at = doc.below("role");
        let role = match doc.need_string("role")?.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            other => return Err(DecodeError::new(role_at, format!("unknown role `{other}`"))),
        };
        let content = doc.need("content")?;
        let at = content.at();
        let parts = self.blocks.content(&content)?;
        doc.report(&mut self.blocks.losses);
        match role {
            Role::User => self.user(parts, &at),
            Role::System | Role::Assistant | Role::Tool => self.push(role, parts, &at),
        }
        Ok(())
    }

    /// Splits a user message: tool results become separate tool messages.
    fn user(&mut self, parts: Vec<Marked>, at: &str) {
        let role_of = |(part, _): &Marked| match part {
            Part::ToolResult(_) => Role::Tool,
            Part::Text { .. }
            | Part::Image(_)
            | Part::File(_)
            | Part::Evidence(_)
            | Part::Thinking(_)
            | Part::ToolCall(_) => Role::User,
        };
        let mut role = parts.first().map_or(Role::User, role_of);
        let mut run = Vec::new();
        for part in parts {
            if role_of(&part) != role {
                self.push(role, std::mem::take(&mut run), at);
                role = role_of(&part);
            }
            run.push(part);
        }
        self.push(role, run, at);
    }

    fn push(&mut self, role: Role, parts: Vec<Marked>, at: &str) {
        let message = self.messages.len();
        let n_parts = parts.len();
        let mut byte = 0;
        for (index, (part, marked)) in parts.iter().enumerate() {
            let is_text = matches!(part, Part::Text { .. });
            if let Part::Text { text, .. } = part {
                byte += text.len();
            }
            match marked {
                false => {}
                true if index + 1 == n_parts => self.breakpoints.push(Breakpoint::Message { message }),
                true if is_text => self.breakpoints.push(Breakpoint::Text { message, byte }),
                true => self.blocks.losses.add(at, "a cache mark inside the message was left out"),
            }
        }
        self.messages.push(Message::parts(role, parts.into_iter().map(|(part, _)| part).collect()));
    }
}
