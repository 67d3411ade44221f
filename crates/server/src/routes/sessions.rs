//! Sessions: create, list, show, read, delete.

use std::sync::Arc;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use contexture_history::{Item, ItemDocument, Limit, Seq, Turn, TurnStatus};
use contexture_message::{ErrorCode, Message, Tokens};
use contexture_session::{SessionId, SessionInfo, SessionStart, Thread, ThreadInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::app::Access;
use crate::http::DateTime;
use crate::http::input::{JsonBody, PathParam, QueryParams, in_range, segment, within};
use crate::http::params::SessionPath;
use crate::http::refusals::{Conflict, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(NewSession);
returns!(SessionView, SessionPage, ThreadView, ItemPage);

/// How long a label may be, in characters.
pub(crate) const MAX_LABEL: usize = 1000;

/// A new session.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewSession {
    /// Its name; without one it gets a new one.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$"), example = &"demo")]
    id: Option<String>,
    /// A label for people.
    #[schemars(length(max = 1000))]
    label: Option<String>,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(crate) struct SessionView {
    /// The session's id.
    id: String,
    /// A label for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// When it was created.
    created: DateTime,
    /// The time of the last append to any of its threads.
    updated: DateTime,
    /// How many items its threads have together.
    items: u64,
    /// How many turns its main thread has.
    turns: u64,
    /// Its threads, the main one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<ThreadView>,
}

/// A thread of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Thread")]
pub(crate) struct ThreadView {
    /// The session's id.
    pub(crate) id: String,
    /// The session it belongs to.
    pub(crate) session: String,
    /// `main` or `isolated`.
    pub(crate) kind: String,
    /// A label for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// How many items it has.
    pub(crate) items: u64,
    /// How many turns it has.
    pub(crate) turns: u64,
}

/// A page of sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionPage {
    /// The sessions, in the order of their names.
    sessions: Vec<SessionView>,
    /// The start of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

/// The page to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only those after this one.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$")]
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

/// Checks the number at which a page starts. Stores can't count further than this.
pub(crate) fn numbered(before: Option<u64>) -> Result<Option<u64>, Problem> {
    match before {
        Some(it) if i64::try_from(it).is_err() => {
            let text = format!("`before` is {it}, which is not a page number");
            Err(Problem::new(ErrorCode::QueryInvalid, text))
        }
        it => Ok(it),
    }
}

/// Checks a limit from the query.
pub(crate) fn limited(limit: Option<u32>, default: u32, most: u32) -> Result<usize, Problem> {
    Ok(in_range(ErrorCode::QueryInvalid, "limit", limit.unwrap_or(default), 1..=most)? as usize)
}

impl From<SessionInfo> for SessionView {
    fn from(info: SessionInfo) -> Self {
        let SessionInfo { session, label, created, updated, threads: _, items, turns } = info;
        let (created, updated) = (created.into(), updated.into());
        Self { id: session.to_string(), label, created, updated, items, turns, threads: Vec::new() }
    }
}

impl From<ThreadInfo> for ThreadView {
    fn from(info: ThreadInfo) -> Self {
        let ThreadInfo { thread, session, kind, label, items, turns, .. } = info;
        let (id, session, kind) = (thread.to_string(), session.to_string(), kind.as_str().to_owned());
        Self { id, session, kind, label, items, turns }
    }
}

/// Create a session.
#[utoipa::path(
    post, path = "/v1/sessions", operation_id = "create_session", tag = "sessions", request_body = NewSession,
    responses((status = 201, body = SessionView, description = "The session.", headers(("Location" = String, description = "Where it is."))), Refused, Conflict, Unusable)
)]
pub(crate) async fn create(
    access: Access,
    JsonBody(new): JsonBody<NewSession>,
) -> Result<impl IntoResponse, Problem> {
    let id = new.id.map(SessionId::parse).transpose()?;
    within("label", new.label.as_deref(), MAX_LABEL)?;
    let session = access.sessions.create(SessionStart { id, label: new.label }).await?;
    let view = view(&access, session.id()).await?;
    let location = format!("/v1/sessions/{}", segment(&view.id));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(view)))
}

/// List sessions.
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "list_sessions", tag = "sessions", params(Page),
    responses((status = 200, description = "A page of sessions.", body = SessionPage), Refused)
)]
pub(crate) async fn list(access: Access, QueryParams(page): QueryParams<Page>) -> JsonResult<SessionPage> {
    let limit = limited(page.limit, 100, 1000)?;
    let after = page.after.map(SessionId::parse).transpose()?;
    let sessions = access.sessions.list(after, limit).await?;
    let after = sessions.last().filter(|_| sessions.len() == limit).map(|it| it.session.to_string());
    Ok(Json(SessionPage { sessions: sessions.into_iter().map(SessionView::from).collect(), after }))
}

/// Show a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", operation_id = "show_session", tag = "sessions", params(SessionPath),
    responses((status = 200, description = "The session.", body = SessionView), Refused, NotThere)
)]
pub(crate) async fn show(access: Access, PathParam(id): PathParam<SessionId>) -> JsonResult<SessionView> {
    view(&access, &id).await.map(Json)
}

async fn view(access: &Access, id: &SessionId) -> Result<SessionView, Problem> {
    let key = access.key(id);
    // A session of the engine's own is not for clients.
    let head = access.store().head(key.main()).await?.filter(|_| !id.is_reserved());
    let head = head.ok_or_else(|| Problem::not_found("session", id.as_str()))?;
    let threads = access.store().threads(key).await?;
    let updated = threads.iter().map(|it| it.updated).max().unwrap_or(head.info.updated);
    Ok(SessionView {
        id: id.to_string(),
        label: head.info.label,
        created: head.info.created.into(),
        updated: updated.into(),
        items: threads.iter().map(|it| it.items).sum(),
        turns: head.info.turns,
        threads: threads.into_iter().map(ThreadView::from).collect(),
    })
}

/// Remove a session with everything in it.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", operation_id = "delete_session", tag = "sessions", params(SessionPath),
    responses((status = 204, description = "It is gone."), Refused, NotThere, Conflict)
)]
pub(crate) async fn delete(
    access: Access,
    PathParam(id): PathParam<SessionId>,
) -> Result<StatusCode, Problem> {
    let (was_there, act) = (access.sessions.delete(&id).await?, access.act("session.deleted", id.as_str()));
    let deleted = access.deleted(was_there, act, Problem::not_found("session", id.as_str())).await?;
    access.recorder.forget(&access.key(&id));
    // Turns that were not remembered yet are gone; so are the words that a memory found in the log.
    access.loaded().project.memories().drop_session(access.sessions.tenant(), &id).await?;
    Ok(deleted)
}

/// The items to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ItemsQuery {
    /// `client` (what people see, the default), `history` (what the model reads), or `all`.
    #[param(inline)]
    view: Option<ViewName>,
    /// How many items at most, the newest ones; of `history` turns, no more than `history_window.turns`.
    #[param(minimum = 1, maximum = 10000, default = 100)]
    limit: Option<u32>,
    /// The newest items within this many tokens.
    #[param(minimum = 1, maximum = 4_294_967_295_i64)]
    tokens: Option<u32>,
    /// Only items before this position, taken from `before` of a previous response. Not for `history`.
    #[param(minimum = 1)]
    before: Option<u64>,
    /// Another thread than the main one.
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    thread: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ViewName {
    Client,
    History,
    All,
}

/// An item, or, in the view `history`, a turn.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum ItemOrTurn {
    Item(#[schemars(with = "ItemDocument<'static>")] Value),
    Turn(HistoryTurn),
}

/// A turn as the model reads it.
#[derive(Debug, Serialize, JsonSchema)]
struct HistoryTurn {
    /// The turn, such as `t7`.
    turn: Arc<str>,
    /// The status of the turn.
    status: TurnStatus,
    /// The messages that the model reads.
    messages: Vec<Arc<Message>>,
}

impl From<&Turn> for HistoryTurn {
    fn from(turn: &Turn) -> Self {
        Self { turn: turn.id().clone(), status: turn.status(), messages: turn.messages().to_vec() }
    }
}

/// Items of a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ItemPage {
    /// The thread.
    thread: String,
    /// The items, oldest first; in the view `history` the turns, each with its messages.
    items: Vec<ItemOrTurn>,
    /// The `before` of the next request, if there may be older items.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<u64>,
}

/// Read a thread: what people see, what the model reads, or everything.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/items", operation_id = "list_items", tag = "sessions", params(SessionPath, ItemsQuery),
    responses((status = 200, description = "The items.", body = ItemPage), Refused, NotThere, Unusable)
)]
pub(crate) async fn items(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<ItemsQuery>,
) -> JsonResult<ItemPage> {
    let n = limited(query.limit, 100, 10_000)?;
    let thread = access.thread(&id, query.thread).await?;
    let wrong = |code: ErrorCode, text: &str| Err(Problem::new(code, text));
    let tokens = query.tokens.map(|it| Limit::Tokens(Tokens(it)));
    let view = query.view.unwrap_or(ViewName::Client);
    let (items, before) = match (view, numbered(query.before)?, tokens) {
        (_, _, Some(Limit::Tokens(Tokens(0)))) => {
            return wrong(ErrorCode::QueryInvalid, "`tokens` is 0; it is at least 1");
        }
        (_, Some(0), _) => return wrong(ErrorCode::QueryInvalid, "`before` is 0; it is at least 1"),
        (ViewName::History, Some(_), _) => {
            return wrong(ErrorCode::InputInvalid, "`before` is for the views `client` and `all`");
        }
        (_, Some(_), Some(_)) => {
            return wrong(ErrorCode::InputInvalid, "`before` and `tokens` exclude each other");
        }
        (ViewName::History, None, tokens) => {
            // The model's view is what the window holds.
            let window = Limit::Turns(n.min(thread.history_window()));
            let turns = thread.history(tokens.or(Some(window))).await?;
            (turns.iter().map(|it| ItemOrTurn::Turn((&**it).into())).collect(), None)
        }
        (ViewName::Client, None, Some(_)) => (documents(&thread, thread.client(tokens).await?), None),
        (ViewName::All, None, Some(_)) => (documents(&thread, thread.all(tokens).await?), None),
        (ViewName::Client | ViewName::All, before, None) => {
            let is_client = matches!(view, ViewName::Client);
            let end = before.map_or(Seq(u64::MAX), Seq);
            let (items, before) = thread.before(end, n, is_client).await?;
            (documents(&thread, items), before.map(|it| it.0))
        }
    };
    Ok(Json(ItemPage { thread: thread.id().to_string(), items, before }))
}

fn documents(thread: &Thread, items: Vec<Item>) -> Vec<ItemOrTurn> {
    items.iter().map(|it| ItemOrTurn::Item(it.document(thread.id().as_str()))).collect()
}
