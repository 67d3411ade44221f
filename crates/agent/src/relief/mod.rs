//! Makes conversations fit: in a running turn, before one begins, and on request.
//!
//! The [`ladder`] says which steps are taken in which order. A [`job`] is one of them: a range that is summarised.

mod job;
mod ladder;
mod log_writer;
mod on_request;

pub(crate) use ladder::{Compactions, MAX_RUNGS, Overflow, Relief, overflow};
pub(crate) use log_writer::LogWriter;
pub use on_request::CompactRequest;
