//! Reads items: rows in their order, each decoded once, and not one more than the span needs.
//!
//! Rows must be contiguous and end where the thread ends. Otherwise the file is damaged, and the read fails instead of
//! returning a history with a gap.

use contexture_history::{Item, Seq};
use contexture_session::{BackwardScan, Span, ThreadKey};
use rusqlite::{Connection, params};

use crate::failure::{Failure, StorePath};
use crate::file::readers::Size;
use crate::head::existing;
use crate::numbers::to_sql;
use crate::rows::Log;

/// A thread's rows from the newest back.
pub(crate) const BACKWARD: &str =
    "SELECT first, count, blobs, body FROM commits WHERE thread = ?1 AND first <= ?2 ORDER BY first DESC";
/// A thread's rows from the one that has a position on.
pub(crate) const FORWARD: &str =
    "SELECT first, count, blobs, body FROM commits WHERE thread = ?1 AND first >=
    (SELECT coalesce(max(first), 0) FROM commits WHERE thread = ?1 AND first <= ?2) ORDER BY first";

/// Spans of more items or turns are left to the threads that read.
const SMALL: usize = 128;

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
}
