//! Everything that is promised about messages and token counts, through the public API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod cost;
mod counters;
mod memo;
mod serde;
mod texts;
