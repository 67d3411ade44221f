//! Passes: the request and Explanation of every model call, stored so they can be shown, compared and sent again.
//!
//! A pass is a record in a journal of its session; its id is `session.number`. What a record of the same session has
//! already, such as a message of the conversation, is [named, not repeated](elements): a call that adds two messages to
//! a long conversation adds a record with two messages. Records are pruned after `passes_retention_hours`.

mod elements;
mod legacy;
mod recorder;
mod stored_pass;

pub(crate) use elements::SHARED_HOURS;
pub(crate) use legacy::{CHUNK, RESULT};
pub(crate) use recorder::{PassRecorder, unkept_tenant};
pub(crate) use stored_pass::{CallInfo, PassId, PassReader, PassResult, StoredPass, answer};

/// The name of the journals that hold passes.
pub(crate) const PASSES: &str = "passes";
