//! Decodes requests in the form that the official SDKs send.
//!
//! Turns the body of a `generateContent` call into a [`Request`]. The model is part of the URL, so it is taken from
//! the target. A function response without an id answers the first unanswered call with its name. Fields that only
//! Gemini has are kept under `gemini` in the settings.

use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role};
use serde_json::Value;

use super::decode_parts::{Ids, Parts};
use super::settings;
use super::tools::{decode_choice, decode_tools};
use crate::read::Place;
use crate::{DecodeError, Decoded, Dialect, Target, passthrough};

/// Decodes a request.
pub(crate) fn decode_request(target: &Target, body: &Value) -> Result<Decoded<Request>, DecodeError> {
    let doc = Place::root_object(body)?;
    doc.ignore(&["model"]); // Some clients repeat it.
    let mut parts = Parts::new(&target.provider, Ids::of_request(body));
    let mut messages = Vec::new();
    if let Some(system) = doc.get_object("systemInstruction")? {
        system.ignore(&["role"]);
        messages.push(Message::parts(Role::System, parts.list(&system)?));
        system.report(&mut parts.losses);
    }
    for content in doc.need("contents")?.objects()? {
        messages.extend(content_messages(content, &mut parts)?);
    }
    let tools = decode_tools(&doc, &mut parts.losses)?;
    let (tool_choice, rest) = decode_choice(&doc)?;
    let (mut settings, output, generation) = settings::decode(&doc)?;
    let mut left = doc.left();
    let kept = [("toolConfig", rest), ("generationConfig", generation)];
    left.extend(
        kept.into_iter().filter(|(_, it)| !it.is_empty()).map(|(key, it)| (key.to_owned(), it.into())),
    );
    settings.provider = passthrough::wrap(Dialect::Gemini, left);
    let value = Request {
        model: Some(format!("{}/{}", target.provider, target.model)),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools,
        tool_choice,
        output,
        settings,
        breakpoints: Vec::new(),
    };
    Ok(Decoded { value, losses: parts.losses.into_vec() })
}

fn content_messages(content: Place<'_>, parts: &mut Parts) -> Result<Vec<Message>, DecodeError> {
    let role_at = content.below("role");
    let role = match content.get_string("role")?.as_deref() {
        None | Some("user" | "function") => Role::User,
        Some("model") => Role::Assistant,
        Some(other) => return Err(DecodeError::new(role_at, format!("unknown role `{other}`"))),
    };
    let read = parts.list(&content)?;
    content.report(&mut parts.losses);
    Ok(match role {
        Role::User => user_messages(read),
        Role::System | Role::Assistant | Role::Tool => vec![Message::parts(role, read)],
    })
}

/// Splits parts into messages: tool results become separate tool messages.
fn user_messages(parts: Vec<Part>) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    if parts.is_empty() {
        return vec![Message::parts(Role::User, parts)];
    }
    for part in parts {
        let role = if matches!(part, Part::ToolResult(_)) { Role::Tool } else { Role::User };
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.push(part),
            Some(_) | None => messages.push(Message::parts(role, vec![part])),
        }
    }
    messages
}
