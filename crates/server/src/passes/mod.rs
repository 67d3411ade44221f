//! Passes: the request and Explanation of every model call, stored so they can be shown, compared and sent again.
//!
//! A pass is one record in a stream of its session, numbered like events; its id is `session.number`. Its content is
//! split into [chunks], each stored once under its hash: if the next call of a long conversation adds two
//! messages, it adds two chunks. Records and chunks are pruned after `passes_retention_hours`.

mod chunks;
mod recorder;
mod stored_pass;

pub(crate) use recorder::{PassRecorder, unkept_tenant};
pub(crate) use stored_pass::{PassId, ResultRecord, StoredPass, answer, load, newest};

/// The kind of the streams that hold passes.
pub(crate) const PASSES: &str = "passes";
/// The kind of the documents that hold chunks.
pub(crate) const CHUNK: &str = "piece";
/// The kind of the documents with the results of calls.
pub(crate) const RESULT: &str = "pass_result";
