//! Reads items: rows in their order, each decoded once, and not one more than the span needs.
//!
//! Rows must be contiguous and end where the thread ends. Otherwise the file is damaged, and the read fails instead of
//! returning a history with a gap.

use std::fmt;

use contexture_history::{Item, Seq, TurnNo};
use contexture_session::codec::{self, Blob, BlobRef, RowDamaged};
use contexture_session::{BackwardScan, KeyedTurn, Span, StoreError, ThreadKey};
use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension as _, Row, Rows, params};

use crate::failure::{Failure, StorePath};
use crate::numbers::{from_sql, seq, to_sql};
use crate::readers::Size;

/// A thread's rows from the newest back.
pub(crate) const BACKWARD: &str =
    "SELECT first, count, blobs, body FROM commits WHERE thread = ?1 AND first <= ?2 ORDER BY first DESC";
/// A thread's rows from the one that has a position on.
pub(crate) const FORWARD: &str =
    "SELECT first, count, blobs, body FROM commits WHERE thread = ?1 AND first >=
    (SELECT coalesce(max(first), 0) FROM commits WHERE thread = ?1 AND first <= ?2) ORDER BY first";
pub(crate) const END: &str = r#"SELECT no, "end" FROM threads WHERE tenant = ?1 AND name = ?2"#;
pub(crate) const KEYED: &str = "SELECT turn, began FROM turn_keys WHERE thread = ?1 AND name = ?2";
pub(crate) const BLOB: &str = "SELECT body FROM blobs WHERE tenant = ?1 AND hash = ?2";

/// Spans of more items or turns are left to the threads that read.
const SMALL: usize = 128;

/// Returns a thread's number and its end.
pub(crate) fn end_of(conn: &Connection, key: &ThreadKey) -> rusqlite::Result<Option<(i64, Seq)>> {
    let found = |row: &Row<'_>| Ok((row.get(0)?, seq(row.get(1)?)));
    conn.prepare_cached(END)?.query_row([key.tenant.as_str(), key.thread.as_str()], found).optional()
}

/// Returns where the turn with an idempotency key began.
pub(crate) fn turn_with_key(
    conn: &Connection,
    key: &ThreadKey,
    name: &str,
) -> Result<Option<KeyedTurn>, Failure> {
    let (thread, _) = existing(conn, key)?;
    let found =
        |row: &Row<'_>| Ok(KeyedTurn { turn: TurnNo(from_sql(row.get(0)?)), began: seq(row.get(1)?) });
    Ok(conn.prepare_cached(KEYED)?.query_row(params![thread, name], found).optional()?)
}

/// Returns a large text.
pub(crate) fn blob(conn: &Connection, tenant: &str, hash: &str) -> rusqlite::Result<Option<String>> {
    conn.prepare_cached(BLOB)?.query_row([tenant, hash], |row| row.get(0)).optional()
}

/// Returns whether a span is small enough to be read in the caller's thread.
pub(crate) fn size_of(span: &Span) -> Size {
    let is_small = match span {
        Span::After { max, .. } => *max <= SMALL,
        Span::NewestItems { count, client } => *count <= SMALL && !client,
        Span::NewestTurns(newest) => newest.turns <= SMALL,
    };
    if is_small { Size::Small } else { Size::Large }
}

/// Returns the items of a span, oldest first.
pub(crate) fn read(
    conn: &Connection,
    place: &StorePath,
    key: &ThreadKey,
    span: &Span,
) -> Result<Vec<Item>, Failure> {
    let (thread, end) = existing(conn, key)?;
    let log = Log { conn, place, key, thread, end };
    match (BackwardScan::new(span), span) {
        (Some(backward), _) => log.backward(backward),
        (None, Span::After { seq, max }) => log.forward(*seq, *max),
        (None, _) => Ok(Vec::new()),
    }
}

pub(crate) fn existing(conn: &Connection, key: &ThreadKey) -> Result<(i64, Seq), Failure> {
    end_of(conn, key)?.ok_or_else(|| StoreError::no_thread(&key.thread).into())
}

/// The reason why a row can't be decoded.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Sqlite(rusqlite::Error),
    Row(RowDamaged),
}

impl From<rusqlite::Error> for Unreadable {
    fn from(err: rusqlite::Error) -> Self {
        Unreadable::Sqlite(err)
    }
}

impl From<FromSqlError> for Unreadable {
    fn from(err: FromSqlError) -> Self {
        Unreadable::Sqlite(err.into())
    }
}

impl From<RowDamaged> for Unreadable {
    fn from(err: RowDamaged) -> Self {
        Unreadable::Row(err)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Sqlite(err) => err.fmt(f),
            Unreadable::Row(err) => err.fmt(f),
        }
    }
}

/// A thread's log within one transaction.
pub(crate) struct Log<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) place: &'a StorePath,
    pub(crate) key: &'a ThreadKey,
    pub(crate) thread: i64,
    pub(crate) end: Seq,
}

impl Log<'_> {
    fn backward(&self, mut backward: BackwardScan) -> Result<Vec<Item>, Failure> {
        let mut statement = self.conn.prepare_cached(BACKWARD)?;
        let mut rows = statement.query(params![self.thread, to_sql(self.end.0)])?;
        let mut last = self.end;
        while !backward.is_done() && last > Seq(0) {
            let commit = self.next(&mut rows)?;
            let (Some(oldest), Some(newest)) = (commit.first(), commit.last()) else {
                return Err(self.gap(last));
            };
            if newest.seq != last {
                return Err(self.gap(last));
            }
            last = Seq(oldest.seq.0.saturating_sub(1));
            backward.push(commit);
        }
        Ok(backward.finish())
    }

    fn forward(&self, after: Seq, max: usize) -> Result<Vec<Item>, Failure> {
        let mut items = Vec::new();
        if max == 0 || after >= self.end {
            return Ok(items);
        }
        let mut statement = self.conn.prepare_cached(FORWARD)?;
        let mut rows = statement.query(params![self.thread, to_sql(after.next().0)])?;
        let mut next = after.next();
        while items.len() < max && next <= self.end {
            let commit = self.next(&mut rows)?.into_iter().skip_while(|it| it.seq <= after);
            let before = items.len();
            items.extend(commit.take(max - before));
            if items.get(before).is_none_or(|it| it.seq != next) {
                return Err(self.gap(next));
            }
            next = items.last().map_or(next, |it| it.seq.next());
        }
        Ok(items)
    }

    /// Decodes the next row; nothing once there is none.
    pub(crate) fn next(&self, rows: &mut Rows<'_>) -> Result<Vec<Item>, Failure> {
        match rows.next()? {
            Some(row) => self.decode(row),
            None => Ok(Vec::new()),
        }
    }

    /// Decodes a row of `first, count, blobs, body`.
    pub(crate) fn decode(&self, row: &Row<'_>) -> Result<Vec<Item>, Failure> {
        let first = seq(row.get(0)?);
        self.decode_row(row).map_err(|err| match err {
            Unreadable::Sqlite(err) => err.into(),
            Unreadable::Row(err) => self.damaged(first, err),
        })
    }

    /// Decodes a row, or returns what is wrong with it.
    pub(crate) fn decode_row(&self, row: &Row<'_>) -> Result<Vec<Item>, Unreadable> {
        let blobs = match row.get_ref(2)?.as_str_or_null()? {
            Some(places) => self.blobs(places)?,
            None => Vec::new(),
        };
        Ok(codec::decode(seq(row.get(0)?), row.get(1)?, row.get_ref(3)?.as_str()?, blobs)?)
    }

    fn blobs(&self, places: &str) -> Result<Vec<Blob>, Unreadable> {
        let places: Vec<BlobRef> = serde_json::from_str(places).map_err(RowDamaged::from)?;
        let with_text = |place: BlobRef| match blob(self.conn, self.key.tenant.as_str(), &place.hash)? {
            Some(text) => Ok(Blob { place, text }),
            None => Err(RowDamaged::Blob(place.hash).into()),
        };
        places.into_iter().map(with_text).collect()
    }

    pub(crate) fn gap(&self, position: Seq) -> Failure {
        self.damaged(position, "it is missing")
    }

    fn damaged(&self, position: Seq, detail: impl fmt::Display) -> Failure {
        self.place.damaged(format!("thread `{}`, item {position}: {detail}", self.key.thread)).into()
    }
}
