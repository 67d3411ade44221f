//! Request logging: an id, a log line, a span and the duration of every request.
//!
//! Neither a query nor a body nor a key is in any of them: a path is logged as the pattern of its route.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use tracing::Instrument;

use crate::app::App;
use crate::http::guarded;
use crate::ops::metrics::{HTTP, HTTP_TIME};
use crate::ops::trace;
use crate::{Caller, Problem};

/// The header with the id of a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of a request id from a client.
const MAX_ID: usize = 128;
/// The name of requests that match no route.
const NO_ROUTE: &str = "none";

/// What is known of a request before the response.
struct RequestInfo {
    id: String,
    method: &'static str,
    route: String,
    started: Instant,
}

/// Logs a request and its response.
pub(crate) async fn log_request(State(app): State<App>, request: Request, next: Next) -> Response {
    let info = RequestInfo {
        id: client_id(request.headers()).unwrap_or_else(|| app.names.next()),
        method: method_name(request.method()),
        route: request.extensions().get::<MatchedPath>().map_or(NO_ROUTE, MatchedPath::as_str).to_owned(),
        started: Instant::now(),
    };
    let span = tracing::info_span!(
        "request",
        otel.name = format!("{} {}", info.method, info.route),
        otel.kind = "server",
        http.request.method = info.method,
        http.route = info.route,
        http.response.status_code = tracing::field::Empty,
        request_id = info.id,
    );
    trace::adopt(&span, request.headers());
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    info.answered(&app, response)
}

impl RequestInfo {
    fn answered(self, app: &App, mut response: Response) -> Response {
        let took = self.started.elapsed();
        let problem = response.extensions_mut().remove::<Problem>();
        self.log(&response, problem.as_ref(), took);
        let metrics = &app.metrics;
        metrics.count(HTTP, &[self.method, &self.route, response.status().as_str()]);
        metrics.time(HTTP_TIME, &[&self.route], took);
        if let Some(problem) = problem {
            metrics.failed(problem.code().as_str());
            response = with_problem_body(response, problem.of_request(&self.id));
        }
        if is_stream(&response) {
            response = guarded(response, metrics.stream());
        }
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
        secure(headers);
        response
    }

    fn log(&self, response: &Response, problem: Option<&Problem>, took: Duration) {
        let caller = response.extensions().get::<Caller>();
        tracing::info!(
            method = self.method,
            path = self.route,
            status = response.status().as_u16(),
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            tenant = caller.map(|it| it.tenant.as_str()),
            key = caller.and_then(|it| it.key.as_deref()),
            code = problem.map(|it| it.code().as_str()),
            request_id = self.id,
            "request"
        );
    }
}

/// Returns the id that a client gave its request, if it is safe to log.
fn client_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    (!id.is_empty() && id.len() <= MAX_ID && id.bytes().all(is_plain)).then(|| id.to_owned())
}

/// Returns the name of a method; unknown methods share one name.
fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    known.into_iter().find(|it| *it == method.as_str()).unwrap_or("other")
}

pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

/// Replaces the body of a response with a problem document. The problem itself stays with the response, for the layer
/// that converts problems into OpenAI's shape.
fn with_problem_body(mut response: Response, problem: Problem) -> Response {
    response.headers_mut().remove(header::CONTENT_LENGTH);
    let text = serde_json::to_vec(&problem).unwrap_or_default();
    response.extensions_mut().insert(problem);
    response.map(|_| Body::from(text))
}

/// Adds headers that restrict what browsers do with a response, unless the route has set them.
fn secure(headers: &mut HeaderMap) {
    let usual = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{REQUEST_ID, client_id};

    #[test]
    fn an_id_is_taken_over_if_it_is_plain() {
        let given = |text: &[u8]| {
            let value = HeaderValue::from_bytes(text).ok()?;
            client_id(&HeaderMap::from_iter([(REQUEST_ID, value)]))
        };
        assert_eq!(given(b"req-1.a_B").as_deref(), Some("req-1.a_B"));
        assert_eq!(given(b""), None);
        assert_eq!(given(b"a b"), None);
        assert_eq!(given("ä".as_bytes()), None);
        assert_eq!(given(b"{\"x\":1}"), None);
        assert_eq!(given(&[b'a'; 129]), None);
    }
}
