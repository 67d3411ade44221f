//! The terms of an indexed text: what an index stores of it, and what ranking reads.
//!
//! A text has a [`TermVector`] with the number of occurrences of each term in each field. Terms are kept as hashes:
//! ranking only asks how often a given term occurs. It is a sorted array of fixed-size entries, so a store keeps and
//! hands out bytes, and a term is found without decoding the rest.

use std::fmt::Write as _;

/// How often a term occurs in the fields of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermCounts {
    /// In the text itself, at most 255.
    pub body: u8,
    /// In the title, at most 3.
    pub title: u8,
    /// In the headings above the text, at most 3.
    pub headings: u8,
    /// As a part of identifiers, at most 15.
    pub identifiers: u8,
}

impl TermCounts {
    /// Whether the text is likely to be about the term. See [`IndexTerms::listed`].
    fn is_strong(self) -> bool {
        self.body >= 3 || self.title > 0 || self.headings > 0
    }

    fn pack(self) -> [u8; 2] {
        [self.body, self.title.min(3) | self.headings.min(3) << 2 | self.identifiers.min(15) << 4]
    }

    fn unpack([body, fields]: [u8; 2]) -> Self {
        TermCounts { body, title: fields & 3, headings: fields >> 2 & 3, identifiers: fields >> 4 }
    }
}

/// Returns the hash of a term. It is stored, so it never changes.
pub(super) fn hash(term: &str) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = term.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    (hash >> 32) as u32 ^ hash as u32
}

const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 6;

/// The terms of a text with their counts, as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermVector(Box<[u8]>);

impl TermVector {
    /// Returns the vector that a store has kept. Bytes that are no vector have no terms.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn new(length: u32, mut entries: Vec<(u32, TermCounts)>) -> Self {
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
        bytes.extend(length.to_le_bytes());
        for (hash, counts) in entries {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(counts.pack());
        }
        Self(bytes.into())
    }

    /// Returns how many terms the text has, each as often as it occurs in the text itself.
    pub fn length(&self) -> u32 {
        self.0.first_chunk().map_or(0, |it| u32::from_le_bytes(*it))
    }

    /// Returns how often a term occurs.
    pub(super) fn counts(&self, hash: u32) -> Option<TermCounts> {
        let entries = self.0.get(HEADER_BYTES..)?.as_chunks::<ENTRY_BYTES>().0;
        let hash_of = |[a, b, c, d, ..]: &[u8; ENTRY_BYTES]| u32::from_le_bytes([*a, *b, *c, *d]);
        let found = entries.binary_search_by_key(&hash, hash_of).ok()?;
        let [.., body, fields] = entries.get(found)?;
        Some(TermCounts::unpack([*body, *fields]))
    }
}

/// What an index keeps of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexTerms {
    /// The counts, for ranking.
    pub vector: TermVector,
    /// The distinct terms, each followed by a space. They consist of letters and digits.
    all: String,
    /// Those that the text is likely to be about.
    strong: String,
}

impl IndexTerms {
    /// Collects terms with their counts, each once.
    pub(super) fn collect<'a>(length: u32, terms: impl Iterator<Item = (&'a str, u32, TermCounts)>) -> Self {
        let (mut all, mut strong, mut entries) = (String::new(), String::new(), Vec::new());
        for (term, hash, counts) in terms {
            entries.push((hash, counts));
            push(&mut all, term);
            if counts.is_strong() {
                push(&mut strong, term);
            }
        }
        Self { vector: TermVector::new(length, entries), all, strong }
    }

    /// Whether the text has no terms.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the lists that the text is in: those of its distinct terms, and then those of the terms that it is likely to
    /// be about, which are frequent ones and those of the title and the headings. The second kind of list lets a search for
    /// frequent terms read the best texts only.
    pub fn listed(&self) -> impl Iterator<Item = (Strength, &str)> {
        let all = self.all.split_terminator(' ').map(|it| (Strength::Any, it));
        all.chain(self.strong.split_terminator(' ').map(|it| (Strength::Strong, it)))
    }

    /// Returns the tokens for an index that many collections share, each followed by a space.
    pub fn tokens(&self, collection: i64) -> String {
        let mut tokens = String::with_capacity(2 * (self.all.len() + self.strong.len()));
        self.listed().for_each(|(strength, it)| push_token(&mut tokens, collection, strength, it));
        tokens
    }
}

fn push(terms: &mut String, term: &str) {
    terms.push_str(term);
    terms.push(' ');
}

/// Which list of a term is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
    /// The texts with the term.
    Any,
    /// Those that are likely to be about it.
    Strong,
}

/// Returns the token under which an index that many collections share keeps a list.
pub fn token(collection: i64, strength: Strength, term: &str) -> String {
    let mut token = String::new();
    push_token(&mut token, collection, strength, term);
    token.pop();
    token
}

/// Adds a token and a space. The separator is not an ASCII character, so a tokenizer of ASCII does not split there.
fn push_token(tokens: &mut String, collection: i64, strength: Strength, term: &str) {
    let mark = match strength {
        Strength::Any => "·",
        Strength::Strong => "··",
    };
    let _ = write!(tokens, "{collection}{mark}{term} "); // Writing to a string does not fail.
}
