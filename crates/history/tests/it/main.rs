//! Tests of turns, windows, repair and transforms: text in, text out.

mod cases;
mod compaction;
mod log;
mod newest;
mod notation;
mod properties;
mod redact;
mod repair;
mod search;
mod transcript;
mod transform;
mod view;
mod window;
