//! What can be looked for in a log, and by which words.
//!
//! [`searchable`] gives the text of an item, [`words`] the words by which an index finds a text, [`query_words`] those of
//! a query, and [`snippet`] the piece of the text to show. Every store uses these, so that all of them find the same.
//!
//! A query is words and nothing else: there is no syntax that could be wrong or do harm.

mod item;
mod snippet;
mod word;

pub use item::searchable;
pub use snippet::snippet;
pub use word::{MAX_QUERY_WORDS, query_words, words};
