//! An index in memory, of any texts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;

use futures::FutureExt;

use super::reader::{CollectionStats, IndexReader, ListKey, RankedText, TextNo};
use super::terms::IndexTerms;

/// The lists of an index in memory.
#[derive(Debug, Default)]
pub struct TermLists(HashMap<String, [BTreeSet<TextNo>; 2]>);

impl TermLists {
    /// Adds a text to the lists of its terms.
    pub fn insert(&mut self, no: TextNo, terms: &IndexTerms) {
        for (strength, term) in terms.listed() {
            self.0.entry(term.to_owned()).or_default()[strength as usize].insert(no);
        }
    }

    /// Removes a text from the lists of its terms.
    pub fn remove(&mut self, no: TextNo, terms: &IndexTerms) {
        for (strength, term) in terms.listed() {
            if let Some(lists) = self.0.get_mut(term) {
                lists[strength as usize].remove(&no);
            }
        }
    }

    fn get(&self, key: &ListKey<'_>) -> Option<&BTreeSet<TextNo>> {
        self.0.get(key.term).map(|it| &it[key.strength as usize])
    }
}

/// Reads an index in memory. The functions say what the lists do not have.
#[allow(missing_debug_implementations, reason = "it consists of closures")]
pub struct MemoryReader<'a, C, T, W> {
    /// The size of the index.
    pub stats: CollectionStats,
    /// Its lists.
    pub lists: &'a TermLists,
    /// Whether a text can be found at all.
    pub covers: C,
    /// Returns a text as ranking sees it.
    pub text: T,
    /// Returns the words of a text.
    pub words: W,
}

impl<C, T, W> IndexReader for MemoryReader<'_, C, T, W>
where
    C: Fn(TextNo) -> bool,
    T: Fn(TextNo) -> Option<RankedText>,
    W: Fn(TextNo) -> Option<String>,
{
    type Error = Infallible;

    async fn stats(&mut self) -> Result<CollectionStats, Infallible> {
        Ok(self.stats)
    }

    async fn counts(&mut self, lists: &[ListKey<'_>]) -> Result<Vec<u64>, Infallible> {
        Ok(lists.iter().map(|it| self.lists.get(it).map_or(0, |it| it.len() as u64)).collect())
    }

    async fn lists(&mut self, lists: &[ListKey<'_>], max: usize) -> Result<Vec<Vec<TextNo>>, Infallible> {
        let list = |key| {
            let found = self.lists.get(key).into_iter().flatten().rev().copied();
            found.filter(|it| (self.covers)(*it)).take(max).collect()
        };
        Ok(lists.iter().map(list).collect())
    }

    async fn texts(&mut self, nos: &[TextNo]) -> Result<Vec<RankedText>, Infallible> {
        Ok(nos.iter().filter_map(|it| (self.text)(*it)).collect())
    }

    async fn words(&mut self, nos: &[TextNo]) -> Result<BTreeMap<TextNo, String>, Infallible> {
        Ok(nos.iter().filter_map(|it| Some((*it, (self.words)(*it)?))).collect())
    }
}

/// Returns the result of a search in memory: nothing is waited for, and nothing fails.
pub fn at_once<T: Default>(search: impl Future<Output = Result<T, Infallible>>) -> T {
    search.now_or_never().map(|Ok(it)| it).unwrap_or_default()
}
