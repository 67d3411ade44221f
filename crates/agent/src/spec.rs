//! What a run is asked for.

use std::sync::Arc;

use contexture_compose::{InlineBlock, Scope};
use contexture_history::{TurnNo, Visibility};
use contexture_message::{Message, Settings, ToolDefinition, ToolOutput};
use contexture_session::{NewItem, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::AgentError;

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
    /// Things of the application that the user refers to. Their texts become part of the hidden envelope of the user's
    /// message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_refs: Vec<ContextRef>,
}

/// A thing of the application that a run refers to, such as a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextRef {
    /// Its type, which says who resolves it: letters, digits, `-`, `_` and `.`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// Its id among those of its type.
    #[schemars(length(min = 1, max = 500))]
    pub id: String,
    /// What the user calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub label: Option<String>,
}

/// A hidden text that accompanies the user's message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// What it is called, such as a file name.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// Its media type, such as `text/csv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub media_type: Option<String>,
    /// Its text. Images and files are parts of the user's message instead.
    pub text: String,
}

/// The most references of a run.
const MAX_REFS: usize = 32;
/// The most attachments of a run.
const MAX_ATTACHMENTS: usize = 16;
/// The most text of all attachments of a run, in bytes.
const MAX_ATTACHED: usize = 512 * 1024;

impl RunSpec {
    /// Returns an error if a reference breaks a rule.
    pub(crate) fn check(&self) -> Result<(), AgentError> {
        let invalid = |at: String, reason: String| Err(AgentError::RequestInvalid { at, reason });
        let refs = &self.context_refs;
        if refs.len() > MAX_REFS {
            return invalid("context_refs".into(), format!("there are {} of at most {MAX_REFS}", refs.len()));
        }
        for (idx, it) in refs.iter().enumerate() {
            let at = |field: &str| format!("context_refs[{idx}].{field}");
            let of_type = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
            if it.kind.is_empty() || it.kind.len() > 64 || !it.kind.chars().all(of_type) {
                let reason = "it has 1 to 64 letters, digits, `-`, `_` and `.`";
                return invalid(at("type"), reason.into());
            }
            if !is_name(&it.id, 500) {
                return invalid(at("id"), "it has 1 to 500 bytes and no control characters".into());
            }
            if it.label.as_ref().is_some_and(|it| !is_name(it, 200)) {
                return invalid(at("label"), "it has 1 to 200 bytes and no control characters".into());
            }
            if refs[..idx].iter().any(|other| (&other.kind, &other.id) == (&it.kind, &it.id)) {
                return invalid(at("id"), format!("`{}/{}` is referred to twice", it.kind, it.id));
            }
        }
        Ok(())
    }
}

/// Returns an error if an attachment breaks a rule.
pub(crate) fn check_attachments(attachments: &[Attachment]) -> Result<(), AgentError> {
    let invalid = |at: String, reason: String| Err(AgentError::RequestInvalid { at, reason });
    let bytes: usize = attachments.iter().map(|it| it.text.len()).sum();
    if attachments.len() > MAX_ATTACHMENTS || bytes > MAX_ATTACHED {
        let n = attachments.len();
        let reason = format!("{n} with {bytes} bytes; at most {MAX_ATTACHMENTS} with {MAX_ATTACHED} bytes");
        return invalid("attachments".into(), reason);
    }
    for (idx, it) in attachments.iter().enumerate() {
        let at = |field: &str| format!("attachments[{idx}].{field}");
        if !is_name(&it.name, 200) {
            return invalid(at("name"), "it has 1 to 200 bytes and no control characters".into());
        }
        if it.media_type.as_ref().is_some_and(|it| !is_name(it, 200)) {
            return invalid(at("media_type"), "it has 1 to 200 bytes and no control characters".into());
        }
        if it.text.trim().is_empty() {
            return invalid(at("text"), "it is blank".into());
        }
        if attachments[..idx].iter().any(|other| other.name == it.name) {
            return invalid(at("name"), format!("`{}` is attached twice", it.name));
        }
    }
    Ok(())
}

fn is_name(text: &str, max: usize) -> bool {
    !text.trim().is_empty() && text.len() <= max && !text.chars().any(char::is_control)
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
    /// Hidden texts for the same envelope: at most 16, with 512 KiB together.
    pub attachments: Vec<Attachment>,
    /// Which views include what the turn says; by default what the prompt says, or all. A turn that is not part of the
    /// history is read by the model while it runs, and not by later turns.
    pub visibility: Option<Visibility>,
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
    /// Runs only if this is still the thread's newest turn when the turn begins.
    pub after: Option<TurnNo>,
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

    /// Refers to things of the application.
    #[must_use]
    pub fn context_refs(self, refs: impl IntoIterator<Item = ContextRef>) -> Self {
        self.with(|it| it.spec.context_refs = refs.into_iter().collect())
    }

    /// Sets which views include what the turn says.
    #[must_use]
    pub fn visibility(self, visibility: Visibility) -> Self {
        self.with(|it| it.visibility = Some(visibility))
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
