//! Export and import, as lines of JSON.

use contexture_history::Timestamp;
use serde::{Deserialize, Serialize};

use super::capture::current_document;
use super::error::MemoryError;
use super::record::{Author, Layer, NewRecord, Provenance, Record, Status, Trust};
use super::sources::{self, Kind};
use super::space::{MemorySpace, RecordFilter};
use super::tombstones::Tombstone;

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    /// A record with all it had.
    Record(Box<Record>),
    /// What must not be learnt again.
    Tombstone(Tombstone),
    /// A record that was written by hand or by another system.
    New(NewLine),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLine {
    text: String,
    #[serde(default = "facts")]
    layer: Layer,
    #[serde(default)]
    valid_from: Option<Timestamp>,
    #[serde(default)]
    valid_to: Option<Timestamp>,
}

fn facts() -> Layer {
    Layer::Facts
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct MemoryImported {
    /// How many records were added.
    pub added: usize,
    /// How many were known already.
    pub known: usize,
}

impl MemorySpace {
    /// Returns all records and tombstones, one JSON document a line.
    pub async fn export(&self) -> Result<String, MemoryError> {
        let filter = RecordFilter { with_past: true, ..RecordFilter::default() };
        let mut lines = Vec::new();
        for record in self.list(&filter).await? {
            lines.push(Line::Record(Box::new(record)));
        }
        for info in self.all(Kind::Tombstone, "").await? {
            lines.push(Line::Tombstone(sources::data(&info)?));
        }
        // Plain data always serialises.
        let text = |it: &Line| serde_json::to_string(it).unwrap_or_default() + "\n";
        Ok(lines.iter().map(text).collect())
    }

    /// Adds the records of an export. `source` names where they come from, and forgets them together later. A record
    /// that is known stays as it is; what was forgotten here is not added again.
    pub async fn import(&self, text: &str, source: &str) -> Result<MemoryImported, MemoryError> {
        let lines = text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty());
        let read = |(idx, line): (usize, &str)| {
            serde_json::from_str::<Line>(line)
                .map_err(|err| MemoryError::Invalid(format!("line {}: {err}", idx + 1)))
        };
        // All lines are read before the first is written.
        let lines: Vec<Line> = lines.map(read).collect::<Result<_, _>>()?;
        let gone = super::tombstones::Tombstones::of(self).await?;
        let mut imported = MemoryImported::default();
        for line in lines {
            let is_new = match line {
                Line::Tombstone(it) => {
                    self.put(vec![it.document(self)?]).await?;
                    continue;
                }
                Line::Record(record) if gone.covers_words(&record.text, record.updated) => false,
                Line::Record(record) => self.import_record(*record, source).await?,
                Line::New(line) => self.import_line(line, source).await?,
            };
            imported.added += usize::from(is_new);
            imported.known += usize::from(!is_new);
        }
        Ok(imported)
    }

    async fn import_record(&self, mut record: Record, source: &str) -> Result<bool, MemoryError> {
        if self.get(&record.id).await?.is_some() {
            return Ok(false);
        }
        record.provenance.push(of_source(source));
        self.put(vec![current_document(self, &record)?]).await?;
        Ok(true)
    }

    async fn import_line(&self, line: NewLine, source: &str) -> Result<bool, MemoryError> {
        let NewLine { text, layer, valid_from, valid_to } = line;
        let new = NewRecord {
            status: Status::Accepted,
            author: Author::Import,
            trust: Trust::External,
            provenance: vec![of_source(source)],
            valid_from,
            valid_to,
            ..NewRecord::new(layer, text)
        };
        if self.get(&new.id()).await?.is_some() {
            return Ok(false);
        }
        self.add(new).await?;
        Ok(true)
    }
}

fn of_source(source: &str) -> Provenance {
    Provenance { source: Some(source.to_owned()), ..Provenance::default() }
}
