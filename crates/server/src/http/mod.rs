//! The vocabulary of the HTTP API: callers, input, problems, and how bodies, parameters and refusals are documented.

pub(crate) mod caller;
pub(crate) mod input;
pub(crate) mod params;
pub(crate) mod problem;
pub(crate) mod refusals;
pub(crate) mod schemas;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;

/// Holds something until the body of a response is sent or dropped.
pub(crate) fn guarded<G: Send + 'static>(response: Response, guard: G) -> Response {
    response.map(|body| {
        // The guard belongs to the closure, which belongs to the body.
        Body::new(body.map_err(move |err| {
            let _ = &guard;
            err
        }))
    })
}
