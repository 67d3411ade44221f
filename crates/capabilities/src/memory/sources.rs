//! Records, cursors, tombstones and episodes as documents of a base.
//!
//! The first letter of an id says what a document is. Only records, their earlier versions and episodes have words that
//! a search can find.

use contexture_history::Timestamp;
use contexture_session::SourceId;
use contexture_session::rank::{Analyzer, Fields};
use contexture_session::sources::{NewChunk, NewSource, SourceInfo};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::MemoryError;
use super::record::Record;

/// The kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// How far a thread was captured.
    Cursor,
    /// When the rules were last changed.
    CoreStamp,
    /// What was said in a thread.
    Episode,
    /// A folder in the memory folder of the model.
    Folder,
    /// What was forgotten and may not have left all logs yet.
    Pending,
    /// A record as it is now.
    Record,
    /// A session in which the memory was shown.
    Session,
    /// What must not be learnt again.
    Tombstone,
    /// An earlier version of a record.
    Version,
}

impl Kind {
    /// Returns what the ids of the kind begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Kind::Cursor => "c/",
            Kind::CoreStamp => "k/",
            Kind::Episode => "e/",
            Kind::Folder => "f/",
            Kind::Pending => "p/",
            Kind::Record => "r/",
            Kind::Session => "s/",
            Kind::Tombstone => "t/",
            Kind::Version => "v/",
        }
    }

    /// Returns the id of a document of the kind.
    pub(crate) fn id(self, name: &str) -> Result<SourceId, MemoryError> {
        let id = SourceId::parse(format!("{}{name}", self.prefix()));
        id.map_err(|err| MemoryError::Invalid(err.to_string()))
    }

    /// Returns the name of a document, if it is of the kind.
    pub(crate) fn name(self, id: &SourceId) -> Option<&str> {
        id.as_str().strip_prefix(self.prefix())
    }
}

/// The data of a document that only has a name.
#[derive(Serialize)]
pub(crate) struct NoData {}

/// Returns the id of an earlier version of a record.
pub(crate) fn version_id(id: &str, version: u64) -> Result<SourceId, MemoryError> {
    Kind::Version.id(&format!("{id}/{version:08}"))
}

/// Returns a document with these texts, each a chunk, and data.
pub(crate) fn document(
    id: SourceId,
    version: String,
    data: &impl Serialize,
    texts: &[&str],
    (at, analyzer): (Timestamp, &mut Analyzer),
) -> NewSource {
    let metadata = match serde_json::to_value(data) {
        Ok(Value::Object(fields)) => fields,
        // All data are structs, which are objects.
        Ok(_) | Err(_) => Map::new(),
    };
    let (mut bytes_at, mut chars_at) = (0, 0);
    let chunks = (0..).zip(texts).map(|(section, text)| {
        let (bytes, chars) = (text.len() as u64, text.chars().count() as u64);
        let chunk = NewChunk {
            text: (*text).to_owned(),
            headings: Vec::new(),
            section,
            bytes: bytes_at..bytes_at + bytes,
            chars: chars_at..chars_at + chars,
            terms: analyzer.index(Fields { title: "", headings: &[], body: text }),
        };
        (bytes_at, chars_at) = (bytes_at + bytes, chars_at + chars);
        chunk
    });
    let chunks: Vec<NewChunk> = chunks.collect();
    let info = SourceInfo {
        id,
        title: String::new(),
        origin: None,
        media_type: "text/plain".to_owned(),
        metadata,
        version,
        bytes: bytes_at,
        at,
        first: 0,
        chunks: 0,
    };
    NewSource { info, chunks }
}

/// Reads the data of a document.
pub(crate) fn data<T: DeserializeOwned>(info: &SourceInfo) -> Result<T, MemoryError> {
    let damaged =
        |err: serde_json::Error| MemoryError::Damaged { id: info.id.to_string(), detail: err.to_string() };
    serde_json::from_value(Value::Object(info.metadata.clone())).map_err(damaged)
}

/// The fields of a record besides its text, which is its chunk.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    record: Record,
}

/// Returns a record as a document.
pub(crate) fn record_document(record: &Record, id: SourceId, analyzer: &mut Analyzer) -> NewSource {
    let stored = Stored { record: Record { text: String::new(), ..record.clone() } };
    document(id, record.stored_version(), &stored, &[&record.text], (record.updated, analyzer))
}

/// Returns the record of a document.
pub(crate) fn record_of(info: &SourceInfo, text: &str) -> Result<Record, MemoryError> {
    let Stored { record } = data(info)?;
    Ok(Record { text: text.to_owned(), ..record })
}
