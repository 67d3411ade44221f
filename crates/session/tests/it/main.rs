//! Tests of sessions on the store in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive_limits;
mod archives;
mod codec;
mod conformance;
mod deaf;
mod going_on;
mod once;
mod prepend;
mod scratch;
mod threads;
