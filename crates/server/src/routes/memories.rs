//! Memory: the records of a namespace of the tenant, the search in them, and how they are forgotten.
//!
//! A namespace is named by `user`, `agent` and `custom` in the query, any of them. Writes name the version they expect;
//! one that is stale is answered with the record as it is now.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use contexture::capabilities::memory::{
    Author, Finding, Forget, ForgetOptions, Layer, MemoryError, MemoryHit, MemoryImported, MemorySpace,
    Namespace, NewRecord, Provenance, Receipt, Record, RecordEdit, RecordFilter, SearchRequest, Status,
    Trust,
};
use contexture_message::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::IntoParams;

use crate::app::Access;
use crate::http::DateTime;
use crate::http::input::{JsonBody, PathParam, QueryParams, Version, in_range};
use crate::http::params::MemoryPath;
use crate::http::refusals::{Conflict, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(NewMemory, MemoryEdit, MemorySearch, ForgetMemory, MemoryLines);
returns!(
    Memory,
    MemoryPage,
    MemoryDetails,
    MemorySearchResults,
    MemoryNamespaces,
    ForgetReceipt,
    MemoryAudit,
    MemoryImport,
);

const MAX_LIMIT: u32 = 100;
const DEFAULT_LIMIT: u32 = 10;

impl From<MemoryError> for Problem {
    fn from(err: MemoryError) -> Self {
        let (code, text) = (err.code(), err.to_string());
        match err {
            MemoryError::Store(err) => err.into(),
            MemoryError::Stale { current, .. } => {
                let current = current.map_or(json!(null), |it| json!(Memory::from(*it)));
                Self::new(code, text)
                    .current(current)
                    .hint("read `current`, then write again with its version")
            }
            MemoryError::Invalid(_) => Self::new(ErrorCode::BodyInvalid, text),
            MemoryError::NotFound { .. } | MemoryError::Damaged { .. } => Self::new(code, text),
        }
    }
}

/// Whose memory it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SpaceQuery {
    /// The user.
    #[param(max_length = 1000)]
    user: Option<String>,
    /// The agent.
    #[param(max_length = 1000)]
    agent: Option<String>,
    /// A name of the application's own.
    #[param(max_length = 1000)]
    custom: Option<String>,
}

/// Whose memory it is, and which records to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecordsQuery {
    #[serde(flatten)]
    #[param(ignore)]
    space: SpaceQuery,
    /// Only those of this layer.
    #[param(value_type = Option<String>, pattern = "^(rules|facts|digests|procedures|working)$")]
    layer: Option<Layer>,
    /// Only those with this status.
    #[param(value_type = Option<String>, pattern = "^(proposed|accepted|rejected)$")]
    status: Option<Status>,
    /// Also those that hold no more.
    past: Option<bool>,
}

/// A record of a memory.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Memory {
    /// Its id in the namespace.
    id: String,
    /// The kind of memory.
    layer: Layer,
    /// The text.
    text: String,
    /// Whether it counts.
    status: Status,
    /// Who wrote it.
    author: Author,
    /// Whose word it is.
    trust: Trust,
    /// Where it comes from.
    provenance: Vec<Provenance>,
    /// From when on it holds.
    valid_from: DateTime,
    /// Until when it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_to: Option<DateTime>,
    /// The record that took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
    /// Its version; a write names the one it expects.
    version: u64,
    /// How often an answer used it.
    uses: u64,
    /// When it was added.
    created: DateTime,
    /// When this version was written.
    updated: DateTime,
}

impl From<Record> for Memory {
    fn from(record: Record) -> Self {
        Self {
            id: record.id,
            layer: record.layer,
            text: record.text,
            status: record.status,
            author: record.author,
            trust: record.trust,
            provenance: record.provenance,
            valid_from: record.valid_from.into(),
            valid_to: record.valid_to.map(DateTime::from),
            superseded_by: record.superseded_by,
            version: record.version,
            uses: record.uses,
            created: record.created.into(),
            updated: record.updated.into(),
        }
    }
}

/// The records of a memory.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryPage {
    /// The records, oldest first.
    memories: Vec<Memory>,
}

/// A record with its earlier versions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryDetails {
    /// The record.
    memory: Memory,
    /// All of its versions, oldest first.
    history: Vec<Memory>,
}

/// A record to add.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMemory {
    /// The text.
    #[schemars(length(min = 1, max = 262_144), regex(pattern = r"[^\s\x00-\x1f\x7f-\x9f]"), example = &"Ada's invoices are due on Fridays.")]
    text: String,
    /// The kind of memory; by default `facts`.
    layer: Option<Layer>,
    /// Names the write: repeated under the same key, it is made once.
    key: Option<String>,
    /// The record that holds no more because of it.
    #[schemars(length(min = 1, max = 900), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
    supersedes: Option<String>,
    /// The version of that record which the writer has read.
    version: Option<Version>,
}

/// A change of a record. What is absent stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryEdit {
    /// The version that the writer has read.
    version: Version,
    /// The new text.
    #[schemars(length(min = 1, max = 262_144), regex(pattern = r"[^\s\x00-\x1f\x7f-\x9f]"))]
    text: Option<String>,
    /// The new layer.
    layer: Option<Layer>,
    /// `accepted` approves a proposal, `rejected` refuses it.
    status: Option<Status>,
}

/// A search in a memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemorySearch {
    /// Words or a question; there is no syntax.
    #[schemars(example = &"When are the invoices due?")]
    query: String,
    /// How many hits at most; by default 10.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// Only these layers; by default all.
    #[serde(default)]
    layers: Vec<Layer>,
    /// No hit below this score, from 0 to 1; by default 0.
    #[schemars(range(min = 0, max = 1))]
    min_score: Option<f64>,
}

/// What a search found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemorySearchResults {
    /// The hits, best first.
    hits: Vec<HitView>,
}

/// Something that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MemoryHit")]
pub(crate) struct HitView {
    /// The id of the record, or `THREAD:POSITION` of what was said in a thread.
    id: String,
    /// The kind of memory.
    layer: Layer,
    /// The text.
    text: String,
    /// The score, from 0 to 1.
    score: f64,
    /// What each signal added to it.
    shares: BTreeMap<String, f64>,
    /// The thread it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    /// The turn it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    /// When it was said or written.
    at: DateTime,
}

impl From<MemoryHit> for HitView {
    fn from(hit: MemoryHit) -> Self {
        let shares = hit.shares.into_iter().map(|(signal, share)| (signal.as_str().to_owned(), share));
        let (shares, at) = (shares.collect(), hit.at.into());
        let MemoryHit { id, layer, text, score, thread, turn, .. } = hit;
        Self { id, layer, text, score, shares, thread, turn, at }
    }
}

/// The namespaces of the tenant.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryNamespaces {
    /// The namespaces that have been written to.
    namespaces: Vec<MemoryNamespace>,
}

/// A namespace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryNamespace {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// A name of the application's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<String>,
}

/// What to forget.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForgetMemory {
    /// A record, a turn, a session, a source, or everything.
    what: Forget,
    /// Only says what would be forgotten; by default false.
    #[serde(default)]
    dry_run: bool,
    /// Leaves forgotten turns in the logs of their sessions; by default false: they are emptied.
    #[serde(default)]
    keep_turns: bool,
    /// Also makes the bytes unreadable in the files of the store, which takes as long as rewriting them; by default
    /// true.
    erase: Option<bool>,
}

/// What was forgotten.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForgetReceipt {
    /// The receipt. It has no words of what was forgotten.
    receipt: Receipt,
}

/// What a person should look at.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryAudit {
    /// What was noticed.
    findings: Vec<Finding>,
}

/// Records to import.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryLines {
    /// Lines of JSON, as an export has them, or `{"kind": "new", "text": "…"}`.
    lines: String,
    /// Where they come from. What comes from one source can be forgotten together.
    #[schemars(example = &"backup")]
    source: String,
}

/// What an import did.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryImport {
    /// How many records were added, and how many were known.
    imported: MemoryImported,
}

impl SpaceQuery {
    fn space(self, access: &Access) -> Result<MemorySpace, Problem> {
        let Self { user, agent, custom } = self;
        let memories = access.loaded().project.memories().clone();
        Ok(memories.space(&access.caller.tenant, Namespace { user, agent, custom })?)
    }
}

/// List the records of a memory.
#[utoipa::path(
    get, path = "/v1/memories", operation_id = "list_memories", tag = "memory", params(SpaceQuery, RecordsQuery),
    responses((status = 200, description = "The records.", body = MemoryPage), Refused)
)]
pub(crate) async fn list(
    access: Access,
    QueryParams(query): QueryParams<RecordsQuery>,
) -> JsonResult<MemoryPage> {
    let RecordsQuery { space, layer, status, past } = query;
    let space = space.space(&access)?;
    let filter = RecordFilter { layer, status, as_of: None, with_past: past.unwrap_or(false) };
    let records = space.list(&filter).await?;
    Ok(Json(MemoryPage { memories: records.into_iter().map(Memory::from).collect() }))
}

/// Add a record to a memory.
#[utoipa::path(
    post, path = "/v1/memories", operation_id = "add_memory", tag = "memory", params(SpaceQuery),
    request_body = NewMemory,
    responses(
        (status = 201, description = "The record.", body = Memory), Refused, NotThere, Conflict, Unusable
    )
)]
pub(crate) async fn add(
    access: Access,
    QueryParams(space): QueryParams<SpaceQuery>,
    JsonBody(new): JsonBody<NewMemory>,
) -> Result<(StatusCode, Json<Memory>), Problem> {
    let space = space.space(&access)?;
    let NewMemory { text, layer, key, supersedes, version } = new;
    let new = NewRecord { key, ..NewRecord::new(layer.unwrap_or(Layer::Facts), text) };
    let record = match supersedes {
        Some(old) => space.supersede(&old, version.map(u64::from), new).await?,
        None => space.add(new).await?,
    };
    access.audit.record(access.act("memory.added", &record.id)).await;
    Ok((StatusCode::CREATED, Json(record.into())))
}

/// Show a record with its earlier versions.
#[utoipa::path(
    get, path = "/v1/memories/{id}", operation_id = "show_memory", tag = "memory", params(MemoryPath, SpaceQuery),
    responses((status = 200, description = "The record.", body = MemoryDetails), Refused, NotThere)
)]
pub(crate) async fn show(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(space): QueryParams<SpaceQuery>,
) -> JsonResult<MemoryDetails> {
    let history = space.space(&access)?.history(&id).await?;
    let last = history.last().cloned().ok_or_else(|| Problem::not_found("record", &id))?;
    Ok(Json(MemoryDetails { memory: last.into(), history: history.into_iter().map(Memory::from).collect() }))
}

/// Change, approve or reject a record, in the version that the writer has read.
#[utoipa::path(
    patch, path = "/v1/memories/{id}", operation_id = "edit_memory", tag = "memory", params(MemoryPath, SpaceQuery),
    request_body = MemoryEdit,
    responses(
        (status = 200, description = "The new version.", body = Memory), Refused, NotThere, Conflict, Unusable
    )
)]
pub(crate) async fn edit(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(space): QueryParams<SpaceQuery>,
    JsonBody(edit): JsonBody<MemoryEdit>,
) -> JsonResult<Memory> {
    let MemoryEdit { version, text, layer, status } = edit;
    let space = space.space(&access)?;
    if space.get(&id).await?.is_none() {
        return Err(MemoryError::NotFound { id }.into());
    }
    let edit = RecordEdit { text, layer, status, ..RecordEdit::default() };
    let record = space.edit(&id, Some(version.into()), edit).await?;
    access.audit.record(access.act("memory.changed", &record.id)).await;
    Ok(Json(record.into()))
}

/// List the namespaces of the tenant.
#[utoipa::path(
    get, path = "/v1/memories/namespaces", operation_id = "list_memory_namespaces", tag = "memory",
    responses((status = 200, description = "The namespaces.", body = MemoryNamespaces), Refused)
)]
pub(crate) async fn namespaces(access: Access) -> JsonResult<MemoryNamespaces> {
    let memories = access.loaded().project.memories().clone();
    let found = memories.namespaces(&access.caller.tenant).await?;
    let view = |Namespace { user, agent, custom }| MemoryNamespace { user, agent, custom };
    Ok(Json(MemoryNamespaces { namespaces: found.into_iter().map(view).collect() }))
}

/// Search a memory.
#[utoipa::path(
    post, path = "/v1/memories/search", operation_id = "search_memories", tag = "memory", params(SpaceQuery),
    request_body = MemorySearch,
    responses((status = 200, description = "What was found.", body = MemorySearchResults), Refused, Unusable)
)]
pub(crate) async fn search(
    access: Access,
    QueryParams(space): QueryParams<SpaceQuery>,
    JsonBody(search): JsonBody<MemorySearch>,
) -> JsonResult<MemorySearchResults> {
    let MemorySearch { query, limit, layers, min_score } = search;
    let limit = in_range(ErrorCode::BodyInvalid, "limit", limit.unwrap_or(DEFAULT_LIMIT), 1..=MAX_LIMIT)?;
    let min_score = in_range(ErrorCode::BodyInvalid, "min_score", min_score.unwrap_or(0.0), 0.0..=1.0)?;
    let request = SearchRequest { layers, min_score, ..SearchRequest::new(query, limit as usize) };
    let hits = space.space(&access)?.search(&request).await?;
    Ok(Json(MemorySearchResults { hits: hits.into_iter().map(HitView::from).collect() }))
}

/// Forget a record, a turn, a session, a source or everything, with all that was derived from it.
#[utoipa::path(
    post, path = "/v1/memories/forget", operation_id = "forget_memories", tag = "memory", params(SpaceQuery),
    request_body = ForgetMemory,
    responses((status = 200, description = "The receipt.", body = ForgetReceipt), Refused, NotThere, Unusable)
)]
pub(crate) async fn forget(
    access: Access,
    QueryParams(space): QueryParams<SpaceQuery>,
    JsonBody(request): JsonBody<ForgetMemory>,
) -> JsonResult<ForgetReceipt> {
    let ForgetMemory { what, dry_run, keep_turns, erase } = request;
    let options = ForgetOptions { dry_run, erase: erase.unwrap_or(true), keep_turns };
    let receipt = space.space(&access)?.forget(&what, options).await?;
    if !dry_run {
        access.audit.record(access.act("memory.forgotten", &receipt.id)).await;
    }
    Ok(Json(ForgetReceipt { receipt }))
}

/// List what a person should look at: duplicates, secrets, stale and unused records.
#[utoipa::path(
    get, path = "/v1/memories/audit", operation_id = "audit_memories", tag = "memory", params(SpaceQuery),
    responses((status = 200, description = "What was noticed.", body = MemoryAudit), Refused)
)]
pub(crate) async fn audit(
    access: Access,
    QueryParams(space): QueryParams<SpaceQuery>,
) -> JsonResult<MemoryAudit> {
    Ok(Json(MemoryAudit { findings: space.space(&access)?.audit().await? }))
}

/// Export a memory as lines of JSON.
#[utoipa::path(
    get, path = "/v1/memories/transfer", operation_id = "export_memories", tag = "memory", params(SpaceQuery),
    responses(
        (status = 200, description = "The records, one JSON document a line.", body = String,
            content_type = "text/plain"),
        Refused
    )
)]
pub(crate) async fn export(
    access: Access,
    QueryParams(space): QueryParams<SpaceQuery>,
) -> Result<impl IntoResponse, Problem> {
    let lines = space.space(&access)?.export().await?;
    Ok(([(header::CONTENT_TYPE, "text/plain")], lines))
}

/// Import records into a memory.
#[utoipa::path(
    post, path = "/v1/memories/transfer", operation_id = "import_memories", tag = "memory", params(SpaceQuery),
    request_body = MemoryLines,
    responses((status = 200, description = "What was imported.", body = MemoryImport), Refused, Unusable)
)]
pub(crate) async fn import(
    access: Access,
    QueryParams(space): QueryParams<SpaceQuery>,
    JsonBody(lines): JsonBody<MemoryLines>,
) -> JsonResult<MemoryImport> {
    let imported = space.space(&access)?.import(&lines.lines, &lines.source).await?;
    access.audit.record(access.act("memory.imported", &lines.source)).await;
    Ok(Json(MemoryImport { imported }))
}
