//! Records: what is remembered, with where it came from.

use contexture_history::Timestamp;
use contexture_history::compaction::normal;
use contexture_session::codec;
use serde::{Deserialize, Serialize};

/// What kind of memory a record is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Layer {
    /// A standing instruction or preference. It is part of the core block.
    Rules,
    /// A statement that holds for some time.
    Facts,
    /// What was said in a turn. The log is its home; this is its index.
    Episodes,
    /// A summary of a session.
    Digests,
    /// How things are done here.
    Procedures,
    /// Scratch of a session.
    Working,
}

impl Layer {
    /// All layers, in the order of the documentation.
    pub const ALL: [Layer; 6] =
        [Layer::Rules, Layer::Facts, Layer::Episodes, Layer::Digests, Layer::Procedures, Layer::Working];

    /// Returns the name, such as `rules`.
    pub fn as_str(self) -> &'static str {
        match self {
            Layer::Rules => "rules",
            Layer::Facts => "facts",
            Layer::Episodes => "episodes",
            Layer::Digests => "digests",
            Layer::Procedures => "procedures",
            Layer::Working => "working",
        }
    }
}

impl Layer {
    /// Returns what the ids of new records begin with. Rules are read together at the start of threads, whatever else
    /// is remembered, so their ids are together too.
    pub(crate) fn id_prefix(self) -> &'static str {
        match self {
            Layer::Rules => RULE,
            Layer::Facts | Layer::Episodes | Layer::Digests | Layer::Procedures | Layer::Working => "m-",
        }
    }
}

/// What the ids of rules begin with.
pub(crate) const RULE: &str = "rule-";

/// Who wrote a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Author {
    /// The user said it, word for word.
    User,
    /// A model wrote it.
    Model,
    /// The application wrote it.
    Application,
    /// It was imported.
    Import,
}

/// Whose word a record's text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Trust {
    /// The user's or the application's own words.
    Stated,
    /// Derived by a model from what the user said.
    #[default]
    Derived,
    /// From a tool, a document or another system. It never becomes a rule.
    External,
}

/// Whether a record counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Status {
    /// It waits for approval and is not read.
    Proposed,
    /// It counts.
    #[default]
    Accepted,
    /// It was refused and is not read. It stays, so that it is not proposed again.
    Rejected,
}

/// Where a record comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Provenance {
    /// The thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The turn, such as `t7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The positions of the items in the thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<u64>,
    /// Another record that it was derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// A source outside: a file that was imported, or a system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Record {
    /// The id in its namespace.
    pub id: String,
    /// The kind of memory.
    pub layer: Layer,
    /// The text.
    pub text: String,
    /// Whether it counts.
    pub status: Status,
    /// Who wrote it.
    pub author: Author,
    /// Whose word it is.
    #[serde(default)]
    pub trust: Trust,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
    /// From when on it holds, in milliseconds since 1970.
    #[schemars(with = "i64")]
    pub valid_from: Timestamp,
    /// Until when it holds, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub valid_to: Option<Timestamp>,
    /// The record that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// How often it was written, from 1. A writer names the version it has read.
    pub version: u64,
    /// How often an answer used it.
    #[serde(default)]
    pub uses: u64,
    /// When an answer used it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub used_at: Option<Timestamp>,
    /// When it was added.
    #[schemars(with = "i64")]
    pub created: Timestamp,
    /// When this version was written.
    #[schemars(with = "i64")]
    pub updated: Timestamp,
}

impl Record {
    /// Whether it is read at a time: it counts, and it holds.
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.status == Status::Accepted && self.valid_from <= at && self.valid_to.is_none_or(|end| at < end)
    }

    /// Whether it comes from a turn of a thread, or from a thread at all.
    pub fn is_from(&self, thread: &str, turn: Option<&str>) -> bool {
        let is_it = |it: &Provenance| {
            it.thread.as_deref() == Some(thread) && turn.is_none_or(|turn| it.turn.as_deref() == Some(turn))
        };
        self.provenance.iter().any(is_it)
    }

    /// Returns the version as the store compares it. Counting a use is a write too.
    pub(crate) fn stored_version(&self) -> String {
        format!("{}.{}", self.version, self.uses)
    }
}

/// A record to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The kind of memory.
    pub layer: Layer,
    /// The text.
    pub text: String,
    /// Whether it counts.
    pub status: Status,
    /// Who writes it.
    pub author: Author,
    /// Whose word it is.
    pub trust: Trust,
    /// Where it comes from.
    pub provenance: Vec<Provenance>,
    /// From when on it holds; by default from now on.
    pub valid_from: Option<Timestamp>,
    /// Until when it holds.
    pub valid_to: Option<Timestamp>,
    /// Names the write: repeated under the same key, it is made once. Without it, the layer and the text decide.
    pub key: Option<String>,
}

impl NewRecord {
    /// Returns a record that the application states.
    pub fn new(layer: Layer, text: impl Into<String>) -> Self {
        Self {
            layer,
            text: text.into(),
            status: Status::Accepted,
            author: Author::Application,
            trust: Trust::Stated,
            provenance: Vec::new(),
            valid_from: None,
            valid_to: None,
            key: None,
        }
    }

    /// Returns the id of the record: the same for the same key, or else for the same words.
    pub(crate) fn id(&self) -> String {
        let words = || format!("{}\n{}", self.layer.as_str(), normal(&self.text));
        let name = self.key.as_ref().map_or_else(words, |key| format!("key\n{key}"));
        format!("{}{}", self.layer.id_prefix(), short_hash(&name))
    }

    /// Returns the record in its first version.
    pub(crate) fn record(self, id: String, now: Timestamp) -> Record {
        let Self { layer, text, status, author, trust, provenance, valid_from, valid_to, key: _ } = self;
        Record {
            id,
            layer,
            text,
            status,
            author,
            trust,
            provenance,
            valid_from: valid_from.unwrap_or(now),
            valid_to,
            superseded_by: None,
            version: 1,
            uses: 0,
            used_at: None,
            created: now,
            updated: now,
        }
    }
}

/// Returns a name made of the words of a text. Equal words have equal names, and the name does not tell the words.
pub(crate) fn short_hash(text: &str) -> String {
    let hash = codec::blob_hash(text);
    hash.get(..20).unwrap_or(&hash).to_owned()
}

/// A change of a record. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordEdit {
    /// The new text.
    pub text: Option<String>,
    /// The new layer.
    pub layer: Option<Layer>,
    /// The new status.
    pub status: Option<Status>,
    /// The time until which it holds.
    pub valid_to: Option<Timestamp>,
    /// The record that takes its place.
    pub superseded_by: Option<String>,
}

/// Returns the next version of a record, and the version before it with the time at which it stopped to hold.
pub(crate) fn edited(record: Record, edit: RecordEdit, now: Timestamp) -> (Record, Record) {
    let before = Record { valid_to: Some(record.valid_to.map_or(now, |it| it.min(now))), ..record.clone() };
    let RecordEdit { text, layer, status, valid_to, superseded_by } = edit;
    let is_new_text = text.as_ref().is_some_and(|it| *it != record.text);
    let next = Record {
        text: text.unwrap_or(record.text),
        layer: layer.unwrap_or(record.layer),
        status: status.unwrap_or(record.status),
        valid_to: valid_to.or(record.valid_to),
        superseded_by: superseded_by.or(record.superseded_by),
        // Other words hold from now on; an approval changes nothing about the time.
        valid_from: if is_new_text { now } else { record.valid_from },
        version: record.version + 1,
        updated: now,
        ..record
    };
    (next, before)
}
