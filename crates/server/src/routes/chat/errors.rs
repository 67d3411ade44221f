//! Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`, with the status that its clients know.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contexture_message::ErrorCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::{self, ContentBuilder, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, PartialSchema};

use crate::Problem;
use crate::http::schemas::returns;

returns!(ErrorDocument);

/// An error as an OpenAI client expects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<String>,
    retry_after: Option<u64>,
}

/// An error as OpenAI writes it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatError")]
pub(crate) struct ErrorDocument {
    /// The error.
    error: ErrorDetails,
}

/// The details of an error as OpenAI writes it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatErrorDetails")]
struct ErrorDetails {
    /// A description for people.
    message: String,
    /// `invalid_request_error`, `requests` or `server_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The invalid parameter, if there is one.
    param: Option<String>,
    /// The stable code.
    code: Option<String>,
}

/// The error responses of the routes for OpenAI's clients, in OpenAI's shape.
pub(crate) struct ChatRefused;

impl IntoResponses for ChatRefused {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let texts = [
            ("400", "The request can't be read, or can't be done."),
            ("401", "A valid API key is needed."),
            ("404", "Unknown model."),
            ("408", "The request took too long."),
            ("409", "The request conflicts with the current state."),
            ("413", "The body is too large."),
            ("415", "The body is not JSON."),
            ("429", "The key asks too often."),
            ("500", "The server failed."),
            ("502", "The model failed."),
            ("503", "The store or the model does not answer, or the server stops."),
            ("504", "The turn took too long."),
        ];
        let response = |text: &str| {
            let content = ContentBuilder::new().schema(Some(ErrorDocument::schema())).build();
            ResponseBuilder::new().description(text).content("application/json", content).build()
        };
        texts.into_iter().map(|(status, text)| (status.to_owned(), response(text).into())).collect()
    }
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
            crate::http::input::shown(name)
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
        let error = ErrorDetails {
            message: self.message.clone(),
            kind,
            param: self.param.clone(),
            code: self.code.clone(),
        };
        json!(ErrorDocument { error })
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
        let (status, code) = known(&problem);
        Self {
            status,
            message: problem.detail().to_owned(),
            param: problem.place().map(str::to_owned),
            code: Some(code.to_owned()),
            retry_after: problem.retry_after_seconds(),
        }
    }
}

/// Returns OpenAI's status and name for a problem; problems without one keep ours.
fn known(problem: &Problem) -> (StatusCode, &'static str) {
    let code = problem.code();
    match code {
        ErrorCode::Unauthorized => (StatusCode::UNAUTHORIZED, "invalid_api_key"),
        ErrorCode::RateLimited | ErrorCode::QueueFull | ErrorCode::ModelRateLimited => {
            (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded")
        }
        ErrorCode::PromptTooLong | ErrorCode::BudgetExceeded => {
            (StatusCode::BAD_REQUEST, "context_length_exceeded")
        }
        ErrorCode::GuardrailBlocked | ErrorCode::ModelRefused => (StatusCode::BAD_REQUEST, "content_filter"),
        ErrorCode::ModelNotFound => (StatusCode::NOT_FOUND, code.as_str()),
        ErrorCode::ModelOverloaded => (StatusCode::SERVICE_UNAVAILABLE, code.as_str()),
        ErrorCode::ModelTimedOut => (StatusCode::GATEWAY_TIMEOUT, code.as_str()),
        _ if problem.status() == StatusCode::UNPROCESSABLE_ENTITY => (StatusCode::BAD_REQUEST, code.as_str()),
        _ => (problem.status(), code.as_str()),
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
    let path = request.uri().path();
    let is_ours = path == "/v1/chat/completions" || path == "/v1/models" || path.starts_with("/v1/models/");
    // Features of OpenAI's API that we do not have, requested by one of its clients.
    let may_be_theirs = path.starts_with("/v1/") && is_openai_client(request.headers());
    let response = next.run(request).await;
    let is_missing = matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
    let is_ours = is_ours || (may_be_theirs && is_missing);
    let problem = response.extensions().get::<Problem>().filter(|_| is_ours).cloned();
    let Some(problem) = problem else { return response };
    let mut shaped = ChatError::from(problem).into_response();
    for (name, value) in response.headers() {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shaped
}
