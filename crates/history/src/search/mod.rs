//! Searching a log: which text is searchable and how it is split into words.
//!
//! [`searchable`] returns the text of an item, [`words`] the words under which an index stores a text, [`query_words`]
//! the words of a query, and [`snippet`] the excerpt to show. All stores use these, so all of them find the same
//! items.
//!
//! A query consists of words only: it has no syntax, so no query is invalid or harmful.

mod item;
mod snippet;
mod word;

pub use item::searchable;
pub use snippet::snippet;
pub use word::{MAX_QUERY_WORDS, Side, each_word, query_words, words};
