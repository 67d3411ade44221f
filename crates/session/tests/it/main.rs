//! Tests of sessions on the store in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive_limits;
mod archives;
mod artifacts;
mod codec;
mod conformance;
mod lost_replies;
mod once;
mod prepend;
mod resuming;
mod scratch;
mod threads;
mod together;
