//! Encodes parts as content blocks.
//!
//! Each function turns one part into its block, or omits it. What is reworded or omitted is reported as a loss. The
//! order and role of the blocks are decided in [`encode`](super::encode).

use contexture_message::{File, Image, Part, Thinking, ToolCall, ToolOutput, ToolResult};
use serde_json::{Map, Value, json};

use super::citations::search_result;
use crate::calls::plain_id;
use crate::loss::Losses;
use crate::media::{Bytes, base64, bytes, text_of};
use crate::{Target, reference};

const NO_MESSAGE: &str = include_str!("../templates/no-message.txt");

/// The image types that Claude accepts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";

/// Encodes a text block.
pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Encodes an image, or a reference to it if it cannot be sent.
pub(super) fn image(target: &Target, image: &Image, at: &str, losses: &mut Losses) -> Value {
    let (bytes, media_type) = bytes(&image.source, image.media_type.as_deref(), None);
    let source = if target.facts.capabilities.images == Some(false) {
        Err("the model does not accept images")
    } else {
        image_source(&bytes, media_type.as_deref())
    };
    match source {
        Ok(source) => json!({"type": "image", "source": source}),
        Err(reason) => {
            losses.add(at, format!("said as a reference: {reason}"));
            text(&reference::image(image))
        }
    }
}

fn image_source(bytes: &Bytes<'_>, media_type: Option<&str>) -> Result<Value, &'static str> {
    match (bytes, media_type) {
        (Bytes::Inline(data), Some(kind)) if IMAGES.contains(&kind) => {
            Ok(json!({"type": "base64", "media_type": kind, "data": data}))
        }
        (Bytes::Inline(_), Some(_)) => Err("images are PNG, JPEG, GIF or WebP"),
        (Bytes::Inline(_), None) => Err("the image's type is not known"),
        (Bytes::Url(url), _) => Ok(json!({"type": "url", "url": url})),
        (Bytes::Id(_), _) => Err("an uploaded image is a file"),
    }
}

/// Encodes a file as a document or image block, or as a reference if it cannot be sent.
pub(super) fn file(target: &Target, file: &File, at: &str, losses: &mut Losses) -> Value {
    let (bytes, media_type) = bytes(&file.source, file.media_type.as_deref(), file.name.as_deref());
    let kind = media_type.as_deref();
    if kind.is_some_and(|it| it.starts_with("image/")) {
        return image_file(file, &bytes, kind, at, losses);
    }
    let source = match (&bytes, kind) {
        (_, Some(PDF)) if target.facts.capabilities.pdf == Some(false) => {
            Err("the model does not accept PDF files")
        }
        (Bytes::Inline(_) | Bytes::Url(_), Some(PDF)) => Ok(pdf_source(&bytes)),
        (Bytes::Inline(data), Some(kind)) if is_text(kind) => text_source(data, kind, at, losses),
        (Bytes::Id(id), _) => Ok(json!({"type": "file", "file_id": id})),
        (Bytes::Inline(_) | Bytes::Url(_), _) => Err("only PDF and text files are carried"),
    };
    match source {
        Ok(source) => document(source, file.name.as_deref()),
        Err(reason) => {
            losses.add(at, format!("said as a reference: {reason}"));
            text(&reference::file(file))
        }
    }
}

fn document(source: Value, title: Option<&str>) -> Value {
    let mut block = json!({"type": "document", "source": source});
    if let (Some(block), Some(title)) = (block.as_object_mut(), title) {
        block.insert("title".to_owned(), title.into());
    }
    block
}

fn pdf_source(bytes: &Bytes<'_>) -> Value {
    match bytes {
        Bytes::Inline(data) => json!({"type": "base64", "media_type": PDF, "data": data}),
        Bytes::Url(url) => json!({"type": "url", "url": url}),
        Bytes::Id(id) => json!({"type": "file", "file_id": id}),
    }
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/") || kind == "application/json"
}

fn text_source(data: &str, kind: &str, at: &str, losses: &mut Losses) -> Result<Value, &'static str> {
    let text = text_of(data).filter(|it| !it.trim().is_empty()).ok_or("the file holds no text")?;
    if kind != "text/plain" {
        losses.add(at, format!("sent as `text/plain`, not as `{kind}`"));
    } else if base64(text.as_bytes()) != data {
        losses.add(at, "the base64 was not in its usual form");
    }
    Ok(json!({"type": "text", "media_type": "text/plain", "data": text}))
}

/// Encodes an image file as an image, without its name. An uploaded file is sent by its id.
fn image_file(file: &File, bytes: &Bytes<'_>, kind: Option<&str>, at: &str, losses: &mut Losses) -> Value {
    let source = match bytes {
        Bytes::Id(id) => Ok(json!({"type": "file", "file_id": id})),
        Bytes::Inline(_) | Bytes::Url(_) => image_source(bytes, kind),
    };
    match source {
        Ok(source) => {
            losses.add(at, "sent as an image: its name and type are not carried");
            json!({"type": "image", "source": source})
        }
        Err(reason) => {
            losses.add(at, format!("said as a reference: {reason}"));
            text(&reference::file(file))
        }
    }
}

/// Returns the block that replays thinking, or the reason why it cannot be replayed.
pub(super) fn thinking(target: &Target, thinking: &Thinking) -> Result<Value, String> {
    match (&thinking.provider, thinking.signature.as_deref().filter(|it| !it.is_empty())) {
        (Some(provider), _) if *provider != target.provider => Err(format!("made by `{provider}`")),
        (_, None) => Err("unsigned".to_owned()),
        (None, Some(_)) => Err("its provider is unknown".to_owned()),
        (Some(_), Some(data)) if thinking.redacted => Ok(json!({"type": "redacted_thinking", "data": data})),
        (Some(_), Some(signature)) => {
            Ok(json!({"type": "thinking", "thinking": thinking.text, "signature": signature}))
        }
    }
}

/// Encodes a call of the tool `name`.
pub(super) fn tool_use(call: &ToolCall, name: &str, at: &str, losses: &mut Losses) -> Value {
    let input = match &call.arguments {
        Value::Object(_) => call.arguments.clone(),
        other => {
            losses.add(format!("{at}.arguments"), "wrapped as `input`: arguments are an object");
            json!({"input": other})
        }
    };
    json!({"type": "tool_use", "id": plain_id(&call.id), "name": name, "input": input})
}

/// Encodes a tool result.
pub(super) fn tool_result(target: &Target, result: &ToolResult, at: &str, losses: &mut Losses) -> Value {
    let (content, is_error) = match &result.output {
        ToolOutput::Text(text) => (Value::from(text.as_str()), false),
        ToolOutput::Json(value) => (value.to_string().into(), false),
        ToolOutput::ErrorText(text) => (failure(text, at, losses), true),
        ToolOutput::ErrorJson(value) => (value.to_string().into(), true),
        ToolOutput::ExecutionDenied { reason } => (reference::denial(reason.as_deref()).into(), true),
        ToolOutput::Content(parts) => (content(target, parts, at, losses), false),
    };
    let mut block = Map::new();
    block.insert("type".to_owned(), "tool_result".into());
    block.insert("tool_use_id".to_owned(), plain_id(&result.call_id).into());
    block.insert("content".to_owned(), content);
    if is_error {
        block.insert("is_error".to_owned(), true.into());
    }
    Value::Object(block)
}

/// Returns the text of an error, or a substitute if it is blank: the API rejects empty errors.
fn failure(text: &str, at: &str, losses: &mut Losses) -> Value {
    match text.trim().is_empty() {
        false => text.into(),
        true => {
            losses.add(format!("{at}.output"), "said in other words: an error can't be empty");
            NO_MESSAGE.trim_end().into()
        }
    }
}

fn content(target: &Target, parts: &[Part], at: &str, losses: &mut Losses) -> Value {
    let mut blocks = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}.output[{index}]");
        match part {
            Part::Text { text: blank, .. } if blank.trim().is_empty() => {
                losses.add(at, "left out: a text can't be blank");
            }
            Part::Text { text: it, .. } => blocks.push(text(it)),
            Part::Evidence(it) => blocks.extend(search_result(it, &at, losses)),
            Part::Image(it) => blocks.push(image(target, it, &at, losses)),
            Part::File(it) => blocks.push(result_file(target, it, &at, losses)),
            Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                losses.add(at, "left out: a tool's output is text, images and files");
            }
        }
    }
    Value::Array(blocks)
}

/// Encodes a file in a result: PDF and uploaded files are sent, any other file becomes a reference.
fn result_file(target: &Target, it: &File, at: &str, losses: &mut Losses) -> Value {
    let (bytes, kind) = bytes(&it.source, it.media_type.as_deref(), it.name.as_deref());
    if kind.as_deref() == Some(PDF) || matches!(bytes, Bytes::Id(_)) {
        return file(target, it, at, losses);
    }
    losses.add(at, "said as a reference: only PDF files are carried in results");
    text(&reference::file(it))
}
