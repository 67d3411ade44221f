//! Turns: run one, stop one, try one again.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture::capabilities::memory::FORGOTTEN;
use contexture_agent::{Ended, Run, RunRequest};
use contexture_history::{Application, Body, Item, Limit, TurnNo, TurnStatus, Visibility};
use contexture_message::ErrorCode;
use contexture_session::{MAX_ID_BYTES, NewItem, SessionId, Thread, TurnOutcome};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use utoipa::IntoParams;

use super::follow::{Follow, TurnScope};
use super::turn_shapes::{TurnRequest, TurnResult};
use crate::Problem;
use crate::app::{Access, App};
use crate::events::cursor::Cursor;
use crate::http::input::{JsonBody, PathParam, PathParams, QueryParams, shown};
use crate::http::params::{Retryable, SessionPath, TurnPath};
use crate::http::refusals::{Conflict, Failed, Form, NotThere, Refused, Unusable};
use crate::running_turns::TurnKey;

/// How many items are searched for the request of a turn.
const NEWEST: usize = 1000;
/// The kind of the items that record the request of a turn.
const REQUEST: &str = "contexture.request";

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
    access: Access,
    PathParam(id): PathParam<SessionId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<TurnRequest>,
) -> Result<Response, Problem> {
    begin(&access, id, &headers, request).await
}

async fn begin(
    access: &Access,
    id: SessionId,
    headers: &HeaderMap,
    request: TurnRequest,
) -> Result<Response, Problem> {
    let loaded = access.loaded();
    let prompt = loaded.prompt(request.prompt.as_deref())?;
    let (key, as_events) = (idempotency_key(headers)?, wants_events(headers)?);
    let mut run_request = request.run_request(access, Some(&id), key.clone()).await?;
    let thread = access.thread(&id, request.thread.clone()).await?;
    if let Some(key) = key.as_ref().filter(|_| as_events)
        && let Some(outcome) = thread.outcome(key).await?
    {
        return replay(access, &thread, &outcome).await;
    }
    let asked = NewItem::application(REQUEST, json!({"request": request})).visibility(Visibility::NONE);
    run_request.items.push(asked);
    let config = ReplyConfig { as_events, cancel_on_disconnect: request.cancel_on_disconnect, key };
    reply(access, &thread, config, |cancel| {
        loaded.agent.run(&prompt, &thread, RunRequest { cancel, ..run_request })
    })
    .await
}

/// Responds with the events of a turn that began before, from its first event; if the turn still runs, as they happen.
async fn replay(app: &App, thread: &Thread, turn: &TurnOutcome) -> Result<Response, Problem> {
    let number = async |item: Option<&Item>| match item {
        Some(item) => app.store().number_at(thread.key().clone(), item.seq).await,
        None => Ok(None),
    };
    let first = number(turn.items.first()).await?.unwrap_or(1);
    let last = number(turn.items.last()).await?.unwrap_or(0);
    let is_over = turn.status != TurnStatus::InFlight;
    let turn_key = TurnKey { thread: thread.id().clone(), turn: turn.turn };
    // The end of a turn that is over is its last item.
    let scope = TurnScope::new(turn_key, last.saturating_sub(is_over.into()), is_over);
    let cursor = Cursor::at(first.saturating_sub(1));
    Ok(Follow::new(app, thread.key().session(), cursor, scope).await?.respond())
}

/// How a turn is responded with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyConfig {
    /// With its events, instead of one document.
    pub(crate) as_events: bool,
    /// Whether a client that goes away stops it.
    pub(crate) cancel_on_disconnect: bool,
    /// The idempotency key of the request.
    pub(crate) key: Option<String>,
}

/// Runs a turn and responds in the requested format. `begin` is given what stops it.
pub(crate) async fn reply(
    app: &App,
    thread: &Thread,
    ReplyConfig { as_events, cancel_on_disconnect, key }: ReplyConfig,
    begin: impl FnOnce(CancellationToken) -> Run,
) -> Result<Response, Problem> {
    let session = thread.key().session();
    let after = if as_events { app.store().feed_end(session.clone()).await? } else { 0 };
    let mut handle = app.running_turns.start(thread, begin)?;
    let guard = cancel_on_disconnect.then(|| handle.cancel.clone().drop_guard());
    if !as_events {
        let outcome = handle.outcome().await;
        guard.map(DropGuard::disarm);
        return match (outcome, handle.turn_key.try_recv()) {
            (Ok(outcome), _) => Ok(Json(TurnResult::of(outcome)).into_response()),
            (Err(problem), Ok(it)) => Err(problem.of_turn(it.thread.as_str(), &it.turn.to_string())),
            (Err(problem), Err(_)) => Err(problem),
        };
    }
    let Ok(turn_key) = (&mut handle.turn_key).await else {
        let outcome = handle.outcome().await?;
        let thread = app.sessions.of_tenant(session.tenant.clone()).open_thread(&outcome.thread).await?;
        if let Some(key) = key.filter(|_| outcome.ended == Ended::Replayed)
            && let Some(first) = thread.outcome(&key).await?
        {
            // The key began a turn in this moment, or on a copy of the thread.
            return replay(app, &thread, &first).await;
        }
        // It waits for more.
        let turn_key = TurnKey { thread: outcome.thread, turn: outcome.turn };
        let scope = TurnScope::new(turn_key, after, true);
        return Ok(Follow::new(app, session, Cursor::at(after), scope).await?.respond());
    };
    let scope = TurnScope::new(turn_key, after, false).running(handle.outcome, guard);
    Ok(Follow::new(app, session, Cursor::at(after), scope).await?.respond())
}

/// Returns the key of a request that may be sent again.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let invalid = |text: String| Problem::new(ErrorCode::HeaderInvalid, text).at("Idempotency-Key");
    let is_plain = |it: &&str| !it.contains(char::is_control);
    let text = value.to_str().ok().filter(is_plain);
    let text = text.ok_or_else(|| invalid("`Idempotency-Key` is not plain text".to_owned()))?;
    match text.len() {
        1..=MAX_ID_BYTES => Ok(Some(text.to_owned())),
        n => Err(invalid(format!("`Idempotency-Key` has {n} bytes; it has 1 to {MAX_ID_BYTES}"))),
    }
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
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    pub(crate) thread: Option<String>,
}

/// Stop a turn that runs, on whichever instance. What it said until then is kept.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/turns/{turn}/cancel", operation_id = "cancel_turn", tag = "turns",
    params(SessionPath, TurnPath, ThreadQuery),
    responses((status = 202, description = "Cancellation is requested."), Refused, NotThere)
)]
pub(crate) async fn cancel(
    access: Access,
    PathParams(id, turn): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> Result<StatusCode, Problem> {
    let thread = access.thread(&id, query.thread).await?;
    let not_running = || Problem::not_found("running turn", &shown(&turn));
    let turn_no = TurnNo::parse(&turn).ok_or_else(not_running)?;
    if access.running_turns.cancel(thread.key(), turn_no) {
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
    params(SessionPath, TurnPath, ThreadQuery, Retryable),
    responses(
        (status = 200, description = "The outcome of the turn.", body = TurnResult),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn retry(
    access: Access,
    PathParams(id, turn): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<ThreadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let thread = access.thread(&id, query.thread).await?;
    check_retryable(&thread, &turn)?;
    let newest = thread.all(Some(Limit::Turns(NEWEST))).await?;
    let mut of_turn = newest.iter().filter(|it| it.turn.to_string() == turn);
    let recorded = of_turn.find_map(|it| match &it.body {
        Body::Application(Application { kind, value }) if kind == REQUEST => Some(value),
        _ => None,
    });
    if recorded.is_some_and(is_forgotten) {
        let text = format!("turn `{turn}` is not tried again: words of its request were forgotten");
        return Err(Problem::new(ErrorCode::TurnForgotten, text).hint("send a new turn"));
    }
    let request = recorded.and_then(|it| TurnRequest::deserialize(it.get("request")?).ok());
    let request = request.ok_or_else(|| Problem::not_found("request of turn", &turn))?;
    begin(&access, id, &headers, request).await
}

/// Whether a memory has forgotten the record of a request, or words of it.
fn is_forgotten(recorded: &Value) -> bool {
    recorded.is_null() || has_mark(recorded)
}

fn has_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(FORGOTTEN),
        Value::Array(values) => values.iter().any(has_mark),
        Value::Object(fields) => fields.values().any(has_mark),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn check_retryable(thread: &Thread, turn: &str) -> Result<(), Problem> {
    let snapshot = thread.get();
    let found = snapshot.turns().iter().find(|it| **it.id() == *turn);
    match found.map(|it| it.status()) {
        Some(TurnStatus::Failed | TurnStatus::Interrupted) => Ok(()),
        Some(status) => {
            let status = status.as_str();
            let text =
                format!("turn `{turn}` is {status}: only one that failed or was interrupted is tried again");
            Err(Problem::new(ErrorCode::TurnNotRetryable, text))
        }
        None => Err(Problem::not_found("turn", &shown(turn))),
    }
}
