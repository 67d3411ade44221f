//! The port through which models are called.

use std::sync::Arc;

use contexture_message::{Delta, Request};
use contexture_wire::Target;
use futures::stream::BoxStream;

use crate::ModelError;

/// One call to a model.
#[derive(Clone, Debug, Default)]
pub struct ModelCall {
    /// The request. Its `model` selects the model as `provider/model`.
    pub request: Arc<Request>,
    /// Calls with the same key should reach the same provider cache; a thread's id is a good choice.
    pub cache_key: Option<String>,
    /// What [`Model::encode`] made of this call, so that it is not encoded twice.
    pub encoded: Option<WireRequest>,
}

/// A request as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct WireRequest {
    /// The provider and model it is sent to.
    pub target: Target,
    /// The JSON body.
    pub body: bytes::Bytes,
}

/// The pieces of an answer as they arrive.
pub type Deltas = BoxStream<'static, Result<Delta, ModelError>>;

/// A model that answers requests.
///
/// Implementors promise that the stream ends with exactly one [`Delta::Done`], or with an error, and that dropping it
/// stops the call. Callers rely on nothing being sent before the stream is polled.
pub trait Model: Send + Sync {
    /// Calls the model and returns the pieces of its answer.
    fn stream(&self, call: ModelCall) -> Deltas;

    /// Returns what a call sends, if it is sent to a provider: what
    /// [`encode_request`](contexture_wire::encode_request) makes of it.
    fn encode(&self, _call: &ModelCall) -> Option<WireRequest> {
        None
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn stream(&self, call: ModelCall) -> Deltas {
        (**self).stream(call)
    }

    fn encode(&self, call: &ModelCall) -> Option<WireRequest> {
        (**self).encode(call)
    }
}
