//! Decodes Chat Completions requests from other programs.
//!
//! Turns the body that an SDK sends into a [`Request`]; the reverse of `encode`. What we cannot represent is a loss,
//! and a value of the wrong type is an error with its path. `stream`, `stream_options` and `prompt_cache_key` concern
//! delivery, not content, so the caller reads them. The model name is used as written.

use std::collections::HashMap;
use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role, Thinking, ToolCall, ToolResult};
use serde_json::Value;

use super::decode_parts::{part, parts, result_output};
use super::settings;
use super::tools::{decode_choice, decode_tools};
use crate::assembly::parse_arguments;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Decoded, Target};

/// Delivery fields of a body, which the caller reads.
const DELIVERY: &[&str] = &["prompt_cache_key", "stream", "stream_options"];

/// Decodes a request.
pub(crate) fn decode_request(target: &Target, body: &Value) -> Result<Decoded<Request>, DecodeError> {
    let body = Place::root(body);
    let mut reader = Reader { target, names: HashMap::new(), losses: Losses::default() };
    let mut messages = Vec::new();
    for message in body.need("messages")?.list()? {
        messages.extend(reader.message(&message)?.map(Arc::new));
    }
    let mut losses = reader.losses;
    let request = Request {
        model: body.get_str("model")?.map(str::to_owned),
        messages,
        tools: decode_tools(&body, &mut losses)?,
        tool_choice: body.get("tool_choice").map(|it| decode_choice(&it, &mut losses)).transpose()?.flatten(),
        output: body
            .get("response_format")
            .map(|it| settings::decode_output(&it, &mut losses))
            .transpose()?
            .flatten(),
        settings: settings::decode(&body, &mut losses)?,
        breakpoints: Vec::new(),
    };
    body.ignore(DELIVERY);
    body.report(&mut losses);
    Ok(Decoded { value: request, losses: losses.into_vec() })
}

/// The state needed to decode messages.
struct Reader<'a> {
    target: &'a Target,
    /// Tool names by call id: results do not include them.
    names: HashMap<String, String>,
    losses: Losses,
}

impl Reader<'_> {
    /// Decodes a message; returns `None` if we cannot represent its kind.
    fn message(&mut self, place: &Place<'_>) -> Result<Option<Message>, DecodeError> {
        let role = place.need("role")?;
        let speaks = matches!(role.str()?, "system" | "developer" | "user" | "assistant");
        let name = if speaks { place.get_str("name")?.filter(|it| !it.is_empty()) } else { None };
        let name = name.map(str::to_owned);
        let message = match role.str()? {
            "system" | "developer" => Message::parts(Role::System, self.content(place)?),
            "user" => Message::parts(Role::User, self.content(place)?),
            "assistant" => Message::parts(Role::Assistant, self.assistant(place)?),
            "tool" => Message::parts(Role::Tool, vec![self.result(place)?]),
            "function" => {
                self.losses.add(place.at(), "legacy functions are not supported, left out");
                return Ok(None);
            }
            other => return Err(DecodeError::new(role.at(), format!("unknown role `{other}`"))),
        };
        Ok(Some(Message { name, ..message }))
    }

    fn content(&mut self, place: &Place<'_>) -> Result<Vec<Part>, DecodeError> {
        let content = parts(&place.need("content")?, part, &mut self.losses)?;
        place.report(&mut self.losses);
        Ok(content)
    }

    fn assistant(&mut self, place: &Place<'_>) -> Result<Vec<Part>, DecodeError> {
        let mut content = Vec::new();
        let reasoning = place.get("reasoning_content").or_else(|| place.get("reasoning"));
        if let Some(text) = reasoning.as_ref().and_then(|it| it.value.as_str()) {
            let (text, provider) = (text.to_owned(), Some(self.target.provider.clone()));
            content.push(Part::Thinking(Thinking { text, provider, ..Thinking::default() }));
        }
        if let Some(said) = place.get("content") {
            content.extend(parts(&said, part, &mut self.losses)?);
        }
        if let Some(refusal) = place.get_str("refusal")? {
            self.losses.add(format!("{}.refusal", place.at()), "a refusal is read as text");
            content.push(Part::text(refusal));
        }
        let calls = place.get_list("tool_calls")?;
        if !calls.is_empty() {
            // SDKs write an empty text if there is none.
            content.retain(|it| !matches!(it, Part::Text { text, .. } if text.is_empty()));
        }
        for call in calls {
            content.push(Part::ToolCall(self.call(&call)?));
        }
        place.ignore(&["reasoning"]); // Some servers say it twice.
        place.report(&mut self.losses);
        Ok(content)
    }

    fn call(&mut self, place: &Place<'_>) -> Result<ToolCall, DecodeError> {
        let id = place.need("id")?.str()?.to_owned();
        let (name, arguments) = match place.get("custom") {
            Some(custom) => {
                self.losses.add(place.at(), "a custom tool's call is read as a function's");
                (custom.need("name")?.str()?, Value::from(custom.need("input")?.str()?))
            }
            None => {
                let function = place.need("function")?;
                let arguments = function.get_str("arguments")?.unwrap_or_default();
                (function.need("name")?.str()?, parse_arguments(arguments))
            }
        };
        place.ignore(&["type", "index"]);
        place.report(&mut self.losses);
        self.names.insert(id.clone(), name.to_owned());
        Ok(ToolCall { id, name: name.to_owned(), arguments })
    }

    fn result(&mut self, place: &Place<'_>) -> Result<Part, DecodeError> {
        let call_id = place.need("tool_call_id")?.str()?.to_owned();
        let name = self.names.get(&call_id).cloned().unwrap_or_default();
        let output = result_output(parts(&place.need("content")?, part, &mut self.losses)?);
        place.report(&mut self.losses);
        Ok(Part::ToolResult(ToolResult { call_id, name, output }))
    }
}
