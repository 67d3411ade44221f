//! Encodes images and files for OpenAI's dialects: inline bytes become URLs such as `data:image/png;base64,…`.

use contexture_message::{File, Image, MediaSource};

use crate::Target;
use crate::media::{Bytes, bytes, data_url, extension};

/// The media type of an image whose type is neither given nor recognizable.
const IMAGE: &str = "image/png";

/// The media type of such a file: every model that reads files can read PDF.
const PDF: &str = "application/pdf";

/// Returns the URL of an image, or the reason why it cannot be sent.
pub(crate) fn image_url(target: &Target, image: &Image) -> Result<String, String> {
    if target.facts.capabilities.images == Some(false) {
        return Err(format!("`{}` sees no images", target.model));
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
pub(crate) fn file<'a>(target: &Target, file: &'a File) -> Result<Shown<'a>, String> {
    let (bytes, kind) = bytes(&file.source, file.media_type.as_deref(), file.name.as_deref());
    let kind = kind.as_deref().unwrap_or(PDF);
    if target.facts.capabilities.pdf == Some(false) && kind == PDF {
        return Err(format!("`{}` reads no PDF files", target.model));
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

/// Decodes a URL: the data and media type of a `data:` URL, or the URL itself.
pub(crate) fn read(url: &str) -> (MediaSource, Option<String>) {
    match data_url(url) {
        Some((kind, data)) => (MediaSource::Data(data.into_owned()), kind),
        None => (MediaSource::Url(url.to_owned()), None),
    }
}
