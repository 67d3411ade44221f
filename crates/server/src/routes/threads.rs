//! Isolated threads, and what can be done to any thread by its name.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use contexture_history::{SystemEvent, Visibility};
use contexture_message::{ErrorCode, Message, Role};
use contexture_session::{IsolatedStart, ModelChoice, NewItem, Policy, SessionId, Thread, ThreadId};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::sessions::{MAX_LABEL, ThreadView};
use super::turns::idempotency_key;
use crate::app::{Access, App};
use crate::http::input::{JsonBody, PathParam, objects, optional_object, segment, shown, taken, within};
use crate::http::params::{Repeatable, SessionPath, ThreadPath};
use crate::http::refusals::{Conflict, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(NewThread, NewMessages, NewSystemEvent, NewInstructions, NewModel);
returns!(ThreadList, ThreadState);

/// A new isolated thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewThread {
    /// A label for people.
    #[schemars(length(max = 1000))]
    label: Option<String>,
    /// The thread's model, as `provider/model`.
    #[schemars(regex(pattern = "^[^/]+/(.|\n)+$"))]
    model: Option<String>,
    /// The thread's instructions.
    system_instructions: Option<String>,
    /// Whether it starts with a copy of what `base` has.
    inherit_history: bool,
    /// The thread whose history it inherits; the main thread by default.
    #[schemars(length(min = 1, max = 300), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
    base: Option<String>,
    /// The first messages.
    #[serde(deserialize_with = "objects")]
    initial_messages: Vec<Message>,
}

/// Create an isolated thread. It never leaks into the main one.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/threads", operation_id = "create_thread", tag = "threads", params(SessionPath), request_body = NewThread,
    responses((status = 201, body = ThreadView, description = "The thread.", headers(("Location" = String, description = "Where it is."))), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn create(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    JsonBody(new): JsonBody<NewThread>,
) -> Result<impl IntoResponse, Problem> {
    within("label", new.label.as_deref(), MAX_LABEL)?;
    let start = IsolatedStart {
        name: None,
        model: new.model.as_deref().map(model_choice).transpose()?,
        system_instructions: new.system_instructions,
        inherit_history: new.inherit_history,
        initial_messages: new.initial_messages.into_iter().map(appended).collect::<Result<_, _>>()?,
        label: new.label,
        base: new.base.map(ThreadId::parse).transpose()?,
    };
    let session = access.sessions.open(&id).await?;
    let thread = session.create_isolated(start).await?;
    let view = view(&access, &thread).await?;
    let location = format!("/v1/threads/{}", segment(&view.id));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(view)))
}

fn model_choice(name: &str) -> Result<ModelChoice, Problem> {
    let (provider, model) =
        name.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty()).ok_or_else(|| {
            let text = format!("`{}` is not `provider/model`", shown(name));
            Problem::in_body("model", text)
        })?;
    Ok(ModelChoice { provider: provider.to_owned(), model: model.to_owned() })
}

/// Checks a message that is appended from outside: instructions are set, not said.
fn appended(message: Message) -> Result<Message, Problem> {
    match message.role {
        Role::System => {
            let problem =
                Problem::new(ErrorCode::MessageInvalid, "a thread has instructions, not system messages");
            Err(problem.hint("`PUT /v1/threads/{id}/instructions` sets them"))
        }
        Role::User if message.is_blank() => Err(Problem::new(
            ErrorCode::MessageInvalid,
            "a message of the user is blank: it has neither text nor attachments",
        )),
        Role::User | Role::Assistant | Role::Tool => Ok(message),
    }
}

async fn view(access: &Access, thread: &Thread) -> Result<ThreadView, Problem> {
    let head = access.store().head(thread.key().clone()).await?;
    let head = head.ok_or_else(|| Problem::not_found("thread", thread.id().as_str()))?;
    Ok(head.info.into())
}

/// A thread of the caller's, which the path names.
pub(crate) struct NamedThread {
    access: Access,
    thread: Thread,
}

impl FromRequestParts<App> for NamedThread {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let access = Access::from_request_parts(parts, app).await?;
        let PathParam(id) = PathParam::<ThreadId>::from_request_parts(parts, app).await?;
        let thread = access.thread(&id.session(), Some(id.to_string())).await?;
        Ok(Self { access, thread })
    }
}

/// Threads of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ThreadList {
    /// The main one first.
    threads: Vec<ThreadView>,
}

/// List the threads of a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/threads", operation_id = "list_threads", tag = "threads", params(SessionPath),
    responses((status = 200, description = "The threads.", body = ThreadList), Refused, NotThere)
)]
pub(crate) async fn list(access: Access, PathParam(id): PathParam<SessionId>) -> JsonResult<ThreadList> {
    access.sessions.open(&id).await?;
    let key = access.key(&id);
    let threads = access.store().threads(key).await?;
    Ok(Json(ThreadList { threads: threads.into_iter().map(ThreadView::from).collect() }))
}

/// Show a thread.
#[utoipa::path(
    get, path = "/v1/threads/{id}", operation_id = "show_thread", tag = "threads", params(ThreadPath),
    responses((status = 200, description = "The thread.", body = ThreadView), Refused, NotThere)
)]
pub(crate) async fn show(NamedThread { access, thread }: NamedThread) -> JsonResult<ThreadView> {
    view(&access, &thread).await.map(Json)
}

/// Remove an isolated thread. A main thread goes with its session only.
#[utoipa::path(
    delete, path = "/v1/threads/{id}", operation_id = "delete_thread", tag = "threads", params(ThreadPath),
    responses((status = 204, description = "It is gone."), Refused, NotThere, Conflict)
)]
pub(crate) async fn delete(NamedThread { access, thread }: NamedThread) -> Result<StatusCode, Problem> {
    let id = thread.id();
    if *id == id.session().main() {
        return Err(Problem::new(ErrorCode::MainThread, format!("`{id}` is the main thread of its session")));
    }
    let session = access.sessions.open(&id.session()).await?;
    let (was_there, act) = (session.release(id).await?, access.act("thread.deleted", id.as_str()));
    access.deleted(was_there, act, Problem::not_found("thread", id.as_str())).await
}

/// Messages to append.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessages {
    /// The messages, `{"role", "content"}`; each of the user begins a turn.
    #[schemars(length(min = 1))]
    messages: Vec<NewMessage>,
    /// Which views include the messages; by default all. A message can say it for itself.
    #[serde(default, deserialize_with = "optional_object")]
    visibility: Option<Visibility>,
    /// What to do when a turn is running: `queue` (wait, the default) or `reject`.
    #[serde(default)]
    policy: Policy,
}

/// A message to append.
#[derive(Debug, JsonSchema)]
pub(crate) struct NewMessage {
    #[serde(flatten)]
    message: Message,
    /// Which views include it; by default as the request says.
    visibility: Option<Visibility>,
}

// Written by hand: a flattened struct could not refuse unknown fields.
impl<'de> Deserialize<'de> for NewMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let visibility = taken(&mut fields, "visibility", optional_object)?;
        let message = serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { message, visibility })
    }
}

impl NewMessage {
    fn item(self, default: Option<Visibility>) -> Result<NewItem, Problem> {
        let item = NewItem::from(appended(self.message)?);
        Ok(self.visibility.or(default).into_iter().fold(item, NewItem::visibility))
    }
}

/// The state of a thread after a change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ThreadState {
    /// The thread.
    thread: String,
    /// The position of its newest item.
    end: u64,
    /// Its newest turn.
    turn: String,
}

impl ThreadState {
    fn of(thread: &Thread) -> Json<Self> {
        let snapshot = thread.get();
        let state = snapshot.state();
        Json(Self { thread: thread.id().to_string(), end: state.end.0, turn: state.turn.to_string() })
    }
}

/// Append messages to a thread without calling a model. With an `Idempotency-Key` they are appended once, however
/// often they are sent.
#[utoipa::path(
    post, path = "/v1/threads/{id}/messages", operation_id = "append_messages", tag = "threads", params(ThreadPath, Repeatable), request_body = NewMessages,
    responses((status = 200, description = "Where the thread stands now.", body = ThreadState), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn append(
    NamedThread { thread, .. }: NamedThread,
    headers: HeaderMap,
    JsonBody(new): JsonBody<NewMessages>,
) -> JsonResult<ThreadState> {
    let key = idempotency_key(&headers)?;
    let default = new.visibility;
    let items = new.messages.into_iter().map(|it| it.item(default)).collect::<Result<Vec<_>, _>>()?;
    if items.is_empty() {
        return Err(Problem::in_body("messages", "there is nothing to append"));
    }
    add(&thread.with_policy(new.policy), key, items).await
}

/// Appends items, once if they have a key.
async fn add(thread: &Thread, key: Option<String>, items: Vec<NewItem>) -> JsonResult<ThreadState> {
    match key {
        Some(key) => thread.add_items_once(&key, items).await.map(|_| ())?,
        None => thread.add(items).await.map(|_| ())?,
    }
    Ok(ThreadState::of(thread))
}

/// A system event.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSystemEvent {
    /// Its name, such as `deploy.finished`. `artifact`, `compaction`, `memory` and
    /// names that continue one of them with a dot are the engine's.
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._\-]*$"),
        example = "deploy.finished"
    )]
    name: String,
    /// What the model reads, from its next turn on.
    #[schemars(length(min = 1, max = 16384), example = "Version 7 is live.")]
    text: String,
    /// Data for the application, at most 16 KiB of JSON. The model does not read it.
    #[serde(default)]
    data: Option<Value>,
    /// Which views include the event; by default the history alone.
    #[serde(default, deserialize_with = "optional_object")]
    visibility: Option<Visibility>,
    /// What to do when a turn is running: `queue` (wait, the default) or `reject`.
    #[serde(default)]
    policy: Policy,
}

/// Append a system event to a thread: a durable fact, which the model reads at its position. A suspended turn goes on
/// waiting. With an `Idempotency-Key` the event is appended once, however often it is sent.
#[utoipa::path(
    post, path = "/v1/threads/{id}/events", operation_id = "append_event", tag = "threads", params(ThreadPath, Repeatable), request_body = NewSystemEvent,
    responses((status = 200, description = "Where the thread stands now.", body = ThreadState), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn tell(
    NamedThread { thread, .. }: NamedThread,
    headers: HeaderMap,
    JsonBody(new): JsonBody<NewSystemEvent>,
) -> JsonResult<ThreadState> {
    let key = idempotency_key(&headers)?;
    let event = SystemEvent::from_outside(new.name, new.text, new.data)
        .map_err(|err| Problem::in_body(err.field(), err.to_string()))?;
    let item = new.visibility.into_iter().fold(NewItem::from(event), NewItem::visibility);
    add(&thread.with_policy(new.policy), key, vec![item]).await
}

/// Instructions to set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInstructions {
    /// The text; null takes the instructions away.
    // It may be null but not missing: an empty body must not remove anything.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(schema_with = "text_or_null")]
    text: Option<String>,
}

fn text_or_null(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Option<String>>()
}

/// Set the instructions of a thread.
#[utoipa::path(
    put, path = "/v1/threads/{id}/instructions", operation_id = "set_instructions", tag = "threads", params(ThreadPath), request_body = NewInstructions,
    responses((status = 200, description = "Where the thread stands now.", body = ThreadState), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn instruct(
    NamedThread { thread, .. }: NamedThread,
    JsonBody(new): JsonBody<NewInstructions>,
) -> JsonResult<ThreadState> {
    thread.set_system_instructions(new.text.as_deref()).await?;
    Ok(ThreadState::of(&thread))
}

/// A model to choose.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewModel {
    /// `provider/model`.
    #[schemars(regex(pattern = "^[^/]+/(.|\n)+$"), example = "openai/gpt-5-mini")]
    model: String,
}

/// Choose the model of a thread.
#[utoipa::path(
    put, path = "/v1/threads/{id}/model", operation_id = "set_model", tag = "threads", params(ThreadPath), request_body = NewModel,
    responses((status = 200, description = "Where the thread stands now.", body = ThreadState), Refused, NotThere, Conflict, Unusable)
)]
pub(crate) async fn choose(
    NamedThread { thread, .. }: NamedThread,
    JsonBody(new): JsonBody<NewModel>,
) -> JsonResult<ThreadState> {
    let ModelChoice { provider, model } = model_choice(&new.model)?;
    thread.set_provider_model(&provider, &model).await?;
    Ok(ThreadState::of(&thread))
}

/// Start a new history for a thread. Nothing is removed.
#[utoipa::path(
    post, path = "/v1/threads/{id}/reset", operation_id = "reset_thread", tag = "threads", params(ThreadPath),
    responses((status = 200, description = "Where the thread stands now.", body = ThreadState), Refused, NotThere, Conflict)
)]
pub(crate) async fn reset(NamedThread { thread, .. }: NamedThread) -> JsonResult<ThreadState> {
    thread.reset_history().await?;
    Ok(ThreadState::of(&thread))
}

/// Evaluate the frozen prefix of a thread again at its next turn.
#[utoipa::path(
    post, path = "/v1/threads/{id}/refresh", operation_id = "refresh_thread", tag = "threads", params(ThreadPath),
    responses((status = 200, description = "Where the thread stands now.", body = ThreadState), Refused, NotThere, Conflict)
)]
pub(crate) async fn refresh(NamedThread { access, thread }: NamedThread) -> JsonResult<ThreadState> {
    access.loaded().agent.refresh(&thread).await?;
    Ok(ThreadState::of(&thread))
}
