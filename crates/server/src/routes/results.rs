//! Results of tools that the client runs, and the turns that wait for them.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use contexture_agent::{AnswerRequest, Pending};
use contexture_compose::Prompt;
use contexture_message::{ErrorCode, ToolOutput};
use contexture_session::{SessionId, Thread};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::turn_shapes::TurnResult;
use super::turns::{ReplyConfig, ThreadQuery, reply, wants_events};
use crate::Problem;
use crate::app::{Access, App};
use crate::http::input::{JsonBody, PathParams, QueryParams, objects, shown};
use crate::http::params::{SessionPath, TurnPath};
use crate::http::refusals::{Conflict, Failed, Form, NotThere, Refused, Unusable};
use crate::http::schemas::accepts;
use crate::loaded_project::LoadedProject;

accepts!(ClientToolResults);

/// Results of tools that the client ran.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientToolResults {
    /// The results; some may come later, the turn waits for them.
    #[serde(deserialize_with = "objects")]
    results: Vec<ClientToolResult>,
    /// Stops the turn when the client disconnects.
    #[serde(default)]
    cancel_on_disconnect: bool,
}

/// The result of a call: its output or its error.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 2, "maxProperties" = 2))]
pub(crate) struct ClientToolResult {
    /// The call.
    call_id: String,
    /// The tool's output: a text, or any JSON.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Value")]
    output: Option<Value>,
    /// The error, instead of an output.
    #[serde(default)]
    #[schemars(with = "String")]
    error: Option<String>,
}

/// Reads a value that is present: null is a valid output.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl ClientToolResult {
    fn read(self) -> Result<(String, ToolOutput), Problem> {
        let output = match (self.output, self.error) {
            (Some(value), None) => ToolOutput::from_value(value),
            (None, Some(error)) => ToolOutput::ErrorText(error),
            _ => {
                let text =
                    format!("the result of `{}` needs either `output` or `error`", shown(&self.call_id));
                return Err(Problem::in_body("results", text));
            }
        };
        Ok((self.call_id, output))
    }
}

/// Send the results of tools that the client ran; the turn continues once none is missing.
///
/// `Accept: text/event-stream` has the same effect as `POST …/results/stream`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/results", operation_id = "answer_client_tools", tag = "turns", request_body = ClientToolResults,
    params(SessionPath, TurnPath, ThreadQuery),
    responses(
        (status = 200, description = "The outcome of the turn.", body = TurnResult),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn results(
    access: Access,
    PathParams(id, turn): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<ThreadQuery>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<ClientToolResults>,
) -> Result<Response, Problem> {
    let thread = access.thread(&id, query.thread).await?;
    let results =
        body.results.into_iter().map(ClientToolResult::read).collect::<Result<Vec<_>, Problem>>()?;
    let (loaded, prompt) = waiting_prompt(&access, &thread, &turn).await?;
    let (as_events, cancel_on_disconnect) = (wants_events(&headers)?, body.cancel_on_disconnect);
    let config = ReplyConfig { as_events, cancel_on_disconnect, ..ReplyConfig::default() };
    reply(&access, &thread, config, |cancel| {
        let request = AnswerRequest { results, cancel, ..AnswerRequest::default() };
        loaded.agent.answer(&prompt, &thread, request)
    })
    .await
}

/// Returns the prompt of the turn that waits on a thread.
pub(crate) async fn waiting_prompt(
    app: &App,
    thread: &Thread,
    turn: &str,
) -> Result<(Arc<LoadedProject>, Prompt), Problem> {
    let not_waiting = || {
        let text = format!("turn `{}` of thread `{}` waits for nothing", shown(turn), thread.id());
        Problem::new(ErrorCode::TurnNotSuspended, text)
    };
    let pending = Pending::of(thread).await?.filter(|it| it.turn.to_string() == turn);
    let pending = pending.ok_or_else(not_waiting)?;
    let loaded = app.loaded();
    let prompt = loaded.prompt(Some(&pending.prompt))?;
    Ok((loaded, prompt))
}
