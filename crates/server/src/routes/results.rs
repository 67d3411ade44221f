//! Results of tools that the client runs, and the turns that wait for them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use contexture_agent::{AnswerRequest, Pending};
use contexture_compose::Prompt;
use contexture_message::{ErrorCode, ToolOutput};
use contexture_session::{SessionId, Thread};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::sessions::thread_of;
use super::turn_shapes::{TurnEventFrame, TurnResult};
use super::turns::{ThreadQuery, as_events, reply, wants_events};
use crate::http::input::{JsonBody, PathParams, QueryParams, objects, shown};
use crate::http::params::TurnPath;
use crate::http::refusals::{Conflict, Failed, Form, NotThere, Refused, Unusable};
use crate::http::schemas::accepts;
use crate::loaded_project::LoadedProject;
use crate::running_turns::{TurnJob, TurnTask};
use crate::{App, Caller, Problem};

accepts!(Results);

/// Results of tools that the client ran.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClientToolResults")]
pub(crate) struct Results {
    /// The results; some may come later, the turn waits for them.
    #[serde(deserialize_with = "objects")]
    results: Vec<ResultOf>,
    /// Stops the turn when the client disconnects.
    #[serde(default)]
    cancel_on_disconnect: bool,
}

/// The result of a call: its output or its error.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClientToolResult", extend("minProperties" = 2, "maxProperties" = 2))]
pub(crate) struct ResultOf {
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

impl ResultOf {
    fn read(self) -> Result<(String, ToolOutput), Problem> {
        let output = match (self.output, self.error) {
            (Some(value), None) => ToolOutput::from_value(value),
            (None, Some(error)) => ToolOutput::ErrorText(error),
            _ => {
                let text =
                    format!("the result of `{}` needs either `output` or `error`", shown(&self.call_id));
                return Err(Problem::new(ErrorCode::BodyInvalid, text).at("results"));
            }
        };
        Ok((self.call_id, output))
    }
}

/// Send the results of tools that the client ran; the turn continues once none is missing.
///
/// `Accept: text/event-stream` has the same effect as `POST …/results/stream`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/results", operation_id = "answer_client_tools", tag = "turns", request_body = Results,
    params(TurnPath, ThreadQuery),
    responses(
        (status = 200, description = "The outcome of the turn.", body = TurnResult),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn results(
    State(app): State<App>,
    caller: Caller,
    PathParams(id, turn): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<ThreadQuery>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Results>,
) -> Result<Response, Problem> {
    let thread = thread_of(&app, &caller, &id, query.thread).await?;
    let results = body.results.into_iter().map(ResultOf::read).collect::<Result<Vec<_>, Problem>>()?;
    let (loaded, prompt) = waiting_prompt(&app, &thread, &turn).await?;
    let job = TurnJob::Answer(Box::new(AnswerRequest { results, ..AnswerRequest::default() }));
    let task = TurnTask { thread, prompt, agent: loaded.agent.clone(), job, asked: None, tap: None };
    reply(&app, task, wants_events(&headers)?, body.cancel_on_disconnect).await
}

/// Send the results of tools that the client ran, and stream the events of the turn.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/results/stream", operation_id = "stream_client_tools", tag = "turns", request_body = Results,
    params(TurnPath, ThreadQuery),
    responses(
        (status = 200, description = "The events of the turn: the `data` of each frame is a `TurnEvent`.", body = TurnEventFrame, content_type = "text/event-stream"),
        Refused, NotThere, Conflict, Unusable, Failed,
    )
)]
pub(crate) async fn results_stream(
    app: State<App>,
    caller: Caller,
    turn: PathParams<SessionId, String>,
    query: QueryParams<ThreadQuery>,
    headers: HeaderMap,
    body: JsonBody<Results>,
) -> Result<Response, Problem> {
    results(app, caller, turn, query, as_events(headers), body).await
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
