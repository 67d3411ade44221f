//! Documents: a file's bytes as text, or why they can't be one.

mod html;
mod json_lines;
mod media;

use contexture_history::Timestamp;
use contexture_session::SourceId;
use serde_json::{Map, Value};

pub use media::Media;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// So many bytes are looked at to tell text from other data.
const PROBE_BYTES: usize = 8 * 1024;
/// A title is cut after so many characters.
const MAX_TITLE_CHARS: usize = 200;
/// A title is looked for in so many lines.
const MAX_TITLE_LINES: usize = 50;

/// A document to index.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The id in its base.
    pub id: SourceId,
    /// The title.
    pub title: String,
    /// The path or URL it came from.
    pub origin: Option<String>,
    /// How its text is to be read.
    pub media: Media,
    /// Whatever else its owner wants to know about it.
    pub metadata: Map<String, Value>,
    /// The text.
    pub text: String,
    /// The time that counts for recency.
    pub at: Timestamp,
}

/// Why a file is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The file is of a kind that has to be converted first.
    #[error("{kind} files have to be converted to text first")]
    NeedsConversion {
        /// `PDF` or `Office`.
        kind: &'static str,
    },
    /// The file is no text.
    #[error("it is a binary file")]
    Binary,
    /// The file is text in another encoding.
    #[error("it is not valid UTF-8 at byte {at}")]
    NotUtf8 {
        /// The position of the first invalid byte.
        at: usize,
    },
    /// The file is too large.
    #[error("it has {bytes} bytes, {MAX_BYTES} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The name of the file can't be that of a document.
    #[error("its path is not a valid name: {detail}")]
    Name {
        /// The rule it breaks.
        detail: String,
    },
    /// The converter failed.
    #[error("it could not be converted: {detail}")]
    Conversion {
        /// What the converter said.
        detail: String,
    },
    /// A line of JSON lines is no JSON.
    #[error("line {line} is not valid JSON: {detail}")]
    Json {
        /// The number of the line, from 1.
        line: usize,
        /// The parser's message.
        detail: String,
    },
}

impl Refusal {
    /// Returns what to do about it, if anything can be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Refusal::NeedsConversion { .. } => {
                Some("convert it to Markdown or text, or configure a converter command")
            }
            Refusal::NotUtf8 { .. } => Some("save it in UTF-8"),
            Refusal::TooLarge { .. } => Some("split it into several files"),
            Refusal::Binary | Refusal::Name { .. } | Refusal::Conversion { .. } | Refusal::Json { .. } => {
                None
            }
        }
    }
}

/// Turns files of other kinds into text.
///
/// Implementations return Markdown or plain text. They may take long; the caller decides where they run.
pub trait Converter: Send + Sync {
    /// Converts a file, given by its name and content.
    fn convert(&self, path: &str, bytes: &[u8]) -> Result<String, String>;
}

/// Reads a file as a document. Its path, relative and with `/`, is its id.
///
/// ```
/// use contexture_knowledge::document::{Media, read};
///
/// let document = read("guides/refunds.md", b"# Refunds\n\nWithin 30 days.", None)?;
/// assert_eq!((document.title.as_str(), document.media), ("Refunds", Media::Markdown));
/// assert!(read("logo.png", b"\x89PNG\r\n\x1a\n\0\0", None).is_err());
/// # Ok::<(), contexture_knowledge::Refusal>(())
/// ```
pub fn read(path: &str, bytes: &[u8], converter: Option<&dyn Converter>) -> Result<Document, Refusal> {
    check_path(path)?;
    let id = SourceId::parse(path).map_err(|err| Refusal::Name { detail: err.why.into_owned() })?;
    if bytes.len() > MAX_BYTES {
        return Err(Refusal::TooLarge { bytes: bytes.len() });
    }
    let (media, text) = match (media::needs_conversion(path, bytes), converter) {
        (Some(_), Some(converter)) => {
            let text = converter.convert(path, bytes).map_err(|detail| Refusal::Conversion { detail })?;
            (Media::Markdown, text)
        }
        (Some(kind), None) => return Err(Refusal::NeedsConversion { kind }),
        (None, _) => (Media::of_path(path), decode(bytes)?.to_owned()),
    };
    let origin = Some(format!("{FILE_ORIGIN}{path}"));
    Ok(Document { origin, ..Document::convert(id, media, text)? })
}

/// How the origin of a document begins that is a file of the base's folder.
pub const FILE_ORIGIN: &str = "file:";

/// A path is relative and stays in its folder.
fn check_path(path: &str) -> Result<(), Refusal> {
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    match path.split('/').any(is_odd) || path.contains('\\') {
        true => {
            let detail = "a path has names separated by `/`, and no `.` or `..`".to_owned();
            Err(Refusal::Name { detail })
        }
        false => Ok(()),
    }
}

fn decode(bytes: &[u8]) -> Result<&str, Refusal> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().take(PROBE_BYTES).any(|it| *it == 0) {
        return Err(Refusal::Binary);
    }
    std::str::from_utf8(bytes).map_err(|err| Refusal::NotUtf8 { at: err.valid_up_to() })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the first heading of a document; of a plain text its first paragraph, if it is as short as titles are.
fn title(media: &Media, text: &str) -> Option<String> {
    let title = match media {
        Media::Markdown | Media::Html => {
            text.lines().take(MAX_TITLE_LINES).find_map(|it| it.trim().strip_prefix("# "))?.to_owned()
        }
        Media::Text => {
            let lines = text.lines().skip_while(|it| it.trim().is_empty());
            let lines = lines.take_while(|it| !it.trim().is_empty()).take(MAX_TITLE_LINES);
            let first = lines.map(str::trim).collect::<Vec<_>>().join(" ");
            (first.chars().count() <= MAX_TITLE_CHARS).then_some(first)?
        }
        Media::Code { .. } | Media::JsonLines => return None,
    };
    let title = title.trim().trim_end_matches('#').trim();
    (!title.is_empty()).then(|| title.chars().take(MAX_TITLE_CHARS).collect())
}

impl Document {
    /// Returns the document of a text as its author wrote it: HTML becomes Markdown, and JSON lines become paragraphs.
    pub fn convert(id: SourceId, media: Media, text: String) -> Result<Self, Refusal> {
        if text.len() > MAX_BYTES {
            return Err(Refusal::TooLarge { bytes: text.len() });
        }
        // Some databases have no such character in their texts.
        if text.contains('\0') {
            return Err(Refusal::Binary);
        }
        let text = match media {
            Media::Html => html::to_markdown(&text),
            Media::JsonLines => json_lines::to_text(&text)?,
            Media::Markdown | Media::Text | Media::Code { .. } => text,
        };
        Ok(Self::new(id, media, text))
    }

    /// Returns a document with a text, whose title is taken from it where it has one.
    pub fn new(id: SourceId, media: Media, text: impl Into<String>) -> Self {
        let text = text.into();
        let title = title(&media, &text).unwrap_or_else(|| file_name(id.as_str()).to_owned());
        Self { title, origin: None, media, metadata: Map::new(), text, at: Timestamp(0), id }
    }
}
