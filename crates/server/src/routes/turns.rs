//! Turns: run one, stop one, try one again.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture_history::{Limit, TurnNo, TurnStatus};
use contexture_message::ErrorCode;
use contexture_session::{MAX_ID_BYTES, SessionId, SessionKey, Thread, ThreadKey};
use serde::Deserialize;
use utoipa::IntoParams;

use super::follow::{Follow, TurnScope};
use super::sessions::thread_of;
use super::turn_shapes::{TurnEventFrame, TurnRequest, TurnResult};
use crate::events::cursor::Cursor;
use crate::http::input::{JsonBody, PathParam, PathParams, QueryParams, shown};
use crate::http::params::{Retryable, SessionPath, TurnPath};
use crate::http::refusals::{Conflict, Failed, Form, NotThere, Refused, Unusable};
use crate::running_turns::{TurnHandle, TurnJob, TurnKey, TurnTask, request_in};
use crate::{App, Caller, Problem};

/// How many items are searched for the request of a turn.
const NEWEST: usize = 1000;

/// Run a turn.
///
/// The turn continues when the client disconnects, unless `cancel_on_disconnect` is set. Repeating the
/// `Idempotency-Key` returns the outcome of the first turn. `Accept: text/event-stream` has the same effect as
/// `POST …/turns/stream`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns", operation_id = "run_turn", tag = "turns", request_body = TurnRequest,
    params(SessionPath, Retryable),
    responses(
        (status = 200, description = "The outcome of the turn.", body = TurnResult),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn run(
    State(app): State<App>,
    caller: Caller,
    PathParam(id): PathParam<SessionId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<TurnRequest>,
) -> Result<Response, Problem> {
    begin(&app, &caller, id, &headers, request).await
}

/// Run a turn and stream its events.
///
/// The turn continues when the client disconnects, unless `cancel_on_disconnect` is set. Repeating the
/// `Idempotency-Key` replays the events of the first turn.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/stream", operation_id = "stream_turn", tag = "turns", request_body = TurnRequest,
    params(SessionPath, Retryable),
    responses(
        (status = 200, description = "The events of the turn: the `data` of each frame is a `TurnEvent`.", body = TurnEventFrame, content_type = "text/event-stream"),
        Refused, NotThere, Conflict, Unusable, Failed,
    )
)]
pub(crate) async fn run_stream(
    app: State<App>,
    caller: Caller,
    id: PathParam<SessionId>,
    headers: HeaderMap,
    request: JsonBody<TurnRequest>,
) -> Result<Response, Problem> {
    run(app, caller, id, as_events(headers), request).await
}

async fn begin(
    app: &App,
    caller: &Caller,
    id: SessionId,
    headers: &HeaderMap,
    request: TurnRequest,
) -> Result<Response, Problem> {
    let loaded = app.loaded();
    let prompt = loaded.prompt(request.prompt())?;
    let (key, as_events) = (idempotency_key(headers)?, wants_events(headers)?);
    let run_request = request.run_request(caller, Some(&id), key.clone(), app.0.time.now())?;
    let thread = thread_of(app, caller, &id, request.thread.clone()).await?;
    if let Some(key) = key.filter(|_| as_events)
        && let Some(response) = replay(app, &thread, &key).await?
    {
        return Ok(response);
    }
    let asked = serde_json::to_value(&request).ok();
    let job = TurnJob::Run(Box::new(run_request));
    let task = TurnTask { thread, prompt, agent: loaded.agent.clone(), job, asked, tap: None };
    reply(app, task, as_events, request.cancel_on_disconnect).await
}

/// Responds with the events of the turn that a key began before, from its first event; if the turn still runs, as they
/// happen. Returns `None` if there is no such turn.
async fn replay(app: &App, thread: &Thread, key: &str) -> Result<Option<Response>, Problem> {
    let Some(outcome) = thread.outcome(key).await? else { return Ok(None) };
    let (Some(first), Some(last)) = (outcome.items.first(), outcome.items.last()) else { return Ok(None) };
    let number = |seq| app.0.sessions.store().number_at(thread.key().clone(), seq);
    let (first, last) = (number(first.seq).await?, number(last.seq).await?);
    let turn_key = TurnKey { thread: thread.id().clone(), turn: outcome.turn };
    let cursor = Cursor::at(first.unwrap_or(1).saturating_sub(1));
    let is_running = outcome.status == TurnStatus::InFlight;
    let scope = TurnScope::replayed(turn_key, last.unwrap_or(0), is_running);
    Ok(Some(Follow::start(app, session_of(thread), cursor, scope).await?.response()))
}

fn session_of(thread: &Thread) -> SessionKey {
    let ThreadKey { tenant, thread } = thread.key().clone();
    SessionKey { tenant, session: thread.session() }
}

/// Runs a turn and responds in the requested format.
pub(crate) async fn reply(
    app: &App,
    task: TurnTask,
    as_events: bool,
    cancel_on_disconnect: bool,
) -> Result<Response, Problem> {
    let session = session_of(&task.thread);
    let after = match as_events {
        true => app.0.sessions.store().feed_end(session.clone()).await?,
        false => 0,
    };
    let handle = app.0.running_turns.start(task)?;
    let guard = cancel_on_disconnect.then(|| handle.cancel.clone().drop_guard());
    if as_events {
        return stream(app, session, after, handle, guard).await;
    }
    let result = whole(handle).await?;
    guard.map(tokio_util::sync::DropGuard::disarm);
    Ok(Json(result).into_response())
}

async fn whole(handle: TurnHandle) -> Result<TurnResult, Problem> {
    let TurnHandle { mut turn_key, outcome, stop_cause, .. } = handle;
    let outcome = outcome.await.map_err(|_| gone())?;
    outcome.map(TurnResult::of).map_err(|err| {
        let problem = stop_cause.problem(err);
        match turn_key.try_recv() {
            Ok(it) => problem.of_turn(it.thread.as_str(), &it.turn.to_string()),
            Err(_) => problem,
        }
    })
}

fn gone() -> Problem {
    Problem::new(ErrorCode::Cancelled, "the turn was dropped")
}

/// Responds with the events of a turn.
async fn stream(
    app: &App,
    session: SessionKey,
    after: u64,
    handle: TurnHandle,
    guard: Option<tokio_util::sync::DropGuard>,
) -> Result<Response, Problem> {
    let TurnHandle { turn_key, outcome, tokens, stop_cause, cancel: _ } = handle;
    let Ok(turn_key) = turn_key.await else {
        // It was refused, or its key began a turn in this moment.
        let outcome = outcome.await.map_err(|_| gone())?.map_err(|err| stop_cause.problem(err))?;
        let turn_key = TurnKey { thread: outcome.thread, turn: outcome.turn };
        let scope = TurnScope::replayed(turn_key, 0, true);
        return Ok(Follow::start(app, session, Cursor::default(), scope).await?.response());
    };
    let scope = TurnScope::running(turn_key, outcome, tokens, guard);
    Ok(Follow::start(app, session, Cursor::at(after), scope).await?.response())
}

/// Returns the key of a request that may be sent again.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value
        .to_str()
        .map_err(|_| Problem::new(ErrorCode::HeaderInvalid, "`Idempotency-Key` is not plain text"))?;
    match text.len() {
        1..=MAX_ID_BYTES => Ok(Some(text.to_owned())),
        n => {
            let text = format!("`Idempotency-Key` has {n} bytes; it has 1 to {MAX_ID_BYTES}");
            Err(Problem::new(ErrorCode::HeaderInvalid, text).at("Idempotency-Key"))
        }
    }
}

/// Returns the headers of a request for events, whatever the client accepts.
pub(crate) fn as_events(mut headers: HeaderMap) -> HeaderMap {
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
}

/// Whether the client accepts events.
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
        () => Err(Problem::new(
            ErrorCode::NotAcceptable,
            "the answer is `application/json` or `text/event-stream`",
        )),
    }
}

/// The thread to use.
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
    responses((status = 202, description = "Cancellation is requested."), Refused, NotThere)
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams(id, turn): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> Result<StatusCode, Problem> {
    let thread = thread_of(&app, &caller, &id, query.thread).await?;
    let not_running = || Problem::not_found("running turn", &shown(&turn));
    let turn_no = TurnNo::parse(&turn).ok_or_else(not_running)?;
    if app.0.running_turns.cancel(thread.key(), turn_no) {
        return Ok(StatusCode::ACCEPTED);
    }
    // Another instance may run it, and looks into the log now and then.
    let open = thread.get().state().open;
    if !open.is_some_and(|it| it.status == TurnStatus::InFlight && it.turn == turn_no) {
        return Err(not_running());
    }
    thread.request_stop(turn_no).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Retry a failed or interrupted turn: a new turn with the same request.
///
/// `Accept: text/event-stream` has the same effect as `POST …/retry/stream`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/retry", operation_id = "retry_turn", tag = "turns",
    params(TurnPath, ThreadQuery, Retryable),
    responses(
        (status = 200, description = "The outcome of the turn.", body = TurnResult),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn retry(
    State(app): State<App>,
    caller: Caller,
    PathParams(id, turn): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<ThreadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let thread = thread_of(&app, &caller, &id, query.thread).await?;
    check_retryable(&thread, &turn)?;
    let newest = thread.all(Some(Limit::Turns(NEWEST))).await?;
    let mut of_turn = newest.iter().filter(|it| it.turn.to_string() == turn);
    let asked = of_turn.find_map(request_in);
    let request = asked.and_then(|it| serde_json::from_value::<TurnRequest>(it).ok());
    let request = request.ok_or_else(|| Problem::not_found("request of turn", &turn))?;
    begin(&app, &caller, id, &headers, request).await
}

/// Retry a failed or interrupted turn and stream its events.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/retry/stream", operation_id = "stream_retry", tag = "turns",
    params(TurnPath, ThreadQuery, Retryable),
    responses(
        (status = 200, description = "The events of the turn: the `data` of each frame is a `TurnEvent`.", body = TurnEventFrame, content_type = "text/event-stream"),
        Refused, NotThere, Conflict, Unusable, Failed,
    )
)]
pub(crate) async fn retry_stream(
    app: State<App>,
    caller: Caller,
    turn: PathParams<SessionId, String>,
    query: QueryParams<ThreadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    retry(app, caller, turn, query, as_events(headers)).await
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
            Err(Problem::new(ErrorCode::TurnNotRetryable, text))
        }
        None => Err(Problem::not_found("turn", &shown(turn))),
    }
}
