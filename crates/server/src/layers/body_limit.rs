//! Size and time limits of request bodies.

use contexture_message::ErrorCode;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::Problem;
use crate::app::App;

/// Reads the body of a request before its route runs, within limits of size and time. Routes whose method is not POST
/// call no model, so their response has the same time limit.
pub(crate) async fn limit(State(app): State<App>, request: Request, next: Next) -> Response {
    let timeout = Duration::from_secs(app.config.request_timeout_seconds.max(1));
    let max = usize::try_from(app.config.max_body_bytes).unwrap_or(usize::MAX);
    let request = match read(request, max, timeout).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    if request.method() == Method::POST {
        return next.run(request).await;
    }
    match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => late("the request took", timeout).into_response(),
    }
}

async fn read(request: Request, max: usize, timeout: Duration) -> Result<Request, Problem> {
    let (head, body) = request.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if length.and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it > max as u64) {
        return Err(too_large(max));
    }
    let whole = tokio::time::timeout(timeout, Limited::new(body, max).collect()).await;
    let whole = whole.map_err(|_| late("the body took", timeout))?;
    let bytes = whole.map_err(|err| match err.is::<LengthLimitError>() {
        true => too_large(max),
        false => Problem::new(ErrorCode::BodyInvalid, "the body could not be read to its end"),
    })?;
    Ok(Request::from_parts(head, Body::from(bytes.to_bytes())))
}

fn too_large(max: usize) -> Problem {
    Problem::new(ErrorCode::BodyTooLarge, format!("the body is larger than {max} bytes"))
        .hint("`server.max_body_bytes` of contexture.toml is the limit")
}

fn late(what: &str, timeout: Duration) -> Problem {
    let text = format!("{what} longer than {} seconds", timeout.as_secs());
    Problem::new(ErrorCode::RequestTimeout, text).hint("`server.request_timeout_seconds` is the limit")
}
