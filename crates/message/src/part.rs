//! The parts of a message.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolOutput;

/// One part of a message. An unknown `type` is refused by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture.
    Image(Image),
    /// A document or any other file.
    File(File),
    /// What the model thought before it answered.
    Thinking(Thinking),
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What the tool gave back.
    ToolResult(ToolResult),
}

impl Part {
    /// Returns a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text { text: text.into() }
    }
}

/// Where the bytes of an image or a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource {
    /// Inline, in base64.
    Data(String),
    /// Behind an address.
    Url(String),
    /// Uploaded to the provider before, under this id.
    Id(String),
}

/// An image part: `{"type": "image", "data" | "url": …, "media_type"?: …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawMedia", into = "RawMedia")]
pub struct Image {
    /// Where the bytes are; never an id.
    pub source: MediaSource,
    /// Such as `image/png`; inline data should say it.
    pub media_type: Option<String>,
}

/// A file part: `{"type": "file", "data" | "url" | "id": …, "media_type"?: …, "name"?: …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawMedia", into = "RawMedia")]
pub struct File {
    /// Where the bytes are.
    pub source: MediaSource,
    /// Such as `application/pdf`.
    pub media_type: Option<String>,
    /// The file's name for the model.
    pub name: Option<String>,
}

/// What a model thought. The signature is the provider's own and is replayed byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thinking {
    /// The readable text; may be empty where the provider hides it.
    #[serde(default)]
    pub text: String,
    /// The provider's opaque signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The provider that made it; another provider never gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Whether the provider withheld the text; the signature is then all there is.
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
    /// What the model gets to see.
    pub output: ToolOutput,
}

/// An image or file that does not say where its bytes are, or says it twice.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// Not exactly one source.
    #[error("give exactly one of {allowed}, found {found}")]
    Source {
        /// The fields that may say it.
        allowed: &'static str,
        /// How many did.
        found: usize,
    },
    /// A field that this part does not have.
    #[error("unknown field `{0}`")]
    UnknownField(&'static str),
}

/// Images and files as they are written.
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
