//! Reads requests, as the official SDKs write them.
//!
//! In comes a body of the Messages API, out comes a [`Request`]. What a user message says with results in it becomes tool
//! messages and user messages in its order; marks of the cache become breakpoints; fields that are only Anthropic's are
//! kept under `anthropic` in the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::{
    Breakpoint, File, Image, MediaSource, Message, Part, Reasoning, Request, Role, Settings, Thinking, Tool,
    ToolCall, ToolChoice, ToolOutput, ToolResult,
};
use serde_json::{Map, Value};

use crate::document::{Doc, docs, wrong};
use crate::loss::Losses;
use crate::media::base64;
use crate::{DecodeError, Decoded, Dialect, Target, passthrough};

/// Reads a request.
pub(crate) fn decode_request(target: &Target, body: &Value) -> Result<Decoded<Request>, DecodeError> {
    let mut doc = Doc::new("", body.clone())?;
    let model = doc.string("model")?.map(|it| format!("{}/{it}", target.provider));
    doc.flag("stream")?; // The target says how the answer comes.
    let mut reader = Reader::new(&target.provider);
    if let Some(system) = doc.take("system") {
        reader.system(system)?;
    }
    let messages = doc.list("messages")?.ok_or_else(|| DecodeError::new("messages", "missing"))?;
    for message in docs("messages", messages)? {
        reader.message(message)?;
    }
    let tools = tools(&mut doc, &mut reader)?;
    let tool_choice = tool_choice(&mut doc, &mut reader.blocks.losses)?;
    let (settings, output) = settings(doc)?;
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

/// A part, and whether the cache is marked behind it.
type Marked = (Part, bool);

impl Reader {
    fn new(provider: &str) -> Self {
        Self { messages: Vec::new(), breakpoints: Vec::new(), blocks: Blocks::new(provider) }
    }

    /// Blocks were cut where a mark stands, and are joined there again.
    fn system(&mut self, system: Value) -> Result<(), DecodeError> {
        let mut texts: Vec<String> = Vec::new();
        let mut joins = false;
        let mut n_bytes = 0;
        for (index, (part, marked)) in self.blocks.content("system", system)?.into_iter().enumerate() {
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

    fn message(&mut self, mut doc: Doc) -> Result<(), DecodeError> {
        let role_at = doc.at("role");
        let role = match doc.needed_string("role")?.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            other => return Err(DecodeError::new(role_at, format!("unknown role `{other}`"))),
        };
        let at = doc.at("content");
        let content = doc.take("content").ok_or_else(|| DecodeError::new(at.as_str(), "missing"))?;
        let parts = self.blocks.content(&at, content)?;
        doc.report(&mut self.blocks.losses);
        match role {
            Role::User => self.user(parts, &at),
            Role::System | Role::Assistant | Role::Tool => self.push(role, parts, &at),
        }
        Ok(())
    }

    /// Results are a tool message of their own.
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

/// Reads content blocks.
pub(super) struct Blocks {
    provider: String,
    /// The names of the tools by the ids of their calls: results don't say them.
    names: BTreeMap<String, String>,
    pub(super) losses: Losses,
}

impl Blocks {
    pub(super) fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned(), names: BTreeMap::new(), losses: Losses::default() }
    }

    /// Reads a content: a text or a list of blocks.
    pub(super) fn content(&mut self, at: &str, content: Value) -> Result<Vec<Marked>, DecodeError> {
        match content {
            Value::String(text) => Ok(vec![(Part::Text { text }, false)]),
            Value::Array(items) => {
                let mut parts = Vec::new();
                for doc in docs(at, items)? {
                    parts.extend(self.block(doc)?);
                }
                Ok(parts)
            }
            other => Err(wrong(at, "a string or a list", &other)),
        }
    }

    fn block(&mut self, mut doc: Doc) -> Result<Option<Marked>, DecodeError> {
        let kind = doc.needed_string("type")?;
        let marked = mark(&mut doc, &mut self.losses)?;
        let part = match kind.as_str() {
            "text" => {
                if doc.list("citations")?.is_some_and(|it| !it.is_empty()) {
                    self.losses.add(doc.at("citations"), "left out: texts have no citations");
                }
                Part::Text { text: doc.needed_string("text")? }
            }
            "image" => image(&mut doc, &mut self.losses)?,
            "document" => match self.document(&mut doc)? {
                Some(part) => part,
                None => return Ok(None),
            },
            "thinking" => {
                let signature = doc.string("signature")?.filter(|it| !it.is_empty());
                let text = doc.needed_string("thinking")?;
                Part::Thinking(self.thinking(text, signature, false))
            }
            "redacted_thinking" => {
                let data = doc.needed_string("data")?;
                Part::Thinking(self.thinking(String::new(), Some(data), true))
            }
            "tool_use" => self.tool_use(&mut doc)?,
            "tool_result" => self.tool_result(&mut doc)?,
            other => {
                self.losses.add(doc.place(), format!("left out: blocks of type `{other}` are not known"));
                return Ok(None);
            }
        };
        doc.report(&mut self.losses);
        Ok(Some((part, marked)))
    }

    fn thinking(&self, text: String, signature: Option<String>, redacted: bool) -> Thinking {
        Thinking { text, signature, provider: Some(self.provider.clone()), redacted }
    }

    fn document(&mut self, doc: &mut Doc) -> Result<Option<Part>, DecodeError> {
        let at = doc.at("source");
        let mut source = doc.doc("source")?.ok_or_else(|| DecodeError::new(at, "missing"))?;
        let name = doc.string("title")?;
        let (source_of, media_type) = match source.needed_string("type")?.as_str() {
            "base64" => (MediaSource::Data(source.needed_string("data")?), source.string("media_type")?),
            "text" => {
                let text = source.needed_string("data")?;
                (MediaSource::Data(base64(text.as_bytes())), source.string("media_type")?)
            }
            "url" => (MediaSource::Url(source.needed_string("url")?), Some("application/pdf".to_owned())),
            "file" => (MediaSource::Id(source.needed_string("file_id")?), None),
            other => {
                let reason = format!("left out: documents with a source of type `{other}` are not known");
                self.losses.add(doc.place(), reason);
                return Ok(None);
            }
        };
        source.report(&mut self.losses);
        Ok(Some(Part::File(File { source: source_of, media_type, name })))
    }

    fn tool_use(&mut self, doc: &mut Doc) -> Result<Part, DecodeError> {
        doc.take("caller"); // Who asked for it on the provider's side.
        let id = doc.needed_string("id")?;
        let name = doc.needed_string("name")?;
        let arguments = doc.take("input").unwrap_or_else(|| Value::Object(Map::new()));
        self.names.insert(id.clone(), name.clone());
        Ok(Part::ToolCall(ToolCall { id, name, arguments }))
    }

    fn tool_result(&mut self, doc: &mut Doc) -> Result<Part, DecodeError> {
        let call_id = doc.needed_string("tool_use_id")?;
        let name = self.names.get(&call_id).cloned().unwrap_or_default();
        let is_error = doc.flag("is_error")?;
        let at = doc.at("content");
        let output = match (doc.take("content"), is_error) {
            (None, false) => ToolOutput::Text(String::new()),
            (None, true) => ToolOutput::ErrorText(String::new()),
            (Some(Value::String(text)), false) => ToolOutput::Text(text),
            (Some(Value::String(text)), true) => ToolOutput::ErrorText(text),
            (Some(content), false) => ToolOutput::Content(self.nested(&at, content)?),
            (Some(content), true) => self.failure(&at, content)?,
        };
        Ok(Part::ToolResult(ToolResult { call_id, name, output }))
    }

    fn nested(&mut self, at: &str, content: Value) -> Result<Vec<Part>, DecodeError> {
        let parts = self.content(at, content)?;
        if parts.iter().any(|(_, marked)| *marked) {
            self.losses.add(at, "a cache mark inside a result was left out");
        }
        Ok(parts.into_iter().map(|(part, _)| part).collect())
    }

    fn failure(&mut self, at: &str, content: Value) -> Result<ToolOutput, DecodeError> {
        let mut texts = Vec::new();
        for part in self.nested(at, content)? {
            match part {
                Part::Text { text } => texts.push(text),
                Part::Image(_)
                | Part::File(_)
                | Part::Thinking(_)
                | Part::ToolCall(_)
                | Part::ToolResult(_) => self.losses.add(at, "left out: an error is a text"),
            }
        }
        Ok(ToolOutput::ErrorText(texts.join("\n")))
    }
}

/// An uploaded image is a file of ours: our images have no ids.
fn image(doc: &mut Doc, losses: &mut Losses) -> Result<Part, DecodeError> {
    let at = doc.at("source");
    let mut source = doc.doc("source")?.ok_or_else(|| DecodeError::new(at, "missing"))?;
    let kind_at = source.at("type");
    let part = match source.needed_string("type")?.as_str() {
        "base64" => Part::Image(Image {
            source: MediaSource::Data(source.needed_string("data")?),
            media_type: source.string("media_type")?,
        }),
        "url" => {
            Part::Image(Image { source: MediaSource::Url(source.needed_string("url")?), media_type: None })
        }
        "file" => Part::File(File {
            source: MediaSource::Id(source.needed_string("file_id")?),
            media_type: Some("image/*".to_owned()),
            name: None,
        }),
        other => return Err(DecodeError::new(kind_at, format!("unknown source `{other}`"))),
    };
    source.report(losses);
    Ok(part)
}

/// Takes a mark of the cache.
fn mark(doc: &mut Doc, losses: &mut Losses) -> Result<bool, DecodeError> {
    let Some(mut mark) = doc.doc("cache_control")? else { return Ok(false) };
    mark.string("type")?;
    if mark.string("ttl")?.is_some_and(|it| it != "5m") {
        losses.add(mark.at("ttl"), "left out: marks have no lifetime of their own");
    }
    mark.report(losses);
    Ok(true)
}

fn tools(doc: &mut Doc, reader: &mut Reader) -> Result<Vec<Arc<Tool>>, DecodeError> {
    let losses = &mut reader.blocks.losses;
    let docs = doc.docs("tools")?;
    let n_tools = docs.len();
    let mut tools = Vec::new();
    for (index, mut doc) in docs.into_iter().enumerate() {
        let marked = mark(&mut doc, losses)?;
        if marked && index + 1 < n_tools {
            losses.add(doc.at("cache_control"), "left out: only the end of the tools is marked");
        } else if marked {
            reader.breakpoints.insert(0, Breakpoint::Tools);
        }
        match doc.string("type")? {
            Some(kind) if kind != "custom" => {
                losses.add(doc.place(), format!("left out: tools of type `{kind}` are not known"));
            }
            Some(_) | None => {
                tools.push(Arc::new(tool(&mut doc)?));
                doc.report(losses);
            }
        }
    }
    Ok(tools)
}

fn tool(doc: &mut Doc) -> Result<Tool, DecodeError> {
    let tool = Tool::new(doc.needed_string("name")?, doc.string("description")?.unwrap_or_default());
    Ok(match doc.take("input_schema") {
        Some(schema) => tool.parameters(schema),
        None => tool,
    })
}

fn tool_choice(doc: &mut Doc, losses: &mut Losses) -> Result<Option<ToolChoice>, DecodeError> {
    let Some(mut choice) = doc.doc("tool_choice")? else { return Ok(None) };
    let at = choice.at("type");
    let value = match choice.needed_string("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => ToolChoice::Tool(choice.needed_string("name")?),
        other => return Err(DecodeError::new(at, format!("unknown choice `{other}`"))),
    };
    choice.report(losses);
    Ok(Some(value))
}

type Output = Option<Arc<Value>>;

fn settings(mut doc: Doc) -> Result<(Settings, Output), DecodeError> {
    let mut left = Map::new();
    let reasoning = reasoning(&mut doc, &mut left)?;
    let output = output(&mut doc, &mut left)?;
    let mut settings = Settings {
        temperature: doc.number("temperature")?,
        max_tokens: doc.count32("max_tokens")?,
        top_p: doc.number("top_p")?,
        top_k: doc.count32("top_k")?,
        stop: doc.strings("stop_sequences")?,
        seed: None,
        reasoning,
        provider: Map::new(),
    };
    left.extend(doc.left());
    settings.provider = passthrough::wrap(Dialect::Anthropic, left);
    Ok((settings, output))
}

/// Thinking that is not a number of tokens is kept as it is.
fn reasoning(doc: &mut Doc, left: &mut Map<String, Value>) -> Result<Option<Reasoning>, DecodeError> {
    let Some(value) = doc.take("thinking") else { return Ok(None) };
    let mut thinking = Doc::new("thinking", value.clone())?;
    let reasoning = match thinking.needed_string("type")?.as_str() {
        "enabled" => thinking.count32("budget_tokens")?.map(Reasoning::Budget),
        "disabled" => Some(Reasoning::Budget(0)),
        _ => None,
    };
    let rest = if reasoning.is_some() { Value::Object(thinking.left()) } else { value };
    if rest.as_object().is_some_and(|it| !it.is_empty()) {
        left.insert("thinking".to_owned(), rest);
    }
    Ok(reasoning)
}

fn output(doc: &mut Doc, left: &mut Map<String, Value>) -> Result<Output, DecodeError> {
    let Some(mut config) = doc.doc("output_config")? else { return Ok(None) };
    let schema = match config.doc("format")? {
        None => None,
        Some(mut format) => {
            format.string("type")?;
            format.take("schema").map(Arc::new)
        }
    };
    let rest = config.left();
    if !rest.is_empty() {
        left.insert("output_config".to_owned(), Value::Object(rest));
    }
    Ok(schema)
}
