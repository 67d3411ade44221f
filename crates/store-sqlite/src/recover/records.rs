//! Streams and documents of the rows that were saved.
//!
//! Unlike a thread, a stream is kept with its holes: its records do not build on each other. What is missing is named,
//! and no number is given twice.

use rusqlite::{Connection, params};

use crate::failure::Failure;

/// Data of a session that could not be recovered is removed, as if the session had been deleted.
const ORPHANS: [(&str, &str); 2] = [
    (
        "streams",
        "DELETE FROM streams WHERE session <> '' AND NOT EXISTS
        (SELECT 1 FROM sessions WHERE tenant = streams.tenant AND name = streams.session)",
    ),
    (
        "documents",
        "DELETE FROM documents WHERE session <> '' AND NOT EXISTS
        (SELECT 1 FROM sessions WHERE tenant = documents.tenant AND name = documents.session)",
    ),
];
const NAMELESS: &str = "DELETE FROM records WHERE stream NOT IN (SELECT no FROM streams)";
const FORGOTTEN: &str =
    "DELETE FROM records WHERE number <= (SELECT forgotten FROM streams WHERE no = records.stream)";
const LAST: &str = "UPDATE streams SET
    last = max(last, coalesce((SELECT max(number) FROM records WHERE stream = streams.no), 0)),
    oldest = (SELECT at FROM records WHERE stream = streams.no ORDER BY number LIMIT 1)";
const HOLES: &str = "SELECT s.kind, s.tenant, s.session, s.last - s.forgotten, count(r.no)
    FROM streams AS s LEFT JOIN records AS r ON r.stream = s.no GROUP BY s.no
    HAVING s.last - s.forgotten <> count(r.no) ORDER BY s.no";

/// Makes streams and documents consistent with each other and with the sessions, and reports what is missing.
pub(super) fn rebuild(conn: &Connection, lost: &mut Vec<String>) -> Result<(), Failure> {
    for (what, sql) in ORPHANS {
        let count = conn.execute(sql, params![])?;
        if count > 0 {
            lost.push(format!("{count} {what} whose session is lost"));
        }
    }
    let count = conn.execute(NAMELESS, [])?;
    if count > 0 {
        lost.push(format!("{count} records whose stream is lost"));
    }
    conn.execute(FORGOTTEN, [])?;
    conn.execute(LAST, [])?;
    let mut statement = conn.prepare(HOLES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, tenant, session): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (expected, found): (i64, i64) = (row.get(3)?, row.get(4)?);
        let of =
            if session.is_empty() { format!("tenant `{tenant}`") } else { format!("session `{session}`") };
        lost.push(format!("stream `{kind}` of {of}: {} of {expected} records", expected - found));
    }
    Ok(())
}
