//! Decodes requests in the form that the official SDKs send.
//!
//! Turns the body of a `generateContent` call into a [`Request`]. The model is part of the URL, so it is taken from
//! the target. A function response without an id answers the first unanswered call with its name. Fields that only
//! Gemini has are kept under `gemini` in the settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_message::{
    File, Image, MediaSource, Message, Part, Reasoning, Request, Role, Settings, Thinking, ToolCall,
    ToolChoice, ToolDefinition, ToolOutput, ToolResult,
};
use serde_json::{Map, Value};

use crate::loss::Losses;
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
    let tools = tools(&doc, &mut parts.losses)?;
    let (tool_choice, rest) = tool_choice(&doc)?;
    let (mut settings, output, generation) = settings(&doc)?;
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

/// Assigns ids to calls that have none.
pub(super) struct Ids {
    prefix: String,
    next: usize,
    /// Ids that occur in the document.
    given: BTreeSet<String>,
    /// The ids and names of calls without a result so far.
    open: Vec<(String, String)>,
}

impl Ids {
    /// Creates ids that start with `prefix`.
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, next: 0, given: BTreeSet::new(), open: Vec::new() }
    }

    fn of_request(body: &Value) -> Self {
        let mut ids = Self::new("call".to_owned());
        let contents = body.get("contents").and_then(Value::as_array).into_iter().flatten();
        let parts = contents.filter_map(|it| it.get("parts")?.as_array()).flatten();
        let calls = parts.filter_map(|it| it.get("functionCall").or_else(|| it.get("function_call")));
        ids.given = calls.filter_map(|it| it.get("id")?.as_str()).map(str::to_owned).collect();
        ids
    }

    fn fresh(&mut self) -> String {
        loop {
            let id = format!("{}_{}", self.prefix, self.next);
            self.next += 1;
            if !self.given.contains(&id) {
                return id;
            }
        }
    }

    /// Returns the id of a call, generating one if it is missing.
    pub(super) fn call(&mut self, id: Option<String>, name: &str) -> String {
        let id = id.filter(|it| !it.is_empty()).unwrap_or_else(|| self.fresh());
        self.open.push((id.clone(), name.to_owned()));
        id
    }

    fn answer(&mut self, id: Option<String>, name: &str) -> String {
        let is_meant = |(own, own_name): &(String, String)| match &id {
            Some(id) => own == id,
            None => own_name == name,
        };
        let open = self.open.iter().position(is_meant).map(|it| self.open.remove(it).0);
        id.or(open).unwrap_or_else(|| self.fresh())
    }
}

/// Decodes parts.
pub(super) struct Parts {
    provider: String,
    ids: Ids,
    pub(super) losses: Losses,
}

impl Parts {
    pub(super) fn new(provider: &str, ids: Ids) -> Self {
        Self { provider: provider.to_owned(), ids, losses: Losses::default() }
    }

    /// Decodes the `parts` of a content.
    pub(super) fn list(&mut self, content: &Place<'_>) -> Result<Vec<Part>, DecodeError> {
        let mut parts = Vec::new();
        for doc in content.get_objects("parts")? {
            self.part(doc, &mut parts)?;
        }
        Ok(parts)
    }

    fn thinking(&self, text: String, signature: Option<String>) -> Part {
        let provider = Some(self.provider.clone());
        Part::Thinking(Thinking { text, signature, provider, redacted: false })
    }

    fn part(&mut self, doc: Place<'_>, parts: &mut Vec<Part>) -> Result<(), DecodeError> {
        let signature = doc.get_string("thoughtSignature")?;
        let thought = doc.flag("thought")?;
        let text = doc.get_string("text")?;
        let part = match text {
            Some(text) if thought => self.thinking(text, signature.clone()),
            Some(text) if text.is_empty() && signature.is_some() => {
                self.sign_last(signature.unwrap_or_default(), parts);
                doc.report(&mut self.losses);
                return Ok(());
            }
            Some(text) => Part::Text { text },
            None => match self.other(&doc)? {
                Some(part) => part,
                None => return Ok(()),
            },
        };
        doc.report(&mut self.losses);
        if !thought && let Some(signature) = signature {
            parts.push(self.thinking(String::new(), Some(signature)));
        }
        parts.push(part);
        Ok(())
    }

    /// Attaches a signature that arrived on an empty text to the text before it, unless that one is signed already.
    fn sign_last(&self, signature: String, parts: &mut Vec<Part>) {
        let is_signature =
            |it: &Part| matches!(it, Part::Thinking(it) if it.text.is_empty() && it.signature.is_some());
        let at = match parts.as_slice() {
            [.., before, Part::Text { .. }] if is_signature(before) => parts.len(),
            [.., Part::Text { .. }] => parts.len() - 1,
            _ => parts.len(),
        };
        parts.insert(at, self.thinking(String::new(), Some(signature)));
    }

    fn other(&mut self, doc: &Place<'_>) -> Result<Option<Part>, DecodeError> {
        if let Some(call) = doc.get_object("functionCall")? {
            return self.call(call).map(Some);
        }
        if let Some(response) = doc.get_object("functionResponse")? {
            return self.response(response).map(Some);
        }
        if let Some(data) = doc.get_object("inlineData")? {
            return inline(data, &mut self.losses).map(Some);
        }
        if let Some(data) = doc.get_object("fileData")? {
            return linked(data, &mut self.losses).map(Some);
        }
        self.losses.add(doc.at(), "left out: this kind of part is not known");
        Ok(None)
    }

    fn call(&mut self, doc: Place<'_>) -> Result<Part, DecodeError> {
        let name = doc.need_string("name")?;
        let id = doc.get_string("id")?;
        let arguments = doc.get_value("args").unwrap_or_else(|| Value::Object(Map::new()));
        doc.report(&mut self.losses);
        let id = self.ids.call(id, &name);
        Ok(Part::ToolCall(ToolCall { id, name, arguments }))
    }

    fn response(&mut self, doc: Place<'_>) -> Result<Part, DecodeError> {
        let name = doc.need_string("name")?;
        let id = doc.get_string("id")?;
        let mut media = Vec::new();
        for part in doc.get_objects("parts")? {
            match part.get_object("inlineData")? {
                Some(data) => media.push(inline(data, &mut self.losses)?),
                None => self.losses.add(part.at(), "left out: this kind of part is not known"),
            }
        }
        let response = doc.get_value("response").unwrap_or_else(|| Value::Object(Map::new()));
        doc.report(&mut self.losses);
        let call_id = self.ids.answer(id, &name);
        Ok(Part::ToolResult(ToolResult { call_id, name, output: output(response, media) }))
    }
}

/// Decodes a function response; a form that we do not write ourselves becomes a structured value.
fn output(response: Value, media: Vec<Part>) -> ToolOutput {
    let fields = response.as_object().into_iter().flatten();
    let fields: Vec<(&str, &Value)> = fields.map(|(key, value)| (key.as_str(), value)).collect();
    if !media.is_empty() {
        let text = match fields.as_slice() {
            [] => None,
            [("output", Value::String(text))] => Some(text.clone()),
            _ => Some(response.to_string()),
        };
        return ToolOutput::Content(text.map(Part::text).into_iter().chain(media).collect());
    }
    match fields.as_slice() {
        [("output", Value::String(text))] => ToolOutput::Text(text.clone()),
        [("output", value)] => ToolOutput::Json((*value).clone()),
        [("error", Value::String(text))] => ToolOutput::ErrorText(text.clone()),
        [("error", value)] => ToolOutput::ErrorJson((*value).clone()),
        [("denied", Value::Bool(true))] => ToolOutput::ExecutionDenied { reason: None },
        [("denied", Value::Bool(true)), ("reason", Value::String(reason))] => {
            ToolOutput::ExecutionDenied { reason: Some(reason.clone()) }
        }
        _ => ToolOutput::Json(response),
    }
}

fn media(source: MediaSource, media_type: Option<String>) -> Part {
    match media_type {
        Some(kind) if kind.starts_with("image/") => Part::Image(Image { source, media_type: Some(kind) }),
        media_type => Part::File(File { source, media_type, name: None }),
    }
}

pub(super) fn inline(doc: Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    let data = doc.need_string("data")?;
    let part = media(MediaSource::Data(data), doc.get_string("mimeType")?);
    doc.report(losses);
    Ok(part)
}

/// Decodes a linked file. A file that was uploaded to Gemini is referenced by its id.
pub(super) fn linked(doc: Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    let uri = doc.need_string("fileUri")?;
    let media_type = doc.get_string("mimeType")?;
    doc.report(losses);
    let own = uri.strip_prefix(Dialect::Gemini.base_url()).and_then(|it| it.strip_prefix('/'));
    Ok(match own.filter(|it| it.starts_with("files/")) {
        Some(id) => Part::File(File { source: MediaSource::Id(id.to_owned()), media_type, name: None }),
        None => media(MediaSource::Url(uri), media_type),
    })
}

fn tools(doc: &Place<'_>, losses: &mut Losses) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let mut tools = Vec::new();
    for group in doc.get_objects("tools")? {
        for doc in group.get_objects("functionDeclarations")? {
            let tool = ToolDefinition::new(
                doc.need_string("name")?,
                doc.get_string("description")?.unwrap_or_default(),
            );
            let schema = doc
                .get_value("parametersJsonSchema")
                .or_else(|| doc.get_value("parameters").map(json_schema));
            tools.push(Arc::new(match schema {
                Some(schema) => tool.parameters(schema),
                None => tool,
            }));
            doc.report(losses);
        }
        group.report(losses);
    }
    Ok(tools)
}

/// Converts Gemini's older schemas, which write types in capitals, to JSON Schema.
fn json_schema(schema: Value) -> Value {
    const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
    match schema {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| match value {
                Value::String(kind) if key == "type" && TYPES.contains(&kind.as_str()) => {
                    (key, kind.to_ascii_lowercase().into())
                }
                other => (key, json_schema(other)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.into_iter().map(json_schema).collect(),
        other => other,
    }
}

type Rest = Map<String, Value>;

/// Decodes the tool choice, and returns the fields it does not cover unchanged.
fn tool_choice(doc: &Place<'_>) -> Result<(Option<ToolChoice>, Rest), DecodeError> {
    let Some(config) = doc.get_object("toolConfig")? else { return Ok((None, Rest::new())) };
    let Some(calling) = config.get_object("functionCallingConfig")? else { return Ok((None, config.left())) };
    let mode = calling.get_string("mode")?.map(|it| it.to_ascii_uppercase());
    let mut names = calling.get_strings("allowedFunctionNames")?;
    let choice = match (mode.as_deref(), names.len()) {
        (None | Some("AUTO"), 0) => ToolChoice::Auto,
        (Some("NONE"), _) => ToolChoice::None,
        (Some("ANY"), 0) => ToolChoice::Required,
        (Some("ANY"), 1) => ToolChoice::Tool(names.remove(0)),
        _ => return Ok((None, config.object()?.clone())),
    };
    Ok((Some(choice), config.left()))
}

type Output = Option<Arc<Value>>;

/// Decodes the settings, and returns the fields they do not cover unchanged.
fn settings(doc: &Place<'_>) -> Result<(Settings, Output, Rest), DecodeError> {
    let Some(config) = doc.get_object("generationConfig")? else {
        return Ok((Settings::default(), None, Rest::new()));
    };
    let output = output_schema(&config)?;
    let mut thinking = Rest::new();
    let settings = Settings {
        temperature: config.get_number("temperature")?,
        max_tokens: config.get_u32("maxOutputTokens")?,
        top_p: config.get_number("topP")?,
        top_k: config.get_u32("topK")?,
        stop: config.get_strings("stopSequences")?,
        seed: config.get_i64("seed")?,
        reasoning: reasoning(&config, &mut thinking)?,
        provider: Map::new(),
    };
    let mut rest = config.left();
    if !thinking.is_empty() {
        rest.insert("thinkingConfig".to_owned(), thinking.into());
    }
    Ok((settings, output, rest))
}

/// Decodes the output schema. With a schema, the MIME type is implied; a MIME type without a schema is left unread.
fn output_schema(config: &Place<'_>) -> Result<Output, DecodeError> {
    let schema = config.get_value("responseJsonSchema");
    let schema = schema.or_else(|| config.get_value("responseSchema").map(json_schema));
    if schema.is_some() {
        config.get_string("responseMimeType")?;
    }
    Ok(schema.map(Arc::new))
}

/// Decodes a thinking budget; a level, or a budget that the model chooses, is left unchanged.
fn reasoning(config: &Place<'_>, left: &mut Rest) -> Result<Option<Reasoning>, DecodeError> {
    let Some(thinking) = config.get_object("thinkingConfig")? else { return Ok(None) };
    let budget = thinking.get_number("thinkingBudget")?.and_then(|it| it.as_u64());
    let budget = budget.and_then(|it| u32::try_from(it).ok());
    match budget {
        None => left.extend(thinking.object()?.clone()),
        Some(_) => {
            thinking.flag("includeThoughts")?;
            left.extend(thinking.left());
        }
    }
    Ok(budget.map(Reasoning::Budget))
}
