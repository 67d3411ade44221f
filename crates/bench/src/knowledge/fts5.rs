//! What SQLite finds by itself: FTS5 with its porter tokenizer, ordered by its own `bm25()`.

use std::path::Path;

use rusqlite::{Connection, params};

/// Words that are left out of queries, as anyone would who uses FTS5 for questions.
const STOP_WORDS: &str = "a an and are as at be but by did do does for from had has have he her his how i if in into is it \
    its me my not of on or she so that the their them they this to was we were what when where which who whom why will with \
    would you your";

/// An FTS5 table.
pub(super) struct Fts5(Connection);

impl Fts5 {
    /// Makes an empty table, in memory or in a file.
    pub(super) fn new(path: Option<&Path>) -> rusqlite::Result<Self> {
        let conn = path.map_or_else(Connection::open_in_memory, Connection::open)?;
        conn.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61');",
        )?;
        Ok(Self(conn))
    }

    /// Adds texts with their numbers.
    pub(super) fn add<'a>(&mut self, texts: impl Iterator<Item = (i64, &'a str)>) -> rusqlite::Result<()> {
        let tx = self.0.transaction()?;
        {
            let mut insert = tx.prepare("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?;
            for (no, text) in texts {
                insert.execute(params![no, text])?;
            }
        }
        tx.commit()
    }

    /// Returns the numbers of the best texts.
    pub(super) fn search(&self, query: &str, max: usize) -> rusqlite::Result<Vec<i64>> {
        let words = query.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
        let is_stop = |word: &str| STOP_WORDS.split_whitespace().any(|it| it == word);
        let words = words.map(str::to_lowercase).filter(|it| !is_stop(it));
        let query: Vec<String> = words.map(|it| format!("\"{it}\"")).collect();
        if query.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rank LIMIT ?2";
        let mut statement = self.0.prepare_cached(sql)?;
        let found = statement.query_map(params![query.join(" OR "), max as i64], |row| row.get(0))?;
        found.collect()
    }
}
