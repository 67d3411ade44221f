//! What a ranking reads of an index. Each store has a reader; it is the only part of a search that differs.

use std::collections::BTreeMap;

use contexture_history::Timestamp;

use super::terms::{Strength, TermVector};

/// The number of a text in its collection. Numbers grow and are never used again.
pub type TextNo = u64;

/// The size of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStats {
    /// How many texts it has.
    pub texts: u64,
    /// How many terms they have together.
    pub length: u64,
}

/// A list of texts in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListKey<'a> {
    /// Which texts with the term.
    pub strength: Strength,
    /// The term.
    pub term: &'a str,
}

/// A text as ranking sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedText {
    /// Its number.
    pub no: TextNo,
    /// The document, or the session of a conversation, that it belongs to.
    pub parent: u64,
    /// The text before it in its document.
    pub before: Option<TextNo>,
    /// The text after it.
    pub after: Option<TextNo>,
    /// The time of its document.
    pub at: Timestamp,
    /// Its terms.
    pub terms: TermVector,
}

impl RankedText {
    /// Returns a chunk of a document: its parent is the document's first chunk, and its neighbours have the next numbers.
    pub fn of_chunk(no: TextNo, position: u64, is_last: bool, at: Timestamp, terms: TermVector) -> Self {
        let before = (position > 0).then(|| no.saturating_sub(1));
        let after = (!is_last).then(|| no.saturating_add(1));
        RankedText { no, parent: no.saturating_sub(position), before, after, at, terms }
    }
}

/// Reads one collection of an index. All answers of a reader are of one moment.
///
/// Whether a search can move between threads depends on its reader alone.
#[allow(async_fn_in_trait, reason = "a reader is always a concrete type")]
pub trait IndexReader {
    /// Why reading failed.
    type Error;

    /// Returns the size of the collection.
    async fn stats(&mut self) -> Result<CollectionStats, Self::Error>;

    /// Returns how many texts are in each list.
    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Self::Error>;

    /// Returns at most `max` texts of each list, those with the highest numbers.
    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Self::Error>;

    /// Returns the existing texts among these.
    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Self::Error>;

    /// Returns the words of the existing texts among these.
    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Self::Error>;
}
