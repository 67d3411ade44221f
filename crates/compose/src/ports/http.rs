//! The HTTP port: calls of tools, retrievers and embedders. Nothing in the engine opens a socket.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::BoxError;

/// An HTTP call, ready to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The complete URL.
    pub url: String,
    /// Headers that are sent unchanged.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, by the names under which the caller looks them up.
    pub secret_headers: BTreeMap<String, String>,
    /// The JSON body, if there is one.
    pub body: Option<Value>,
    /// The largest response to read, in bytes; a larger one is a failure.
    pub max_bytes: usize,
}

/// The response to an HTTP call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// The HTTP status code.
    pub status: u16,
    /// The media type, if the server sent one.
    pub content_type: Option<String>,
    /// The body of the response.
    pub body: Vec<u8>,
}

/// Makes HTTP calls.
///
/// Implementations must look up secrets by name, send them only to the named host (no redirects to others), read no
/// more than `max_bytes`, and never put a secret into an error.
pub trait HttpCaller: Send + Sync {
    /// Makes a call.
    fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>>;
}
