//! No query walks through a table: what is read often is found by an index.

use std::time::Duration;

use rusqlite::Connection;

use crate::archive::KNOWN;
use crate::blobs::BLOB;
use crate::create::FIND_SESSION;
use crate::delete::{REMOVE_KEPT, REMOVE_THREAD, THREADS_OF_SESSION};
use crate::failure::StorePath;
use crate::file::open::open_writer;
use crate::guard::FIND_THREAD;
use crate::head::{END, HEAD, KEYED};
use crate::list::{SESSIONS, THREADS, USAGE};
use crate::read::{BACKWARD, FORWARD};
use crate::records::{PRUNE_QUERIES, READ_QUERIES, WRITE_QUERIES};
use crate::search::WITH_WORD;

/// Returns how SQLite runs a query, one step a line.
fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a query");
    let values = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3));
    steps.expect("a plan").map(|it| it.expect("a step")).collect::<Vec<_>>().join("\n")
}

/// No table scans. A full-text match or a lookup by rowid is fine, although SQLite calls it a scan too.
const ALLOWED: [&str; 3] =
    ["SCAN CONSTANT ROW", "SCAN words VIRTUAL TABLE INDEX 0:M1", "SCAN words VIRTUAL TABLE INDEX 0:="];

#[test]
fn no_query_scans_a_table_or_sorts_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("contexture.db");
    let conn = open_writer(&path, &StorePath::new(&path), Duration::from_secs(1)).expect("a file");
    let queries = [
        FIND_THREAD,
        FIND_SESSION,
        THREADS_OF_SESSION,
        HEAD,
        SESSIONS,
        THREADS,
        USAGE,
        BACKWARD,
        FORWARD,
        END,
        KEYED,
        BLOB,
        KNOWN,
        WITH_WORD,
    ];
    let kept = READ_QUERIES.iter().chain(&WRITE_QUERIES).chain(&PRUNE_QUERIES).chain(&REMOVE_KEPT);
    for sql in queries.iter().chain(&REMOVE_THREAD).chain(kept) {
        let plan = plan(&conn, sql);
        let without = ALLOWED.iter().fold(plan.clone(), |plan, it| plan.replace(it, ""));
        assert!(!without.contains("SCAN"), "{sql}\n{plan}");
        // The threads of one session are sorted; commits and sessions come in index order.
        assert!(!plan.contains("TEMP B-TREE") || *sql == THREADS, "{sql}\n{plan}");
    }
    assert_eq!(plan(&conn, BACKWARD), "SEARCH commits USING INDEX commits_of_thread (thread=? AND first<?)");
}
