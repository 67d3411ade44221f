//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as ResponseBody;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use contexture_agent::{Agent, AnswerRequest, Ended, Run, RunRequest, RunSpec};
use contexture_compose::{GuardrailSide, Prompt, PromptBuilder, Schema, SchemaValidator};
use contexture_history::{TurnNo, TurnStatus};
use contexture_message::{ErrorCode, Message, ToolOutput};
use contexture_session::{Head, Session, SessionId, SessionStart, Thread};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answer::{CompletionMeta, CompletionResult, StreamedText, replayed};
use super::documents::{ChatCompletion, ChatCompletionFrame, ChatCompletionRequest};
use super::errors::{ChatRefused, no_model};
use super::locate::{ChatStep, locate};
use super::recognise::{ClientHistory, Hints};
use super::request::ChatRequest;
use super::stream::{ChunkWriter, CompletionScope};
use crate::Problem;
use crate::app::{Access, App};
use crate::events::cursor::Cursor;
use crate::http::events;
use crate::http::input::JsonBody;
use crate::http::params::Retryable;
use crate::loaded_project::LoadedProject;
use crate::routes::follow::{Follow, TurnScope};
use crate::routes::prompts::unkept_sessions;
use crate::routes::turn_shapes::input;
use crate::routes::turns::idempotency_key;
use crate::running_turns::TurnKey;

/// The prompt behind `provider/model`: it is empty.
const BARE: &str = "chat-completions";

/// Answer a conversation as OpenAI does; unmodified OpenAI clients can be used.
///
/// `model` is a prompt's id or `provider/model`. The session is named by the header `x-contexture-session`, by
/// `metadata.contexture_session` or `metadata.session`, or by `user`; the server then keeps the conversation, and a
/// client that sends its whole history each time stores nothing twice. Without one nothing is kept. A client that
/// goes away stops the turn, unless its request has an idempotency key: then the answer is there when it asks again.
#[utoipa::path(
    post, path = "/v1/chat/completions", operation_id = "complete_chat", tag = "chat", request_body = ChatCompletionRequest,
    params(("x-contexture-session" = Option<String>, Header, description = "The session that keeps the conversation.", max_length = 200, nullable = false), Retryable),
    responses(
        (status = 200, description = "The completion; with `stream`, chunks as OpenAI sends them.", content((ChatCompletion = "application/json"), (ChatCompletionFrame = "text/event-stream"))),
        ChatRefused,
    )
)]
pub(crate) async fn complete(
    access: Access,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Value>,
) -> Result<Response, Problem> {
    let request = ChatRequest::read(&body)?;
    let loaded = access.loaded();
    let (prompt, model) = prompt_of(&loaded, &request).await?;
    let (session, key) = session_of(&access, &headers, &request).await?;
    let client_history = ClientHistory::of(request.messages.iter().cloned());
    let idempotency = idempotency_key(&headers)?;
    let hints = Hints {
        resends: false,
        is_retry: is_sent_again(&headers),
        key: idempotency.as_deref(),
        rewrites: prompt.definition().guardrails.iter().any(|it| it.on == GuardrailSide::Input),
    };
    let meta = CompletionMeta {
        id: format!("chatcmpl-{}", access.names.next()),
        created: access.time.now().0 / 1000,
        model: request.model.clone(),
    };
    let spec = RunSpec {
        input: input(request.input.clone()),
        scope: access.scope(key.as_ref(), request.user.clone()),
        model,
        settings: request.settings.clone(),
        client_tools: request.tools.clone(),
        ..RunSpec::default()
    };
    let completion = Completion {
        app: &access,
        agent: &loaded.agent,
        prompt: &prompt,
        spec,
        meta,
        session: key.as_ref(),
        request: &request,
        key: idempotency.as_deref(),
        has_results: client_history.is_only_results(),
    };
    completion.answer(&session, &client_history, hints).await
}

/// Does the same as [`named`]. A schema from the client is compiled on a separate thread.
async fn prompt_of(
    loaded: &Arc<LoadedProject>,
    request: &ChatRequest,
) -> Result<(Prompt, Option<String>), Problem> {
    if request.output.is_none() {
        return named(loaded, request);
    }
    let (loaded, request) = (Arc::clone(loaded), request.clone());
    let compiled = tokio::task::spawn_blocking(move || named(&loaded, &request)).await;
    compiled.map_err(|_| Problem::new(ErrorCode::Panicked, "the server made a mistake"))?
}

/// Returns the prompt that a request names, and the model if it names one of those.
fn named(loaded: &LoadedProject, request: &ChatRequest) -> Result<(Prompt, Option<String>), Problem> {
    let is_prompt = loaded.project.prompts().any(|(id, _)| id == request.model);
    let (prompt, model) = match is_prompt {
        true => (loaded.prompt(Some(&request.model))?, None),
        false if request.model.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()) => {
            (Prompt::builder(BARE).build().map_err(unusable)?, Some(request.model.clone()))
        }
        false => return Err(no_model(&request.model)),
    };
    if request.tool_choice.is_none() && request.output.is_none() {
        return Ok((prompt, model));
    }
    if let Some(schema) = &request.output {
        SchemaValidator::new(schema)
            .map_err(|err| Problem::new(ErrorCode::SchemaInvalid, err.to_string()).at("response_format"))?;
    }
    let mut definition = prompt.definition().clone();
    definition.tool_choice = request.tool_choice.clone().or(definition.tool_choice);
    definition.output = request.output.as_deref().cloned().map(Schema::from_json).or(definition.output);
    Ok((PromptBuilder::from(definition).build().map_err(unusable)?, model))
}

fn unusable(err: contexture_compose::Error) -> Problem {
    Problem::new(err.code(), err.to_string())
}

/// Opens the session that a request names, or one that is thrown away.
async fn session_of(
    access: &Access,
    headers: &HeaderMap,
    request: &ChatRequest,
) -> Result<(Session, Option<SessionId>), Problem> {
    const HEADER: &str = "x-contexture-session";
    let not_plain =
        |_| Problem::new(ErrorCode::HeaderInvalid, format!("`{HEADER}` is not plain text")).at(HEADER);
    let named = match headers.get(HEADER) {
        Some(value) => Some((HEADER, value.to_str().map_err(not_plain)?)),
        None => request.session(),
    };
    let Some((place, name)) = named else {
        let session = unkept_sessions(access).create(SessionStart::default()).await;
        return Ok((session?, None));
    };
    let id = SessionId::parse(name).map_err(|err| Problem::from(err).at(place))?;
    let session = access.sessions.open_or_create(&id).await?;
    Ok((session, Some(id)))
}

/// Whether an SDK marks the request as a retry.
fn is_sent_again(headers: &HeaderMap) -> bool {
    let count = headers.get("x-stainless-retry-count").and_then(|it| it.to_str().ok()?.parse::<u32>().ok());
    count.is_some_and(|it| it > 0)
}

/// Makes the client's system messages the instructions of the thread; they follow the prompt's own text. A client that
/// sends none leaves them unchanged.
async fn instruct(thread: &Thread, request: &ChatRequest) -> Result<(), Problem> {
    let Some(text) = request.instructions() else { return Ok(()) };
    if thread.get().instructions() != Some(text.as_str()) {
        thread.set_system_instructions(Some(&text)).await?;
    }
    Ok(())
}

/// Waits for the end of a turn.
async fn wait_until_over(app: &App, thread: &Thread, turn: TurnNo) -> Result<(), Problem> {
    let (store, session) = (thread.store(), thread.key().session());
    // Before the look at the log: if the turn still runs there, it ends after this number.
    let after = store.feed_end(session.clone()).await?;
    let open = Head::existing(&**store, thread.key()).await?.state.open;
    if open.is_some_and(|it| it.turn == turn && it.status == TurnStatus::InFlight) {
        let scope = TurnScope::new(TurnKey { thread: thread.id().clone(), turn }, after, false);
        Follow::over(app, store, session, Cursor::at(after), scope).await?.drain().await;
        if app.stop.is_cancelled() {
            return Err(Problem::shutting_down());
        }
    }
    Ok(())
}

/// Begins a turn, or continues one.
type Begin<'a> = Box<dyn FnOnce(CancellationToken) -> Run + Send + 'a>;

/// A request: what its turn runs with, and how it is answered.
struct Completion<'a> {
    app: &'a App,
    agent: &'a Agent,
    prompt: &'a Prompt,
    spec: RunSpec,
    meta: CompletionMeta,
    session: Option<&'a SessionId>,
    request: &'a ChatRequest,
    /// Its idempotency key.
    key: Option<&'a str>,
    /// Whether it only brings results, which continue a turn.
    has_results: bool,
}

impl Completion<'_> {
    /// Finds out what the request means, and answers it.
    async fn answer(
        &self,
        session: &Session,
        client_history: &ClientHistory,
        hints: Hints<'_>,
    ) -> Result<Response, Problem> {
        let mut is_first_answer = true;
        loop {
            let (thread, step) = match locate(session, client_history, hints).await {
                // Another request was faster: this one means something else now.
                Err(problem) if problem.code() == ErrorCode::TurnSuperseded => continue,
                placed => placed?,
            };
            let (begin, may_be_late) = match step {
                ChatStep::Wait(turn) => {
                    wait_until_over(self.app, &thread, turn).await?;
                    continue;
                }
                ChatStep::Replay(turn) => return self.replay(&thread, turn).await,
                ChatStep::Run { user, after } => {
                    instruct(&thread, self.request).await?;
                    (self.new_turn(&thread, user, after), true)
                }
                ChatStep::Answer(results) => {
                    (self.resumed_turn(&thread, results), std::mem::take(&mut is_first_answer))
                }
            };
            let done = self.run(&thread, begin).await;
            match done.as_ref().map_err(Problem::code) {
                Err(ErrorCode::TurnSuperseded | ErrorCode::ToolResultUnexpected) if may_be_late => {}
                _ => return done,
            }
        }
    }

    fn new_turn<'a>(&'a self, thread: &'a Thread, user: Option<Message>, after: TurnNo) -> Begin<'a> {
        let (key, spec) = (self.key.map(str::to_owned), self.spec.clone());
        let run = RunRequest { spec, user, key, after: Some(after), ..RunRequest::default() };
        Box::new(move |cancel| self.agent.run(self.prompt, thread, RunRequest { cancel, ..run }))
    }

    fn resumed_turn<'a>(&'a self, thread: &'a Thread, results: Vec<(String, ToolOutput)>) -> Begin<'a> {
        let RunSpec { model, settings, client_tools, .. } = self.spec.clone();
        let (client_tools, settings) = (Some(client_tools), Some(settings));
        let answer = AnswerRequest { results, client_tools, model, settings, ..AnswerRequest::default() };
        Box::new(move |cancel| self.agent.answer(self.prompt, thread, AnswerRequest { cancel, ..answer }))
    }

    /// Runs a turn and answers with it.
    async fn run(&self, thread: &Thread, begin: Begin<'_>) -> Result<Response, Problem> {
        let (store, session) = (thread.store(), thread.key().session());
        let after = store.feed_end(session.clone()).await?;
        let mut handle = self.app.running_turns.start(thread, begin)?;
        // With a key, a client that goes away may come again for the answer.
        let is_stopped_by_client = self.session.is_none() || self.key.is_none();
        let guard = is_stopped_by_client.then(|| handle.cancel.clone().drop_guard());
        let chunks = self.chunks(self.prompt.definition().output.is_some());
        let Ok(turn_key) = (&mut handle.turn_key).await else {
            let outcome = handle.outcome().await?;
            guard.map(DropGuard::disarm);
            if outcome.ended == Ended::Replayed {
                return self.replay(thread, outcome.turn).await;
            }
            let result = CompletionResult::of(&outcome, StreamedText::default());
            return Ok(self.respond(&result, chunks, None));
        };
        let scope = CompletionScope::new(turn_key.clone(), handle, guard, chunks);
        let mut follow = Follow::over(self.app, store, session, Cursor::at(after), scope).await?;
        // A failure before the first text has its own status code.
        follow.begin().await;
        if follow.scope.has_begun() {
            return Ok(self.headed(follow.respond(), Some(turn_key)));
        }
        let (result, chunks) = follow.scope.into_result().await?;
        Ok(self.respond(&result, chunks, Some(turn_key)))
    }

    /// Answers with a turn that the same request had before, once it is over.
    async fn replay(&self, thread: &Thread, turn: TurnNo) -> Result<Response, Problem> {
        wait_until_over(self.app, thread, turn).await?;
        let result = replayed(thread, turn, self.has_results).await?;
        let turn_key = TurnKey { thread: thread.id().clone(), turn };
        Ok(self.respond(&result, self.chunks(true), Some(turn_key)))
    }

    /// Returns what writes the answer. Only streams have text before the end.
    fn chunks(&self, defers_text: bool) -> ChunkWriter {
        let ChatRequest { stream, include_usage, .. } = *self.request;
        ChunkWriter::new(self.meta.clone(), include_usage, defers_text || !stream)
    }

    /// Answers with a result that is whole.
    fn respond(
        &self,
        result: &CompletionResult,
        mut chunks: ChunkWriter,
        turn_key: Option<TurnKey>,
    ) -> Response {
        let response = match self.request.stream {
            true => events(ResponseBody::from(chunks.end(result))),
            false => Json(result.document(&self.meta)).into_response(),
        };
        self.headed(response, turn_key)
    }

    /// Adds headers that identify the turn.
    fn headed(&self, mut response: Response, turn_key: Option<TurnKey>) -> Response {
        // A turn outside a session has no thread or turn to look up.
        let turn_key = turn_key.filter(|_| self.session.is_some());
        let named = [
            ("x-contexture-session", self.session.map(ToString::to_string)),
            ("x-contexture-thread", turn_key.as_ref().map(|it| it.thread.to_string())),
            ("x-contexture-turn", turn_key.as_ref().map(|it| it.turn.to_string())),
        ];
        for (name, value) in named {
            if let Some(value) = value.and_then(|it| HeaderValue::from_str(&it).ok()) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}
