//! Images and files.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The location of the bytes of an image or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource {
    /// Inline, in base64.
    Data(String),
    /// At a URL.
    Url(String),
    /// Previously uploaded to the provider, under this id.
    Id(String),
}

/// An image part: `{"type": "image", "data" | "url": …, "media_type"?: …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "RawMedia", into = "RawMedia")]
#[schemars(transform = image_fields)]
pub struct Image {
    /// The location of the bytes; never an id.
    pub source: MediaSource,
    /// The media type, such as `image/png`; inline data should have one.
    pub media_type: Option<String>,
}

/// A file part: `{"type": "file", "data" | "url" | "id": …, "media_type"?: …, "name"?: …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "RawMedia", into = "RawMedia")]
pub struct File {
    /// The location of the bytes.
    pub source: MediaSource,
    /// The media type, such as `application/pdf`.
    pub media_type: Option<String>,
    /// The file name shown to the model.
    pub name: Option<String>,
}

/// An invalid image or file part.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The part does not have exactly one source.
    #[error("give exactly one of {allowed}, found {found}")]
    Source {
        /// The fields that may hold the source.
        allowed: &'static str,
        /// How many of them were present.
        found: usize,
    },
    /// The part does not support this field.
    #[error("unknown field `{0}`")]
    UnknownField(&'static str),
}

/// Images and files in their serialised form.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawMedia {
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

/// Removes the fields that only files have.
fn image_fields(schema: &mut Schema) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !matches!(name.as_str(), "id" | "name"));
    }
}

impl RawMedia {
    fn new(source: MediaSource, media_type: Option<String>, name: Option<String>) -> Self {
        let raw = RawMedia { media_type, name, ..RawMedia::default() };
        match source {
            MediaSource::Data(data) => RawMedia { data: Some(data), ..raw },
            MediaSource::Url(url) => RawMedia { url: Some(url), ..raw },
            MediaSource::Id(id) => RawMedia { id: Some(id), ..raw },
        }
    }

    fn source(&mut self, allowed: &'static str) -> Result<MediaSource, MediaError> {
        match (self.data.take(), self.url.take(), self.id.take()) {
            (Some(data), None, None) => Ok(MediaSource::Data(data)),
            (None, Some(url), None) => Ok(MediaSource::Url(url)),
            (None, None, Some(id)) => Ok(MediaSource::Id(id)),
            (data, url, id) => {
                let found = [data, url, id].iter().flatten().count();
                Err(MediaError::Source { allowed, found })
            }
        }
    }
}

impl TryFrom<RawMedia> for Image {
    type Error = MediaError;

    fn try_from(mut raw: RawMedia) -> Result<Self, MediaError> {
        if raw.name.is_some() {
            return Err(MediaError::UnknownField("name"));
        }
        if raw.id.is_some() {
            return Err(MediaError::UnknownField("id"));
        }
        Ok(Image { source: raw.source("`data`, `url`")?, media_type: raw.media_type })
    }
}

impl From<Image> for RawMedia {
    fn from(image: Image) -> Self {
        RawMedia::new(image.source, image.media_type, None)
    }
}

impl TryFrom<RawMedia> for File {
    type Error = MediaError;

    fn try_from(mut raw: RawMedia) -> Result<Self, MediaError> {
        Ok(File { source: raw.source("`data`, `url`, `id`")?, media_type: raw.media_type, name: raw.name })
    }
}

impl From<File> for RawMedia {
    fn from(file: File) -> Self {
        RawMedia::new(file.source, file.media_type, file.name)
    }
}
