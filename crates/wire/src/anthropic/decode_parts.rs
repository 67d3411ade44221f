//! Decodes content blocks as parts.

use std::collections::BTreeMap;

use contexture_message::{File, Image, MediaSource, Part, Thinking, ToolCall, ToolOutput, ToolResult};
use serde_json::{Map, Value};

use super::citations;
use crate::DecodeError;
use crate::loss::Losses;
use crate::media::base64;
use crate::read::Place;

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
                let citations = doc.get_list("citations")?;
                let citations = citations.iter().map(|it| citations::read(&self.provider, it.value));
                Part::Text { citations: citations.collect(), text: doc.need_string("text")? }
            }
            "search_result" => Part::Evidence(citations::read_search_result(doc, &mut self.losses)?),
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
                Part::Text { text, .. } => texts.push(text),
                Part::Evidence(evidence) => texts.push(evidence.joined_text()),
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

/// A part, and whether it has a cache mark.
pub(super) type Marked = (Part, bool);

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
pub(super) fn mark(doc: &Place<'_>, losses: &mut Losses) -> Result<bool, DecodeError> {
    let Some(mark) = doc.get_object("cache_control")? else { return Ok(false) };
    mark.get_string("type")?;
    if mark.get_string("ttl")?.is_some_and(|it| it != "5m") {
        losses.add(mark.below("ttl"), "left out: marks have no lifetime of their own");
    }
    mark.report(losses);
    Ok(true)
}
