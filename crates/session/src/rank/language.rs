//! Languages: their stop words and stems.

use rust_stemmers::Algorithm;
use serde::{Deserialize, Serialize};

/// The language in which texts are analysed. Texts and queries of one index share it.
///
/// Other languages than these are found by whole words with [`Language::Other`]; scripts without spaces need no choice.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs, reason = "a language needs no explanation")]
pub enum Language {
    Arabic,
    Danish,
    Dutch,
    #[default]
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
    /// No stop words and no stems.
    Other,
}

impl Language {
    /// Returns the stemming rules of the language.
    pub(super) fn algorithm(self) -> Option<Algorithm> {
        self.rules().map(|(algorithm, _)| algorithm)
    }

    /// Returns words that say nothing about a text. Where there is no list, weights by rarity have to do.
    pub(super) fn stop_words(self) -> &'static str {
        self.rules().map_or("", |(_, words)| words)
    }

    fn rules(self) -> Option<(Algorithm, &'static str)> {
        Some(match self {
            Language::Arabic => (Algorithm::Arabic, ""),
            Language::Danish => (Algorithm::Danish, include_str!("stop_words/danish.txt")),
            Language::Dutch => (Algorithm::Dutch, include_str!("stop_words/dutch.txt")),
            Language::English => (Algorithm::English, include_str!("stop_words/english.txt")),
            Language::Finnish => (Algorithm::Finnish, ""),
            Language::French => (Algorithm::French, include_str!("stop_words/french.txt")),
            Language::German => (Algorithm::German, include_str!("stop_words/german.txt")),
            Language::Greek => (Algorithm::Greek, ""),
            Language::Hungarian => (Algorithm::Hungarian, ""),
            Language::Italian => (Algorithm::Italian, include_str!("stop_words/italian.txt")),
            Language::Norwegian => (Algorithm::Norwegian, include_str!("stop_words/norwegian.txt")),
            Language::Portuguese => (Algorithm::Portuguese, include_str!("stop_words/portuguese.txt")),
            Language::Romanian => (Algorithm::Romanian, ""),
            Language::Russian => (Algorithm::Russian, include_str!("stop_words/russian.txt")),
            Language::Spanish => (Algorithm::Spanish, include_str!("stop_words/spanish.txt")),
            Language::Swedish => (Algorithm::Swedish, include_str!("stop_words/swedish.txt")),
            Language::Tamil => (Algorithm::Tamil, ""),
            Language::Turkish => (Algorithm::Turkish, ""),
            Language::Other => return None,
        })
    }
}
