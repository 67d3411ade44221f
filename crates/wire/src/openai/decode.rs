//! Decodes Chat Completions requests from other programs.
//!
//! Turns the body that an SDK sends into a [`Request`]; the reverse of `encode`. What we cannot represent is a loss,
//! and a value of the wrong type is an error with its path. `stream`, `stream_options` and `prompt_cache_key` concern
//! delivery, not content, so the caller reads them. The model name is used as written.

use std::collections::HashMap;
use std::sync::Arc;

use contexture_message::{
    File, Image, MediaSource, Message, Part, Request, Role, Settings, Thinking, ToolCall, ToolChoice,
    ToolDefinition, ToolOutput, ToolResult,
};
use serde_json::{Value, json};

use super::{limits, shown};
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
        tools: tools(&body, &mut losses)?,
        tool_choice: body.get("tool_choice").map(|it| tool_choice(&it, &mut losses)).transpose()?.flatten(),
        output: body.get("response_format").map(|it| output(&it, &mut losses)).transpose()?.flatten(),
        settings: settings(&body, &mut losses)?,
        breakpoints: Vec::new(),
    };
    body.ignore(DELIVERY);
    body.report(&mut losses);
    Ok(Decoded { value: request, losses: losses.into_vec() })
}

fn tools(body: &Place<'_>, losses: &mut Losses) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let mut tools = Vec::new();
    for place in body.get_list("tools")? {
        if place.need("type")?.str()? != "function" {
            losses.add(place.at(), "only functions are tools here, left out");
            continue;
        }
        tools.push(Arc::new(tool(&place.need("function")?, losses)?));
    }
    Ok(tools)
}

/// Decodes a function; OpenAI Responses writes the same fields one level higher.
pub(crate) fn tool(function: &Place<'_>, losses: &mut Losses) -> Result<ToolDefinition, DecodeError> {
    let name = function.need("name")?.str()?;
    let mut tool = ToolDefinition::new(name, function.get_str("description")?.unwrap_or_default());
    if let Some(parameters) = function.get("parameters") {
        parameters.object()?;
        tool.parameters = parameters.value.clone();
    }
    if function.get("strict").is_some_and(|it| it.value == &Value::Bool(true)) {
        losses.add(format!("{}.strict", function.at()), "tools are never strict here");
    }
    function.report(losses);
    Ok(tool)
}

/// Decodes a tool choice of either OpenAI dialect.
pub(crate) fn tool_choice(place: &Place<'_>, losses: &mut Losses) -> Result<Option<ToolChoice>, DecodeError> {
    let Value::String(word) = place.value else {
        place.object()?;
        let name = match place.get("function") {
            Some(function) => Some(function.need("name")?.str()?),
            None if place.get_str("type")? == Some("function") => Some(place.need("name")?.str()?),
            None => None,
        };
        if name.is_none() {
            losses.add(place.at(), "only a function can be chosen here, left out");
        }
        return Ok(name.map(|it| ToolChoice::Tool(it.to_owned())));
    };
    match word.as_str() {
        "auto" => Ok(Some(ToolChoice::Auto)),
        "none" => Ok(Some(ToolChoice::None)),
        "required" => Ok(Some(ToolChoice::Required)),
        other => Err(DecodeError::new(place.at(), format!("unknown choice `{other}`"))),
    }
}

fn output(place: &Place<'_>, losses: &mut Losses) -> Result<Option<Arc<Value>>, DecodeError> {
    let schema = place.get("json_schema").unwrap_or_else(|| place.clone());
    format(place, &schema, losses)
}

/// Decodes the answer format: `place` has its type, `holder` the schema.
pub(crate) fn format(
    place: &Place<'_>,
    holder: &Place<'_>,
    losses: &mut Losses,
) -> Result<Option<Arc<Value>>, DecodeError> {
    match place.need("type")?.str()? {
        "text" => Ok(None),
        "json_schema" => {
            let schema = holder.get_value("schema");
            holder.ignore(&["type", "name", "strict"]);
            holder.report(losses);
            Ok(schema.map(Arc::new))
        }
        "json_object" => {
            losses.add(place.at(), "`json_object` is read as the schema of any object");
            Ok(Some(Arc::new(json!({"type": "object"}))))
        }
        other => {
            losses.add(place.at(), format!("unknown format `{other}`, left out"));
            Ok(None)
        }
    }
}

fn settings(body: &Place<'_>, losses: &mut Losses) -> Result<Settings, DecodeError> {
    let limits = (body.get_u32("max_completion_tokens")?, body.get_u32("max_tokens")?);
    let effort = body.get("reasoning_effort").map(|it| Ok((it.str()?, it.at().to_owned()))).transpose()?;
    Ok(Settings {
        temperature: body.get_number("temperature")?,
        max_tokens: limits.0.or(limits.1),
        top_p: body.get_number("top_p")?,
        stop: body.get("stop").map_or(Ok(Vec::new()), |it| stop(&it))?,
        seed: body.get_i64("seed")?,
        reasoning: effort.and_then(|(name, at)| limits::read_effort(name, &at, losses)),
        ..Settings::default()
    })
}

fn stop(place: &Place<'_>) -> Result<Vec<String>, DecodeError> {
    match place.value {
        Value::String(one) => Ok(vec![one.clone()]),
        _ => place.list()?.iter().map(|it| it.str().map(str::to_owned)).collect(),
    }
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
                self.losses.add(place.at(), "functions of the old kind have no place here, left out");
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
            content.retain(|it| !matches!(it, Part::Text { text } if text.is_empty()));
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

/// Returns a single text as text, anything else as a list of parts.
pub(crate) fn result_output(parts: Vec<Part>) -> ToolOutput {
    match parts.as_slice() {
        [Part::Text { text }] => ToolOutput::Text(text.clone()),
        _ => ToolOutput::Content(parts),
    }
}

/// Decodes one part; returns `None` if we cannot represent its kind.
pub(crate) type ReadPart = fn(&Place<'_>, &mut Losses) -> Result<Option<Part>, DecodeError>;

/// Decodes content: a string or a list of parts.
pub(crate) fn parts(
    place: &Place<'_>,
    part: ReadPart,
    losses: &mut Losses,
) -> Result<Vec<Part>, DecodeError> {
    if let Value::String(text) = place.value {
        return Ok(vec![Part::text(text)]);
    }
    let mut parts = Vec::new();
    for item in place.list()? {
        parts.extend(part(&item, losses)?);
    }
    Ok(parts)
}

fn part(place: &Place<'_>, losses: &mut Losses) -> Result<Option<Part>, DecodeError> {
    let kind = place.need("type")?.str()?;
    let part = match kind {
        "text" => Part::text(place.need("text")?.str()?),
        "image_url" => Part::Image(image(&place.need("image_url")?, losses)?),
        "file" => Part::File(file(&place.need("file")?)?),
        "refusal" => {
            losses.add(place.at(), "a refusal is read as text");
            Part::text(place.need("refusal")?.str()?)
        }
        other => {
            losses.add(place.at(), format!("a part of type `{other}` has no place here, left out"));
            return Ok(None);
        }
    };
    place.report(losses);
    Ok(Some(part))
}

fn image(place: &Place<'_>, losses: &mut Losses) -> Result<Image, DecodeError> {
    let (source, media_type) = shown::read(place.need("url")?.str()?);
    detail(place, losses)?;
    Ok(Image { source, media_type })
}

/// Reports an image's detail level as a loss, unless the model chooses it.
pub(crate) fn detail(place: &Place<'_>, losses: &mut Losses) -> Result<(), DecodeError> {
    if let Some(detail) = place.get_str("detail")?.filter(|it| *it != "auto") {
        losses.add(format!("{}.detail", place.at()), format!("`{detail}` has no place here, left out"));
    }
    Ok(())
}

fn file(place: &Place<'_>) -> Result<File, DecodeError> {
    let name = place.get_str("filename")?.map(str::to_owned);
    if let Some(id) = place.get_str("file_id")? {
        return Ok(File { source: MediaSource::Id(id.to_owned()), media_type: None, name });
    }
    Ok(file_data(place.need("file_data")?.str()?, name))
}

/// Decodes file data: a `data:` URL or plain base64.
pub(crate) fn file_data(data: &str, name: Option<String>) -> File {
    match shown::read(data) {
        (MediaSource::Url(data), _) => File { source: MediaSource::Data(data), media_type: None, name },
        (source, media_type) => File { source, media_type, name },
    }
}
