//! An agent: a model, tools and checks, with their configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::ports::SkillSource;
use contexture_compose::{Engine, Entry, SharedTool};
use contexture_model::Model;
use contexture_session::Time;
use contexture_wire::Catalogue;

use crate::checks::{ConstraintCheck, GuardrailCheck};
use crate::compaction::{CompactionConfig, Summarizer};
use crate::enclosed::{References, attachment_entries};
use crate::error::AgentError;
use crate::ports::{CallerEntries, InPlace, KnowledgeBases, Offload, Secrets, Watcher};
use crate::spec::{RunRequest, check_attachments};
use crate::tools::{CallLimits, Layer, LayerKind, Middleware, OwnTools, Tool, ToolRefused, Toolbox};

/// The configuration of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The default model, `provider/model`, if neither the run, the thread nor the prompt names one.
    pub model: Option<String>,
    /// The maximum number of model calls in a run, retries included. A limit in the prompt's `stop_when` overrides it.
    pub max_steps: u32,
    /// How long a tool call may take, unless the tool sets a timeout.
    pub tool_timeout: Duration,
    /// How many tool calls of a round run concurrently.
    pub concurrent_tools: usize,
    /// Larger tool results are kept in the log and shown to the model as a preview.
    pub max_result_bytes: usize,
    /// How often the model may retry an answer that fails a constraint.
    pub constraint_retries: u32,
    /// How often the model may retry an answer that does not match its schema.
    pub output_repairs: u32,
    /// When and how conversations are compacted.
    pub compaction: CompactionConfig,
    /// Whether the model may read what a request does not show, with the tools `read_tool_result` and `recall`. They
    /// are offered once there is something to read, unless another tool has the same name.
    pub own_tools: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            model: None,
            max_steps: 10,
            tool_timeout: Duration::from_secs(60),
            concurrent_tools: 16,
            max_result_bytes: 64 * 1024,
            constraint_retries: 2,
            output_repairs: 1,
            compaction: CompactionConfig::default(),
            own_tools: true,
        }
    }
}

/// Runs prompts on threads. Cheap to clone.
#[derive(Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) summarizer: Option<Arc<dyn Summarizer>>,
    pub(crate) watcher: Option<Arc<dyn Watcher>>,
    pub(crate) knowledge: Option<Arc<dyn KnowledgeBases>>,
    pub(crate) skills: Option<Arc<dyn SkillSource>>,
    pub(crate) references: References,
    pub(crate) caller_entries: Option<Arc<dyn CallerEntries>>,
    pub(crate) offload: Arc<dyn Offload>,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) catalogue: Catalogue,
    pub(crate) engine: Option<Engine>,
    pub(crate) config: AgentConfig,
    pub(crate) toolbox: Toolbox,
    pub(crate) constraints: BTreeMap<String, Arc<dyn ConstraintCheck>>,
    pub(crate) guardrails: BTreeMap<String, Arc<dyn GuardrailCheck>>,
}

impl Inner {
    /// Returns the limits of tool calls.
    pub(crate) fn call_limits(&self) -> CallLimits {
        let AgentConfig { tool_timeout, concurrent_tools, max_result_bytes, .. } = self.config;
        CallLimits { timeout: tool_timeout, concurrent: concurrent_tools, max_result_bytes }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Agent {
    /// Returns a builder for an agent. The caller supplies time and secrets; the library has no default for them.
    pub fn builder(
        model: impl Model + 'static,
        time: Arc<dyn Time>,
        secrets: impl Secrets + 'static,
    ) -> AgentBuilder {
        AgentBuilder {
            inner: Inner {
                model: Arc::new(model),
                summarizer: None,
                watcher: None,
                knowledge: None,
                skills: None,
                references: References::default(),
                caller_entries: None,
                offload: Arc::new(InPlace),
                time,
                secrets: Arc::new(secrets),
                catalogue: Catalogue::standard(),
                engine: None,
                config: AgentConfig::default(),
                toolbox: Toolbox::default(),
                constraints: BTreeMap::new(),
                guardrails: BTreeMap::new(),
            },
            refused: None,
        }
    }

    /// Returns the model.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.0.model
    }

    /// Returns the entries that a run of a prompt has beside the prompt's own: those of its caller, and what its request
    /// brings. Use it to resolve a prompt without a thread.
    pub async fn request_entries(
        &self,
        prompt: &str,
        request: &RunRequest,
    ) -> Result<Vec<Entry>, AgentError> {
        request.spec.check()?;
        check_attachments(&request.attachments)?;
        let mut entries = match &self.0.caller_entries {
            Some(port) => port.entries(&request.spec.scope, prompt).await.map_err(AgentError::Entries)?,
            None => Vec::new(),
        };
        entries.extend(self.0.references.entries(&request.spec.context_refs));
        entries.extend(attachment_entries(&request.attachments));
        Ok(entries)
    }

    /// Returns the agent's configuration.
    pub fn config(&self) -> &AgentConfig {
        &self.0.config
    }
}

/// Builds an [`Agent`]. Errors about tools are returned by `build`.
#[must_use]
pub struct AgentBuilder {
    inner: Inner,
    refused: Option<ToolRefused>,
}

impl AgentBuilder {
    /// Returns the agent, or the error of the first tool that was refused.
    pub fn build(mut self) -> Result<Agent, ToolRefused> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let Inner { config, toolbox, .. } = &mut self.inner;
        toolbox.shared = toolbox.offered.iter().cloned().map(SharedTool::from).collect();
        let own = || OwnTools::new(&config.compaction, config.max_result_bytes);
        toolbox.own = config.own_tools.then(own).transpose()?;
        Ok(Agent(Arc::new(self.inner)))
    }

    /// Sets the agent's configuration.
    pub fn config(mut self, config: AgentConfig) -> Self {
        self.inner.config = config;
        self
    }

    /// Sets the catalogue of known models.
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.inner.catalogue = catalogue;
        self
    }

    /// Sets the composition engine to use instead of the prompts' own.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.inner.engine = Some(engine);
        self
    }

    /// Sets the summarizer; by default the model of the conversation summarises.
    pub fn summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.inner.summarizer = Some(Arc::new(summarizer));
        self
    }

    /// Sets the watcher that is notified of every model call.
    pub fn watcher(mut self, watcher: impl Watcher + 'static) -> Self {
        self.inner.watcher = Some(Arc::new(watcher));
        self
    }

    /// Sets where the knowledge bases are that runs name.
    pub fn knowledge(mut self, bases: impl KnowledgeBases + 'static) -> Self {
        self.inner.knowledge = Some(Arc::new(bases));
        self
    }

    /// Sets where the skills are that runs name, and where a refresh finds their current versions.
    pub fn skills(mut self, skills: Arc<dyn SkillSource>) -> Self {
        self.inner.skills = Some(skills);
        self
    }

    /// Sets the types of references that runs can use.
    pub fn references(mut self, references: References) -> Self {
        self.inner.references = references;
        self
    }

    /// Sets where the entries are that depend on who a run is for.
    pub fn caller_entries(mut self, entries: impl CallerEntries + 'static) -> Self {
        self.inner.caller_entries = Some(Arc::new(entries));
        self
    }

    /// Sets where CPU-bound work runs; by default it runs in place.
    pub fn offload(mut self, offload: impl Offload + 'static) -> Self {
        self.inner.offload = Arc::new(offload);
        self
    }

    /// Adds a tool that every run offers to the model.
    pub fn tool(mut self, tool: Tool) -> Self {
        let added = self.inner.toolbox.offered.add(tool);
        self.refused = self.refused.or(added.err());
        self
    }

    /// Adds a tool that runs what prompts only declare by definition, as prompt files do. A prompt built in Rust
    /// brings its own tools.
    pub fn executor(mut self, tool: Tool) -> Self {
        let added = self.inner.toolbox.executors.add(tool);
        self.refused = self.refused.or(added.err());
        self
    }

    /// Wraps the calls of all tools that match one of the patterns (`*` matches any text; no patterns match all
    /// tools).
    pub fn wrap<P: Into<String>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
        middleware: impl Middleware + 'static,
    ) -> Self {
        let patterns = patterns.into_iter().map(Into::into).collect();
        self.inner
            .toolbox
            .layers
            .push(Layer { patterns, middleware: LayerKind::Custom(Arc::new(middleware)) });
        self
    }

    /// Adds middleware that prompts can name in `tool_middleware`.
    pub fn middleware(mut self, id: impl Into<String>, middleware: impl Middleware + 'static) -> Self {
        self.inner.toolbox.middleware.insert(id.into(), Arc::new(middleware));
        self
    }

    /// Adds the check that runs for constraints with that id.
    pub fn constraint(mut self, id: impl Into<String>, check: impl ConstraintCheck + 'static) -> Self {
        self.inner.constraints.insert(id.into(), Arc::new(check));
        self
    }

    /// Adds the check that runs for guardrails with that id.
    pub fn guardrail(mut self, id: impl Into<String>, check: impl GuardrailCheck + 'static) -> Self {
        self.inner.guardrails.insert(id.into(), Arc::new(check));
        self
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("config", &self.inner.config).finish_non_exhaustive()
    }
}
