//! The file: how it is opened, written in groups, read in parallel and checkpointed.

pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod identity;
mod latency;
pub(crate) mod open;
pub(crate) mod readers;
pub(crate) mod writer;
