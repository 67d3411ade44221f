//! Analysers that were used before: a search looks at the words of dozens of texts, and most of them are known by then.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{Analyzer, Language};

/// How many analysers of a language are kept.
const MAX_KEPT: usize = 4;

/// Analysers for the searches of a store.
#[derive(Debug, Default)]
pub struct AnalyzerPool(Mutex<BTreeMap<Language, Vec<Analyzer>>>);

impl AnalyzerPool {
    /// Returns an analyser, and a new one if all are in use.
    pub fn take(&self, language: Language) -> Analyzer {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pool.get_mut(&language).and_then(Vec::pop);
        known.unwrap_or_else(|| Analyzer::new(language))
    }

    /// Keeps an analyser for the next search.
    pub fn put(&self, analyzer: Analyzer) {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pool.entry(analyzer.language()).or_default();
        if kept.len() < MAX_KEPT {
            kept.push(analyzer);
        }
    }
}
