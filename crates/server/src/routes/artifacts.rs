//! Artifacts: named, versioned documents of a session.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use contexture_message::ErrorCode;
use contexture_session::{ArtifactError, ArtifactInfo, NewArtifact, Policy, SessionError, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::IntoParams;

use super::turns::idempotency_key;
use crate::app::Access;
use crate::http::DateTime;
use crate::http::input::{JsonBody, PathParam, PathParams, QueryParams, Version, in_range, shown};
use crate::http::params::{ArtifactPath, Repeatable, SessionPath};
use crate::http::refusals::{Conflict, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(ArtifactBody);
returns!(ArtifactView, ArtifactList, ArtifactText);

/// How many characters of a text are returned by default, and at most.
const DEFAULT_CHARS: usize = 100_000;
const MAX_CHARS: usize = 1_000_000;

/// A version of an artifact to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewArtifact")]
pub(crate) struct ArtifactBody {
    /// Its name within the session: letters, digits, `-`, `_`, `.` and `/`.
    #[schemars(length(min = 1, max = 100), example = "plan.md")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_\-][A-Za-z0-9_.\-]*(/[A-Za-z0-9_\-][A-Za-z0-9_.\-]*)*$"))]
    name: String,
    /// Its whole text, at most 1 MiB.
    #[schemars(length(max = 1_048_576))]
    text: String,
    /// Its title; by default that of the version before.
    #[schemars(length(max = 200))]
    title: Option<String>,
    /// Its media type; by default that of the version before.
    #[schemars(length(max = 200), example = "text/markdown")]
    media_type: Option<String>,
    /// What it holds, for the catalogue that the model reads; by default that of the version before.
    #[schemars(length(max = 1000))]
    summary: Option<String>,
    /// The version that the writer has read; 0 if there must be none. Another one is a conflict.
    expected_version: Option<Version>,
    /// What to do when a turn is running: `queue` (wait, the default) or `reject`.
    #[serde(default)]
    policy: Policy,
}

/// An artifact without its text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Artifact")]
pub(crate) struct ArtifactView {
    /// Its name within the session.
    name: String,
    /// Its newest version.
    version: u64,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Its media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// What it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// The size of the newest version, in bytes.
    bytes: u64,
    /// When the newest version was written.
    updated: DateTime,
    /// The versions that can be read, oldest first.
    versions: Vec<u64>,
}

impl From<ArtifactInfo> for ArtifactView {
    fn from(info: ArtifactInfo) -> Self {
        let versions = info.versions().collect();
        let ArtifactInfo { name, version, title, media_type, summary, bytes, updated, .. } = info;
        Self { name, version, title, media_type, summary, bytes, updated: updated.into(), versions }
    }
}

/// Artifacts of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArtifactList {
    /// The artifacts, by name.
    artifacts: Vec<ArtifactView>,
}

/// A range of a version of an artifact.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArtifactText {
    /// What is known about the artifact.
    artifact: ArtifactView,
    /// The version of the text.
    version: u64,
    /// The range of the text.
    text: String,
    /// The first character of the range.
    from: u64,
    /// How many characters the whole text has.
    total: u64,
    /// Where the next range begins, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// Returns the problem of an error, with the current version where there is another one.
fn problem(err: SessionError) -> Problem {
    let problem = Problem::new(err.code(), err.to_string());
    match err {
        SessionError::Artifact(ArtifactError::Stale { name, found, .. }) => problem
            .current(json!({"name": name, "version": found}))
            .hint("read the current version, then write again"),
        SessionError::Id(_) => problem.at("name"),
        SessionError::Artifact(_) => problem,
        other => other.into(),
    }
}

/// Create an artifact, or a new version of one. The model is told by a system event in the main thread. With an
/// `Idempotency-Key` the version is written once, however often it is sent.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/artifacts", operation_id = "add_artifact", tag = "sessions",
    params(SessionPath, Repeatable), request_body = ArtifactBody,
    responses((status = 200, description = "The artifact.", body = ArtifactView), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn add(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<ArtifactBody>,
) -> JsonResult<ArtifactView> {
    let key = idempotency_key(&headers)?;
    let thread = access.thread(&id, None).await?.with_policy(body.policy);
    let ArtifactBody { name, text, title, media_type, summary, .. } = body;
    let expected = body.expected_version.map(u64::from);
    let new = NewArtifact { name, text, title, media_type, summary, expected };
    Ok(Json(thread.put_artifact(new, key.as_deref()).await.map_err(problem)?.into()))
}

/// List the artifacts of a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/artifacts", operation_id = "list_artifacts", tag = "sessions", params(SessionPath),
    responses((status = 200, description = "The artifacts.", body = ArtifactList), Refused, NotThere)
)]
pub(crate) async fn list(access: Access, PathParam(id): PathParam<SessionId>) -> JsonResult<ArtifactList> {
    let artifacts = access.thread(&id, None).await?.artifacts().await?;
    Ok(Json(ArtifactList { artifacts: artifacts.into_iter().map(ArtifactView::from).collect() }))
}

/// Which version and range to read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RangeQuery {
    /// The version; by default the newest.
    #[param(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    version: Option<u64>,
    /// The first character; by default 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    from: Option<u64>,
    /// How many characters at most.
    #[param(minimum = 1, maximum = 1_000_000, default = 100_000)]
    limit: Option<u64>,
}

/// Read an artifact.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/artifacts/{name}", operation_id = "show_artifact", tag = "sessions",
    params(SessionPath, ArtifactPath, RangeQuery),
    responses((status = 200, description = "The text.", body = ArtifactText), Refused, NotThere)
)]
pub(crate) async fn show(
    access: Access,
    PathParams(id, name): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<RangeQuery>,
) -> JsonResult<ArtifactText> {
    let size =
        |it: Option<u64>, default: usize| it.map_or(default, |it| usize::try_from(it).unwrap_or(usize::MAX));
    let limit = size(query.limit, DEFAULT_CHARS);
    in_range(ErrorCode::QueryInvalid, "limit", limit, 1..=MAX_CHARS)?;
    let thread = access.thread(&id, None).await?;
    let Some(found) = thread.artifact(&name, query.version).await? else {
        let named = shown(&name);
        return Err(match (query.version, thread.artifact(&name, None).await?) {
            (Some(version), Some(_)) => {
                let text = format!("there is no version {version} of artifact `{named}`");
                Problem::new(ErrorCode::NotFound, text).at("version")
            }
            _ => Problem::not_found("artifact", &named),
        });
    };
    let total = found.text.chars().count();
    let from = size(query.from, 0).min(total);
    let text: String = found.text.chars().skip(from).take(limit).collect();
    let end = from + text.chars().count();
    Ok(Json(ArtifactText {
        artifact: found.info.into(),
        version: found.version,
        text,
        from: from as u64,
        total: total as u64,
        next: (end < total).then_some(end as u64),
    }))
}

/// Which version to delete.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteQuery {
    /// Only if this is the newest version.
    #[param(value_type = Option<u64>, minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    expected_version: Option<Version>,
}

/// Delete an artifact. The model is told by a system event in the main thread.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/artifacts/{name}", operation_id = "delete_artifact", tag = "sessions",
    params(SessionPath, ArtifactPath, DeleteQuery),
    responses((status = 204, description = "It is gone."), Refused, NotThere, Conflict)
)]
pub(crate) async fn delete(
    access: Access,
    PathParams(id, name): PathParams<SessionId, String>,
    QueryParams(query): QueryParams<DeleteQuery>,
) -> Result<StatusCode, Problem> {
    let thread = access.thread(&id, None).await?;
    thread.delete_artifact(&name, query.expected_version.map(u64::from), None).await.map_err(problem)?;
    Ok(StatusCode::NO_CONTENT)
}
