//! Turns: run one, stop one, try one again, go on with one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture_agent::{AnswerRequest, ApprovalRequest, Ended, Outcome, Pending, RunRequest};
use contexture_compose::{InlineBlock, Prompt, Scope};
use contexture_history::{Timestamp, TurnStatus};
use contexture_message::{Message, Part, Role, Settings, Tool, ToolCall, ToolOutput};
use contexture_session::records::DocumentKey;
use contexture_session::{MAX_ID_BYTES, Policy, SessionId, SessionKey, Thread};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::again::{replayed, told_again};
use super::events::{After, Follow};
use super::sessions::thread_of;
use crate::input::{Asked, Body, Id, Ids, object, objects, shown};
use crate::openapi::params::{Retryable, SessionPath, TurnPath};
use crate::openapi::refusals::{Conflict, Failed, Form, NotThere, Refused, Unusable};
use crate::openapi::shapes;
use crate::runs::{AskedFor, Handle, Job, TURN, Task};
use crate::told::events_of;
use crate::world::World;
use crate::{App, Caller, Problem, control};

/// What a turn is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TurnRequest {
    /// The prompt's id; without one the project's only prompt, or the one that is called `chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    /// The prompt's input.
    #[schema(value_type = Option<Object>, required = false)]
    input: Value,
    /// What the user says: a text, or a list of parts. Without it the prompt's own `user` text begins the turn.
    #[schema(value_type = Option<shapes::Said>, example = "Where is my order?")]
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Value>,
    /// Another thread of the session than the main one.
    #[schema(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The model, `provider/model`; wins over the thread's and the prompt's.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Settings that win over the prompt's, such as `temperature`.
    #[schema(value_type = shapes::Settings)]
    #[serde(deserialize_with = "object")]
    settings: Settings,
    /// Blocks for the hidden envelope of the user's message: `{"name", "body", "order"?}`.
    #[schema(value_type = Vec<shapes::InlineBlock>)]
    #[serde(deserialize_with = "objects")]
    blocks: Vec<InlineBlock>,
    /// Tools that the client runs: `{"name", "description", "parameters"}`. A turn that calls one waits for its results.
    #[schema(value_type = Vec<shapes::ClientTool>)]
    #[serde(deserialize_with = "objects")]
    client_tools: Vec<Tool>,
    /// Reminders for this turn.
    reminders: Vec<String>,
    /// Evaluates the frozen prefix anew.
    refresh: bool,
    /// What happens when a turn is already running: `queue` (wait, the default), `reject` or `fork`.
    #[schema(value_type = shapes::Policy)]
    policy: Policy,
    /// What templates see as `ctx.user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// Stops the turn when the client that asked for it is gone; otherwise it goes on.
    cancel_on_disconnect: bool,
}

/// What a turn came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnResult {
    /// The thread it ran on; with the policy `fork` it may be a copy.
    thread: String,
    /// The turn, such as `t7`.
    turn: String,
    /// `completed`, `suspended`, `failed` or `interrupted`.
    #[schema(value_type = shapes::TurnStatus)]
    status: TurnStatus,
    /// Why it ended: `answered`, `max_steps`, `tool_called`, `max_tokens`, `max_cost`, `suspended`, `client_tools` or `replayed`.
    ended: String,
    /// The text of the model's last message.
    text: String,
    /// The answer as a value, where the prompt has an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    output: Option<Value>,
    /// How often the model was called.
    steps: u32,
    /// What all calls cost together.
    #[schema(value_type = shapes::Usage)]
    usage: contexture_message::Usage,
    /// The same in money, if the prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// What checks had to say.
    remarks: Vec<RemarkView>,
    /// What waits for a decision, with the tokens that decide it: `POST /v1/approvals/{id}`.
    #[schema(value_type = Vec<shapes::ApprovalRequest>)]
    approvals: Vec<ApprovalRequest>,
    /// Calls of the client's tools, whose results the turn waits for: `POST …/turns/{turn}/results`.
    #[schema(value_type = Vec<shapes::ToolCall>)]
    client_calls: Vec<ToolCall>,
    /// What was summarised to make room.
    #[schema(value_type = Vec<shapes::CompactionReport>)]
    compactions: Vec<Value>,
}

/// What a check had to say.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemarkView {
    /// Who says it.
    source: String,
    /// What it says.
    message: String,
}

impl TurnResult {
    pub(crate) fn of(outcome: Outcome) -> Self {
        let remarks = outcome.remarks.iter();
        let remarks = remarks.map(|it| RemarkView { source: it.source.clone(), message: it.message.clone() });
        let compactions = outcome.compactions.iter();
        Self {
            thread: outcome.thread.to_string(),
            turn: outcome.turn.to_string(),
            status: outcome.status,
            ended: ended_name(&outcome.ended).to_owned(),
            text: outcome.text(),
            steps: outcome.steps,
            usage: outcome.usage,
            cost: outcome.cost,
            remarks: remarks.collect(),
            compactions: compactions.map(|it| serde_json::to_value(it).unwrap_or_default()).collect(),
            output: outcome.output,
            approvals: outcome.approvals,
            client_calls: outcome.client_calls,
        }
    }
}

fn ended_name(ended: &Ended) -> &'static str {
    match ended {
        Ended::Answered => "answered",
        Ended::MaxSteps(_) => "max_steps",
        Ended::ToolCalled(_) => "tool_called",
        Ended::MaxTokens => "max_tokens",
        Ended::MaxCost => "max_cost",
        Ended::Suspended => "suspended",
        Ended::ClientTools => "client_tools",
        Ended::Replayed => "replayed",
    }
}

impl TurnRequest {
    /// Refuses what means something in a session only.
    pub(crate) fn check_unkept(&self) -> Result<(), Problem> {
        match &self.thread {
            None => Ok(()),
            Some(_) => {
                let text = "`thread` means nothing without a session";
                Err(Problem::new("unknown_field", text)
                    .at("thread")
                    .hint("`POST /v1/sessions/{id}/turns` takes it"))
            }
        }
    }

    /// Returns the id of the prompt that is asked for.
    pub(crate) fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Returns what the agent is asked for.
    pub(crate) fn run_request(
        &self,
        caller: &Caller,
        session: Option<&SessionId>,
        key: Option<String>,
        now: Timestamp,
    ) -> Result<RunRequest, Problem> {
        Ok(RunRequest {
            input: if self.input.is_null() { json!({}) } else { self.input.clone() },
            user: self.user.clone().map(said).transpose()?,
            blocks: self.blocks.clone(),
            client_tools: self.checked_tools()?,
            reminders: self.reminders.clone(),
            refresh: self.refresh,
            key,
            policy: self.policy,
            scope: self.scope(caller, session, now.to_seconds()),
            model: self.model.clone(),
            settings: self.settings.clone(),
            ..RunRequest::default()
        })
    }

    fn checked_tools(&self) -> Result<Vec<Tool>, Problem> {
        match self.client_tools.iter().position(|it| !it.parameters.is_object()) {
            None => Ok(self.client_tools.clone()),
            Some(idx) => {
                let problem =
                    Problem::new("body_invalid", "the parameters of a tool are a JSON Schema, an object");
                Err(problem.at(format!("client_tools[{idx}].parameters")))
            }
        }
    }

    fn scope(&self, caller: &Caller, session: Option<&SessionId>, now: String) -> Scope {
        Scope {
            session: session.map(ToString::to_string),
            user: self.user_id.clone(),
            tenant: Some(caller.tenant.to_string()),
            now: Some(now),
        }
    }
}

/// Reads what the user says: a text, or a list of parts of a message.
fn said(value: Value) -> Result<Message, Problem> {
    let wrong = |err: String| Problem::new("message_invalid", err).at("user");
    let message = json!({"role": "user", "content": value});
    let message: Message = serde_json::from_value(message).map_err(|err| wrong(err.to_string()))?;
    let is_said = |it: &Part| matches!(it, Part::Text { .. } | Part::Image(_) | Part::File(_));
    match message.role == Role::User && message.content.iter().all(is_said) {
        true => Ok(message),
        false => Err(wrong("the user says text, images and files only".to_owned())),
    }
}

/// Run a turn: JSON, or server-sent events by `Accept: text/event-stream`.
///
/// The turn goes on when the client is gone, unless `cancel_on_disconnect` is set. The same `Idempotency-Key` again gives
/// the outcome of the first turn.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns", operation_id = "run_turn", tag = "turns", request_body = TurnRequest,
    params(SessionPath, Retryable),
    responses(
        (status = 200, description = "What the turn came to; or, with `Accept: text/event-stream`, its events: the `data` of each frame is a `SessionEvent`.", content((TurnResult = "application/json"), (shapes::EventFrame = "text/event-stream"))),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn run(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id<SessionId>,
    headers: HeaderMap,
    Body(request): Body<TurnRequest>,
) -> Result<Response, Problem> {
    begin(&app, &caller, id, &headers, request).await
}

async fn begin(
    app: &App,
    caller: &Caller,
    id: SessionId,
    headers: &HeaderMap,
    request: TurnRequest,
) -> Result<Response, Problem> {
    let world = app.world();
    let prompt = world.prompt(request.prompt())?;
    let (key, as_events) = (idempotency_key(headers)?, wants_events(headers)?);
    let run_request = request.run_request(caller, Some(&id), key.clone(), app.0.time.now())?;
    let thread = thread_of(app, caller, &id, request.thread.clone()).await?;
    let session = SessionKey { tenant: caller.tenant.clone(), session: id };
    if let Some(key) = key.filter(|_| as_events)
        && let Some(response) = told_again(app, &session, &thread, &key).await?
    {
        return Ok(response);
    }
    let asked = serde_json::to_value(&request).ok();
    let job = Job::Run(Box::new(run_request));
    let task =
        Task { session: Some(session), thread, prompt, agent: world.agent.clone(), job, asked, tap: None };
    reply(app, task, as_events, request.cancel_on_disconnect).await
}

/// Runs a turn and answers in the form that was asked for.
pub(crate) async fn reply(
    app: &App,
    task: Task,
    as_events: bool,
    cancel_on_disconnect: bool,
) -> Result<Response, Problem> {
    let session = task.session.clone();
    let after = match (&session, as_events) {
        (Some(session), true) => app.0.records.extent(events_of(session)).await?.last,
        _ => 0,
    };
    let handle = app.0.runs.start(task)?;
    let guard = cancel_on_disconnect.then(|| handle.cancel.clone().drop_guard());
    match session.filter(|_| as_events) {
        Some(session) => stream(app, session, after, handle, guard).await,
        None => {
            let result = whole(handle).await?;
            guard.map(tokio_util::sync::DropGuard::disarm);
            Ok(Json(result).into_response())
        }
    }
}

async fn whole(handle: Handle) -> Result<TurnResult, Problem> {
    let Handle { mut began, outcome, stopped, .. } = handle;
    let outcome = outcome.await.map_err(|_| gone())?;
    outcome.map(TurnResult::of).map_err(|err| {
        let problem = stopped.problem(err);
        match began.try_recv() {
            Ok(began) => problem.of_turn(began.thread.as_str(), &began.turn),
            Err(_) => problem,
        }
    })
}

fn gone() -> Problem {
    Problem::new("cancelled", "the turn was dropped")
}

/// Answers with the events of a turn: from the log, like everybody else gets them.
async fn stream(
    app: &App,
    session: SessionKey,
    after: u64,
    handle: Handle,
    guard: Option<tokio_util::sync::DropGuard>,
) -> Result<Response, Problem> {
    let Handle { began, mut outcome, tokens, stopped, cancel: _ } = handle;
    let problem_of = |err| stopped.problem(err);
    let began = tokio::select! {
        biased;
        began = began => began.ok(),
        outcome = &mut outcome => {
            // It was refused, or had its turn before.
            let outcome = outcome.map_err(|_| gone())?.map_err(problem_of)?;
            return Ok(replayed(&session, &outcome));
        }
    };
    let Some(began) = began else {
        let outcome = outcome.await.map_err(|_| gone())?.map_err(problem_of)?;
        return Ok(replayed(&session, &outcome));
    };
    let follow = Follow::new(app, session, After::Number(after)).of_turn(began, outcome, tokens, guard);
    Ok(follow.response())
}

/// Returns the key of a request that may be sent again.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text =
        value.to_str().map_err(|_| Problem::new("header_invalid", "`Idempotency-Key` is not plain text"))?;
    match text.len() {
        1..=MAX_ID_BYTES => Ok(Some(text.to_owned())),
        n => {
            let text = format!("`Idempotency-Key` has {n} bytes; it has 1 to {MAX_ID_BYTES}");
            Err(Problem::new("header_invalid", text).at("Idempotency-Key"))
        }
    }
}

/// Whether the client wants events.
pub(crate) fn wants_events(headers: &HeaderMap) -> Result<bool, Problem> {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let kinds: Vec<String> = accepts
        .flat_map(|it| it.split(','))
        .map(|it| it.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        .filter(|it| !it.is_empty())
        .collect();
    let any = |names: &[&str]| kinds.iter().any(|it| names.contains(&it.as_str()));
    match () {
        () if any(&["text/event-stream"]) => Ok(true),
        () if kinds.is_empty() || any(&["*/*", "application/*", "application/json"]) => Ok(false),
        () => Err(Problem::new("not_acceptable", "the answer is `application/json` or `text/event-stream`")),
    }
}

/// Which thread.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ThreadQuery {
    /// Another thread of the session than the main one.
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", nullable = false)]
    pub(crate) thread: Option<String>,
}

/// Stop a turn that runs, on whichever instance. What it said until then is kept.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/cancel", operation_id = "cancel_turn", tag = "turns",
    params(TurnPath, ThreadQuery),
    responses((status = 202, description = "It is told to stop."), Refused, NotThere)
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Ids(id, turn): Ids<SessionId, String>,
    Asked(query): Asked<ThreadQuery>,
) -> Result<StatusCode, Problem> {
    let thread = thread_of(&app, &caller, &id, query.thread).await?;
    if app.0.runs.cancel(thread.key(), &turn) {
        return Ok(StatusCode::ACCEPTED);
    }
    // Another instance may run it.
    let open = thread.get().state().open;
    match open.is_some_and(|it| it.status == TurnStatus::InFlight && it.turn.to_string() == turn) {
        true => control::cancel(&app, thread.key(), &turn).await.map(|()| StatusCode::ACCEPTED),
        false => Err(Problem::not_found("running turn", &shown(&turn))),
    }
}

/// Try a turn again that failed or was interrupted: a new turn with what was asked for then.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/retry", operation_id = "retry_turn", tag = "turns",
    params(TurnPath, ThreadQuery, Retryable),
    responses(
        (status = 200, description = "What the turn came to; or, with `Accept: text/event-stream`, its events: the `data` of each frame is a `SessionEvent`.", content((TurnResult = "application/json"), (shapes::EventFrame = "text/event-stream"))),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Ids(id, turn): Ids<SessionId, String>,
    Asked(query): Asked<ThreadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let thread = thread_of(&app, &caller, &id, query.thread).await?;
    check_retryable(&thread, &turn)?;
    let name = format!("{}:{turn}", thread.id());
    let key = DocumentKey::of_session(&caller.tenant, &id, TURN, name);
    let found = app.0.records.documents(vec![key]).await?;
    let asked = found.first().and_then(|it| serde_json::from_str::<AskedFor>(&it.data).ok());
    let request = asked.and_then(|it| serde_json::from_value::<TurnRequest>(it.request).ok());
    let request = request.ok_or_else(|| Problem::not_found("request of turn", &turn))?;
    begin(&app, &caller, id, &headers, request).await
}

fn check_retryable(thread: &Thread, turn: &str) -> Result<(), Problem> {
    let snapshot = thread.get();
    let found = snapshot.turns().iter().find(|it| **it.id() == *turn);
    match found.map(|it| it.status()) {
        Some(TurnStatus::Failed | TurnStatus::Interrupted) => Ok(()),
        Some(status) => {
            let text = format!(
                "turn `{turn}` is {}: only one that failed or was interrupted is tried again",
                status.as_str()
            );
            Err(Problem::new("turn_not_retryable", text))
        }
        None => Err(Problem::not_found("turn", &shown(turn))),
    }
}

/// Results of tools that the client ran.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    /// The results; some may come later, the turn waits for them.
    #[schema(value_type = Vec<shapes::ClientResult>)]
    #[serde(deserialize_with = "objects")]
    results: Vec<ResultOf>,
    /// Stops the turn when the client is gone.
    #[serde(default)]
    cancel_on_disconnect: bool,
}

/// The result of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResultOf {
    /// The call.
    call_id: String,
    /// What the tool gave: a text, or any JSON.
    #[serde(default, deserialize_with = "given")]
    output: Option<Value>,
    /// What went wrong, in place of an output.
    #[serde(default)]
    error: Option<String>,
}

/// Reads a value that is there: a tool may well give null.
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
                return Err(Problem::new("body_invalid", text).at("results"));
            }
        };
        Ok((self.call_id, output))
    }
}

/// Send the results of tools that the client ran; the turn goes on once none is missing.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/results", operation_id = "answer_client_tools", tag = "turns", request_body = Results,
    params(TurnPath, ThreadQuery),
    responses(
        (status = 200, description = "What the turn came to; or, with `Accept: text/event-stream`, its events: the `data` of each frame is a `SessionEvent`.", content((TurnResult = "application/json"), (shapes::EventFrame = "text/event-stream"))),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn results(
    State(app): State<App>,
    caller: Caller,
    Ids(id, turn): Ids<SessionId, String>,
    Asked(query): Asked<ThreadQuery>,
    headers: HeaderMap,
    Body(body): Body<Results>,
) -> Result<Response, Problem> {
    let thread = thread_of(&app, &caller, &id, query.thread).await?;
    let results = body.results.into_iter().map(ResultOf::read).collect::<Result<Vec<_>, Problem>>()?;
    let (world, prompt) = waiting_prompt(&app, &thread, &turn).await?;
    let job = Job::Answer(Box::new(AnswerRequest { results, ..AnswerRequest::default() }));
    let session = Some(SessionKey { tenant: caller.tenant.clone(), session: id });
    let task = Task { session, thread, prompt, agent: world.agent.clone(), job, asked: None, tap: None };
    reply(&app, task, wants_events(&headers)?, body.cancel_on_disconnect).await
}

/// Returns the prompt of the turn that waits on a thread.
pub(crate) async fn waiting_prompt(
    app: &App,
    thread: &Thread,
    turn: &str,
) -> Result<(Arc<World>, Prompt), Problem> {
    let not_waiting = || {
        let text = format!("turn `{}` of thread `{}` waits for nothing", shown(turn), thread.id());
        Problem::new("turn_not_suspended", text)
    };
    let pending = Pending::of(thread).await?.filter(|it| it.turn.to_string() == turn);
    let pending = pending.ok_or_else(not_waiting)?;
    let world = app.world();
    let prompt = world.prompt(Some(&pending.prompt))?;
    Ok((world, prompt))
}
