//! Finding chunks: the port, and what goes in and out.

mod error;
mod http;
mod local;

use std::collections::BTreeMap;

use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::rank::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use error::RetrieveError;
pub use http::{HttpRetriever, HttpRetrieverConfig, HttpRetrieverPorts};
pub use local::LocalRetriever;

/// Finds texts for a query.
///
/// Implementations return hits best first, at most `top_k` and none below `min_score`, each with an id that is unique
/// in their base. A failure is a typed reason; they never panic, and a query has no influence on where it is sent.
pub trait Retriever: Send + Sync {
    /// Returns the name of the base, as it stands in sources and citations.
    fn base(&self) -> &str;

    /// Finds texts.
    fn retrieve(&self, query: Query) -> BoxFuture<'_, Result<Retrieved, RetrieveError>>;

    /// Returns the texts around a hit in its document, in the order of the document and with the hit among them. A
    /// retriever that does not know them returns none.
    fn around(&self, hit: &Hit, what: Around) -> BoxFuture<'_, Result<Vec<Hit>, RetrieveError>> {
        let _ = (hit, what);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Reads a range of a document, as the whole chunks that it touches. A retriever that can't read documents returns
    /// none, and so does one that does not have this one.
    fn read(&self, what: ReadTarget, range: ReadRange) -> BoxFuture<'_, Result<Passage, RetrieveError>> {
        let _ = (what, range);
        Box::pin(std::future::ready(Ok(Passage::default())))
    }
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// The document of the chunk with this id.
    Chunk(String),
    /// The document with this id.
    Document(String),
}

/// The part of a document to read, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// The first character; by default the first of the chunk, or of the document.
    pub from: Option<u64>,
    /// How many characters. One chunk is read in any case.
    pub max: u64,
}

/// A part of a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passage {
    /// The chunks, in the order of the document.
    pub hits: Vec<Hit>,
    /// The character at which the document continues, if it does.
    pub next: Option<u64>,
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Words or a question; there is no syntax.
    pub text: String,
    /// How many hits at most.
    pub top_k: usize,
    /// No hit below this score, from 0 to 1.
    pub min_score: f64,
    /// The time from which ages are counted, where recency counts.
    pub now: Option<Timestamp>,
}

impl Query {
    /// Returns a query for the best `top_k` texts.
    pub fn new(text: impl Into<String>, top_k: usize) -> Self {
        Self { text: text.into(), top_k, min_score: 0.0, now: None }
    }
}

/// What a retriever found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// What the reader of an Explanation should know about them.
    pub notes: Vec<RetrievalNote>,
}

/// Something about a retrieval that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum RetrievalNote {
    /// Vectors were not used, because some chunks have none of this model yet.
    #[error("ranked without vectors: {missing} chunks have none of `{model}` yet")]
    VectorsIncomplete {
        /// The model.
        model: String,
        /// How many chunks have no vector.
        missing: u64,
    },
    /// Vectors were not used, because the query could not be embedded.
    #[error("ranked without vectors: {detail}")]
    EmbedderFailed {
        /// The reason.
        detail: String,
    },
    /// Hits were left out because of their scores.
    #[error("{count} hits are below the score of {min_score}, the best of them with {best}")]
    BelowMinScore {
        /// How many.
        count: usize,
        /// The score that was asked for.
        min_score: String,
        /// The best score among them.
        best: String,
    },
}

/// A text that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The base it is in.
    pub base: String,
    /// Its id in the base; of a local base the number of the chunk.
    pub chunk: String,
    /// The text.
    pub text: String,
    /// From 0 to 1 for local bases; other engines have their own scales.
    pub score: f64,
    /// What each signal added to the score, where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<Signal, f64>,
    /// The document it belongs to.
    #[serde(default)]
    pub document: HitDocument,
}

/// The document of a hit, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HitDocument {
    /// The id in the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The path or URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The version that was searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The headings above the text, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<String>,
    /// The position of the chunk in the document, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
    /// Where the text is in the document, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(u64, u64)>,
    /// Whatever else is known about the document.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Hit {
    /// Returns the source of the hit, as the Explanation names it: `knowledge:handbook#17`.
    pub fn source(&self) -> String {
        format!("knowledge:{}#{}", self.base, self.chunk)
    }

    /// Returns the tag by which a text can cite the hit: `[handbook:17]`.
    pub fn tag(&self) -> String {
        format!("[{}:{}]", self.base, self.chunk)
    }
}

/// The texts around a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// So many before and after it.
    Neighbours(u32),
    /// Its section.
    Section,
}

/// Leaves out what is below the score that was asked for, and says so.
fn above(hits: Vec<Hit>, query: &Query, notes: &mut Vec<RetrievalNote>) -> Vec<Hit> {
    let (kept, below): (Vec<Hit>, Vec<Hit>) = hits.into_iter().partition(|it| it.score >= query.min_score);
    if let Some(best) = below.first() {
        notes.push(RetrievalNote::BelowMinScore {
            count: below.len(),
            min_score: format!("{:.3}", query.min_score),
            best: format!("{:.3}", best.score),
        });
    }
    kept
}
