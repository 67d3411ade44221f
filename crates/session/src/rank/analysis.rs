//! From text to terms.
//!
//! A text is split into words by `contexture_history::search`; stop words are left out, and the others reduced to
//! their stems. Identifiers are found whole and by their parts: `maxSteps` and `max_steps` have the terms `max`,
//! `step` and `maxsteps`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use contexture_history::search::{Side, each_word};
use rust_stemmers::Stemmer;

use super::Language;
use super::terms::{IndexTerms, TermCounts, hash};

/// The maximum number of distinct terms in a query; further ones are ignored.
pub const MAX_QUERY_TERMS: usize = 64;
/// The maximum total bytes of the distinct terms of one text: half of what PostgreSQL accepts.
const MAX_BYTES: usize = 256 * 1024;
/// So many words are remembered with their stems.
const MAX_REMEMBERED: usize = 100_000;
/// Longer words are codes and have no stem.
const MAX_STEMMED_BYTES: usize = 40;

/// The fields of a text to index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// The title of the document.
    pub title: &'a str,
    /// The headings above the text.
    pub headings: &'a [String],
    /// The text itself.
    pub body: &'a str,
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTerm {
    /// The stem.
    pub term: Arc<str>,
    /// How much it counts: the weights of a query add up to 1.
    pub weight: f64,
}

/// Turns texts into terms. It remembers the stems of words, so one analyser should serve many texts.
#[derive(Debug)]
pub struct Analyzer {
    language: Language,
    stop_words: HashSet<String>,
    /// The number of each word's term; `None` for a stop word.
    words: HashMap<Box<str>, Option<usize>>,
    terms: Vec<KnownTerm>,
    /// The numbers of the terms by their text.
    by_text: HashMap<Arc<str>, usize>,
    /// The terms of the text that is being read.
    used: Vec<usize>,
}

#[derive(Debug)]
struct KnownTerm {
    text: Arc<str>,
    hash: u32,
    counts: TermCounts,
}

/// The fields in which terms are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Title,
    Headings,
    Body,
    Identifiers,
}

impl Analyzer {
    /// Returns an analyser of texts in a language.
    pub fn new(language: Language) -> Self {
        let mut stop_words = HashSet::new();
        each_word(language.stop_words(), Side::Text, |_, word| {
            stop_words.insert(word.to_owned());
            true
        });
        let (words, by_text) = (HashMap::new(), HashMap::new());
        Self { language, stop_words, words, terms: Vec::new(), by_text, used: Vec::new() }
    }

    /// Returns the language of the texts.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Returns what an index keeps of a text.
    pub fn index(&mut self, fields: Fields<'_>) -> IndexTerms {
        let mut bytes = 0;
        self.count(fields.title, Field::Title, &mut bytes);
        fields.headings.iter().for_each(|it| _ = self.count(it, Field::Headings, &mut bytes));
        let length = self.count(fields.body, Field::Body, &mut bytes);
        // In the order of the text, so equal texts give equal indexes.
        let used = std::mem::take(&mut self.used);
        let terms = used.iter().map(|it| &self.terms[*it]);
        let terms = IndexTerms::collect(length, terms.map(|it| (&*it.text, it.hash, it.counts)));
        self.forget(used);
        terms
    }

    /// Returns the distinct terms of a query, in order, at most [`MAX_QUERY_TERMS`].
    pub fn query(&mut self, text: &str) -> Vec<QueryTerm> {
        let mut counts: Vec<(usize, u32)> = Vec::new();
        let mut add = |no: Option<usize>| {
            let Some(no) = no else { return };
            match counts.iter().position(|(it, _)| *it == no) {
                Some(known) => counts[known].1 += 1,
                None if counts.len() < MAX_QUERY_TERMS => counts.push((no, 1)),
                None => {}
            }
        };
        each_word(text, Side::Query, |_, word| {
            add(self.term(word));
            true
        });
        each_identifier(text, |word| add(self.term(word)));
        let total: u32 = counts.iter().map(|(_, count)| count).sum();
        let weighted = |(no, count): (usize, u32)| QueryTerm {
            term: Arc::clone(&self.terms[no].text),
            weight: f64::from(count) / f64::from(total),
        };
        counts.into_iter().map(weighted).collect()
    }

    /// Returns the terms of a text in order, as often as they occur. Stop words are left out.
    pub(super) fn sequence(&mut self, text: &str) -> Vec<Arc<str>> {
        self.limit();
        let mut terms = Vec::new();
        each_word(text, Side::Query, |_, word| {
            terms.extend(self.term(word).map(|no| Arc::clone(&self.terms[no].text)));
            true
        });
        terms
    }

    /// Returns the distinct words of a text that have one of these terms.
    pub fn words_with(&mut self, text: &str, terms: &BTreeSet<String>) -> Vec<String> {
        let mut words = BTreeSet::new();
        each_word(text, Side::Text, |_, word| {
            let is_wanted = self.term(word).is_some_and(|no| terms.contains(&*self.terms[no].text));
            if is_wanted && !words.contains(word) {
                words.insert(word.to_owned());
            }
            true
        });
        words.into_iter().collect()
    }

    /// Counts the terms of a field. Returns how many there are.
    fn count(&mut self, text: &str, field: Field, bytes: &mut usize) -> u32 {
        let mut length = 0;
        each_word(text, Side::Text, |_, word| {
            let Some(no) = self.term(word) else { return true };
            length += 1;
            self.add(no, field, bytes)
        });
        if field == Field::Body {
            each_identifier(text, |word| {
                if let Some(no) = self.term(word) {
                    self.add(no, Field::Identifiers, bytes);
                }
            });
        }
        length
    }

    /// Counts a term once more. Returns false if the text has too many different ones.
    fn add(&mut self, no: usize, field: Field, bytes: &mut usize) -> bool {
        let term = &mut self.terms[no];
        if term.counts == TermCounts::default() {
            *bytes += term.text.len();
            if *bytes > MAX_BYTES {
                return false;
            }
            self.used.push(no);
        }
        let (count, most) = match field {
            Field::Title => (&mut term.counts.title, 3),
            Field::Headings => (&mut term.counts.headings, 3),
            Field::Body => (&mut term.counts.body, u8::MAX),
            Field::Identifiers => (&mut term.counts.identifiers, 15),
        };
        *count = count.saturating_add(1).min(most);
        true
    }

    fn forget(&mut self, mut used: Vec<usize>) {
        used.drain(..).for_each(|it| self.terms[it].counts = TermCounts::default());
        self.used = used;
        self.limit();
    }

    /// Forgets all words once there are too many. No number of a term is valid after that.
    fn limit(&mut self) {
        if self.words.len() > MAX_REMEMBERED {
            self.words.clear();
            self.terms.clear();
            self.by_text.clear();
        }
    }

    /// Returns the number of a word's term, `None` for a stop word.
    fn term(&mut self, word: &str) -> Option<usize> {
        if let Some(known) = self.words.get(word) {
            return *known;
        }
        let no = (!self.stop_words.contains(word)).then(|| self.new_term(&stem(self.language, word)));
        self.words.insert(word.into(), no);
        no
    }

    fn new_term(&mut self, text: &str) -> usize {
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        let (no, text): (usize, Arc<str>) = (self.terms.len(), text.into());
        self.terms.push(KnownTerm {
            hash: hash(&text),
            text: Arc::clone(&text),
            counts: TermCounts::default(),
        });
        self.by_text.insert(text, no);
        no
    }
}

fn stem(language: Language, word: &str) -> String {
    let is_stemmed = word.len() <= MAX_STEMMED_BYTES && word.chars().all(char::is_alphabetic);
    match language.algorithm().filter(|_| is_stemmed) {
        Some(algorithm) => {
            let stem = Stemmer::create(algorithm).stem(word).into_owned();
            // A stem is a term: nothing else may get into an index, and nothing may be lost.
            if !stem.is_empty() && stem.chars().all(char::is_alphanumeric) { stem } else { word.to_owned() }
        }
        None => word.to_owned(),
    }
}

/// Calls `take` with the parts of each identifier in camel case, and with each identifier in camel or snake case as one
/// word.
fn each_identifier(text: &str, mut take: impl FnMut(&str)) {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    let (mut at, mut part) = (0, String::new());
    while at < bytes.len() {
        if !is_part(bytes[at]) {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|it| is_part(**it)).count();
        let word = &bytes[at..at + length];
        at += length;
        let has_hump = word.windows(2).any(|it| it[0].is_ascii_lowercase() && it[1].is_ascii_uppercase());
        let has_joint = word.windows(3).any(|it| it[1] == b'_' && it[0] != b'_' && it[2] != b'_');
        if !(has_hump || has_joint) || length > 128 {
            continue;
        }
        if has_hump {
            each_hump(word, &mut part, &mut take);
        }
        part.clear();
        part.extend(word.iter().filter(|it| **it != b'_').map(|it| char::from(it.to_ascii_lowercase())));
        take(&part);
    }
}

/// Splits `parseHTTPRequest_v2` into `parse`, `http`, `request` and `v2`.
fn each_hump(word: &[u8], part: &mut String, take: &mut impl FnMut(&str)) {
    part.clear();
    for (idx, byte) in word.iter().enumerate() {
        let before = idx.checked_sub(1).map_or(b'_', |it| word[it]);
        let after = word.get(idx + 1).copied().unwrap_or(b'_');
        let begins = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if (begins || *byte == b'_') && !part.is_empty() {
            take(part);
            part.clear();
        }
        if *byte != b'_' {
            part.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    if !part.is_empty() {
        take(part);
    }
}
