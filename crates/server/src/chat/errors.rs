//! Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`, with the status that its clients know.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::Problem;

/// An error as an OpenAI client expects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<String>,
    retry_after: Option<u64>,
}

impl ChatError {
    /// Returns an error about a parameter of the request.
    pub(crate) fn param(param: impl Into<String>, code: &str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            param: Some(param.into()),
            code: Some(code.to_owned()),
            retry_after: None,
        }
    }

    /// Returns the error for an unknown model.
    pub(crate) fn no_model(name: &str) -> Self {
        let message = format!(
            "The model `{}` does not exist or you do not have access to it.",
            crate::input::shown(name)
        );
        Self { status: StatusCode::NOT_FOUND, ..Self::param("model", "model_not_found", message) }
    }

    /// Returns the error as a JSON document.
    pub(crate) fn document(&self) -> Value {
        let kind = match self.status.as_u16() {
            429 => "requests",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for ChatError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(code = self.code, detail = self.message, "a chat completion failed");
        }
        let mut response = (self.status, Json(self.document())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl<E: Into<Problem>> From<E> for ChatError {
    fn from(err: E) -> Self {
        let problem = err.into();
        let (status, code) = known(problem.code(), problem.status());
        Self {
            status,
            message: problem.detail().to_owned(),
            param: problem.place().map(str::to_owned),
            code: Some(code.to_owned()),
            retry_after: problem.retry_after_seconds(),
        }
    }
}

/// Returns OpenAI's name for a problem; problems without one keep ours.
fn known(code: &str, status: StatusCode) -> (StatusCode, &str) {
    match code {
        "unauthorized" => (StatusCode::UNAUTHORIZED, "invalid_api_key"),
        "rate_limited" | "too_many_requests" | "queue_full" | "model_rate_limited" => {
            (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded")
        }
        "prompt_too_long" | "budget_exceeded" => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
        "guardrail_blocked" | "model_refused" => (StatusCode::BAD_REQUEST, "content_filter"),
        "model_not_found" => (StatusCode::NOT_FOUND, code),
        "model_overloaded" => (StatusCode::SERVICE_UNAVAILABLE, code),
        "model_timed_out" => (StatusCode::GATEWAY_TIMEOUT, code),
        code if status == StatusCode::UNPROCESSABLE_ENTITY => (StatusCode::BAD_REQUEST, code),
        code => (status, code),
    }
}

/// Whether a request comes from one of OpenAI's own clients.
fn is_openai_client(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    headers.contains_key("x-stainless-lang")
        || agent.starts_with("OpenAI/")
        || agent.starts_with("AsyncOpenAI/")
}

/// Converts problem documents of these routes into OpenAI's shape, including those of the gate. It must be outside of
/// every layer that responds with problems.
pub async fn in_openai_shape(request: Request, next: Next) -> Response {
    const LARGEST: usize = 64 * 1024;
    let path = request.uri().path();
    let is_ours = path == "/v1/chat/completions" || path == "/v1/models" || path.starts_with("/v1/models/");
    // Features of OpenAI's API that we do not have, requested by one of its clients.
    let may_be_theirs = path.starts_with("/v1/") && is_openai_client(request.headers());
    let response = next.run(request).await;
    let is_missing = matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
    let is_ours = is_ours || (may_be_theirs && is_missing);
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !is_ours || kind.is_none_or(|it| it != "application/problem+json") {
        return response;
    }
    let (parts, body) = response.into_parts();
    let document: Value = match to_bytes(body, LARGEST).await {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    let code = text("code").unwrap_or_default();
    let (status, code) = known(&code, parts.status);
    let error = ChatError {
        status,
        message: text("detail").unwrap_or_default(),
        param: text("at"),
        code: Some(code.to_owned()),
        retry_after: document["retry_after"].as_u64(),
    };
    let mut shaped = error.into_response();
    for (name, value) in &parts.headers {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shaped
}
