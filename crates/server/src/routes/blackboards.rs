//! Blackboards: what they hold, writes that name the version they expect, their records, and a stream of them.
//!
//! A board is named by its id, and by `session`, `thread` or `user` in the query, as its scope demands.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use contexture::capabilities::blackboard::{
    Board, BoardAuthor, BoardDefinition, BoardError, BoardEvent, BoardOwner, BoardRecord, BoardScope,
    BoardState, BoardWrite, Edit, PatchOperation, Pointer,
};
use contexture_message::ErrorCode;
use contexture_session::{SessionId, ThreadId};
use futures::StreamExt as _;
use futures::stream;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;

use super::sessions::limited;
use crate::app::Access;
use crate::http::input::{JsonBody, PathParam, QueryParams, Version};
use crate::http::params::{BlackboardPath, LastVersion};
use crate::http::refusals::{Conflict, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::http::{DateTime, events};
use crate::{JsonResult, Problem};

accepts!(BlackboardPut, BlackboardPatch);
returns!(BlackboardPage, Blackboard, BlackboardRecords, BlackboardRecord);

impl From<BoardError> for Problem {
    fn from(err: BoardError) -> Self {
        let (code, text) = (err.code(), err.to_string());
        match err {
            BoardError::Stale { path, version, value, .. } => Self::new(code, text)
                .current(json!({"path": path, "version": version, "value": value}))
                .hint("look at `current`, then write again with its version"),
            BoardError::TestFailed { path, value } => {
                Self::new(code, text).current(json!({"path": path, "value": value}))
            }
            _ => Self::new(code, text),
        }
    }
}

/// Whose board it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// The session, of boards with the scope `session` or `thread`.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$")]
    session: Option<String>,
    /// The thread, of boards with the scope `thread`; by default the main one of the session.
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    thread: Option<String>,
    /// The user, of boards with the scope `user`.
    #[param(min_length = 1, max_length = 150, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    user: Option<String>,
}

/// Whose board it is, and which part of it.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PartQuery {
    #[serde(flatten)]
    #[param(ignore)]
    owner: OwnerQuery,
    /// A JSON Pointer such as `/items/0`; by default the whole board.
    #[param(max_length = 1000)]
    path: Option<String>,
    /// The version of the board that the caller has read, for writes.
    #[param(value_type = Option<u64>, minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    version: Option<Version>,
}

/// Whose board it is, and which records to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RecordsQuery {
    #[serde(flatten)]
    #[param(ignore)]
    owner: OwnerQuery,
    /// Only records after this version; by default all.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    after: Option<u64>,
    /// How many at most, of a page; a stream has no limit.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// The blackboards of the project.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlackboardPage {
    /// The boards, in the order of their ids.
    blackboards: Vec<BlackboardDefinition>,
}

/// The definition of a blackboard.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlackboardDefinition {
    /// Its id.
    id: String,
    /// Who shares it.
    scope: BoardScope,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The JSON Schema of what it holds.
    schema: Value,
}

impl From<&BoardDefinition> for BlackboardDefinition {
    fn from(definition: &BoardDefinition) -> Self {
        Self {
            id: definition.id().to_owned(),
            scope: definition.scope(),
            description: definition.options().description.clone(),
            schema: definition.schema().value().clone(),
        }
    }
}

/// What a blackboard holds at a path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Blackboard {
    /// The id of the board.
    id: String,
    /// The version of the board: what a write may name as the version that it expects.
    version: u64,
    /// The path, a JSON Pointer.
    path: String,
    /// The version of the path; 0 if it was never written.
    path_version: u64,
    /// The value; null if there is none.
    value: Value,
}

impl Blackboard {
    fn of(board: &Board, state: &BoardState, path: &Pointer) -> Self {
        Self {
            id: board.definition().id().to_owned(),
            version: state.version(),
            path: path.to_string(),
            path_version: state.version_of(path),
            value: path.get(state.value()).cloned().unwrap_or_default(),
        }
    }
}

/// A write of one value, by the merge rule of its field.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlackboardPut {
    /// The field, a JSON Pointer; `-` as the last name is the end of an array.
    #[schemars(length(max = 1000), example = &"/items/-")]
    path: String,
    /// The value.
    #[serde(default)]
    value: Value,
    /// The version of the board that the writer has read. Without it, nothing may be there yet; rules that merge need
    /// none.
    version: Option<Version>,
    /// Why it is written.
    #[schemars(length(max = 1000))]
    reason: Option<String>,
}

/// How an operation of a patch is documented.
struct PatchOperationSchema;

impl JsonSchema for PatchOperationSchema {
    fn schema_name() -> Cow<'static, str> {
        "PatchOperation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let path = json!({"type": "string", "pattern": "^(/[^~]{0,100}){0,20}$", "maxLength": 1000});
        let operation = |names: &[&str], field: Option<(&str, serde_json::Value)>| {
            let mut fields = json!({"op": {"enum": names}, "path": path});
            let mut required = vec!["op", "path"];
            if let Some((name, schema)) = field {
                fields[name] = schema;
                required.push(name);
            }
            json!({"type": "object", "properties": fields, "required": required, "additionalProperties": false})
        };
        json_schema!({
            "description": "An operation of RFC 6902.",
            "oneOf": [
                operation(&["add", "replace", "test"], Some(("value", json!({})))),
                operation(&["move", "copy"], Some(("from", path.clone()))),
                operation(&["remove"], None),
            ],
        })
    }
}

/// A JSON Patch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlackboardPatch {
    /// The operations of RFC 6902, made as a whole or not at all.
    #[schemars(length(min = 1, max = 100), with = "Vec<PatchOperationSchema>")]
    operations: Vec<PatchOperation>,
    /// The version of the board that the writer has read. Without it, what is written is new or has a `test`.
    version: Option<Version>,
    /// Why it is written.
    #[schemars(length(max = 1000))]
    reason: Option<String>,
}

/// A page of records.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlackboardRecords {
    /// The records, oldest first.
    records: Vec<BlackboardRecord>,
}

/// What a write did.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BlackboardRecord {
    /// The version that the write made.
    version: u64,
    /// The time of the write.
    at: DateTime,
    /// The author.
    author: BoardAuthor,
    /// The thread and turn, if it was made in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    /// The author's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What changed: each path with its value before and after, where there was one.
    changes: Vec<Value>,
}

impl From<BoardEvent> for BlackboardRecord {
    fn from(BoardEvent { version, at, record }: BoardEvent) -> Self {
        let changes = record.changes.iter().map(|it| json!(it)).collect();
        let BoardRecord { author, turn, reason, .. } = record;
        Self { version, at: at.into(), author, turn, reason, changes }
    }
}

/// Finds the board of an owner. One of a session that does not exist is missing.
async fn found(access: &Access, id: &str, owner: OwnerQuery) -> Result<Board, Problem> {
    let owner = BoardOwner {
        tenant: access.caller.tenant.clone(),
        session: owner.session.map(SessionId::parse).transpose()?,
        thread: owner.thread.map(ThreadId::parse).transpose()?,
        user: owner.user,
    };
    let board = access.loaded().project.boards().find(id, &owner).map_err(|err| match err {
        BoardError::Unavailable(reason) => Problem::new(ErrorCode::QueryInvalid, reason),
        other => other.into(),
    })?;
    if matches!(board.definition().scope(), BoardScope::Thread | BoardScope::Session) {
        let session = owner.session.or_else(|| owner.thread.as_ref().map(ThreadId::session));
        if let Some(session) = session {
            access.sessions.open(&session).await?;
        }
        if let Some(thread) = owner.thread {
            access.sessions.open_thread(&thread).await?;
        }
    }
    Ok(board)
}

fn pointer(path: Option<&str>) -> Result<Pointer, Problem> {
    Ok(path.unwrap_or_default().parse::<Pointer>()?)
}

/// List blackboards.
#[utoipa::path(
    get, path = "/v1/blackboards", operation_id = "list_blackboards", tag = "blackboards",
    responses((status = 200, description = "The boards of the project's prompts.", body = BlackboardPage), Refused)
)]
pub(crate) async fn list(access: Access) -> Json<BlackboardPage> {
    let definitions = access.loaded().project.boards().definitions();
    Json(BlackboardPage {
        blackboards: definitions.iter().map(|it| BlackboardDefinition::from(&**it)).collect(),
    })
}

/// Read a blackboard, or a part of it.
#[utoipa::path(
    get, path = "/v1/blackboards/{id}", operation_id = "get_blackboard", tag = "blackboards",
    params(BlackboardPath, OwnerQuery, PartQuery),
    responses((status = 200, description = "What it holds.", body = Blackboard), Refused, NotThere)
)]
pub(crate) async fn show(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<PartQuery>,
) -> JsonResult<Blackboard> {
    let (board, path) = (found(&access, &id, query.owner).await?, pointer(query.path.as_deref())?);
    Ok(Json(Blackboard::of(&board, &board.read().await?, &path)))
}

/// Write one value to a blackboard, by the merge rule of its field.
#[utoipa::path(
    put, path = "/v1/blackboards/{id}", operation_id = "write_blackboard", tag = "blackboards",
    params(BlackboardPath, OwnerQuery), request_body = BlackboardPut,
    responses(
        (status = 200, description = "What the path holds now.", body = Blackboard),
        Refused, NotThere, Conflict, Unusable,
    )
)]
pub(crate) async fn put(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(owner): QueryParams<OwnerQuery>,
    JsonBody(body): JsonBody<BlackboardPut>,
) -> JsonResult<Blackboard> {
    let (board, path) = (found(&access, &id, owner).await?, pointer(Some(&body.path))?);
    let edit = Edit::Put { path: path.clone(), value: body.value };
    let state = write(&board, edit, body.version, body.reason).await?;
    let path = if matches!(path.split(), Some((_, "-"))) { Pointer::default() } else { path };
    Ok(Json(Blackboard::of(&board, &state, &path)))
}

/// Apply a JSON Patch to a blackboard, as a whole or not at all.
#[utoipa::path(
    patch, path = "/v1/blackboards/{id}", operation_id = "patch_blackboard", tag = "blackboards",
    params(BlackboardPath, OwnerQuery), request_body = BlackboardPatch,
    responses(
        (status = 200, description = "What the board holds now.", body = Blackboard),
        Refused, NotThere, Conflict, Unusable,
    )
)]
pub(crate) async fn patch(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(owner): QueryParams<OwnerQuery>,
    JsonBody(body): JsonBody<BlackboardPatch>,
) -> JsonResult<Blackboard> {
    let board = found(&access, &id, owner).await?;
    let state = write(&board, Edit::Patch(body.operations), body.version, body.reason).await?;
    Ok(Json(Blackboard::of(&board, &state, &Pointer::default())))
}

/// Clear a blackboard, or a part of it.
#[utoipa::path(
    delete, path = "/v1/blackboards/{id}", operation_id = "clear_blackboard", tag = "blackboards",
    params(BlackboardPath, OwnerQuery, PartQuery),
    responses(
        (status = 200, description = "What the board holds now.", body = Blackboard),
        Refused, NotThere, Conflict,
    )
)]
pub(crate) async fn clear(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<PartQuery>,
) -> JsonResult<Blackboard> {
    let PartQuery { owner, path, version } = query;
    let board = found(&access, &id, owner).await?;
    let state = write(&board, Edit::Clear(pointer(path.as_deref())?), version, None).await?;
    Ok(Json(Blackboard::of(&board, &state, &Pointer::default())))
}

async fn write(
    board: &Board,
    edit: Edit,
    version: Option<Version>,
    reason: Option<String>,
) -> Result<BoardState, Problem> {
    let write = BoardWrite { reason, expected: version.map(u64::from).into(), ..BoardWrite::new(edit) };
    Ok(board.write(write).await?)
}

/// List the records of a blackboard: every write with its author, reason, and the values before and after.
#[utoipa::path(
    get, path = "/v1/blackboards/{id}/records", operation_id = "list_blackboard_records", tag = "blackboards",
    params(BlackboardPath, OwnerQuery, RecordsQuery),
    responses((status = 200, description = "A page of records.", body = BlackboardRecords), Refused, NotThere)
)]
pub(crate) async fn records(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<RecordsQuery>,
) -> JsonResult<BlackboardRecords> {
    let limit = limited(query.limit, 100, 1000)?;
    let board = found(&access, &id, query.owner).await?;
    let records = board.history(query.after.unwrap_or(0), limit).await?;
    Ok(Json(BlackboardRecords { records: records.into_iter().map(Into::into).collect() }))
}

/// Follow the writes of a blackboard as they happen.
///
/// Each frame has the version as its `id`; pass it as `Last-Event-ID` to continue right after that write.
#[utoipa::path(
    get, path = "/v1/blackboards/{id}/events", operation_id = "follow_blackboard", tag = "blackboards",
    params(BlackboardPath, OwnerQuery, RecordsQuery, LastVersion),
    responses(
        (status = 200, description = "Writes as they happen: the `data` of each frame is a `BlackboardRecord`.", body = BlackboardRecord, content_type = "text/event-stream"),
        Refused, NotThere,
    )
)]
pub(crate) async fn follow(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<RecordsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last =
        headers.get("last-event-id").map(|it| it.to_str().unwrap_or("invalid")).filter(|it| !it.is_empty());
    let last = last.map(str::parse::<u64>).transpose();
    let last = last.map_err(|_| {
        Problem::new(ErrorCode::HeaderInvalid, "`Last-Event-ID` is not a version").at("Last-Event-ID")
    })?;
    let board = found(&access, &id, query.owner).await?;
    let frames = board.subscribe(last.or(query.after).unwrap_or(0)).map(|it| match it {
        Ok(event) => {
            let (version, data) = (event.version, json!(BlackboardRecord::from(event)));
            (format!("id: {version}\nevent: blackboard.write\ndata: {data}\n\n"), false)
        }
        Err(err) => (format!("event: error\ndata: {}\n\n", json!(Problem::from(err))), true),
    });
    let beat = Duration::from_secs(access.config.heartbeat_seconds.max(1));
    let frames = stream::unfold(Some(Box::pin(frames)), move |frames| async move {
        let mut frames = frames?;
        match tokio::time::timeout(beat, frames.next()).await {
            Err(_) => Some((Ok::<_, Infallible>(": alive\n\n".to_owned()), Some(frames))),
            Ok(next) => next.map(|(frame, is_last)| (Ok(frame), (!is_last).then_some(frames))),
        }
    });
    Ok(events(Body::from_stream(frames.take_until(access.stop.clone().cancelled_owned()))))
}
