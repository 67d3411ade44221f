//! Knowledge bases: documents, their chunks, and the index of these.

pub(crate) mod base;
pub(crate) mod counts;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod vectors;
pub(crate) mod write;
