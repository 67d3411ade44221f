//! Evidence that a model may cite, and the citations of an answer.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A range of bytes in a text. Both ends lie between characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Ord, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TextSpan")]
pub struct Span {
    /// The offset of the first byte.
    pub start: usize,
    /// The offset behind the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the text of the span, or `None` if `text` has no such range.
    pub fn of(self, text: &str) -> Option<&str> {
        text.get(self.start..self.end)
    }

    /// Returns the same span in a text that has `offset` more bytes in front.
    #[must_use]
    pub fn after(self, offset: usize) -> Self {
        Self { start: self.start.saturating_add(offset), end: self.end.saturating_add(offset) }
    }

    /// Returns the nearest span that `text` has: inside the text and between characters.
    #[must_use]
    pub fn within(self, text: &str) -> Self {
        let end = text.floor_char_boundary(self.end);
        Self { start: text.floor_char_boundary(self.start).min(end), end }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A search result that a model reads and may cite.
///
/// It belongs in user messages and in the content of tool results. Dialects without a block of this kind write it as
/// a numbered tag with the chunk's id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The id of the chunk, such as `handbook:12`: what a citation names.
    pub chunk: String,
    /// The document that the chunk comes from: a path or a URL.
    pub source: String,
    /// The title of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text, in blocks. A provider that returns citations cites whole blocks.
    pub text: Vec<String>,
    /// Whether the provider is asked to return citations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub citations: bool,
}

impl Evidence {
    /// Returns the text of all blocks, one after the other.
    pub fn joined_text(&self) -> String {
        self.text.concat()
    }

    /// Returns the text with the chunk's id in front, where only plain text is possible: in previews and searches.
    pub fn labelled_text(&self) -> String {
        format!("[{}] {}", self.chunk, self.joined_text())
    }
}

/// A citation in an answer, in the same form for every provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Citation {
    /// The words that are supported, or the place of the mark that cites. In a part, offsets count from the start of
    /// the part's text, and `None` stands for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_span: Option<Span>,
    /// The document that is cited: a path, a URL or the provider's id of a file.
    pub source: String,
    /// The id of the chunk that is cited; equal to `source` if the provider knows no chunks.
    pub chunk: String,
    /// The words that are quoted from the chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The place of the quote in the text of the chunk or document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_span: Option<Span>,
    /// Whether the provider returned it or the answer's text contains it.
    pub origin: CitationOrigin,
    /// The provider's own form, which is sent back to that provider and never to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawCitation>,
}

impl Citation {
    /// Returns the citation of a whole chunk, without a quote.
    pub fn new(source: impl Into<String>, chunk: impl Into<String>, origin: CitationOrigin) -> Self {
        let (source, chunk) = (source.into(), chunk.into());
        Self { answer_span: None, source, chunk, quote: None, source_span: None, origin, raw: None }
    }
}

/// Where a citation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CitationOrigin {
    /// The provider returned it beside the text.
    Provider,
    /// It stands in the text itself, such as `[handbook:12]`.
    Text,
}

/// A citation in the form of its provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawCitation {
    /// The provider that returned it.
    pub provider: String,
    /// The value as the provider wrote it.
    pub value: Value,
}
