//! The port through which models are called.

use std::sync::Arc;

use contexture_message::{Delta, Request};
use contexture_wire::Target;
use futures::stream::BoxStream;

use crate::ModelError;

/// One call of a model.
#[derive(Clone, Debug, Default)]
pub struct ModelCall {
    /// What is sent. Its `model` says who is asked: `provider/model`.
    pub request: Arc<Request>,
    /// Calls with the same key should meet the same provider cache; a thread's id does well.
    pub cache_key: Option<String>,
}

/// The pieces of an answer as they arrive.
pub type Deltas = BoxStream<'static, Result<Delta, ModelError>>;

/// Something that answers requests.
///
/// Implementors promise that the stream ends with exactly one [`Delta::Done`], or with an error, and that dropping it
/// stops the call. Callers rely on nothing being sent before the stream is polled.
pub trait Model: Send + Sync {
    /// Calls the model.
    fn stream(&self, call: ModelCall) -> Deltas;

    /// Returns who a call is for, where it is sent somewhere: what is sent is what
    /// [`encode_request`](contexture_wire::encode_request) makes of it.
    fn target(&self, _call: &ModelCall) -> Option<Target> {
        None
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn stream(&self, call: ModelCall) -> Deltas {
        (**self).stream(call)
    }

    fn target(&self, call: &ModelCall) -> Option<Target> {
        (**self).target(call)
    }
}
