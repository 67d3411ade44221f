//! Decodes OpenAI Responses requests from other programs.
//!
//! Turns the body that an SDK sends into a [`Request`]; the reverse of `encode`. Consecutive assistant items
//! (thinking, texts, calls) become one message. What we cannot represent is a loss, and a value of the wrong type is
//! an error with its path. `stream`, `prompt_cache_key`, `store` and `include` concern delivery, not content, so the
//! caller reads them. The model name is used as written.

use std::collections::HashMap;
use std::sync::Arc;

use contexture_message::{Message, Part, Request, Role, ToolCall, ToolResult};
use serde_json::Value;

use super::decode_parts::part;
use super::tools::decode_tools;
use super::{reasoning, settings};
use crate::assembly::parse_arguments;
use crate::loss::Losses;
use crate::openai::decode_parts::{parts, result_output};
use crate::openai::tools::decode_choice;
use crate::read::Place;
use crate::{DecodeError, Decoded, Target};

/// Delivery fields of a body, which the caller reads.
const DELIVERY: &[&str] = &["include", "prompt_cache_key", "store", "stream", "stream_options"];

/// Decodes a request.
pub(crate) fn decode_request(target: &Target, body: &Value) -> Result<Decoded<Request>, DecodeError> {
    let body = Place::root_object(body)?;
    let losses = Losses::default();
    let mut reader = Reader { target, names: HashMap::new(), messages: Vec::new(), open: false, losses };
    if let Some(text) = body.get_str("instructions")? {
        reader.messages.push(Message::system(text));
    }
    match body.get("input") {
        Some(Place { value: Value::String(text), .. }) => reader.messages.push(Message::user(text)),
        Some(input) => input.list()?.iter().try_for_each(|it| reader.item(it))?,
        None => {}
    }
    let Reader { messages, mut losses, .. } = reader;
    let choice = body.get("tool_choice").map(|it| decode_choice(&it, &mut losses)).transpose()?;
    let request = Request {
        model: body.get_str("model")?.map(str::to_owned),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: decode_tools(&body, &mut losses)?,
        tool_choice: choice.flatten(),
        output: settings::decode_output(&body, &mut losses)?,
        settings: settings::decode(&body, &mut losses)?,
        breakpoints: Vec::new(),
    };
    body.ignore(DELIVERY);
    body.report(&mut losses);
    Ok(Decoded { value: request, losses: losses.into_vec() })
}

/// Collects messages while items are decoded.
struct Reader<'a> {
    target: &'a Target,
    /// Tool names by call id: results do not include them.
    names: HashMap<String, String>,
    messages: Vec<Message>,
    /// Whether the last message is the assistant's and may still grow.
    open: bool,
    losses: Losses,
}

impl Reader<'_> {
    fn item(&mut self, place: &Place<'_>) -> Result<(), DecodeError> {
        place.object()?;
        // The type is optional for messages.
        match place.get_str("type")?.unwrap_or("message") {
            "message" => self.message(place),
            "function_call" => self.call(place),
            "function_call_output" => self.result(place),
            "reasoning" => {
                let thinking = reasoning::read(self.target, place.value);
                thinking.into_iter().for_each(|it| self.assistant(Part::Thinking(it)));
                Ok(())
            }
            other => {
                self.losses.add(place.at(), format!("an item of type `{other}` is not supported, left out"));
                Ok(())
            }
        }
    }

    fn message(&mut self, place: &Place<'_>) -> Result<(), DecodeError> {
        let role = place.need("role")?;
        let content = parts(&place.need("content")?, part, &mut self.losses)?;
        self.report(place);
        match role.str()? {
            "system" | "developer" => self.say(Message::parts(Role::System, content)),
            "user" => self.say(Message::parts(Role::User, content)),
            "assistant" => content.into_iter().for_each(|it| self.assistant(it)),
            other => return Err(DecodeError::new(role.at(), format!("unknown role `{other}`"))),
        }
        Ok(())
    }

    fn call(&mut self, place: &Place<'_>) -> Result<(), DecodeError> {
        let (id, name) = (place.need("call_id")?.str()?.to_owned(), place.need("name")?.str()?.to_owned());
        let arguments = parse_arguments(place.get_str("arguments")?.unwrap_or_default());
        self.report(place);
        self.names.insert(id.clone(), name.clone());
        self.assistant(Part::ToolCall(ToolCall { id, name, arguments }));
        Ok(())
    }

    fn result(&mut self, place: &Place<'_>) -> Result<(), DecodeError> {
        let call_id = place.need("call_id")?.str()?.to_owned();
        let name = self.names.get(&call_id).cloned().unwrap_or_default();
        let output = result_output(parts(&place.need("output")?, part, &mut self.losses)?);
        place.ignore(&["name"]);
        self.report(place);
        self.say(Message::parts(Role::Tool, vec![Part::ToolResult(ToolResult { call_id, name, output })]));
        Ok(())
    }

    /// Reports unread fields of an item, except its id and status, which belong to the provider.
    fn report(&mut self, place: &Place<'_>) {
        place.ignore(&["type", "id", "status"]);
        place.report(&mut self.losses);
    }

    fn say(&mut self, message: Message) {
        self.open = false;
        self.messages.push(message);
    }

    /// Adds a part to the current assistant message, or starts one.
    fn assistant(&mut self, part: Part) {
        match self.messages.last_mut().filter(|_| self.open) {
            Some(message) => message.content.push(part),
            None => self.messages.push(Message::parts(Role::Assistant, vec![part])),
        }
        self.open = true;
    }
}
