//! The parts of a message.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolOutput;

/// One part of a message. An unknown `type` is rejected by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// An image.
    Image(Image),
    /// A document or any other file.
    File(File),
    /// The model's thinking before its answer.
    Thinking(Thinking),
    /// A tool call by the model.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolResult),
}

impl Part {
    /// Returns a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text { text: text.into() }
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawMedia", into = "RawMedia")]
pub struct Image {
    /// The location of the bytes; never an id.
    pub source: MediaSource,
    /// The media type, such as `image/png`; inline data should have one.
    pub media_type: Option<String>,
}

/// A file part: `{"type": "file", "data" | "url" | "id": …, "media_type"?: …, "name"?: …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawMedia", into = "RawMedia")]
pub struct File {
    /// The location of the bytes.
    pub source: MediaSource,
    /// The media type, such as `application/pdf`.
    pub media_type: Option<String>,
    /// The file name shown to the model.
    pub name: Option<String>,
}

/// The thinking of a model. The signature is specific to the provider and is replayed byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thinking {
    /// The readable text; may be empty if the provider hides it.
    #[serde(default)]
    pub text: String,
    /// The provider's opaque signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The provider that produced it; it is never sent to another provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether the provider withheld the text, so that only the signature exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, usually an object.
    #[serde(default)]
    pub arguments: Value,
}

/// The result of one tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    #[serde(default)]
    pub name: String,
    /// The output that the model sees.
    pub output: ToolOutput,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
