//! Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`, with the status that its clients know.
//! Routes respond with problems; [`in_openai_shape`] converts them.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contexture_message::ErrorCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Problem;
use crate::http::refusals::refusals;
use crate::http::schemas::returns;

returns!(ChatError);

/// An error as OpenAI writes it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChatError {
    /// The error.
    error: ChatErrorDetails,
}

/// The details of an error as OpenAI writes it.
#[derive(Serialize, JsonSchema)]
struct ChatErrorDetails {
    /// A description for people.
    message: String,
    /// `invalid_request_error`, `requests` or `server_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The invalid parameter, if there is one.
    param: Option<String>,
    /// The stable code.
    code: Option<&'static str>,
}

refusals! {
    ChatError as "application/json";

    /// The error responses of the routes for OpenAI's clients, in OpenAI's shape.
    ChatRefused {
        "400": "The request can't be read, or can't be done.",
        "401": "A valid API key is needed.",
        "404": "Unknown model.",
        "408": "The request took too long.",
        "409": "The request conflicts with the current state.",
        "413": "The body is too large.",
        "415": "The body is not JSON.",
        "429": "The key asks too often.",
        "500": "The server failed.",
        "502": "The model failed.",
        "503": "The store or the model does not answer, or the server stops.",
        "504": "The turn took too long.",
    }
}

/// Returns the problem of an unknown model.
pub(super) fn no_model(name: &str) -> Problem {
    let name = crate::http::input::shown(name);
    let text = format!("The model `{name}` does not exist or you do not have access to it.");
    Problem::new(ErrorCode::ModelNotFound, text).at("model")
}

/// Returns a problem as OpenAI writes it.
pub(super) fn document(problem: &Problem) -> Value {
    let (status, code) = known(problem);
    let kind = match status.as_u16() {
        429 => "requests",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let (message, param) = (problem.detail().to_owned(), problem.place().map(str::to_owned));
    json!(ChatError { error: ChatErrorDetails { message, kind, param, code: Some(code) } })
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
        ErrorCode::BodyInvalid if problem.place().is_some() => (StatusCode::BAD_REQUEST, "invalid_value"),
        ErrorCode::UnknownField => (StatusCode::BAD_REQUEST, "unsupported_parameter"),
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
    let mut shaped = (known(&problem).0, Json(document(&problem))).into_response();
    for (name, value) in response.headers() {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            shaped.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shaped
}
