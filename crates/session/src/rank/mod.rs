//! Ranking: one for all stores, and for everything that is searched.
//!
//! A text is indexed under its terms ([`Analyzer`], [`IndexTerms`]). For a query, a store's [`IndexReader`] returns the
//! texts that have some of its terms, and [`rank()`] ranks them: BM25 over weighted fields, with stop words and stems,
//! and further signals ([`SignalWeights`]) in a convex sum. Each signal's share of a score is part of the result.
//!
//! Stores decide nothing here, so all of them return the same texts in the same order.

mod analysis;
mod bm25;
mod candidates;
mod config;
mod feedback;
mod in_memory;
mod language;
mod numbers;
mod pool;
mod reader;
mod search;
mod signals;
mod terms;

pub use analysis::{Analyzer, Fields, MAX_QUERY_TERMS, QueryTerm};
pub use config::{FeedbackConfig, FieldWeights, RankConfig, SignalWeights};
pub use in_memory::{MemoryReader, TermLists, at_once};
pub use language::Language;
pub use pool::AnalyzerPool;
pub use reader::{CollectionStats, IndexReader, ListKey, RankedText, TextNo};
pub use search::{RankQuery, Similarities, rank};
pub use signals::{Scored, Signal};
pub use terms::{IndexTerms, Strength, TermCounts, TermVector, token};
