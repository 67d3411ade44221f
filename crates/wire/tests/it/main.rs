//! Everything that is promised about dialects, through the public API.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod anthropic;
mod arbitrary;
mod catalogue;
mod damage;
mod decoding;
mod encoding;
mod errors;
mod gemini;
mod golden;
mod judge;
mod roundtrip;
mod streams;
