//! Operations: liveness, readiness, metrics and the audit log.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use contexture_message::ErrorCode;
use contexture_session::Tenant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::app::{Access, App};
use crate::http::input::QueryParams;
use crate::http::refusals::{NotAdmin, Refused};
use crate::http::schemas::returns;
use crate::ops::audit::{AuditEntry, audit_page};
use crate::ops::metrics::{DRIVEN, QUEUE, RUNNING, STUCK};
use crate::routes::sessions::{limited, numbered};
use crate::{JsonResult, Problem};

returns!(AuditPage);

/// Returns the routes that need no caller.
pub(crate) fn open() -> Router<App> {
    Router::new().route("/", get(welcome)).route("/healthz", get(alive)).route("/readyz", get(ready))
}

/// Describes the server to a person who opens the address in a browser.
async fn welcome() -> Json<Value> {
    Json(
        json!({"name": "contexture", "openapi": "/openapi.json", "health": "/healthz", "openai_base_url": "/v1"}),
    )
}

async fn alive() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

async fn ready(State(app): State<App>) -> JsonResult<Value> {
    if app.running_turns.tasks.is_closed() {
        return Err(Problem::new(ErrorCode::ShuttingDown, "the server stops"));
    }
    let usable = app.readiness.ask(&*app.documents, &*app.time).await;
    usable.map_err(|why| Problem::new(ErrorCode::StoreUnavailable, why))?;
    Ok(Json(json!({"status": "ready"})))
}

/// Read the metrics in Prometheus format. Needs an administrator's key where keys are required.
#[utoipa::path(
    get, path = "/metrics", operation_id = "show_metrics", tag = "operations",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"), Refused, NotAdmin)
)]
pub(crate) async fn metrics(access: Access) -> Result<impl IntoResponse, Problem> {
    access.caller.check_admin()?;
    let now = [
        (RUNNING, access.running_turns.tasks.len()),
        (DRIVEN, access.drivers.tasks.len()),
        (STUCK, access.drivers.n_stuck()),
        (QUEUE, access.recorder.tasks().len() + access.audit.tasks.len()),
    ];
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, access.metrics.text(&now)))
}

/// The entries to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only acts before this number.
    #[param(minimum = 0)]
    before: Option<u64>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditPage {
    /// The acts, newest first.
    acts: Vec<AuditEntry>,
    /// The `before` of the next request, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// Read the audit log. Needs an administrator's key where keys are required; a key of a tenant sees events on that
/// tenant's data, a key of the default tenant sees everything.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_acts", tag = "operations", params(AuditQuery),
    responses((status = 200, description = "A page of the log.", body = AuditPage), Refused, NotAdmin)
)]
pub(crate) async fn audited(
    access: Access,
    QueryParams(query): QueryParams<AuditQuery>,
) -> JsonResult<AuditPage> {
    access.caller.check_admin()?;
    let (limit, before) = (limited(query.limit, 100, 1000)?, numbered(query.before)?);
    // Only administrators of the default tenant see events on the server and on other tenants.
    let tenant = Some(&access.caller.tenant).filter(|it| **it != Tenant::default());
    let (acts, before) = audit_page(access.store(), tenant, before, limit).await?;
    Ok(Json(AuditPage { acts, before }))
}
