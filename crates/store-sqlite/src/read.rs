//! Reads items: rows in their order, each decoded once, and not one more than the span needs.
//!
//! Rows must be contiguous and end where the log ends. Otherwise the file is damaged, and the read fails instead of
//! returning a history with a gap. Only a journal, which is pruned and no history, may have gaps.

use contexture_history::{Item, Seq};
use contexture_session::{BackwardScan, LogKind, Span, ThreadKey};
use rusqlite::{Connection, params};

use crate::failure::{Failure, StorePath};
use crate::file::readers::Size;
use crate::head::{CurrentLog, find};
use crate::numbers::to_sql;
use crate::rows::LogRows;

/// A log's rows from the newest back.
pub(crate) const BACKWARD: &str =
    "SELECT first, count, blobs, body FROM commits WHERE log = ?1 AND first <= ?2 ORDER BY first DESC";
/// A log's rows from the one that has a position on.
pub(crate) const FORWARD: &str = "SELECT first, count, blobs, body FROM commits WHERE log = ?1 AND first >=
    (SELECT coalesce(max(first), 0) FROM commits WHERE log = ?1 AND first <= ?2) ORDER BY first";

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
    let CurrentLog { no, end, kind, .. } = find(conn, key)?;
    let is_journal = kind == LogKind::Journal;
    let rows = LogRows { conn, place, key, log: no, end };
    match (BackwardScan::new(span), span) {
        (Some(backward), _) => rows.backward(backward, is_journal),
        (None, Span::After { seq, max }) => rows.forward(*seq, *max, is_journal),
        (None, _) => Ok(Vec::new()),
    }
}

impl LogRows<'_> {
    fn backward(&self, mut backward: BackwardScan, may_have_gaps: bool) -> Result<Vec<Item>, Failure> {
        let mut statement = self.conn.prepare_cached(BACKWARD)?;
        let mut rows = statement.query(params![self.log, to_sql(self.end.0)])?;
        let mut last = self.end;
        while !backward.is_done() && last > Seq(0) {
            let commit = self.next(&mut rows)?;
            match (commit.first(), commit.last()) {
                (None, _) if may_have_gaps => break,
                (Some(oldest), Some(newest)) if newest.seq == last || may_have_gaps => {
                    last = Seq(oldest.seq.0.saturating_sub(1));
                }
                _ => return Err(self.gap(last)),
            }
            backward.push(commit);
        }
        Ok(backward.finish())
    }

    fn forward(&self, after: Seq, max: usize, may_have_gaps: bool) -> Result<Vec<Item>, Failure> {
        let mut items = Vec::new();
        if max == 0 || after >= self.end {
            return Ok(items);
        }
        let mut statement = self.conn.prepare_cached(FORWARD)?;
        let mut rows = statement.query(params![self.log, to_sql(after.next().0)])?;
        let mut next = after.next();
        while items.len() < max && next <= self.end {
            let commit = self.next(&mut rows)?;
            if commit.is_empty() && may_have_gaps {
                break;
            }
            let before = items.len();
            items.extend(commit.into_iter().skip_while(|it| it.seq <= after).take(max - before));
            if !may_have_gaps && items.get(before).is_none_or(|it| it.seq != next) {
                return Err(self.gap(next));
            }
            next = items.last().map_or(next, |it| it.seq.next());
        }
        Ok(items)
    }
}
