//! How much counts for what. The defaults were measured on public sets and are not meant for single questions.

use serde::{Deserialize, Serialize};

/// The settings of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct RankConfig {
    /// How soon repeated terms stop counting: k1 of BM25.
    pub k1: f64,
    /// How much long texts are discounted, from 0 to 1: b of BM25.
    pub b: f64,
    /// What an occurrence counts in each field.
    pub fields: FieldWeights,
    /// What each signal counts.
    pub signals: SignalWeights,
    /// How a query is expanded by the texts it finds.
    pub feedback: FeedbackConfig,
    /// After so many days recency counts half.
    pub half_life_days: f64,
}

/// What an occurrence of a term counts in each field.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct FieldWeights {
    /// In the text itself.
    pub body: f64,
    /// In the title of the document.
    pub title: f64,
    /// In the headings above the text.
    pub headings: f64,
    /// As a part of an identifier, or as a whole one.
    pub identifiers: f64,
}

/// What each signal counts: a score is the sum of the signals, each from 0 to 1, weighted by its share of the sum of
/// these weights. Signals that a search does not have (vectors, say) are left out of both sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct SignalWeights {
    /// BM25 of the query.
    pub lexical: f64,
    /// BM25 of the terms that the best texts have in common (RM3).
    pub feedback: f64,
    /// Neighbouring terms of the query that are neighbours in the text.
    pub phrase: f64,
    /// The score of the texts before and after.
    pub neighbours: f64,
    /// The score of the session, for conversations.
    pub session: f64,
    /// The score of the other texts of the same document.
    pub parent: f64,
    /// How young the document is.
    pub recency: f64,
    /// The similarity of vectors.
    pub dense: f64,
}

/// How a query is expanded by the texts it finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct FeedbackConfig {
    /// How many texts are taken to be relevant.
    pub documents: usize,
    /// How many of their terms are added.
    pub terms: usize,
}

impl Default for FieldWeights {
    fn default() -> Self {
        Self { body: 1.0, title: 3.0, headings: 0.5, identifiers: 0.5 }
    }
}

impl Default for SignalWeights {
    fn default() -> Self {
        RankConfig::documents().signals
    }
}

impl SignalWeights {
    fn named(&self) -> [(&'static str, f64); 8] {
        let Self { lexical, feedback, phrase, neighbours, session, parent, recency, dense } = *self;
        [
            ("lexical", lexical),
            ("feedback", feedback),
            ("phrase", phrase),
            ("neighbours", neighbours),
            ("session", session),
            ("parent", parent),
            ("recency", recency),
            ("dense", dense),
        ]
    }
}

impl Default for FeedbackConfig {
    fn default() -> Self {
        Self { documents: 10, terms: 20 }
    }
}

impl Default for RankConfig {
    fn default() -> Self {
        Self::documents()
    }
}

impl RankConfig {
    /// Returns the settings for documents.
    pub fn documents() -> Self {
        let signals = SignalWeights {
            lexical: 0.7,
            feedback: 0.3,
            phrase: 0.05,
            neighbours: 0.0,
            session: 0.0,
            parent: 0.0,
            recency: 0.0,
            dense: 0.25,
        };
        Self {
            k1: 0.9,
            b: 0.4,
            fields: FieldWeights::default(),
            signals,
            feedback: FeedbackConfig::default(),
            half_life_days: 180.0,
        }
    }

    /// Returns what is wrong with the settings, if anything: weights are not negative, and some signal counts.
    pub fn fault(&self) -> Option<String> {
        let Self { k1, b, fields, signals, half_life_days, feedback: _ } = self;
        let FieldWeights { body, title, headings, identifiers } = fields;
        let weights = signals.named();
        let others = [
            ("k1", *k1),
            ("b", *b),
            ("body", *body),
            ("title", *title),
            ("headings", *headings),
            ("identifiers", *identifiers),
            ("half_life_days", *half_life_days),
        ];
        let is_sound = |it: f64| it.is_finite() && it >= 0.0;
        if let Some((name, value)) = weights.iter().chain(&others).find(|(_, it)| !is_sound(*it)) {
            return Some(format!("`{name}` is {value}; it must be 0 or more"));
        }
        if *b > 1.0 {
            return Some(format!("`b` is {b}; it must be at most 1"));
        }
        let counts = weights.iter().any(|(_, it)| *it > 0.0);
        (!counts).then(|| "no signal counts: one of `signals` must be more than 0".to_owned())
    }

    /// Returns the settings for conversations: what was said before and after counts, and so does the session.
    pub fn conversation() -> Self {
        let signals = SignalWeights {
            lexical: 1.0,
            feedback: 0.0,
            phrase: 0.0,
            neighbours: 0.5,
            session: 0.3,
            parent: 0.0,
            recency: 0.0,
            dense: 0.4,
        };
        Self { signals, ..Self::documents() }
    }
}
