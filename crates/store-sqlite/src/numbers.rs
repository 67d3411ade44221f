//! Numbers: ours have no sign, SQLite's have one.

use contexture_history::Seq;

/// Returns a number as SQLite stores it. One that is too large for it is larger than anything stored.
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a stored number; it is never negative.
pub(crate) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns a stored position.
pub(crate) fn seq(number: i64) -> Seq {
    Seq(from_sql(number))
}
