//! Full-text search in archived items.
//!
//! What a word is and what comes first is decided by `contexture_history::search` and `contexture_session::search`.

use contexture_history::{Item, Seq};
use contexture_session::ThreadKey;
use contexture_session::search::{Hits, Search, SearchHit};
use rusqlite::{Connection, params};

use crate::archive::push_term;
use crate::failure::{Failure, StorePath};
use crate::head::{FoundLog, existing};
use crate::numbers::{seq, to_sql};
use crate::read::BACKWARD;
use crate::rows::LogRows;

pub(crate) const WITH_WORD: &str =
    "SELECT archived.seq FROM words CROSS JOIN archived ON archived.no = words.rowid WHERE words MATCH ?1";

/// Returns what a search finds.
pub(crate) fn search(
    conn: &Connection,
    place: &StorePath,
    key: &ThreadKey,
    search: &Search,
) -> Result<Vec<SearchHit>, Failure> {
    let FoundLog { no, end, .. } = existing(conn, key)?;
    let log = LogRows { conn, place, key, log: no, end };
    let words = search.words();
    let mut hits = Hits::default();
    for (idx, word) in words.iter().enumerate() {
        for seq in with_word(&log, word)? {
            if search.covers(seq) {
                hits.add(seq, idx);
            }
        }
    }
    let found = |seq: Seq| log.item(seq).map(|it| SearchHit::of(&it, &words));
    hits.best(search.max).into_iter().map(found).collect()
}

fn with_word(log: &LogRows<'_>, word: &str) -> rusqlite::Result<Vec<Seq>> {
    let mut term = String::from("\"");
    push_term(&mut term, log.log, word);
    // Quoted, so it is matched literally; words contain no quotes.
    term.push('"');
    let mut statement = log.conn.prepare_cached(WITH_WORD)?;
    let found = statement.query_map([term], |row| row.get(0))?;
    found.map(|it| it.map(seq)).collect()
}

impl LogRows<'_> {
    /// Returns the item at a position.
    fn item(&self, seq: Seq) -> Result<Item, Failure> {
        let mut statement = self.conn.prepare_cached(BACKWARD)?;
        let mut rows = statement.query(params![self.log, to_sql(seq.0)])?;
        let items = self.next(&mut rows)?;
        items.into_iter().find(|it| it.seq == seq).ok_or_else(|| self.gap(seq))
    }
}
