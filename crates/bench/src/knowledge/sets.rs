//! The shapes of the public sets.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A collection with queries and the documents that are relevant to them, as CACM.
#[derive(Debug, Deserialize)]
pub(super) struct Collection {
    pub(super) documents: Vec<CollectionDocument>,
    pub(super) queries: Vec<CollectionQuery>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CollectionDocument {
    pub(super) id: String,
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct CollectionQuery {
    pub(super) query: String,
    pub(super) relevant: Vec<String>,
}

/// A conversation with questions and the turns that answer them, as those of LoCoMo.
#[derive(Debug, Deserialize)]
pub(super) struct Conversation {
    pub(super) sessions: Vec<ConversationSession>,
    pub(super) questions: Vec<ConversationQuestion>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ConversationSession {
    pub(super) id: String,
    pub(super) turns: Vec<ConversationTurn>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ConversationTurn {
    pub(super) id: String,
    pub(super) speaker: String,
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ConversationQuestion {
    pub(super) question: String,
    pub(super) evidence: Vec<Value>,
}

/// Texts with questions and the spans of characters that answer them.
#[derive(Debug, Deserialize)]
pub(super) struct Spans {
    pub(super) corpora: BTreeMap<String, String>,
    pub(super) questions: Vec<SpanQuestion>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SpanQuestion {
    pub(super) corpus: String,
    pub(super) question: String,
    pub(super) spans: Vec<(u64, u64)>,
}
