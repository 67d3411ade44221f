//! The parts of a message.
#![expect(dead_code, reason = "they describe, and are never made")]

use serde_json::Value;
use utoipa::ToSchema;

use super::message::ToolOutput;

/// A part of what a user says.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum SaidPart {
    Text(TextPart),
    ImageData(ImageData),
    ImageUrl(ImageUrl),
    FileData(FileData),
    FileUrl(FileUrl),
    FileId(FileId),
}

/// One part of a message; `type` says which.
#[derive(ToSchema)]
#[serde(untagged)]
pub(crate) enum Part {
    Text(TextPart),
    ImageData(ImageData),
    ImageUrl(ImageUrl),
    FileData(FileData),
    FileUrl(FileUrl),
    FileId(FileId),
    Thinking(ThinkingPart),
    ToolCall(ToolCallPart),
    ToolResult(ToolResultPart),
}

/// Plain text.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextPart {
    r#type: TextKind,
    /// The text itself.
    text: String,
}

/// A picture, inline.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageData {
    r#type: ImageKind,
    /// The bytes, in base64.
    data: String,
    /// Such as `image/png`.
    media_type: Option<String>,
}

/// A picture behind an address.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageUrl {
    r#type: ImageKind,
    /// Where it is.
    url: String,
    /// Such as `image/png`.
    media_type: Option<String>,
}

/// A file, inline.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileData {
    r#type: FileKind,
    /// The bytes, in base64.
    data: String,
    /// Such as `application/pdf`.
    media_type: Option<String>,
    /// Its name for the model.
    name: Option<String>,
}

/// A file behind an address.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileUrl {
    r#type: FileKind,
    /// Where it is.
    url: String,
    /// Such as `application/pdf`.
    media_type: Option<String>,
    /// Its name for the model.
    name: Option<String>,
}

/// A file that was uploaded to the provider before.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileId {
    r#type: FileKind,
    /// The provider's id of it.
    id: String,
    /// Such as `application/pdf`.
    media_type: Option<String>,
    /// Its name for the model.
    name: Option<String>,
}

/// What a model thought.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThinkingPart {
    r#type: ThinkingKind,
    /// The readable text.
    #[schema(required = false)]
    text: String,
    /// The provider's signature, replayed byte for byte.
    signature: Option<String>,
    /// The provider that made it.
    provider: Option<String>,
    /// Whether the provider withheld the text.
    #[schema(required = false)]
    redacted: bool,
}

/// The model asks for a tool.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolCallPart {
    r#type: ToolCallKind,
    /// The id that the result refers to.
    id: String,
    /// The tool's name.
    name: String,
    /// The arguments, usually an object.
    #[schema(required = false)]
    arguments: Value,
}

/// What the tool gave back.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolResultPart {
    r#type: ToolResultKind,
    /// The call's id.
    call_id: String,
    /// The tool's name.
    #[schema(required = false)]
    name: String,
    /// What the model gets to see.
    output: ToolOutput,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TextKind {
    Text,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImageKind {
    Image,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileKind {
    File,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThinkingKind {
    Thinking,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolCallKind {
    ToolCall,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolResultKind {
    ToolResult,
}
