//! `POST /v1/chat/completions`.

use contexture_message::ErrorCode;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body as ResponseBody, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use contexture_agent::{AgentError, AnswerRequest, Event, Outcome, RunRequest, RunSpec};
use contexture_compose::{GuardrailSide, Prompt, PromptBuilder, Schema, SchemaValidator, Scope};
use contexture_history::TurnNo;
use contexture_session::{Session, SessionId, SessionKey, SessionStart, Thread};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

use super::answer::{CompletionMeta, CompletionResult, StreamedText};
use super::documents::{ChatCompletion, ChatCompletionFrame, ChatCompletionRequest};
use super::errors::{ChatError, ChatRefused};
use super::locate::{ChatStep, locate};
use super::recognise::{ClientHistory, Hints};
use super::replay::replayed;
use super::request::ChatRequest;
use super::stream::ChunkWriter;
use crate::http::input::JsonBody;
use crate::http::params::Retryable;
use crate::loaded_project::LoadedProject;
use crate::routes::prompts::unkept_sessions;
use crate::routes::turns::idempotency_key;
use crate::running_turns::{StopCause, TurnJob, TurnTask};
use crate::{App, Caller, Problem};

/// The prompt behind `provider/model`: it is empty.
const BARE: &str = "chat-completions";

/// Answer a conversation as OpenAI does; unmodified OpenAI clients can be used.
///
/// `model` is a prompt's id or `provider/model`. The session is named by the header `x-contexture-session`, by
/// `metadata.contexture_session` or `metadata.session`, or by `user`; the server then keeps the conversation, and a
/// client that sends its whole history each time stores nothing twice. Without one nothing is kept. A client that
/// goes away stops the turn.
#[utoipa::path(
    post, path = "/v1/chat/completions", operation_id = "complete_chat", tag = "chat", request_body = ChatCompletionRequest,
    params(("x-contexture-session" = Option<String>, Header, description = "The session that keeps the conversation.", max_length = 200, nullable = false), Retryable),
    responses(
        (status = 200, description = "The completion; with `stream`, chunks as OpenAI sends them.", content((ChatCompletion = "application/json"), (ChatCompletionFrame = "text/event-stream"))),
        ChatRefused,
    )
)]
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Value>,
) -> Result<Response, ChatError> {
    let request = ChatRequest::read(&body)?;
    let loaded = app.loaded();
    let (prompt, model) = prompt_of(&loaded, &request).await?;
    let (session, key) = session_of(&app, &caller, &headers, &request).await?;
    let client_history = ClientHistory::of(request.messages.iter().cloned());
    let idempotency = idempotency_key(&headers)?;
    let hints = Hints {
        resends: false,
        is_retry: idempotency.is_some() || is_sent_again(&headers),
        rewrites: prompt.definition().guardrails.iter().any(|it| it.on == GuardrailSide::Input),
    };
    let (thread, step) = locate(&session, &client_history, hints).await.map_err(Problem::from)?;
    let meta = CompletionMeta {
        id: format!("chatcmpl-{}", app.0.names.next()),
        created: app.0.time.now().0 / 1000,
        model: request.model.clone(),
    };
    let reply = Reply { meta, session: key.clone(), thread: thread.clone(), request };
    let job = match step {
        ChatStep::Replay(turn) => return reply.replay(turn).await,
        ChatStep::Run(user) => {
            instruct(&thread, &reply.request).await?;
            let spec = RunSpec {
                input: if reply.request.input.is_null() { json!({}) } else { reply.request.input.clone() },
                scope: scope(&caller, key.as_ref(), &reply.request, app.0.time.now().to_seconds()),
                model,
                settings: reply.request.settings.clone(),
                client_tools: reply.request.tools.clone(),
                ..RunSpec::default()
            };
            TurnJob::Run(Box::new(RunRequest { spec, user, key: idempotency, ..RunRequest::default() }))
        }
        ChatStep::Answer(results) => TurnJob::Answer(Box::new(AnswerRequest {
            results,
            client_tools: Some(reply.request.tools.clone()),
            model,
            settings: Some(reply.request.settings.clone()),
            ..AnswerRequest::default()
        })),
    };
    let defers_text = prompt.definition().output.is_some();
    let (tap, events) = mpsc::unbounded_channel();
    let agent = loaded.agent.clone();
    let task = TurnTask { thread, prompt, agent, job, asked: None, tap: Some(tap) };
    let handle = app.0.running_turns.start(task)?;
    let (guard, stop_cause) = (Some(handle.cancel.drop_guard()), handle.stop_cause);
    let turn = Turn { events, outcome: handle.outcome, guard, stop_cause, place: None };
    reply.send(turn, defers_text, session).await
}

/// Does the same as [`named`]. A schema from the client is compiled on a separate thread.
async fn prompt_of(
    loaded: &Arc<LoadedProject>,
    request: &ChatRequest,
) -> Result<(Prompt, Option<String>), ChatError> {
    if request.output.is_none() {
        return named(loaded, request);
    }
    let (loaded, request) = (Arc::clone(loaded), request.clone());
    let compiled = tokio::task::spawn_blocking(move || named(&loaded, &request)).await;
    compiled.map_err(|_| Problem::new(ErrorCode::Panicked, "the server made a mistake"))?
}

/// Returns the prompt that a request names, and the model if it names one of those.
fn named(loaded: &LoadedProject, request: &ChatRequest) -> Result<(Prompt, Option<String>), ChatError> {
    let is_prompt = loaded.project.prompts().any(|(id, _)| id == request.model);
    let (prompt, model) = match is_prompt {
        true => (loaded.prompt(Some(&request.model))?, None),
        false if request.model.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()) => {
            (Prompt::builder(BARE).build().map_err(unusable)?, Some(request.model.clone()))
        }
        false => return Err(ChatError::no_model(&request.model)),
    };
    if request.tool_choice.is_none() && request.output.is_none() {
        return Ok((prompt, model));
    }
    if let Some(schema) = &request.output {
        SchemaValidator::new(schema)
            .map_err(|err| ChatError::param("response_format", "schema_invalid", err.to_string()))?;
    }
    let mut definition = prompt.definition().clone();
    definition.tool_choice = request.tool_choice.clone().or(definition.tool_choice);
    definition.output = request.output.as_deref().cloned().map(Schema::from_json).or(definition.output);
    Ok((PromptBuilder::from(definition).build().map_err(unusable)?, model))
}

fn unusable(err: contexture_compose::Error) -> ChatError {
    Problem::new(err.code(), err.to_string()).into()
}

/// Opens the session that a request names, or one that is thrown away.
async fn session_of(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    request: &ChatRequest,
) -> Result<(Session, Option<SessionKey>), ChatError> {
    const HEADER: &str = "x-contexture-session";
    let named = match headers.get(HEADER) {
        Some(value) => Some((HEADER, value.to_str().map_err(|_| not_plain(HEADER))?)),
        None => request.session(),
    };
    let Some((place, name)) = named else {
        let session = unkept_sessions(app).create(SessionStart::default()).await;
        return Ok((session.map_err(Problem::from)?, None));
    };
    let id = SessionId::parse(name).map_err(|err| Problem::from(err).at(place))?;
    let session = app.sessions(caller).open_or_create(&id).await.map_err(Problem::from)?;
    Ok((session, Some(SessionKey { tenant: caller.tenant.clone(), session: id })))
}

fn not_plain(header: &str) -> Problem {
    Problem::new(ErrorCode::HeaderInvalid, format!("`{header}` is not plain text")).at(header)
}

/// Whether an SDK marks the request as a retry.
fn is_sent_again(headers: &HeaderMap) -> bool {
    let count = headers.get("x-stainless-retry-count").and_then(|it| it.to_str().ok()?.parse::<u32>().ok());
    count.is_some_and(|it| it > 0)
}

fn scope(caller: &Caller, session: Option<&SessionKey>, request: &ChatRequest, now: String) -> Scope {
    Scope {
        session: session.map(|it| it.session.to_string()),
        user: request.user.clone(),
        tenant: Some(caller.tenant.to_string()),
        now: Some(now),
    }
}

/// Makes the client's system messages the instructions of the thread; they follow the prompt's own text. A client that
/// sends none leaves them unchanged.
async fn instruct(thread: &Thread, request: &ChatRequest) -> Result<(), ChatError> {
    let Some(text) = request.instructions() else { return Ok(()) };
    if thread.get().instructions() != Some(text.as_str()) {
        thread.set_system_instructions(Some(&text)).await.map_err(Problem::from)?;
    }
    Ok(())
}

/// A turn that runs, as this endpoint follows it.
struct Turn {
    events: mpsc::UnboundedReceiver<Event>,
    outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
    /// Stops the turn when the client disconnects.
    guard: Option<DropGuard>,
    /// Why it was stopped, if it was not requested.
    stop_cause: StopCause,
    /// Its thread and its name, once it has begun.
    place: Option<(String, String)>,
}

impl Turn {
    async fn next(&mut self) -> Option<Event> {
        let event = self.events.recv().await;
        if let Some(Event::TurnStart { thread, turn }) = &event {
            self.place = Some((thread.clone(), turn.clone()));
        }
        event
    }

    /// Waits for the end, after which dropping the connection stops nothing.
    async fn outcome(&mut self) -> Result<Outcome, ChatError> {
        let outcome = (&mut self.outcome).await;
        self.guard.take().map(DropGuard::disarm);
        let dropped = |_| Problem::new(ErrorCode::Cancelled, "the turn was dropped");
        Ok(outcome.map_err(dropped)?.map_err(|err| error_of(err, &self.stop_cause))?)
    }
}

fn error_of(err: AgentError, stop_cause: &StopCause) -> Problem {
    let wait = match &err {
        AgentError::Model(err) => err.retry_after(),
        _ => None,
    };
    let problem = stop_cause.problem(err);
    match wait {
        Some(wait) => problem.retry_after(wait.as_secs().max(1)),
        None => problem,
    }
}

/// The context of a response besides the turn.
struct Reply {
    meta: CompletionMeta,
    session: Option<SessionKey>,
    thread: Thread,
    request: ChatRequest,
}

impl Reply {
    /// Answers with a turn; `session` lives as long as it runs.
    async fn send(self, mut turn: Turn, defers_text: bool, session: Session) -> Result<Response, ChatError> {
        if !self.request.stream {
            let mut streamed = StreamedText::default();
            while let Some(event) = turn.next().await {
                streamed.add_event(&event);
            }
            let outcome = turn.outcome().await?;
            let result = self.result(&outcome, streamed).await?;
            return Ok(self.headed(Json(result.document(&self.meta)).into_response(), turn.place.as_ref()));
        }
        let mut chunks = ChunkWriter::new(self.meta.clone(), self.request.include_usage, defers_text);
        // A failure before the first text has its own status code.
        let mut first = String::new();
        while first.is_empty() {
            let Some(event) = turn.next().await else { break };
            first = chunks.event(&event);
        }
        if first.is_empty() {
            let outcome = turn.outcome().await?;
            let result = self.result(&outcome, chunks.streamed.clone()).await?;
            let text = chunks.end(&result);
            return Ok(self.headed(events_response(ResponseBody::from(text)), turn.place.as_ref()));
        }
        let place = turn.place.clone();
        let headers = self.headed(events_response(ResponseBody::empty()), place.as_ref());
        let follow = Follow { reply: self, turn, chunks, _session: session };
        let body = stream::once(async move { Ok::<_, std::convert::Infallible>(Bytes::from(first)) });
        let body = futures::StreamExt::chain(body, stream::unfold(Some(follow), Follow::step));
        Ok(headers.map(|_| ResponseBody::from_stream(body)))
    }

    /// Answers with a turn that the same request had before.
    async fn replay(self, turn: TurnNo) -> Result<Response, ChatError> {
        let result = replayed(&self.thread, turn).await.map_err(Problem::from)?;
        let place = Some((self.thread.id().to_string(), turn.to_string()));
        let response = match self.request.stream {
            true => {
                let mut chunks = ChunkWriter::new(self.meta.clone(), self.request.include_usage, true);
                events_response(ResponseBody::from(chunks.end(&result)))
            }
            false => Json(result.document(&self.meta)).into_response(),
        };
        Ok(self.headed(response, place.as_ref()))
    }

    /// Returns the result of a turn. For a replayed turn it is read from the log.
    async fn result(&self, outcome: &Outcome, streamed: StreamedText) -> Result<CompletionResult, ChatError> {
        match outcome.ended {
            contexture_agent::Ended::Replayed => {
                Ok(replayed(&self.thread, outcome.turn).await.map_err(Problem::from)?)
            }
            _ => Ok(CompletionResult::of(outcome, streamed)),
        }
    }

    /// Adds headers that identify the turn.
    fn headed(&self, mut response: Response, place: Option<&(String, String)>) -> Response {
        let (thread, turn) = place.cloned().unzip();
        let session = self.session.as_ref().map(|it| it.session.to_string());
        // A turn outside a session has no thread or turn to look up.
        let of_session = |it: Option<String>| it.filter(|_| self.session.is_some());
        let named = [
            ("x-contexture-session", session),
            ("x-contexture-thread", of_session(thread)),
            ("x-contexture-turn", of_session(turn)),
        ];
        for (name, value) in named {
            if let Some(value) = value.and_then(|it| HeaderValue::from_str(&it).ok()) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

fn events_response(body: ResponseBody) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

/// A stream on its way: dropping it stops the turn.
struct Follow {
    reply: Reply,
    turn: Turn,
    chunks: ChunkWriter,
    /// A session that is not stored disappears with its last handle.
    _session: Session,
}

impl Follow {
    async fn step(follow: Option<Self>) -> Option<(Result<Bytes, std::convert::Infallible>, Option<Self>)> {
        let mut follow = follow?;
        while let Some(event) = follow.turn.next().await {
            let text = follow.chunks.event(&event);
            if !text.is_empty() {
                return Some((Ok(Bytes::from(text)), Some(follow)));
            }
        }
        let result = match follow.turn.outcome().await {
            Ok(outcome) => follow.reply.result(&outcome, follow.chunks.streamed.clone()).await,
            Err(err) => Err(err),
        };
        let text = match result {
            Ok(result) => follow.chunks.end(&result),
            Err(err) => ChunkWriter::error(&err),
        };
        Some((Ok(Bytes::from(text)), None))
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("stamp", &self.meta).finish_non_exhaustive()
    }
}
