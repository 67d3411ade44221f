//! Decodes requests in the form that the official SDKs send.
//!
//! Turns a body of the Messages API into a [`Request`]. A user message with tool results is split into tool messages
//! and user messages in the same order; cache marks become breakpoints; fields that only Anthropic has are kept under
//! `anthropic` in the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::{
    Breakpoint, File, Image, MediaSource, Message, Part, Reasoning, Request, Role, Settings, Thinking,
    ToolCall, ToolChoice, ToolDefinition, ToolOutput, ToolResult,
};
use serde_json::{Map, Value};

use crate::loss::Losses;
use crate::media::base64;
use crate::read::Place;
use crate::{DecodeError, Decoded, Dialect, Target, passthrough};

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
    let tools = tools(&doc, &mut reader)?;
    let tool_choice = tool_choice(&doc, &mut reader.blocks.losses)?;
    let (settings, output) = settings(&doc)?;
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

/// A part, and whether it has a cache mark.
type Marked = (Part, bool);

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
            let Part::Text { text } = part else {
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
            Role::User => self.user(parts, at),
            Role::System | Role::Assistant | Role::Tool => self.push(role, parts, at),
        }
        Ok(())
    }

    /// Splits a user message: tool results become separate tool messages.
    fn user(&mut self, parts: Vec<Marked>, at: &str) {
        let role_of = |(part, _): &Marked| match part {
            Part::ToolResult(_) => Role::Tool,
            Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) => {
                Role::User
            }
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
            if let Part::Text { text } = part {
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

/// Decodes content blocks.
pub(super) struct Blocks {
    provider: String,
    /// Tool names by call id: results do not include them.
    names: BTreeMap<String, String>,
    pub(super) losses: Losses,
}

impl Blocks {
    pub(super) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), names: BTreeMap::new(), losses: Losses::default() }
    }

    /// Decodes content: a string or a list of blocks.
    pub(super) fn content(&mut self, content: &Place<'_>) -> Result<Vec<Marked>, DecodeError> {
        match content.value {
            Value::String(text) => Ok(vec![(Part::text(text), false)]),
            Value::Array(_) => {
                let mut parts = Vec::new();
                for doc in content.objects()? {
                    parts.extend(self.block(&doc)?);
                }
                Ok(parts)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                Err(content.expected("a string or a list"))
            }
        }
    }

    fn block(&mut self, doc: &Place<'_>) -> Result<Option<Marked>, DecodeError> {
        let kind = doc.need_string("type")?;
        let marked = mark(doc, &mut self.losses)?;
        let part = match kind.as_str() {
            "text" => {
                if !doc.get_list("citations")?.is_empty() {
                    self.losses.add(doc.below("citations"), "left out: texts have no citations");
                }
                Part::Text { text: doc.need_string("text")? }
            }
            "image" => image(doc, &mut self.losses)?,
            "document" => match self.document(doc)? {
                Some(part) => part,
                None => return Ok(None),
            },
            "thinking" => {
                let signature = doc.get_string("signature")?.filter(|it| !it.is_empty());
                let text = doc.need_string("thinking")?;
                Part::Thinking(self.thinking(text, signature, false))
            }
            "redacted_thinking" => {
                let data = doc.need_string("data")?;
                Part::Thinking(self.thinking(String::new(), Some(data), true))
            }
            "tool_use" => self.tool_use(doc)?,
            "tool_result" => self.tool_result(doc)?,
            other => {
                self.losses.add(doc.at(), format!("left out: blocks of type `{other}` are not known"));
                return Ok(None);
            }
        };
        doc.report(&mut self.losses);
        Ok(Some((part, marked)))
    }

    fn thinking(&self, text: String, signature: Option<String>, redacted: bool) -> Thinking {
        Thinking { text, signature, provider: Some(self.provider.clone()), redacted }
    }

    fn document(&mut self, doc: &Place<'_>) -> Result<Option<Part>, DecodeError> {
        let source = doc.need_object("source")?;
        let name = doc.get_string("title")?;
        let (source_of, media_type) = match source.need_string("type")?.as_str() {
            "base64" => (MediaSource::Data(source.need_string("data")?), source.get_string("media_type")?),
            "text" => {
                let text = source.need_string("data")?;
                (MediaSource::Data(base64(text.as_bytes())), source.get_string("media_type")?)
            }
            "url" => (MediaSource::Url(source.need_string("url")?), Some("application/pdf".to_owned())),
            "file" => (MediaSource::Id(source.need_string("file_id")?), None),
            other => {
                let reason = format!("left out: documents with a source of type `{other}` are not known");
                self.losses.add(doc.at(), reason);
                return Ok(None);
            }
        };
        source.report(&mut self.losses);
        Ok(Some(Part::File(File { source: source_of, media_type, name })))
    }

    fn tool_use(&mut self, doc: &Place<'_>) -> Result<Part, DecodeError> {
        doc.ignore(&["caller"]); // Who asked for it on the provider's side.
        let id = doc.need_string("id")?;
        let name = doc.need_string("name")?;
        let arguments = doc.get_value("input").unwrap_or_else(|| Value::Object(Map::new()));
        self.names.insert(id.clone(), name.clone());
        Ok(Part::ToolCall(ToolCall { id, name, arguments }))
    }

    fn tool_result(&mut self, doc: &Place<'_>) -> Result<Part, DecodeError> {
        let call_id = doc.need_string("tool_use_id")?;
        let name = self.names.get(&call_id).cloned().unwrap_or_default();
        let is_error = doc.flag("is_error")?;
        let output = match (doc.get("content"), is_error) {
            (None, false) => ToolOutput::Text(String::new()),
            (None, true) => ToolOutput::ErrorText(String::new()),
            (Some(content), true) => self.failure(&content)?,
            (Some(content), false) => match content.value {
                Value::String(text) => ToolOutput::Text(text.clone()),
                _ => ToolOutput::Content(self.nested(&content)?),
            },
        };
        Ok(Part::ToolResult(ToolResult { call_id, name, output }))
    }

    fn nested(&mut self, content: &Place<'_>) -> Result<Vec<Part>, DecodeError> {
        let parts = self.content(content)?;
        if parts.iter().any(|(_, marked)| *marked) {
            self.losses.add(content.at(), "a cache mark inside a result was left out");
        }
        Ok(parts.into_iter().map(|(part, _)| part).collect())
    }

    fn failure(&mut self, content: &Place<'_>) -> Result<ToolOutput, DecodeError> {
        let mut texts = Vec::new();
        for part in self.nested(content)? {
            match part {
                Part::Text { text } => texts.push(text),
                Part::Image(_)
                | Part::File(_)
                | Part::Thinking(_)
                | Part::ToolCall(_)
                | Part::ToolResult(_) => self.losses.add(content.at(), "left out: an error is a text"),
            }
        }
        Ok(ToolOutput::ErrorText(texts.join("\n")))
    }
}

/// Decodes an image. An uploaded image becomes a file, since our images have no ids.
fn image(doc: &Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    let source = doc.need_object("source")?;
    let kind_at = source.below("type");
    let part = match source.need_string("type")?.as_str() {
        "base64" => Part::Image(Image {
            source: MediaSource::Data(source.need_string("data")?),
            media_type: source.get_string("media_type")?,
        }),
        "url" => {
            Part::Image(Image { source: MediaSource::Url(source.need_string("url")?), media_type: None })
        }
        "file" => Part::File(File {
            source: MediaSource::Id(source.need_string("file_id")?),
            media_type: Some("image/*".to_owned()),
            name: None,
        }),
        other => return Err(DecodeError::new(kind_at, format!("unknown source `{other}`"))),
    };
    source.report(losses);
    Ok(part)
}

/// Reads a cache mark, and returns whether there is one.
fn mark(doc: &Place<'_>, losses: &mut Losses) -> Result<bool, DecodeError> {
    let Some(mark) = doc.get_object("cache_control")? else { return Ok(false) };
    mark.get_string("type")?;
    if mark.get_string("ttl")?.is_some_and(|it| it != "5m") {
        losses.add(mark.below("ttl"), "left out: marks have no lifetime of their own");
    }
    mark.report(losses);
    Ok(true)
}

fn tools(doc: &Place<'_>, reader: &mut Reader) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let losses = &mut reader.blocks.losses;
    let docs = doc.get_objects("tools")?;
    let n_tools = docs.len();
    let mut tools = Vec::new();
    for (index, doc) in docs.into_iter().enumerate() {
        let marked = mark(&doc, losses)?;
        if marked && index + 1 < n_tools {
            losses.add(doc.below("cache_control"), "left out: only the end of the tools is marked");
        } else if marked {
            reader.breakpoints.insert(0, Breakpoint::Tools);
        }
        match doc.get_string("type")? {
            Some(kind) if kind != "custom" => {
                losses.add(doc.at(), format!("left out: tools of type `{kind}` are not known"));
            }
            Some(_) | None => {
                tools.push(Arc::new(tool(&doc)?));
                doc.report(losses);
            }
        }
    }
    Ok(tools)
}

fn tool(doc: &Place<'_>) -> Result<ToolDefinition, DecodeError> {
    let tool =
        ToolDefinition::new(doc.need_string("name")?, doc.get_string("description")?.unwrap_or_default());
    Ok(match doc.get_value("input_schema") {
        Some(schema) => tool.parameters(schema),
        None => tool,
    })
}

fn tool_choice(doc: &Place<'_>, losses: &mut Losses) -> Result<Option<ToolChoice>, DecodeError> {
    let Some(choice) = doc.get_object("tool_choice")? else { return Ok(None) };
    let at = choice.below("type");
    let value = match choice.need_string("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => ToolChoice::Tool(choice.need_string("name")?),
        other => return Err(DecodeError::new(at, format!("unknown choice `{other}`"))),
    };
    choice.report(losses);
    Ok(Some(value))
}

type Output = Option<Arc<Value>>;

fn settings(doc: &Place<'_>) -> Result<(Settings, Output), DecodeError> {
    let mut left = Map::new();
    let reasoning = reasoning(doc, &mut left)?;
    let output = output(doc, &mut left)?;
    let mut settings = Settings {
        temperature: doc.get_number("temperature")?,
        max_tokens: doc.get_u32("max_tokens")?,
        top_p: doc.get_number("top_p")?,
        top_k: doc.get_u32("top_k")?,
        stop: doc.get_strings("stop_sequences")?,
        seed: None,
        reasoning,
        provider: Map::new(),
    };
    left.extend(doc.left());
    settings.provider = passthrough::wrap(Dialect::Anthropic, left);
    Ok((settings, output))
}

/// Decodes a thinking budget; any other thinking setting is kept unchanged.
fn reasoning(doc: &Place<'_>, left: &mut Map<String, Value>) -> Result<Option<Reasoning>, DecodeError> {
    let Some(thinking) = doc.get_object("thinking")? else { return Ok(None) };
    let reasoning = match thinking.need_string("type")?.as_str() {
        "enabled" => thinking.get_u32("budget_tokens")?.map(Reasoning::Budget),
        "disabled" => Some(Reasoning::Budget(0)),
        _ => None,
    };
    let rest = if reasoning.is_some() { Value::Object(thinking.left()) } else { thinking.value.clone() };
    if rest.as_object().is_some_and(|it| !it.is_empty()) {
        left.insert("thinking".to_owned(), rest);
    }
    Ok(reasoning)
}

fn output(doc: &Place<'_>, left: &mut Map<String, Value>) -> Result<Output, DecodeError> {
    let Some(config) = doc.get_object("output_config")? else { return Ok(None) };
    let schema = match config.get_object("format")? {
        None => None,
        Some(format) => {
            format.get_string("type")?;
            format.get_value("schema").map(Arc::new)
        }
    };
    let rest = config.left();
    if !rest.is_empty() {
        left.insert("output_config".to_owned(), Value::Object(rest));
    }
    Ok(schema)
}
