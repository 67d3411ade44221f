//! Encodes parts.
//!
//! Each function turns one part into its Gemini form, or omits it. What is reworded or omitted is reported as a loss.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::{File, Image, Part, Thinking, ToolCall, ToolDefinition, ToolOutput, ToolResult};
use serde_json::{Map, Value, json};

use crate::loss::Losses;
use crate::media::{Bytes, bytes};
use crate::{Dialect, Target, calls, reference};

/// Encodes a text part.
pub(super) fn text(text: &str) -> Value {
    json!({"text": text})
}

/// Encodes an image, or a reference to it if it cannot be sent.
pub(super) fn image(target: &Target, image: &Image, at: &str, losses: &mut Losses) -> Value {
    let (bytes, kind) = bytes(&image.source, image.media_type.as_deref(), None);
    let carried = match target.facts.capabilities.images {
        Some(false) => Err("the model does not accept images"),
        Some(true) | None => media(&bytes, kind.as_deref()),
    };
    carried.unwrap_or_else(|reason| {
        losses.add(at, format!("said as a reference: {reason}"));
        text(&reference::image(image))
    })
}

/// Encodes a file, or a reference to it if it cannot be sent. File names are not sent.
pub(super) fn file(target: &Target, file: &File, at: &str, losses: &mut Losses) -> Value {
    let (bytes, kind) = bytes(&file.source, file.media_type.as_deref(), file.name.as_deref());
    let is_pdf = kind.as_deref() == Some("application/pdf");
    let carried = match target.facts.capabilities.pdf {
        Some(false) if is_pdf => Err("the model does not accept PDF files"),
        Some(_) | None => media(&bytes, kind.as_deref()),
    };
    match carried {
        Ok(part) => {
            if file.name.is_some() {
                losses.add(format!("{at}.name"), "left out: files have no names");
            }
            part
        }
        Err(reason) => {
            losses.add(at, format!("said as a reference: {reason}"));
            text(&reference::file(file))
        }
    }
}

fn media(bytes: &Bytes<'_>, kind: Option<&str>) -> Result<Value, &'static str> {
    match (bytes, kind) {
        (Bytes::Inline(_), None) => Err("its type is not known"),
        (Bytes::Inline(data), Some(kind)) if is_read(kind) => {
            Ok(json!({"inlineData": {"mimeType": kind, "data": data}}))
        }
        (Bytes::Inline(_), Some(_)) => Err("the model does not read this type"),
        (Bytes::Url(url), kind) => Ok(file_data(url, kind)),
        (Bytes::Id(id), kind) if id.starts_with("files/") => {
            Ok(file_data(&format!("{}/{id}", Dialect::Gemini.base_url()), kind))
        }
        (Bytes::Id(_), _) => Err("uploaded files are known as `files/…`"),
    }
}

fn file_data(uri: &str, kind: Option<&str>) -> Value {
    let mut data = Map::new();
    data.extend(kind.map(|it| ("mimeType".to_owned(), it.into())));
    data.insert("fileUri".to_owned(), uri.into());
    json!({"fileData": data})
}

fn is_read(kind: &str) -> bool {
    let families = ["image/", "audio/", "video/", "text/"];
    families.iter().any(|it| kind.starts_with(it)) || ["application/pdf", "application/json"].contains(&kind)
}

/// Encodes the parts of a model message. A signature is held back until the part that it belongs to.
pub(super) struct ModelParts<'a> {
    target: &'a Target,
    /// Whether to include another provider's thinking.
    foreign: bool,
    waiting: Option<String>,
    pub(super) written: Vec<Value>,
}

impl<'a> ModelParts<'a> {
    /// Starts a message. `foreign` includes another provider's thinking, which is allowed in answers only.
    pub(super) fn new(target: &'a Target, foreign: bool) -> Self {
        Self { target, foreign, waiting: None, written: Vec::new() }
    }

    /// Encodes a part of a model message; not a tool result.
    pub(super) fn push(&mut self, part: &Part, at: &str, losses: &mut Losses) {
        match part {
            Part::Text { text: it, .. } if it.is_empty() && self.waiting.is_none() => {}
            Part::Text { text: it, .. } => self.write(text(it)),
            Part::Evidence(it) => self.write(text(&reference::evidence(it))),
            Part::Image(it) => self.write(image(self.target, it, at, losses)),
            Part::File(it) => self.write(file(self.target, it, at, losses)),
            Part::ToolCall(it) => self.write(call(it, at, losses)),
            Part::Thinking(it) => self.thinking(it, at, losses),
            Part::ToolResult(_) => losses.add(at, "left out: the model gives no results"),
        }
    }

    fn thinking(&mut self, thinking: &Thinking, at: &str, losses: &mut Losses) {
        let own = thinking.provider.as_ref() == Some(&self.target.provider);
        let signature = thinking.signature.clone().filter(|_| own);
        if !own {
            let made_by = match &thinking.provider {
                Some(provider) => format!("made by `{provider}`"),
                None => "its provider is unknown".to_owned(),
            };
            let what = if self.foreign { "the signature was left out" } else { "left out" };
            losses.add(at, format!("{what}: {made_by}"));
        }
        match (thinking.text.as_str(), signature) {
            ("", None) => {}
            ("", Some(signature)) => {
                self.flush();
                self.waiting = Some(signature);
            }
            (text, Some(signature)) => {
                self.write(json!({"text": text, "thought": true, "thoughtSignature": signature}));
            }
            (text, None) if own || self.foreign => self.write(json!({"text": text, "thought": true})),
            (_, None) => {}
        }
    }

    fn write(&mut self, mut part: Value) {
        let signed = part.get("thoughtSignature").is_some();
        if signed {
            self.flush();
        }
        if let (Some(fields), Some(signature)) = (part.as_object_mut(), self.waiting.take()) {
            fields.insert("thoughtSignature".to_owned(), signature.into());
        }
        self.written.push(part);
    }

    /// Writes a held-back signature that has no part to belong to.
    pub(super) fn flush(&mut self) {
        if let Some(signature) = self.waiting.take() {
            self.written.push(json!({"text": "", "thoughtSignature": signature}));
        }
    }
}

/// Encodes a tool call.
pub(super) fn call(call: &ToolCall, at: &str, losses: &mut Losses) -> Value {
    let args = match &call.arguments {
        Value::Object(_) => call.arguments.clone(),
        other => {
            losses.add(format!("{at}.arguments"), "wrapped as `input`: arguments are an object");
            json!({"input": other})
        }
    };
    let mut fields = Map::new();
    if !call.id.is_empty() {
        fields.insert("id".to_owned(), call.id.as_str().into());
    }
    fields.insert("name".to_owned(), call.name.as_str().into());
    fields.insert("args".to_owned(), args);
    json!({"functionCall": fields})
}

/// Encodes a tool result. The name is the result's, or else that of its call.
pub(super) fn response(
    result: &ToolResult,
    names: &BTreeMap<String, String>,
    tools: &[Arc<ToolDefinition>],
    at: &str,
    losses: &mut Losses,
) -> Value {
    let own = Some(&result.name).filter(|it| !it.is_empty());
    let name = own.or_else(|| names.get(&result.call_id)).map_or("", String::as_str);
    let name = calls::name(name, tools, at, losses);
    let mut fields = Map::new();
    if !result.call_id.is_empty() {
        fields.insert("id".to_owned(), result.call_id.as_str().into());
    }
    fields.insert("name".to_owned(), name.as_ref().into());
    let (response, parts) = output(&result.output, at, losses);
    fields.insert("response".to_owned(), response);
    if !parts.is_empty() {
        fields.insert("parts".to_owned(), Value::Array(parts));
    }
    json!({"functionResponse": fields})
}

fn output(output: &ToolOutput, at: &str, losses: &mut Losses) -> (Value, Vec<Value>) {
    let response = match output {
        ToolOutput::Text(text) => json!({"output": text}),
        ToolOutput::Json(value) => json!({"output": value}),
        ToolOutput::ErrorText(text) => json!({"error": text}),
        ToolOutput::ErrorJson(value) => json!({"error": value}),
        ToolOutput::ExecutionDenied { reason: Some(reason) } => json!({"denied": true, "reason": reason}),
        ToolOutput::ExecutionDenied { reason: None } => json!({"denied": true}),
        ToolOutput::Content(parts) => return content(parts, at, losses),
    };
    (response, Vec::new())
}

/// Encodes a result's content: texts are joined, images and PDF files are sent inline, anything else becomes a
/// reference.
fn content(parts: &[Part], at: &str, losses: &mut Losses) -> (Value, Vec<Value>) {
    let (mut texts, mut inline) = (Vec::new(), Vec::new());
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.output[{index}]");
        match part {
            Part::Text { text, .. } => texts.push(text.clone()),
            Part::Evidence(it) => texts.push(reference::evidence(it)),
            Part::Image(it) => {
                let (bytes, kind) = bytes(&it.source, it.media_type.as_deref(), None);
                match (bytes, kind) {
                    (Bytes::Inline(data), Some(kind)) if kind.starts_with("image/") => {
                        inline.push(json!({"inlineData": {"mimeType": kind, "data": data}}));
                    }
                    (Bytes::Inline(_) | Bytes::Url(_) | Bytes::Id(_), _) => {
                        losses.add(at, "said as a reference: results carry inline images only");
                        texts.push(reference::image(it));
                    }
                }
            }
            Part::File(it) => match pdf(it) {
                Some(part) => {
                    if it.name.is_some() {
                        losses.add(format!("{at}.name"), "left out: files have no names");
                    }
                    inline.push(part);
                }
                None => {
                    losses.add(at, "said as a reference: results carry inline PDF files only");
                    texts.push(reference::file(it));
                }
            },
            Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                losses.add(at, "left out: a tool's output is text, images and files");
            }
        }
    }
    let response = if texts.is_empty() { json!({}) } else { json!({"output": texts.join("\n")}) };
    (response, inline)
}

fn pdf(file: &File) -> Option<Value> {
    let (bytes, kind) = bytes(&file.source, file.media_type.as_deref(), file.name.as_deref());
    match bytes {
        Bytes::Inline(data) if kind.as_deref() == Some("application/pdf") => {
            Some(json!({"inlineData": {"mimeType": "application/pdf", "data": data}}))
        }
        Bytes::Inline(_) | Bytes::Url(_) | Bytes::Id(_) => None,
    }
}
