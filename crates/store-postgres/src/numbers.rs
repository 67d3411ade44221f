//! Numbers as PostgreSQL has them: signed, of 64 bits.

use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contexture_history::Seq;
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;

/// Returns a position; those beyond the last one that can be stored are all the same: never reached.
pub(crate) fn seq_to_sql(seq: Seq) -> i64 {
    to_sql(seq.0)
}

/// Returns a stored position.
pub(crate) fn seq_from_sql(number: i64) -> Seq {
    Seq(from_sql(number))
}

/// Returns a number, or the largest there is.
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a stored number; what was written is never negative.
pub(crate) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Reads a column with a number.
pub(crate) fn number<I: RowIndex + Display>(row: &Row, column: I) -> Result<u64, tokio_postgres::Error> {
    row.try_get(column).map(from_sql)
}

/// Returns a time span in microseconds, at most a century.
pub(crate) fn duration_to_sql(duration: Duration) -> i64 {
    const CENTURY: i64 = 100 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).unwrap_or(CENTURY).min(CENTURY)
}

/// Returns a unique number, by which a writer recognises its own writes.
pub(crate) fn nonce() -> i64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // The hasher is keyed by the system's randomness.
    RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed)).cast_signed()
}
