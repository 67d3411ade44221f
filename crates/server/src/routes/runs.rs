//! Runs of flows: start, list, show, answer, stop, drive on.
//!
//! A run is independent of connections: requests are recorded, and the run is driven in the background.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture_flow::{RunId, RunInfo, RunList, RunPage, RunStart, RunStatus, Runtime};
use contexture_message::ErrorCode;
use contexture_session::SessionId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::run_events::follow_run;
use super::sessions::limited;
use super::turns::{idempotency_key, wants_events};
use crate::app::Access;
use crate::events::cursor::Cursor;
use crate::http::input::{JsonBody, PathParam, PathParams, QueryParams, segment, shown};
use crate::http::params::{FlowPath, Retryable, RunPath, WaitPath};
use crate::http::refusals::{Conflict, Form, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(NewRun, WaitAnswer);
returns!(RunBody = RunInfo, RunPageBody = RunPage, RunStatusBody = RunStatus);

/// How long the id of a wait may be, in bytes: longer than that of any node.
const MAX_WAIT: usize = 300;

/// A new run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The session that it belongs to, which is made if there is none of that name; without one it gets a new one.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$"), example = &"demo")]
    session: Option<String>,
    /// The input: an object with the flow's inputs.
    #[schemars(with = "Option<Map<String, Value>>")]
    input: Value,
    /// The user that the run works for. Memory is kept by user.
    user_id: Option<String>,
    /// Responds when the run ends or waits for an answer; otherwise immediately.
    wait: bool,
}

/// Start a run of a flow.
///
/// The run continues when the client disconnects. Repeating the `Idempotency-Key` returns the first run.
/// `Accept: text/event-stream` has the same effect as `POST …/runs/stream`.
#[utoipa::path(
    post, path = "/v1/flows/{id}/runs", operation_id = "start_run", tag = "flows", params(FlowPath, Retryable), request_body = NewRun,
    responses(
        (status = 201, description = "The run is on record.", body = RunBody, headers(("Location" = String, description = "Where it is."))),
        Refused, NotThere, Conflict, Form, Unusable,
    )
)]
pub(crate) async fn start(
    access: Access,
    PathParam(id): PathParam<String>,
    headers: HeaderMap,
    JsonBody(new): JsonBody<NewRun>,
) -> Result<Response, Problem> {
    let (key, as_events) = (idempotency_key(&headers)?, wants_events(&headers)?);
    let flow = access.loaded().flow(&id)?;
    if access.drivers.tasks.is_closed() {
        return Err(Problem::shutting_down());
    }
    let session = new.session.map(SessionId::parse).transpose()?;
    let runs = access.flow_runs();
    let run = runs.start(&flow, RunStart { session, input: new.input, key, user: new.user_id }).await?;
    let info = runs.info(&run).await?;
    if info.flow != flow.id() {
        let text = format!("the `Idempotency-Key` began a run of flow `{}`", info.flow);
        return Err(Problem::new(ErrorCode::AlreadyExists, text).at("Idempotency-Key"));
    }
    access.audit.note(&access.act("run.started", &run.to_string()).detail(flow.id()));
    access.drivers.drive(&access.caller.tenant, &run);
    if as_events {
        return follow_run(&access, &run, Cursor::default(), true).await;
    }
    let info = if new.wait { settled(&access, &runs, &run).await? } else { info };
    let location = format!("/v1/runs/{}", segment(&run.to_string()));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(info)).into_response())
}

/// Waits until a run ends or waits for an answer, or until the server stops.
async fn settled(access: &Access, runs: &Runtime, run: &RunId) -> Result<RunInfo, Problem> {
    loop {
        // The order matters: events in between have a higher number.
        let after = runs.last_number(run).await?;
        let info = runs.info(run).await?;
        if info.status != RunStatus::Running {
            return Ok(info);
        }
        tokio::select! {
            grown = runs.grown(run, after) => grown?,
            () = access.stop.cancelled() => return Ok(info),
        }
    }
}

/// The runs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunsQuery {
    /// Only runs of this flow.
    flow: Option<String>,
    /// Only runs with this status.
    #[param(value_type = Option<RunStatusBody>, inline)]
    status: Option<RunStatus>,
    /// Only runs of this session.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$")]
    session: Option<String>,
    /// Only those after this one.
    #[param(min_length = 3, max_length = 265, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+\.[A-Za-z0-9_\-]{1,64}$")]
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// List runs.
#[utoipa::path(
    get, path = "/v1/runs", operation_id = "list_runs", tag = "flows", params(RunsQuery),
    responses((status = 200, description = "A page of runs.", body = RunPageBody), Refused)
)]
pub(crate) async fn list(access: Access, QueryParams(query): QueryParams<RunsQuery>) -> JsonResult<RunPage> {
    let list = RunList {
        session: query.session.map(SessionId::parse).transpose()?,
        flow: query.flow,
        status: query.status,
        after: query.after.as_deref().map(RunId::parse).transpose()?,
        max: limited(query.limit, 100, 1000)?,
    };
    let page = access.flow_runs().list(&list).await?;
    for it in &page.damaged {
        tracing::warn!(run = %it.run, code = it.error.code, error = %it.error, "a run can't be listed");
    }
    Ok(Json(page))
}

/// Show a run.
#[utoipa::path(
    get, path = "/v1/runs/{id}", operation_id = "show_run", tag = "flows", params(RunPath),
    responses((status = 200, description = "The run.", body = RunBody), Refused, NotThere)
)]
pub(crate) async fn show(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<RunInfo> {
    Ok(Json(access.flow_runs().info(&run).await?))
}

/// Stop a run, on whichever instance. What its nodes have done stays.
#[utoipa::path(
    delete, path = "/v1/runs/{id}", operation_id = "cancel_run", tag = "flows", params(RunPath),
    responses(
        (status = 202, description = "Cancellation is requested.", body = RunBody),
        (status = 200, description = "It was over before.", body = RunBody),
        Refused, NotThere,
    )
)]
pub(crate) async fn cancel(
    access: Access,
    PathParam(run): PathParam<RunId>,
) -> Result<(StatusCode, Json<RunInfo>), Problem> {
    let before = access.flow_runs().cancel(&run).await?;
    if !before.is_over() {
        access.audit.note(&access.act("run.cancelled", &run.to_string()));
    }
    driven(&access, &run, before).await
}

/// Drive a run that has no driver, now and here. Usually the server does so by itself.
#[utoipa::path(
    post, path = "/v1/runs/{id}/resume", operation_id = "resume_run", tag = "flows", params(RunPath),
    responses(
        (status = 202, description = "It continues if it can.", body = RunBody),
        (status = 200, description = "It was over before.", body = RunBody),
        Refused, NotThere,
    )
)]
pub(crate) async fn resume(
    access: Access,
    PathParam(run): PathParam<RunId>,
) -> Result<(StatusCode, Json<RunInfo>), Problem> {
    let before = access.flow_runs().info(&run).await?.status;
    driven(&access, &run, before).await
}

/// Drives a run unless it has ended, and returns its state.
async fn driven(
    access: &Access,
    run: &RunId,
    before: RunStatus,
) -> Result<(StatusCode, Json<RunInfo>), Problem> {
    if !before.is_over() {
        access.drivers.drive(&access.caller.tenant, run);
    }
    let status = if before.is_over() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(access.flow_runs().info(run).await?)))
}

/// An answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitAnswer {
    /// The answer, which must fit the wait's schema.
    value: Value,
}

/// Answer what a run waits for, once. The run continues, on any instance.
#[utoipa::path(
    post, path = "/v1/runs/{id}/waits/{wait}", operation_id = "answer_wait", tag = "flows", params(RunPath, WaitPath), request_body = WaitAnswer,
    responses((status = 202, description = "The answer is on record.", body = RunBody), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn answer(
    access: Access,
    PathParams(run, wait): PathParams<RunId, String>,
    JsonBody(answer): JsonBody<WaitAnswer>,
) -> Result<(StatusCode, Json<RunInfo>), Problem> {
    if wait.len() > MAX_WAIT || wait.chars().any(char::is_control) {
        let text = format!("`{}` is not the id of a wait", shown(&wait));
        return Err(Problem::new(ErrorCode::PathInvalid, text));
    }
    access.flow_runs().answer(&run, &wait, answer.value).await?;
    driven(&access, &run, RunStatus::Waiting).await
}
