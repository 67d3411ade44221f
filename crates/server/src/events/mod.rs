//! The events of sessions: numbered, written to the store before they are published, and kept for a while in memory.

pub(crate) mod log;
mod recent;
pub(crate) mod subscribers;
pub(crate) mod writer;
