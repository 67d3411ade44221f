//! Prompts: list, show, resolve, inspect, run once.

use std::sync::Arc;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::Response;
use contexture_agent::{AgentError, KnowledgeBases, RunRequest, resolve_reminded};
use contexture_compose::{
    Additions, CallOverrides, Conversation, Explanation, InFlightTurn, Pass, Prompt, ResolveOptions,
};
use contexture_history::Turn;
use contexture_message::{ErrorCode, Request};
use contexture_project::Fault;
use contexture_session::{MemoryStore, SessionId, SessionStart, Sessions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::turn_shapes::{PassRequest, TurnRequest, TurnResult};
use super::turns::{ReplyConfig, reply, wants_events};
use crate::app::{Access, App};
use crate::http::input::{JsonBody, PathParam, QueryParams};
use crate::http::params::PromptPath;
use crate::http::refusals::{Conflict, Failed, Form, NotThere, Refused, Unusable};
use crate::http::schemas::returns;
use crate::loaded_project::LoadedProject;
use crate::{JsonResult, Problem};

returns!(PromptView, PromptList, ResolvedPrompt, ExplanationBody = Explanation);

/// A prompt.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Prompt")]
pub(crate) struct PromptView {
    /// Its id.
    id: String,
    /// Its place in the project, such as `support/refund`.
    path: String,
    /// A description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Its tags.
    tags: Vec<String>,
    /// The model it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The JSON Schema of its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    input: Option<Value>,
    /// The JSON Schema of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    output: Option<Value>,
    /// The faults of its file; the last good version is used, if there was one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<FaultView>,
}

/// Something that is wrong with a file of the project.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fault")]
pub(crate) struct FaultView {
    /// The stable code.
    code: String,
    /// The message.
    message: String,
    /// The location, such as `prompts/p.md:3:1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

impl From<&Fault> for FaultView {
    fn from(fault: &Fault) -> Self {
        Self { code: fault.code.into(), message: fault.message.clone(), at: fault.at() }
    }
}

/// All prompts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PromptList {
    /// The prompts, in the order of their paths.
    prompts: Vec<PromptView>,
}

/// The prompts to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptFilter {
    /// Only prompts that have this tag.
    tag: Option<String>,
}

/// List the prompts.
#[utoipa::path(
    get, path = "/v1/prompts", operation_id = "list_prompts", tag = "prompts", params(PromptFilter),
    responses((status = 200, description = "The prompts.", body = PromptList), Refused)
)]
pub(crate) async fn list(access: Access, QueryParams(filter): QueryParams<PromptFilter>) -> Json<PromptList> {
    let loaded = access.loaded();
    let views = loaded.project.prompts().map(|(path, prompt)| match prompt {
        Ok(prompt) => view(&loaded, path, prompt),
        Err(err) => PromptView {
            id: path.to_owned(),
            path: path.to_owned(),
            faults: err.faults.iter().map(FaultView::from).collect(),
            ..PromptView::default()
        },
    });
    let is_meant = |it: &PromptView| filter.tag.as_ref().is_none_or(|tag| it.tags.contains(tag));
    Json(PromptList { prompts: views.filter(is_meant).collect() })
}

fn view(loaded: &LoadedProject, path: &str, prompt: &Prompt) -> PromptView {
    let file = format!("prompts/{path}.md");
    let faults = loaded.faults.iter().filter(|it| it.file.as_deref() == Some(&file));
    let definition = prompt.definition();
    PromptView {
        id: prompt.id().to_owned(),
        path: path.to_owned(),
        description: definition.description.clone(),
        tags: definition.tags.clone(),
        model: definition.model.clone(),
        input: Some(prompt.input_schema()),
        output: definition.output.as_ref().map(|it| (**it.value()).clone()),
        faults: faults.map(FaultView::from).collect(),
    }
}

/// Show a prompt.
#[utoipa::path(
    get, path = "/v1/prompts/{id}", operation_id = "show_prompt", tag = "prompts", params(PromptPath),
    responses((status = 200, description = "The prompt.", body = PromptView), Refused, NotThere)
)]
pub(crate) async fn show(access: Access, PathParam(id): PathParam<String>) -> JsonResult<PromptView> {
    let loaded = access.loaded();
    let prompt = loaded.prompt(Some(&id))?;
    let path = loaded.project.prompts().find(|(_, it)| it.is_ok_and(|it| it.id() == prompt.id()));
    let path = path.map_or(id.clone(), |(path, _)| path.to_owned());
    Ok(Json(view(&loaded, &path, &prompt)))
}

/// The request that would be sent, and its explanation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResolvedPrompt {
    /// The hash of the request.
    fingerprint: String,
    /// The request that would be sent.
    #[schemars(with = "Request")]
    request: Value,
    /// The source of every token, and the reasons for what is missing.
    explanation: Explanation,
}

/// Show what would be sent to the model, without calling it.
#[utoipa::path(
    post, path = "/v1/prompts/{id}/resolve", operation_id = "resolve_prompt", tag = "prompts", params(PromptPath), request_body = PassRequest,
    responses((status = 200, description = "The request and its explanation.", body = ResolvedPrompt), Refused, NotThere, Unusable, Failed)
)]
pub(crate) async fn resolve(
    access: Access,
    PathParam(id): PathParam<String>,
    JsonBody(request): JsonBody<PassRequest>,
) -> JsonResult<ResolvedPrompt> {
    let pass = pass(&access, &id, &request).await?;
    Ok(Json(ResolvedPrompt {
        fingerprint: pass.fingerprint().to_string(),
        request: serde_json::to_value(pass.request()).unwrap_or_default(),
        explanation: pass.explain(),
    }))
}

/// Show where every token would come from, without calling the model.
#[utoipa::path(
    post, path = "/v1/prompts/{id}/inspect", operation_id = "inspect_prompt", tag = "prompts", params(PromptPath), request_body = PassRequest,
    responses((status = 200, description = "The explanation.", body = ExplanationBody), Refused, NotThere, Unusable, Failed)
)]
pub(crate) async fn inspect(
    access: Access,
    PathParam(id): PathParam<String>,
    JsonBody(request): JsonBody<PassRequest>,
) -> JsonResult<Explanation> {
    let pass = pass(&access, &id, &request).await?;
    Ok(Json(pass.explain()))
}

async fn pass(access: &Access, id: &str, asked: &PassRequest) -> Result<Pass, Problem> {
    let request = &asked.turn;
    let loaded = access.loaded();
    let prompt = loaded.prompt(Some(id))?;
    if let Some(session) = &asked.session {
        return next_turn(access, &prompt, &SessionId::parse(session.as_str())?, asked).await;
    }
    request.check_unkept()?;
    if !request.skills.is_empty() {
        let text = "`skills` are loaded by the turns of a session";
        let problem = Problem::new(ErrorCode::UnknownField, text).at("skills");
        return Err(problem.hint("name a `session`: then this shows what its next turn would send"));
    }
    let run = request.run_request(access, None, None).await?;
    let mut entries = loaded.agent.request_entries(prompt.id(), &run).await?;
    let said = run.user.map(|it| InFlightTurn::New(Turn::new("in_flight", vec![it])));
    let tools = run.spec.client_tools.into_iter().map(Into::into).collect();
    let no_base = |base| Problem::from(AgentError::NoSuchBase { base });
    let knowledge = run.spec.knowledge.map(|it| loaded.project.knowledge().entry(&it).map_err(no_base));
    entries.extend(knowledge.transpose()?);
    let options = ResolveOptions {
        input: run.spec.input,
        scope: run.spec.scope,
        overrides: CallOverrides {
            settings: run.spec.settings,
            budget: asked.budget(),
            ..CallOverrides::default()
        },
        additions: Additions { tools, blocks: run.blocks, entries, ..Additions::default() },
        conversation: Conversation { turn: said, ..Conversation::default() },
        engine: Some(contexture::engine()),
        ..loaded.project.options(&prompt, None, run.spec.model.as_deref())
    };
    let pass = resolve_reminded(&prompt, options, &run.reminders).await;
    pass.map_err(|err| loaded.project.error(&err).into())
}

/// Returns the first request that the next turn of a session would send.
async fn next_turn(
    access: &Access,
    prompt: &Prompt,
    session: &SessionId,
    asked: &PassRequest,
) -> Result<Pass, Problem> {
    asked.check_unlimited()?;
    let run = asked.turn.run_request(access, Some(session), None).await?;
    let thread = access.thread(session, asked.turn.thread.clone()).await?;
    Ok(access.loaded().agent.preview(prompt, &thread, run).await?)
}

/// Run a prompt once, without a session: nothing of it is kept.
#[utoipa::path(
    post, path = "/v1/prompts/{id}/run", operation_id = "run_prompt", tag = "prompts", params(PromptPath), request_body = TurnRequest,
    responses(
        (status = 200, description = "The outcome of the run.", body = TurnResult),
        Refused, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn run(
    access: Access,
    PathParam(id): PathParam<String>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<TurnRequest>,
) -> Result<Response, Problem> {
    let loaded = access.loaded();
    let prompt = loaded.prompt(Some(&id))?;
    if wants_events(&headers)? {
        let problem =
            Problem::new(ErrorCode::NotAcceptable, "a run without a session has no events to follow");
        return Err(problem.hint("`POST /v1/sessions/{id}/turns` streams"));
    }
    request.check_unkept()?;
    let run_request = request.run_request(&access, None, None).await?;
    let session = unkept_sessions(&access).create(SessionStart::default()).await?;
    let thread = session.main();
    let config = ReplyConfig { cancel_on_disconnect: true, ..ReplyConfig::default() };
    reply(&access, thread, config, |cancel| {
        loaded.agent.run(&prompt, thread, RunRequest { cancel, ..run_request })
    })
    .await
}

/// Returns sessions that disappear with their last handle.
pub(crate) fn unkept_sessions(app: &App) -> Sessions {
    let sessions = contexture::sessions(MemoryStore::new(Arc::clone(&app.time)));
    sessions.of_tenant(crate::passes::unkept_tenant())
}
