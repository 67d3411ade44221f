//! Makes whole knowledge bases of the rows that were saved: a document is kept if all of its chunks are. The index is
//! made again.

use contexture_history::Timestamp;
use contexture_session::rank::{Analyzer, Fields};
use contexture_session::sources::BaseSettings;
use rusqlite::{Connection, params};

use crate::failure::Failure;
use crate::numbers::{from_sql, to_sql};
use crate::sources::base::remove_range;
use crate::sources::write::{ChunkPlace, index_chunk};

/// What belongs to nothing any more.
const REMOVE_ORPHANS: [&str; 3] = [
    "DELETE FROM sources WHERE base NOT IN (SELECT no FROM bases)",
    "DELETE FROM chunks WHERE source NOT IN (SELECT no FROM sources)",
    "DELETE FROM chunk_vectors WHERE no NOT IN (SELECT no FROM chunks)",
];
const SUMS: &str = "UPDATE bases SET version = version + 1,
    documents = (SELECT count(*) FROM sources WHERE base = bases.no),
    chunks = (SELECT coalesce(sum(chunks), 0) FROM sources WHERE base = bases.no),
    length = (SELECT coalesce(sum(length), 0) FROM sources WHERE base = bases.no)";

struct DamagedSource {
    no: i64,
    id: String,
    title: String,
    first: i64,
    chunks: i64,
    at: i64,
}

pub(super) fn rebuild(conn: &Connection, lost: &mut Vec<String>) -> Result<(), Failure> {
    let orphans = conn.execute(REMOVE_ORPHANS[0], [])?;
    if orphans > 0 {
        lost.push(format!("{orphans} documents whose knowledge base is lost"));
    }
    for sql in &REMOVE_ORPHANS[1..] {
        conn.execute(sql, [])?;
    }
    let mut statement = conn.prepare("SELECT no, name, settings FROM bases ORDER BY no")?;
    let bases = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (no, name, settings) in bases.collect::<Result<Vec<(i64, String, String)>, _>>()? {
        let settings: BaseSettings = serde_json::from_str(&settings).unwrap_or_default();
        let mut analyzer = Analyzer::new(settings.language);
        for source in sources(conn, no)? {
            if !rebuild_source(conn, no, &source, &mut analyzer)? {
                lost.push(format!("document `{}` of knowledge base `{name}`", source.id));
            }
        }
    }
    conn.execute(SUMS, [])?;
    Ok(())
}

fn sources(conn: &Connection, base: i64) -> rusqlite::Result<Vec<DamagedSource>> {
    let sql = "SELECT no, id, title, first, chunks, at FROM sources WHERE base = ?1 ORDER BY no";
    let mut statement = conn.prepare_cached(sql)?;
    let sources = statement.query_map([base], |row| {
        Ok(DamagedSource {
            no: row.get(0)?,
            id: row.get(1)?,
            title: row.get(2)?,
            first: row.get(3)?,
            chunks: row.get(4)?,
            at: row.get(5)?,
        })
    })?;
    sources.collect()
}

/// Indexes a document again, or removes it. Returns whether it was kept.
fn rebuild_source(
    conn: &Connection,
    base: i64,
    source: &DamagedSource,
    analyzer: &mut Analyzer,
) -> Result<bool, Failure> {
    let end = source.first.saturating_add(source.chunks);
    let mut statement =
        conn.prepare_cached("SELECT no, headings, text FROM chunks WHERE no >= ?1 AND no < ?2 ORDER BY no")?;
    let chunks =
        statement.query_map([source.first, end], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let chunks = chunks.collect::<Result<Vec<(i64, String, String)>, _>>()?;
    if chunks.len() as u64 != from_sql(source.chunks) {
        remove_range(conn, source.first, end)?;
        conn.execute("DELETE FROM sources WHERE no = ?1", [source.no])?;
        return Ok(false);
    }
    let mut length = 0;
    for (position, (key, headings, text)) in (0..).zip(&chunks) {
        let headings: Vec<String> = serde_json::from_str(headings).unwrap_or_default();
        let terms = analyzer.index(Fields { title: &source.title, headings: &headings, body: text });
        length += u64::from(terms.vector.length());
        let is_last = position + 1 == chunks.len() as u64;
        let place = ChunkPlace { source: source.no, position, is_last, at: Timestamp(source.at) };
        index_chunk(conn, base, *key, &place, &terms)?;
    }
    conn.execute("UPDATE sources SET length = ?2 WHERE no = ?1", params![source.no, to_sql(length)])?;
    Ok(true)
}
