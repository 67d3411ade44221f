//! Errors of the HTTP API: a problem document (RFC 9457) with a stable code.

use std::convert::Infallible;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture_agent::AgentError;
use contexture_flow::RunError;
use contexture_message::{ErrorClass, ErrorCode};
use contexture_model::ModelError;
use contexture_project::ProjectError;
use contexture_session::{IdInvalid, SessionError, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schemas::returns;

returns!(Problem);

/// A problem document (RFC 9457).
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    /// Names the kind of problem: `urn:contexture:problem:` and the code.
    #[serde(rename = "type")]
    kind: Box<str>,
    /// The meaning of the status.
    title: &'static str,
    /// The status of the response.
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// The stable code.
    #[schemars(with = "String")]
    code: ErrorCode,
    /// A description for people.
    detail: String,
    /// After how many seconds it makes sense to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after: Option<u64>,
    #[serde(flatten)]
    more: Box<More>,
}

/// Fields that only some problems have. Boxed, because problems are returned everywhere and should be small.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct More {
    /// The location, such as a file and line, or a field of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// A hint on how to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The thread of the turn that went wrong, where one had begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The turn that went wrong, where one had begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    /// The request, as the server's log knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// What there is now, where a write expected something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<serde_json::Value>,
}

impl Problem {
    /// Returns a problem; its status follows from its code.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let status = status_of(code.class());
        Self {
            kind: format!("urn:contexture:problem:{code}").into(),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code,
            detail: detail.into(),
            retry_after: None,
            more: Box::default(),
        }
    }

    /// Sets what there is now, where a write expected something else.
    pub fn current(mut self, current: serde_json::Value) -> Self {
        self.more.current = Some(current);
        self
    }

    /// Sets the location.
    pub fn at(mut self, at: impl Into<String>) -> Self {
        self.more.at = Some(at.into());
        self
    }

    /// Sets a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.more.hint = Some(hint.into());
        self
    }

    /// Sets when to retry.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Sets the turn that failed.
    pub fn of_turn(mut self, thread: &str, turn: &str) -> Self {
        (self.more.thread, self.more.turn) = (Some(thread.to_owned()), Some(turn.to_owned()));
        self
    }

    /// Sets the request id.
    pub(crate) fn of_request(mut self, id: &str) -> Self {
        self.more.request_id = Some(id.to_owned());
        self
    }

    /// Returns the stable code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns what is wrong, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns where it is, if that is known.
    pub fn place(&self) -> Option<&str> {
        self.more.at.as_deref()
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the problem for something that does not exist.
    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no {what} `{name}`"))
    }

    /// Returns the problem for a turn or run that the server does not begin any more.
    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorCode::ShuttingDown, "the server is stopping and begins nothing new").retry_after(1)
    }

    /// Returns a problem with a field of the body.
    pub(crate) fn in_body(at: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::BodyInvalid, detail).at(at)
    }
}

/// A document, or the problem that stands in its place.
pub(crate) type JsonResult<T> = Result<Json<T>, Problem>;

/// Returns the status of a class of errors.
fn status_of(class: ErrorClass) -> StatusCode {
    match class {
        ErrorClass::Unauthorized => StatusCode::UNAUTHORIZED,
        ErrorClass::Forbidden => StatusCode::FORBIDDEN,
        ErrorClass::NotFound => StatusCode::NOT_FOUND,
        ErrorClass::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorClass::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
        ErrorClass::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        ErrorClass::Conflict | ErrorClass::Contention => StatusCode::CONFLICT,
        ErrorClass::Gone => StatusCode::GONE,
        ErrorClass::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorClass::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorClass::Malformed => StatusCode::BAD_REQUEST,
        ErrorClass::Invalid | ErrorClass::CheckFailed | ErrorClass::Refused => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ErrorClass::Throttled => StatusCode::TOO_MANY_REQUESTS,
        ErrorClass::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorClass::Upstream => StatusCode::BAD_GATEWAY,
        ErrorClass::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorClass::Timeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let retry_after = self.retry_after;
        if status.is_server_error() {
            tracing::warn!(code = self.code.as_str(), detail = self.detail, "a request failed");
        }
        let mut response = (status, Json(&self)).into_response();
        // The request log adds the id of the request.
        response.extensions_mut().insert(self);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

macro_rules! problem_from {
    ($($err:ty),+) => {$(
        impl From<$err> for Problem {
            fn from(err: $err) -> Self {
                Self::new(err.code(), err.to_string())
            }
        }
    )+};
}

problem_from!(StoreError, SessionError, RunError);

impl From<Infallible> for Problem {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<IdInvalid> for Problem {
    fn from(err: IdInvalid) -> Self {
        SessionError::from(err).into()
    }
}

impl From<ModelError> for Problem {
    fn from(err: ModelError) -> Self {
        let problem = Self::new(err.kind().code(), err.to_string());
        let retry_after = err.retry_after().map(|it| it.as_secs().max(1));
        Self { retry_after, ..problem }
    }
}

impl From<AgentError> for Problem {
    fn from(err: AgentError) -> Self {
        let problem = Self::new(err.code(), err.to_string());
        match err {
            AgentError::RequestInvalid { at, reason } => Self::in_body(at, reason),
            AgentError::Model(err) => Self { retry_after: Self::from(err).retry_after, ..problem },
            _ => problem,
        }
    }
}

impl From<ProjectError> for Problem {
    fn from(err: ProjectError) -> Self {
        let Some(first) = err.faults.first() else {
            return Self::new(ErrorCode::DefinitionInvalid, err.to_string());
        };
        let others = err.faults.len() - 1;
        let more = if others > 0 { format!(" (and {others} more)") } else { String::new() };
        let problem = Self::new(first.code, format!("{}{more}", first.message));
        let more = More { at: first.at(), hint: first.hint.clone(), ..More::default() };
        Self { more: Box::new(more), ..problem }
    }
}

#[cfg(test)]
mod tests {
    use contexture_agent::AgentError;
    use contexture_model::{ModelError, ModelErrorKind};

    use super::Problem;

    #[test]
    fn only_a_key_that_is_missing_is_the_request_s_choice() {
        let status = |kind| {
            let err = ModelError::new(kind, "x");
            let problems = [Problem::from(err.clone()), Problem::from(AgentError::Model(err))];
            problems.map(|it| (it.code().to_string(), it.status().as_u16()))
        };
        let auth = |status| [("model_auth".to_owned(), status), ("model_auth".to_owned(), status)];
        assert_eq!(status(ModelErrorKind::KeyMissing), auth(422));
        assert_eq!(status(ModelErrorKind::Auth), auth(502));
    }
}
