//! Compaction: make an archive now, look at archives, take the newest back.

use axum::Json;
use contexture_agent::{CompactRequest, CompactionReport, RunSpec};
use contexture_history::ItemDocument;
use contexture_message::ErrorCode;
use contexture_session::{ArchiveInfo, SessionId, Thread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::sessions::limited;
use super::turn_shapes::input;
use super::turns::ThreadQuery;
use crate::app::Access;
use crate::http::DateTime;
use crate::http::input::{JsonBody, PathParam, PathParams, QueryParams, shown};
use crate::http::params::{ArchivePath, SessionPath};
use crate::http::refusals::{Conflict, Failed, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(CompactionRequest);
returns!(Archive, ArchiveList, ArchiveDetails, SearchResults, CompactionReportBody = CompactionReport);

/// The request of a compaction.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CompactionRequest {
    /// The prompt that the session is used with.
    prompt: Option<String>,
    /// Its input.
    #[schemars(with = "Option<Map<String, Value>>")]
    input: Value,
    /// The model that summarises.
    model: Option<String>,
    /// Another thread than the main one.
    #[schemars(length(min = 1, max = 300), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
    thread: Option<String>,
    /// The user that the conversation is with, as its turns name them: so that the summary is asked for with the same
    /// prefix.
    user_id: Option<String>,
}

/// Summarise the older turns now.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/compact", operation_id = "compact_session", tag = "compaction", params(SessionPath),
    request_body = CompactionRequest,
    responses(
        (status = 200, description = "The report of the compaction.", body = CompactionReportBody),
        Refused, NotThere, Conflict, Unusable, Failed,
    )
)]
pub(crate) async fn compact(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    JsonBody(request): JsonBody<CompactionRequest>,
) -> JsonResult<CompactionReport> {
    let loaded = access.loaded();
    let prompt = loaded.prompt(request.prompt.as_deref())?;
    let thread = access.thread(&id, request.thread).await?;
    let (input, scope) = (input(request.input), access.scope(Some(&id), request.user_id));
    let spec = RunSpec { input, scope, model: request.model, ..RunSpec::default() };
    let asked = CompactRequest { spec, ..CompactRequest::default() };
    Ok(Json(loaded.agent.compact(&prompt, &thread, asked).await?))
}

/// An archive.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Archive {
    /// Its number, from 1.
    number: u64,
    /// The first and the last turn that it covers, or covers a part of.
    turns: (String, String),
    /// Whether the model reads its summary now; otherwise a larger one replaced it.
    holds: bool,
    /// What replaces the covered items.
    summary: String,
    /// The cost of the covered items, in tokens.
    tokens_before: u32,
    /// The cost of the replacement, in tokens.
    tokens_after: u32,
    /// The time of the archive.
    at: DateTime,
}

impl From<ArchiveInfo> for Archive {
    fn from(info: ArchiveInfo) -> Self {
        let (first, last) = info.archived.turns;
        Self {
            number: info.archived.number,
            turns: (first.to_string(), last.to_string()),
            holds: info.holds,
            summary: info.summary.text,
            tokens_before: info.summary.before.0,
            tokens_after: info.after.0,
            at: info.at.into(),
        }
    }
}

/// The archives of a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArchiveList {
    /// The archives, oldest first.
    archives: Vec<Archive>,
}

/// List the archives.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/archives", operation_id = "list_archives", tag = "compaction", params(SessionPath, ThreadQuery),
    responses((status = 200, description = "The archives.", body = ArchiveList), Refused, NotThere)
)]
pub(crate) async fn archives(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> JsonResult<ArchiveList> {
    let thread = access.thread(&id, query.thread).await?;
    let archives = thread.archives().await?.into_iter().map(Archive::from).collect();
    Ok(Json(ArchiveList { archives }))
}

/// The number of an archive in a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveNo(u64);

impl TryFrom<String> for ArchiveNo {
    type Error = Problem;

    fn try_from(text: String) -> Result<Self, Problem> {
        let wrong = |_| Problem::new(ErrorCode::PathInvalid, format!("`{}` is not a number", shown(&text)));
        text.parse().map(Self).map_err(wrong)
    }
}

/// An archive with everything in it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArchiveDetails {
    /// The archive.
    archive: Archive,
    /// The covered items, as they were appended.
    #[schemars(with = "Vec<ItemDocument<'static>>")]
    items: Vec<Value>,
}

/// Read what an archive covers, as it was said.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/archives/{n}", operation_id = "show_archive", tag = "compaction",
    params(SessionPath, ArchivePath, ThreadQuery),
    responses((status = 200, description = "The archive.", body = ArchiveDetails), Refused, NotThere)
)]
pub(crate) async fn archive(
    access: Access,
    PathParams(id, ArchiveNo(number)): PathParams<SessionId, ArchiveNo>,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> JsonResult<ArchiveDetails> {
    let thread = access.thread(&id, query.thread).await?;
    let archive = info(&thread, number).await?;
    let items = thread.archive(number).await?;
    let items = items.iter().map(|it| it.document(thread.id().as_str())).collect();
    Ok(Json(ArchiveDetails { archive: archive.into(), items }))
}

async fn info(thread: &Thread, number: u64) -> Result<ArchiveInfo, Problem> {
    let found = thread.archives().await?.into_iter().find(|it| it.archived.number == number);
    found.ok_or_else(|| Problem::not_found("archive", &number.to_string()))
}

/// Take the newest archive back: the model reads again what it covers.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/compactions/{n}/undo", operation_id = "undo_compaction", tag = "compaction",
    params(SessionPath, ArchivePath, ThreadQuery),
    responses((status = 200, description = "The archive that was taken back.", body = Archive), Refused, NotThere, Conflict)
)]
pub(crate) async fn undo(
    access: Access,
    PathParams(id, ArchiveNo(number)): PathParams<SessionId, ArchiveNo>,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> JsonResult<Archive> {
    let thread = access.thread(&id, query.thread).await?;
    let archive = info(&thread, number).await?;
    let archives = thread.archives().await?;
    let newest = archives.iter().filter(|it| it.holds).map(|it| it.archived.number).max();
    if newest != Some(number) {
        let text = format!("archive {number} is not the newest: only that one can be taken back");
        return Err(Problem::new(ErrorCode::VersionConflict, text));
    }
    thread.undo().await?;
    let act = access.act("compaction.undone", thread.id().as_str());
    access.audit.record(act.detail(format!("archive {number}"))).await;
    Ok(Json(Archive { holds: false, ..archive.into() }))
}

/// The words to search for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// The query.
    q: String,
    /// How many hits at most.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// Another thread than the main one.
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    thread: Option<String>,
}

/// The search results.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SearchResults {
    /// The hits, best first.
    hits: Vec<SearchHit>,
}

/// An archived item that contains some of the words.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SearchHit {
    /// Its position in the log.
    seq: u64,
    /// Its turn.
    turn: String,
    /// The time of the append.
    at: DateTime,
    /// The kind of item.
    kind: String,
    /// The snippet of its text with the most query words.
    text: String,
}

/// Search what is archived.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/search", operation_id = "search_archives", tag = "compaction", params(SessionPath, SearchQuery),
    responses((status = 200, description = "What was found.", body = SearchResults), Refused, NotThere)
)]
pub(crate) async fn search(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<SearchQuery>,
) -> JsonResult<SearchResults> {
    let limit = limited(query.limit, 20, 100)?;
    let thread = access.thread(&id, query.thread).await?;
    let found = thread.search(&query.q, limit).await?.into_iter();
    let hits = found.map(|it| SearchHit {
        seq: it.seq.0,
        turn: it.turn.to_string(),
        at: it.at.into(),
        kind: it.kind,
        text: it.text,
    });
    Ok(Json(SearchResults { hits: hits.collect() }))
}
