//! No query walks through a table: what is read often is found by an index.

use std::time::Duration;

use rusqlite::Connection;

use crate::append::{LANDED, SET_LOG, SET_OLDEST, TAKE_NUMBERS};
use crate::archive::KNOWN;
use crate::blobs::{BLOB, REMOVE_UNUSED};
use crate::create::FIND_SESSION;
use crate::delete::{LOGS_OF_SESSION, REMOVE_DOCUMENTS, REMOVE_LOG};
use crate::documents;
use crate::due::{DUE_RUNS, DUE_THREADS, HAS_RESTING, UNLIST};
use crate::failure::StorePath;
use crate::feed::{FEED, FEED_END, FEED_STATE, NUMBER_AT};
use crate::file::open::open_writer;
use crate::head::{FIND_LOG, HEAD, KEYED};
use crate::journal::{FIRST_ROWS, OLD, REMOVE_ROWS};
use crate::list::{SESSIONS, USAGE};
use crate::logs::{OF_ALL, OF_SESSION, OF_TENANT, WITH_START_KEY};
use crate::read::{BACKWARD, FORWARD};
use crate::search::{AFTER, BEFORE, STATS, TERMS, WITH_WORD};
use crate::sources;
use crate::unfinished::SAVED;

/// Returns how SQLite runs a query, one step a line.
fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a query");
    let values = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3));
    steps.expect("a plan").map(|it| it.expect("a step")).collect::<Vec<_>>().join("\n")
}

/// No table scans. A full-text match or a lookup by rowid is fine, although SQLite calls it a scan too, and so are the
/// parts of a JSON document, the few kinds of documents and the short list of logs that may have lost their writer.
const ALLOWED: [&str; 7] = [
    "SCAN CONSTANT ROW",
    "SCAN words VIRTUAL TABLE INDEX 0:M1",
    "SCAN words VIRTUAL TABLE INDEX 0:=",
    "SCAN places VIRTUAL TABLE",
    "SCAN json_each VIRTUAL TABLE",
    "SCAN kinds",
    "SCAN logs USING INDEX logs_due",
];

#[test]
fn no_query_scans_a_table_or_sorts_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("contexture.db");
    let conn = open_writer(&StorePath::new(&path, Duration::from_secs(1))).expect("a file");
    let queries = [
        FIND_LOG,
        FIND_SESSION,
        LOGS_OF_SESSION,
        HEAD,
        SESSIONS,
        USAGE,
        BACKWARD,
        FORWARD,
        KEYED,
        BLOB,
        KNOWN,
        WITH_WORD,
        STATS,
        TERMS,
        BEFORE,
        AFTER,
        LANDED,
        SET_LOG,
        SET_OLDEST,
        TAKE_NUMBERS,
        REMOVE_DOCUMENTS,
        DUE_RUNS,
        DUE_THREADS,
        HAS_RESTING,
        UNLIST,
        FEED,
        FEED_END,
        FEED_STATE,
        NUMBER_AT,
        FIRST_ROWS,
        OLD,
        REMOVE_ROWS,
        OF_ALL,
        OF_SESSION,
        OF_TENANT,
        WITH_START_KEY,
        SAVED,
    ];
    let more = REMOVE_LOG.iter().chain(&REMOVE_UNUSED).chain(&documents::QUERIES);
    let more =
        more.chain(&sources::base::QUERIES).chain(&sources::read::QUERIES).chain(&sources::vectors::QUERIES);
    for sql in queries.iter().chain(more) {
        let plan = plan(&conn, sql);
        let without = ALLOWED.iter().fold(plan.clone(), |plan, it| plan.replace(it, ""));
        assert!(!without.contains("SCAN"), "{sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
    assert_eq!(plan(&conn, BACKWARD), "SEARCH commits USING INDEX commits_of_log (log=? AND first<?)");
}
