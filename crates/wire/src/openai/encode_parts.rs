//! Encodes parts for OpenAI's dialects: the inline bytes of images and files become URLs such as `data:image/png;base64,…`.

use contexture_message::{File, Image, Part, ToolOutput};
use serde_json::{Value, json};

use crate::loss::Losses;
use crate::media::{Bytes, bytes, extension};
use crate::{Target, reference};

/// The media type of an image whose type is neither given nor recognizable.
const IMAGE: &str = "image/png";

/// The media type of such a file: every model that reads files can read PDF.
const PDF: &str = "application/pdf";

/// Returns the URL of an image, or the reason why it cannot be sent.
pub(crate) fn image_url(target: &Target, image: &Image) -> Result<String, String> {
    if target.facts.capabilities.images == Some(false) {
        return Err(format!("`{}` does not accept images", target.model));
    }
    let (bytes, kind) = bytes(&image.source, image.media_type.as_deref(), None);
    match bytes {
        Bytes::Inline(data) => Ok(written(kind.as_deref().unwrap_or(IMAGE), &data)),
        Bytes::Url(url) => Ok(url.to_owned()),
        Bytes::Id(_) => Err("an image has no id here".to_owned()),
    }
}

/// A file in the form in which it is sent.
pub(crate) enum Shown<'a> {
    Data { name: String, data: String },
    Url(&'a str),
    Id(&'a str),
}

/// Returns the form in which to send a file, or the reason why it cannot be sent.
pub(crate) fn shown_file<'a>(target: &Target, file: &'a File) -> Result<Shown<'a>, String> {
    let (bytes, kind) = bytes(&file.source, file.media_type.as_deref(), file.name.as_deref());
    let kind = kind.as_deref().unwrap_or(PDF);
    if target.facts.capabilities.pdf == Some(false) && kind == PDF {
        return Err(format!("`{}` does not accept PDF files", target.model));
    }
    Ok(match bytes {
        Bytes::Inline(data) => {
            // A file must have a name, and its extension takes precedence over its media type.
            let name = file.name.clone().unwrap_or_else(|| format!("file.{}", extension(kind)));
            Shown::Data { name, data: written(kind, &data) }
        }
        Bytes::Url(url) => Shown::Url(url),
        Bytes::Id(id) => Shown::Id(id),
    })
}

fn written(kind: &str, data: &str) -> String {
    format!("data:{kind};base64,{data}")
}

/// A part of a message's content.
pub(super) enum Content {
    Text(String),
    Media(Value),
}

/// Encodes content: a single text as a plain string, no content as null.
pub(super) fn joined(mut content: Vec<Content>) -> Value {
    match content.as_mut_slice() {
        [] => Value::Null,
        [Content::Text(only)] => Value::String(std::mem::take(only)),
        _ => content.into_iter().map(content_part).collect(),
    }
}

fn content_part(part: Content) -> Value {
    match part {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Media(media) => media,
    }
}

pub(super) fn image_part(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

pub(super) fn file_part(file: &Shown<'_>) -> Result<Value, String> {
    let file = match file {
        Shown::Data { name, data } => json!({"filename": name, "file_data": data}),
        Shown::Id(id) => json!({"file_id": id}),
        Shown::Url(_) => return Err("a file can't be sent as a URL".to_owned()),
    };
    Ok(json!({"type": "file", "file": file}))
}

/// Returns the text of the tool output at `at`: text is the only form that OpenAI's dialects accept.
///
/// A structured value becomes its JSON, a denial a sentence. Content becomes its texts, separated by newlines, with a
/// reference in place of everything that is not text; each reference is a loss. Evidence is a tag.
pub(crate) fn output_text(output: &ToolOutput, at: &str, losses: &mut Losses) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => text.clone(),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.to_string(),
        ToolOutput::ExecutionDenied { reason } => reference::denial(reason.as_deref()),
        ToolOutput::Content(parts) => content_text(parts, at, losses),
    }
}

fn content_text(parts: &[Part], at: &str, losses: &mut Losses) -> String {
    let mut lines = Vec::with_capacity(parts.len());
    for (idx, part) in parts.iter().enumerate() {
        if !matches!(part, Part::Text { .. } | Part::Evidence(_)) {
            losses.add(format!("{at}.output[{idx}]"), "tool results take text only, sent as a reference");
        }
        lines.push(reference::part(part));
    }
    lines.join("\n")
}
