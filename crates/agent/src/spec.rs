//! What a run is asked for.

use std::sync::Arc;

use contexture_compose::{InlineBlock, Scope};
use contexture_message::{Message, Settings, ToolDefinition, ToolOutput};
use contexture_session::{NewItem, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The parameters of a run. A suspended turn keeps them in the log, so that any process can resume it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpec {
    /// The prompt's input, a JSON object.
    pub input: Value,
    /// The scope of the run, such as its tenant and user.
    pub scope: Scope,
    /// The model, `provider/model`. It overrides the thread's and the prompt's.
    pub model: Option<String>,
    /// Settings that override the prompt's.
    pub settings: Settings,
    /// Tools that the client runs, offered beside those of the server. A call to one suspends the turn until
    /// [`Agent::answer`] brings its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ToolDefinition>,
    /// Tools of the agent that this run offers beside the prompt's. If the prompt declares one of them, its
    /// declaration is used. A name that the agent does not have is an error, raised before anything is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// System instructions for this run only, replacing the thread's; an empty text means none. The thread's stay
    /// unchanged: these are kept only in the hidden records of sent requests and suspended turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
    /// What to search for before the first call. The snippets become part of the hidden envelope of the user's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<KnowledgeRequest>,
}

/// A search in knowledge bases that a run asks for, beside those of its prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeRequest {
    /// The names of the bases. One that does not exist is an error, raised before anything is written.
    pub bases: Vec<String>,
    /// The words to search for; by default the user's text with the last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// How many snippets at most, of all bases together; by default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
}

/// One run of a prompt: its parameters, and how the turn begins.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// The parameters of the run.
    pub spec: RunSpec,
    /// The user's message, sent with the user role whatever role it names. Without it, the prompt's own `user` text
    /// begins the turn; without that, the model continues from the end of the thread.
    pub user: Option<Message>,
    /// Hidden context that belongs to the user's message and is recorded with it.
    pub items: Vec<NewItem>,
    /// Inline blocks for the hidden envelope of the user's message. They are recorded with it and replayed.
    pub blocks: Vec<InlineBlock>,
    /// Reminders for this turn, in a separate hidden envelope after it: at most 16, each of at most 2,000 characters.
    pub reminders: Vec<String>,
    /// The names of skills to load. One that does not exist is an error, raised before anything is written; one that is
    /// active already stays as it is.
    pub skills: Vec<String>,
    /// Evaluates the frozen prefix again, although it is pinned. Active skills are taken at their current versions.
    pub refresh: bool,
    /// The idempotency key. A second run with the same key returns the outcome of the first.
    pub key: Option<String>,
    /// Resumes the turn of that key if it did not finish: it failed, was interrupted or lost its writer. Repeat the
    /// rest of the request unchanged. What the log has of the turn is kept; a complete or suspended turn is still
    /// replayed. Has no effect without a key.
    pub resume: Option<ResumePolicy>,
    /// What to do if a turn is already running on the thread.
    pub policy: Policy,
    /// Stops the run when cancelled.
    pub cancel: CancellationToken,
}

impl RunRequest {
    /// Returns a request with a user message.
    ///
    /// ```
    /// use contexture_agent::RunRequest;
    /// use serde_json::json;
    ///
    /// let request = RunRequest::user("Where is my order?").input(json!({"plan": "pro"})).model("openai/gpt-5-mini");
    /// assert_eq!(request.spec.model.as_deref(), Some("openai/gpt-5-mini"));
    /// ```
    pub fn user(text: impl Into<String>) -> Self {
        Self { user: Some(Message::user(text)), ..Self::default() }
    }

    /// Sets the input.
    #[must_use]
    pub fn input(self, input: Value) -> Self {
        self.with(|it| it.spec.input = input)
    }

    /// Sets the scope of the run.
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        self.with(|it| it.spec.scope = scope)
    }

    /// Sets the model, `provider/model`.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        self.with(|it| it.spec.model = Some(model.into()))
    }

    /// Sets settings that override the prompt's.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Self {
        self.with(|it| it.spec.settings = settings)
    }

    /// Sets the tools that the client runs.
    #[must_use]
    pub fn client_tools(self, tools: Vec<ToolDefinition>) -> Self {
        self.with(|it| it.spec.client_tools = tools)
    }

    /// Sets the names of the agent's tools that this run offers beside the prompt's.
    #[must_use]
    pub fn tools(self, tools: Vec<String>) -> Self {
        self.with(|it| it.spec.tools = tools)
    }

    /// Searches knowledge bases before the first call.
    #[must_use]
    pub fn knowledge(self, knowledge: KnowledgeRequest) -> Self {
        self.with(|it| it.spec.knowledge = Some(knowledge))
    }

    /// Sets the names of skills to load.
    #[must_use]
    pub fn skills<T: Into<String>>(self, skills: impl IntoIterator<Item = T>) -> Self {
        self.with(|it| it.skills = skills.into_iter().map(Into::into).collect())
    }

    /// Sets system instructions for this run only.
    #[must_use]
    pub fn instructions(self, instructions: impl Into<Arc<str>>) -> Self {
        self.with(|it| it.spec.instructions = Some(instructions.into()))
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|it| it.key = Some(key.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// What to do with unanswered tool calls when a turn is resumed. It is unknown whether they ran.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use contexture_agent::{Agent, ResumePolicy, RunRequest, Secrets};
/// # use contexture_compose::{BoxFuture, Prompt};
/// # use contexture_history::Timestamp;
/// # use contexture_message::{Answer, Encoding};
/// # use contexture_model::{ModelError, ModelErrorKind, Scripted, Step};
/// # use contexture_session::{MemoryStore, Names, Ports, SessionConfig, SessionStart, Sessions, Time};
/// # #[derive(Debug)]
/// # struct Fixed;
/// # impl Time for Fixed {
/// #     fn now(&self) -> Timestamp { Timestamp(0) }
/// #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
/// # }
/// # impl Names for Fixed { fn next(&self) -> String { "n".to_owned() } }
/// # impl Secrets for Fixed { fn next(&self) -> String { "secret".to_owned() } }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let ports = Ports { time: Arc::new(Fixed), names: Arc::new(Fixed), counter: Arc::new(Encoding::O200kBase) };
/// # let sessions = Sessions::new(Arc::new(MemoryStore::new(Arc::new(Fixed))), ports, SessionConfig::default());
/// # let session = sessions.create(SessionStart::default()).await?;
/// # let thread = session.main();
/// # let cut = ModelError::new(ModelErrorKind::Disconnected, "cut");
/// # let model = Scripted::new([Step::Fail(cut), Step::Answer(Answer::text("It is noon."))]);
/// # let agent = Agent::builder(model, Arc::new(Fixed), Fixed).build()?;
/// # let prompt = Prompt::builder("p").model("test/model").build()?;
/// let request = RunRequest {
///     key: Some("step-7".to_owned()),
///     resume: Some(ResumePolicy::CloseCalls),
///     ..RunRequest::user("What time is it?")
/// };
/// let first = agent.run(&prompt, thread, request.clone()).outcome().await;
/// assert_eq!(first.unwrap_err().code(), "model_unreachable");
///
/// let second = agent.run(&prompt, thread, request).outcome().await?;
/// assert_eq!((second.turn.0, second.text().as_str()), (1, "It is noon."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePolicy {
    /// Answers them with an `interrupted` error and lets the model decide what to do. No call runs twice.
    CloseCalls,
    /// Runs them again, for tools that may run twice. Calls that need approval still need it, unless it was given.
    RepeatCalls,
}

/// The results of calls that the client ran.
#[derive(Clone, Debug, Default)]
pub struct AnswerRequest {
    /// The results by call id, in any order. Some may follow later: the turn waits for them.
    pub results: Vec<(String, ToolOutput)>,
    /// The tools that the client offers from now on; by default the same as before.
    pub client_tools: Option<Vec<ToolDefinition>>,
    /// The model to use from now on; by default that of the suspended run.
    pub model: Option<String>,
    /// The settings to use from now on; by default those of the suspended run.
    pub settings: Option<Settings>,
    /// Stops the run when cancelled.
    pub cancel: CancellationToken,
}

impl AnswerRequest {
    /// Returns a request with one result.
    pub fn result(call_id: impl Into<String>, output: ToolOutput) -> Self {
        Self { results: vec![(call_id.into(), output)], ..Self::default() }
    }
}
