//! Passes: the request and Explanation of every model call, stored so they can be shown, compared and sent again.
//!
//! A pass is one record in a stream of its session, numbered like events are; its id is `session.number`. What it says
//! is cut into [pieces](chunks), each kept once under the hash of what it says: a long conversation whose next call
//! adds two messages adds two pieces. Records and pieces are forgotten after `passes_retention_hours`.

mod chunks;
mod recorder;
mod stored_pass;

pub(crate) use recorder::{PassRecorder, unkept_tenant};
pub(crate) use stored_pass::{PassId, StoredPass, answer, load, newest};

/// The kind of the streams that hold passes.
pub(crate) const PASSES: &str = "passes";
/// The kind of the documents that hold pieces.
pub(crate) const CHUNK: &str = "piece";
/// The kind of the documents that say what came of a call.
pub(crate) const RESULT: &str = "pass_result";
