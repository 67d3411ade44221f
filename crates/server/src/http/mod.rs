//! The vocabulary of the HTTP API: callers, input, problems, and how bodies, parameters and refusals are documented.

pub(crate) mod caller;
pub(crate) mod input;
pub(crate) mod params;
pub(crate) mod problem;
pub(crate) mod refusals;
pub(crate) mod schemas;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use contexture_history::Timestamp;
use http_body_util::BodyExt;
use schemars::JsonSchema;
use serde::Serialize;

/// A time in a document, in UTC with milliseconds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, extend("format" = "date-time"))]
pub(crate) struct DateTime(String);

impl From<Timestamp> for DateTime {
    fn from(at: Timestamp) -> Self {
        Self(at.to_millis())
    }
}

/// Responds with server-sent events.
pub(crate) fn events(frames: Body) -> Response {
    // Proxies that collect answers would hold events back.
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-cache"),
        ("x-accel-buffering", "no"),
    ];
    (headers, frames).into_response()
}

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
