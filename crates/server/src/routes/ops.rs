//! Operations: liveness, readiness, metrics and the audit log.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use contexture_message::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::http::input::QueryParams;
use crate::http::refusals::{NotAdmin, Refused};
use crate::http::schemas::returns;
use crate::ops::audit::{self, AuditEntry, audit_log};
use crate::ops::metrics::Now;
use crate::ops::readiness::Outcome;
use crate::routes::sessions::{limited, numbered};
use crate::{App, Caller, Problem};

returns!(AuditPage);

/// Returns the routes that need no caller.
pub(crate) fn open() -> Router<App> {
    Router::new().route("/", get(welcome)).route("/healthz", get(alive)).route("/readyz", get(ready))
}

/// How the server is.
#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
}

/// Describes the server to a person who opens the address in a browser.
async fn welcome() -> Json<Value> {
    Json(
        json!({"name": "contexture", "openapi": "/openapi.json", "health": "/healthz", "openai_base_url": "/v1"}),
    )
}

async fn alive() -> Json<Health> {
    Json(Health { status: "alive" })
}

async fn ready(State(app): State<App>) -> Result<Json<Health>, Problem> {
    if app.0.running_turns.is_stopping() {
        return Err(Problem::new(ErrorCode::ShuttingDown, "the server stops"));
    }
    // The store's location and error are logged only: this route needs no key.
    match app.0.readiness.ask(&*app.0.documents, &*app.0.time).await {
        Outcome::Ready => Ok(Json(Health { status: "ready" })),
        Outcome::Failed => Err(Problem::new(ErrorCode::StoreUnavailable, "the store can't be written")),
        Outcome::Late => Err(Problem::new(ErrorCode::StoreUnavailable, "the store does not answer in time")),
    }
}

/// Read the metrics in Prometheus format. Needs an administrator's key where keys are required.
#[utoipa::path(
    get, path = "/metrics", operation_id = "show_metrics", tag = "operations",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"), Refused, NotAdmin)
)]
pub(crate) async fn metrics(State(app): State<App>, caller: Caller) -> Result<impl IntoResponse, Problem> {
    caller.check_admin()?;
    let now = Now {
        running: app.0.running_turns.n_running(),
        driven: app.0.drivers.n_driven(),
        stuck: app.0.drivers.n_stuck(),
        queue: app.0.recorder.depth() + app.0.audit.depth(),
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, app.0.metrics.text(now)))
}

/// The entries to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only acts before this number.
    #[param(minimum = 0, nullable = false)]
    before: Option<u64>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100, nullable = false)]
    limit: Option<u32>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditPage {
    /// The acts, newest first.
    acts: Vec<ActView>,
    /// The `before` of the next request, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// Something that was done.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub(crate) struct ActView {
    /// Its number in the log.
    number: u64,
    /// The time of the action.
    #[schemars(extend("format" = "date-time"))]
    time: String,
    /// The actor: `key:ID`, `cli`, `server`, or `anybody` where no key is required.
    actor: String,
    /// The action, such as `key.created`.
    act: String,
    /// The target of the action.
    target: String,
    /// The tenant whose data was affected.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// More details, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<AuditEntry> for ActView {
    fn from(entry: AuditEntry) -> Self {
        let audit::AuditEvent { actor, act, target, tenant, detail } = entry.act;
        let (time, tenant) = (entry.at.to_millis(), tenant.map(|it| it.to_string()));
        Self { number: entry.number, time, actor, act, target, tenant, detail }
    }
}

/// Read the audit log. Needs an administrator's key where keys are required; a key of a tenant sees events on that
/// tenant's data, a key of the default tenant sees everything.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_acts", tag = "operations", params(AuditQuery),
    responses((status = 200, description = "A page of the log.", body = AuditPage), Refused, NotAdmin)
)]
pub(crate) async fn audited(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<AuditQuery>,
) -> Result<Json<AuditPage>, Problem> {
    caller.check_admin()?;
    let limit = limited(query.limit, 100, 1000)?;
    let before = numbered(query.before)?;
    let (acts, before) = match caller.tenant == contexture_session::Tenant::default() {
        true => {
            let acts = audit_log(app.0.sessions.store(), before, limit).await?;
            let before = acts.last().filter(|it| acts.len() == limit && it.number > 1).map(|it| it.number);
            (acts, before)
        }
        // Only administrators of the default tenant see events on the server and on other tenants.
        false => audit::audit_log_of(app.0.sessions.store(), &caller.tenant, before, limit).await?,
    };
    Ok(Json(AuditPage { acts: acts.into_iter().map(ActView::from).collect(), before }))
}
