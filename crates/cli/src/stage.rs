//! The setup that `run` and `chat` share: a project, one of its prompts, models, an agent, and sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contexture::AskClient;
use contexture::knowledge::pipeline::AskModel;
use contexture_agent::{Agent, AgentBuilder, AgentConfig, AgentError, CompactRequest, RunRequest, RunSpec};
use contexture_compose::{Pass, Prompt, Scope};
use contexture_message::{ErrorCode, Message, Settings};
use contexture_project::{Config, InMemory, KnowledgePorts, Project, ReferencesConfig};
use contexture_session::{
    Session, SessionConfig, SessionError, SessionId, Sessions, StoreError, Tenant, Thread,
};
use contexture_wire::Catalogue;
use serde_json::{Number, Value};

use crate::args::{Globals, ResolveArgs, TalkArgs};
use crate::error::Failure;
use crate::pass;
use crate::read;
use crate::setup::blackboards;
use crate::setup::models::{self, Models};
use crate::setup::root;
use crate::setup::runtime;
use crate::setup::store::{self, Missing, Opened, Place, open_all};
use crate::setup::telemetry::{self, Telemetry};
use crate::setup::{knowledge, memory};

/// The default prompt of `chat`, for projects that have none.
const CHAT: (&str, &str) = ("prompts/chat.md", include_str!("../templates/chat.md"));

/// The project, prompt, models and agent that turns need.
pub(crate) struct Stage {
    pub(crate) project: Project,
    pub(crate) prompt: Prompt,
    pub(crate) models: Models,
    pub(crate) agent: Agent,
    input: Value,
    scope: Scope,
    settings: Settings,
    /// The skills that turns load.
    skills: Vec<String>,
    /// The model named by the arguments.
    pub(crate) model: Option<String>,
    dir: PathBuf,
    _telemetry: Telemetry,
}

impl Stage {
    /// Opens the project and builds an agent for a prompt. Sends and writes nothing.
    pub(crate) fn open(prompt: Option<&str>, args: &TalkArgs, globals: &Globals) -> Result<Self, Failure> {
        let (project, dir) = match prompt {
            Some(_) => root::open_with_dir(globals)?,
            None => root::open_or_empty(globals)?,
        };
        let prompt = chosen_prompt(&project, prompt)?;
        let config = project.config().clone();
        let models = Models::of(&config, models::variable)?;
        let telemetry = telemetry::start(&config.telemetry, telemetry::Usual::Nothing, models.proxies())?;
        let input = pass::input(&args.input, args.strict, &prompt)?;
        pass::warn_of_undeclared(&prompt, &input);
        let own = prompt.definition().model.as_deref().or(config.model.default.as_deref());
        Ok(Self {
            agent: agent_builder(&project, &models)?
                .build()
                .map_err(|err| Failure::new(ErrorCode::ToolCollision, err.to_string()))?,
            input,
            scope: pass::scope(&args.scope, args.session.as_deref())?,
            settings: settings(args)?,
            skills: args.skills.clone(),
            model: models::named(&args.model, own),
            project,
            prompt,
            models,
            dir,
            _telemetry: telemetry,
        })
    }

    fn config(&self) -> &Config {
        self.project.config()
    }

    /// Returns the location of the session store.
    pub(crate) fn place(&self, args: &TalkArgs) -> Result<Place, Failure> {
        match &args.store {
            Some(url) => store::parse(url, &root::here()?),
            None => store::parse(&self.config().store.url, &self.dir),
        }
    }

    /// Opens the sessions in a store.
    pub(crate) async fn sessions(
        &self,
        place: &Place,
        tenant: Option<&str>,
        missing: Missing,
    ) -> Result<Sessions, Failure> {
        let tenant = tenant.map(Tenant::parse).transpose()?.unwrap_or_default();
        let config = session_config(self.config());
        let ports = contexture::session_ports(self.model_of(None).as_deref());
        let Opened { store, sources, .. } = open_all(place, missing).await?;
        memory::provide(&self.project, &store, &sources);
        blackboards::provide(&self.project, &store);
        if *place != Place::Memory {
            self.project
                .provide_knowledge(KnowledgePorts { store: Some(sources), ..self.project.knowledge_ports() });
        }
        let sessions = Sessions::new(store, ports, config);
        self.project.artifacts().provide(sessions.clone());
        Ok(sessions.of_tenant(tenant))
    }

    /// Lets a turn without a session search the bases of the store.
    pub(crate) async fn open_knowledge(&self, args: &TalkArgs) -> Result<(), Failure> {
        knowledge::provide_existing(&self.project, &self.place(args)?).await
    }

    /// Returns the model that a turn would call: that of the arguments, the thread, the prompt or the configuration.
    pub(crate) fn model_of(&self, thread: Option<&Thread>) -> Option<String> {
        let chosen = thread.and_then(|it| it.get().model().map(|it| format!("{}/{}", it.provider, it.model)));
        let own = self.prompt.definition().model.clone();
        self.model.clone().or(chosen).or(own).or_else(|| self.config().model.default.clone())
    }

    /// Fails if a turn cannot run, as far as this can be known before anything is sent or written.
    pub(crate) fn check(&self, thread: Option<&Thread>) -> Result<(), Failure> {
        self.models.check(self.model_of(thread).as_deref())
    }

    /// Builds the request for a turn.
    pub(crate) fn request(&self, user: Option<String>, session: Option<&SessionId>) -> RunRequest {
        let session = session.map(ToString::to_string).or_else(|| self.scope.session.clone());
        let spec = RunSpec {
            input: self.input.clone(),
            scope: Scope { session, ..self.scope.clone() },
            model: self.model.clone(),
            settings: self.settings.clone(),
            ..RunSpec::default()
        };
        let skills = self.skills.clone();
        RunRequest { spec, user: user.map(Message::user), skills, ..RunRequest::default() }
    }

    /// Builds the request for a compaction.
    pub(crate) fn compact_request(&self, session: &SessionId) -> CompactRequest {
        let RunRequest { spec, cancel, .. } = self.request(None, Some(session));
        CompactRequest { spec, cancel }
    }

    /// Resolves what the next turn would send, without the next user message. Calls no model.
    pub(crate) async fn preview(
        &self,
        thread: Option<&Thread>,
        session: &SessionId,
    ) -> Result<Pass, Failure> {
        let request = self.request(None, Some(session));
        let thread = match thread {
            Some(thread) => thread.clone(),
            None => contexture::sessions_in_memory().create(Default::default()).await?.main().clone(),
        };
        self.agent.preview(&self.prompt, &thread, request).await.map_err(|err| self.failure(err))
    }

    /// Converts an error of a turn to a failure, with positions and hints of this project.
    pub(crate) fn failure(&self, err: AgentError) -> Failure {
        match &err {
            AgentError::Compose(err) => self.project.error(err).into(),
            AgentError::Model(err) => self.models.failure(err),
            AgentError::NoModel => models::no_model(),
            _ => err.into(),
        }
    }

    /// Returns the folder for this program's files, if the store is in one.
    pub(crate) fn folder(place: &Place) -> Option<&Path> {
        match place {
            Place::Sqlite(path) => path.parent(),
            Place::Postgres(_) | Place::Memory => None,
        }
    }
}

/// Resolves a prompt for `resolve` and `inspect`: the first request of the next turn, if `--session` names a stored
/// session, or else a request without a thread.
pub(crate) fn resolve(args: &ResolveArgs, globals: &Globals) -> Result<(Pass, Catalogue), Failure> {
    let call = &args.call;
    let has_limits = call.budget.is_some() || call.input_budget.is_some();
    let session = call.session.as_deref().filter(|_| call.history.is_none() && !has_limits);
    let next_turn = match session.and_then(|it| SessionId::parse(it).ok()) {
        Some(session) => runtime::block_on(next_turn(args, &session, globals))??,
        None => None,
    };
    next_turn.map_or_else(|| pass::resolve(args, globals), Ok)
}

/// Previews the next turn of a stored session. Returns `None` if there is no such session.
async fn next_turn(
    args: &ResolveArgs,
    session: &SessionId,
    globals: &Globals,
) -> Result<Option<(Pass, Catalogue)>, Failure> {
    let (project, dir) = root::open_with_dir(globals)?;
    let (config, call) = (project.config(), &args.call);
    let place = store::parse(&config.store.url, &dir)?;
    if matches!(&place, Place::Memory) || matches!(&place, Place::Sqlite(path) if !path.exists()) {
        return Ok(None);
    }
    let tenant = call.scope.tenant.as_deref().map(Tenant::parse).transpose()?.unwrap_or_default();
    let prompt = pass::prompt(&project, &args.prompt)?;
    let own = prompt.definition().model.as_deref().or(config.model.default.as_deref());
    let model = models::named(&call.model, own);
    let ports = contexture::session_ports(model.as_deref().or(own));
    let Opened { store, sources, .. } = open_all(&place, Missing::Refuse).await?;
    memory::provide(&project, &store, &sources);
    blackboards::provide(&project, &store);
    project.provide_knowledge(KnowledgePorts { store: Some(sources), ..project.knowledge_ports() });
    let sessions = Sessions::new(store, ports, session_config(config)).of_tenant(tenant);
    project.artifacts().provide(sessions.clone());
    let Some(stored) = existing(&sessions, session).await? else { return Ok(None) };
    let agent = agent_builder(&project, &Models::of(config, models::variable)?)?
        .build()
        .map_err(|err| Failure::new(ErrorCode::ToolCollision, err.to_string()))?;
    let spec = RunSpec {
        input: pass::input(&args.input, args.strict, prompt)?,
        scope: pass::scope(&call.scope, call.session.as_deref())?,
        model,
        ..RunSpec::default()
    };
    let request = RunRequest {
        spec,
        user: call.user.as_deref().map(Message::user),
        blocks: call.blocks.iter().map(|it| read::block(it)).collect::<Result<_, _>>()?,
        reminders: call.reminders.clone(),
        ..RunRequest::default()
    };
    let pass = agent.preview(prompt, stored.main(), request).await.map_err(|err| match &err {
        AgentError::Compose(err) => project.error(err).into(),
        AgentError::NoModel => models::no_model(),
        _ => Failure::from(err),
    })?;
    let catalogue = project.catalogue().clone();
    Ok(Some((pass, catalogue)))
}

/// Opens a session, or returns `None` if it does not exist.
pub(crate) async fn existing(sessions: &Sessions, id: &SessionId) -> Result<Option<Session>, Failure> {
    match sessions.open(id).await {
        Ok(session) => Ok(Some(session)),
        Err(SessionError::Store(StoreError::NotFound { .. })) => Ok(None),
        Err(err) => Err(err.into()),
    }
}

fn chosen_prompt(project: &Project, id: Option<&str>) -> Result<Prompt, Failure> {
    if let Some(id) = id {
        return pass::prompt(project, id).cloned();
    }
    let all: Vec<_> = project.prompts().collect();
    match all.as_slice() {
        [] => Ok(Project::from_files(Arc::new(InMemory::new([CHAT])))?.prompt("chat")?.clone()),
        [(path, _)] => Ok(project.prompt(path)?.clone()),
        _ => project.prompt("chat").cloned().map_err(|err| {
            let failure = Failure::from(err);
            match failure.code() {
                ErrorCode::UnknownPrompt => {
                    Failure::usage("the project has several prompts, and none is called `chat`")
                        .hint("name one: `contexture chat PROMPT`; `contexture prompts` lists them")
                }
                _ => failure,
            }
        }),
    }
}

/// How many threads a server keeps in memory after their last turn.
const KEPT_THREADS: usize = 512;

/// Returns the session settings of a configuration.
pub(crate) fn session_config(config: &Config) -> SessionConfig {
    SessionConfig {
        history_window: usize::try_from(config.history_window.turns).unwrap_or(usize::MAX),
        lease: Duration::from_secs(config.server.lease_seconds.max(1)),
        kept_threads: KEPT_THREADS,
        ..SessionConfig::default()
    }
}

/// Returns a builder for the agent that runs a project's prompts, with its models and tools.
pub(crate) fn agent_builder(project: &Project, models: &Models) -> Result<AgentBuilder, Failure> {
    let config = AgentConfig {
        model: project.config().model.default.clone(),
        compaction: project.config().compaction.clone(),
        ..AgentConfig::default()
    };
    let client = models.client()?;
    let mut builder = contexture::agent(client.clone())
        .config(config)
        .knowledge(project.knowledge().clone())
        .skills(project.skills())
        .catalogue(project.catalogue().clone())
        .engine(contexture::engine());
    let references = (&project.config().refs, project.config().references);
    if !references.0.is_empty() || references.1 != ReferencesConfig::default() {
        builder = builder.references(project.references(&knowledge::http(models)?));
    }
    if project.runs_tools() || !project.knowledge().is_empty() || project.asks_servers() {
        let http = knowledge::http(models)?;
        let asked = project.config().model.default.clone();
        let asked = asked.map(|it| Arc::new(AskClient::new(client, it)) as Arc<dyn AskModel>);
        project.provide_knowledge(KnowledgePorts {
            http: Some(Arc::clone(&http)),
            clock: Some(contexture::engine().clock),
            model: asked,
            ..project.knowledge_ports()
        });
        // Prompts bring their own tools; these are for flows, which call tools by name.
        for tool in project.tools() {
            let tool = tool.into_agent_tool(Arc::clone(&http));
            builder = builder
                .executor(tool.map_err(|err| Failure::new(ErrorCode::ToolNameInvalid, err.to_string()))?);
        }
    }
    Ok(builder)
}

fn settings(args: &TalkArgs) -> Result<Settings, Failure> {
    let temperature = match args.temperature {
        Some(it) => Some(Number::from_f64(it).ok_or_else(|| {
            Failure::usage(format!("`--temperature {it}` is not a number that can be sent"))
        })?),
        None => None,
    };
    Ok(Settings { temperature, max_tokens: args.max_tokens, ..Settings::default() })
}
