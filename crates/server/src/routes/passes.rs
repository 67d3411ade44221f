//! Passes: what the model saw at every call, and why; compared, and sent again.

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use contexture::PassDiff;
use contexture_compose::Explanation;
use contexture_message::{Answer, Delta, ErrorCode, Request};
use contexture_model::ModelCall;
use contexture_session::SessionId;
use futures::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;

use super::sessions::{limited, numbered};
use crate::app::Access;
use crate::http::DateTime;
use crate::http::input::{PathParam, PathParams, QueryParams};
use crate::http::params::{PassPath, PassesPath, SessionPath};
use crate::http::refusals::{Expired, Failed, NotThere, Refused, Unusable};
use crate::http::schemas::returns;
use crate::passes::{CallInfo, PassId, PassReader, PassResult, StoredPass, answer};
use crate::{JsonResult, Problem};

returns!(PassPage, PassDetails, ReplayedPass, PassDiffBody = PassDiff);

/// A pass in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Pass")]
pub(crate) struct PassView {
    /// Its id.
    id: String,
    /// When the model was called.
    at: DateTime,
    #[serde(flatten)]
    call: CallInfo,
    /// When something that it showed was forgotten. Marks stand in the place of it, or nothing of it is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<DateTime>,
    /// The result of the call, once it is known: `took_ms`, `usage`, `cache`, `stop` or `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<PassResult>,
}

impl From<&StoredPass> for PassView {
    fn from(stored_pass: &StoredPass) -> Self {
        let StoredPass { id, at, manifest, result } = stored_pass;
        let (id, at) = (id.to_string(), (*at).into());
        let forgotten = manifest.forgotten.as_ref().map(|it| it.at.into());
        Self { id, at, call: manifest.call.clone(), forgotten, result: result.clone() }
    }
}

/// A page of passes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PassPage {
    /// The passes, newest first.
    passes: Vec<PassView>,
    /// The start of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// The page to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PassQuery {
    /// Only passes before this number.
    #[param(minimum = 0)]
    before: Option<u64>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<u32>,
}

/// List what models were sent in a session, newest first.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/passes", operation_id = "list_passes", tag = "passes", params(SessionPath, PassQuery),
    responses((status = 200, description = "A page of passes.", body = PassPage), Refused, NotThere)
)]
pub(crate) async fn list(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<PassQuery>,
) -> JsonResult<PassPage> {
    let (limit, before) = (limited(query.limit, 50, 1000)?, numbered(query.before)?);
    access.sessions.open(&id).await?;
    access.recorder.settle(&access.key(&id)).await;
    let reader = PassReader::new(&access.sessions, &*access.documents, &id);
    let stored_pass = reader.newest(before, limit).await?;
    let before =
        stored_pass.last().filter(|it| stored_pass.len() == limit && it.id.number > 1).map(|it| it.id.number);
    Ok(Json(PassPage { passes: stored_pass.iter().map(PassView::from).collect(), before }))
}

/// A pass with everything in it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PassDetails {
    #[serde(flatten)]
    view: PassView,
    /// The request that was sent.
    #[schemars(with = "Request")]
    request: Value,
    /// The model's answer and its usage, read from the thread's log; null if there is no answer yet, if the call
    /// failed, or if the thread is gone.
    #[schemars(with = "Option<Answer>")]
    answer: Option<Value>,
    /// The source of every token, and the reasons for what was missing.
    #[schemars(with = "Explanation")]
    explanation: Value,
}

/// Show what a model saw and why, and what it answered.
#[utoipa::path(
    get, path = "/v1/passes/{id}", operation_id = "show_pass", tag = "passes", params(PassPath),
    responses((status = 200, description = "The pass.", body = PassDetails), Refused, NotThere, Expired)
)]
pub(crate) async fn show(access: Access, PathParam(id): PathParam<PassId>) -> JsonResult<PassDetails> {
    let stored_pass = load_pass(&access, &id).await?;
    let view = PassView::from(&stored_pass);
    let message = answer(&access.sessions, &stored_pass).await?;
    let answer = message.zip(stored_pass.result.as_ref());
    let answer = answer.map(|(message, it)| json!({"message": message, "stop": it.stop, "usage": it.usage}));
    let mut document = stored_pass.manifest.document;
    let (request, explanation) = (document["request"].take(), document["explanation"].take());
    Ok(Json(PassDetails { view, request, answer, explanation }))
}

async fn load_pass(access: &Access, id: &PassId) -> Result<StoredPass, Problem> {
    access.recorder.settle(&access.key(&id.session)).await;
    PassReader::new(&access.sessions, &*access.documents, &id.session).load(id.number).await
}

/// Show what changed from one pass to another.
#[utoipa::path(
    get, path = "/v1/passes/{a}/diff/{b}", operation_id = "diff_passes", tag = "passes", params(PassesPath),
    responses((status = 200, description = "What changed.", body = PassDiffBody), Refused, NotThere, Expired)
)]
pub(crate) async fn diff(access: Access, PathParams(a, b): PathParams<PassId, PassId>) -> JsonResult<Value> {
    let (before, now) = (load_pass(&access, &a).await?, load_pass(&access, &b).await?);
    let (before, now) = (before.document()?, now.document()?);
    // Long texts take their time to compare.
    let diff = tokio::task::spawn_blocking(move || PassDiff::of(&before, &now).document()).await;
    diff.map(Json).map_err(|_| Problem::new(ErrorCode::Panicked, "the passes can't be compared"))
}

/// Return the body that went over the wire, to the byte.
#[utoipa::path(
    get, path = "/v1/passes/{id}/body", operation_id = "show_pass_body", tag = "passes", params(PassPath),
    responses((status = 200, description = "The body, to the byte.", body = Object), Refused, NotThere, Expired)
)]
pub(crate) async fn body(
    access: Access,
    PathParam(id): PathParam<PassId>,
) -> Result<impl IntoResponse, Problem> {
    let body = load_pass(&access, &id).await?.body()?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body))
}

/// The model's answer to a pass that was sent again.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReplayedPass {
    /// The pass.
    pass: String,
    /// The hash of the request.
    fingerprint: String,
    /// The answer: `message`, `stop`, `usage`.
    #[schemars(with = "Answer")]
    answer: Value,
}

/// Send a pass again, byte for byte. The answer is returned and kept nowhere.
#[utoipa::path(
    post, path = "/v1/passes/{id}/replay", operation_id = "replay_pass", tag = "passes", params(PassPath),
    responses(
        (status = 200, description = "The answer.", body = ReplayedPass),
        Refused, NotThere, Expired, Unusable, Failed,
    )
)]
pub(crate) async fn replay(access: Access, PathParam(id): PathParam<PassId>) -> JsonResult<ReplayedPass> {
    let stored_pass = load_pass(&access, &id).await?;
    stored_pass.check_whole()?;
    if stored_pass.manifest.wire.is_some() {
        // The request must be the same as the one that was sent.
        stored_pass.body()?;
    }
    let cache_key = stored_pass.manifest.wire.as_ref().and_then(|it| it.target.cache_key.clone());
    let call = ModelCall { request: std::sync::Arc::new(stored_pass.request()?), cache_key, encoded: None };
    let mut deltas = access.loaded().agent.model().stream(call);
    while let Some(delta) = deltas.next().await {
        if let Delta::Done(answer) = delta? {
            let (message, stop) = (json!(answer.message), json!(answer.stop));
            let answer = json!({"message": message, "stop": stop, "usage": answer.usage});
            return Ok(Json(ReplayedPass {
                pass: id.to_string(),
                fingerprint: stored_pass.manifest.call.fingerprint,
                answer,
            }));
        }
    }
    Err(Problem::new(ErrorCode::ModelMalformed, "the model's answer broke off"))
}
