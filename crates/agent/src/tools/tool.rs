//! Tools that run in the agent's process: their definition, their function and their options.
//!
//! A tool has two outputs. Its function returns the raw value, for the application; `to_model_output` converts it to
//! what the model sees (by default a string becomes text and anything else JSON). Arguments are validated against the
//! tool's schema before its function is called.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contexture_compose::{BoxError, BoxFuture, Runner, Schema, SchemaValidator, SharedTool};
use contexture_history::TurnNo;
use contexture_message::{Tokens, ToolCall, ToolDefinition, ToolOutput};
use contexture_session::{Thread, ThreadId};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::notes::RoundNotes;
use crate::skills::SkillShare;

/// One call of a tool, as its function and middleware see it.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The model's call; its arguments have been validated.
    pub call: ToolCall,
    /// The thread of the call.
    pub thread: ThreadId,
    /// The turn of the call.
    pub turn: TurnNo,
    /// Cancelled together with the run. A tool that is still running then is dropped.
    pub cancel: CancellationToken,
    /// The thread, which the engine's own tools read.
    pub(crate) log: Thread,
    /// The largest result that is shown in full, in tokens.
    pub(crate) result_tokens: Tokens,
    /// What the calls of the round remember of the thread.
    pub(crate) notes: RoundNotes,
    /// What skills may take of the window.
    pub(crate) skills: SkillShare,
}

impl Invocation {
    /// Returns what the thread remembers under a key, and what this round of calls added to it.
    pub fn note(&self, key: &str) -> Option<Value> {
        self.notes.get(key).unwrap_or_else(|| self.log.get().note(key).map(|it| (**it).clone()))
    }

    /// Lets the thread remember a value under a key, or forget it. It is appended in one commit with the results of the
    /// round: after a crash the thread has both or neither. A tool that reads a note before it sets it must run
    /// [alone](Tool::alone).
    pub fn set_note(&self, key: impl Into<String>, value: Option<Value>) {
        self.notes.set(key.into(), value);
    }
}

type RunFn = dyn Fn(Invocation) -> BoxFuture<'static, Result<Value, BoxError>> + Send + Sync;
type OutputFn = dyn Fn(&Value) -> ToolOutput + Send + Sync;
type ApprovalFn = dyn Fn(&Value) -> bool + Send + Sync;

/// A tool: its definition for the model, and the function that runs it. Cheap to clone. Create it with [`tool`] from a
/// Rust function, or with [`Tool::new`] from a definition. Give it to the prompt, context or contributor that needs
/// it, or to an agent for all of its runs.
///
/// ```
/// use contexture_agent::tool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Place {
///     /// A city.
///     city: String,
/// }
///
/// let weather = tool("weather", "Tells the weather.", |place: Place| async move {
///     Ok(format!("It rains in {}.", place.city))
/// })
/// .needs_approval();
/// assert_eq!(weather.definition().parameters["properties"]["city"]["description"], "A city.");
/// ```
#[derive(Clone)]
pub struct Tool {
    tool: Arc<ToolDefinition>,
    /// The validator of the arguments, or the reason why the schema is invalid. Compiled when it is first needed.
    validator: Arc<OnceLock<Result<SchemaValidator, String>>>,
    run: Arc<RunFn>,
    to_model: Arc<OutputFn>,
    approval: Option<Arc<ApprovalFn>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) alone: bool,
    /// Whether it only reads what the model could be shown, so that no skill makes it need approval.
    pub(crate) only_reads: bool,
}

/// A tool that can't be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool `{name}`: {reason}")]
pub struct ToolRefused {
    /// The name of the tool.
    pub name: String,
    /// Why it was refused.
    pub reason: String,
}

impl Tool {
    /// Returns a tool with an explicit definition, from a function that gets the whole call.
    pub fn new<F>(
        tool: ToolDefinition,
        function: impl Fn(Invocation) -> F + Send + Sync + 'static,
    ) -> Result<Self, ToolRefused>
    where
        F: Future<Output = Result<Value, BoxError>> + Send + 'static,
    {
        let tool = Self::unchecked(tool, function);
        match tool.refused() {
            Some(refused) => Err(refused),
            None => Ok(tool),
        }
    }

    /// Returns a tool whose definition is checked at its first call, where an invalid one is an error. For entries that
    /// make their tools in every pass: compiling schemas would cost more than the rest of the pass.
    pub fn unchecked<F>(
        tool: ToolDefinition,
        function: impl Fn(Invocation) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Value, BoxError>> + Send + 'static,
    {
        Self {
            validator: Arc::default(),
            tool: Arc::new(tool),
            run: Arc::new(move |invocation| Box::pin(function(invocation))),
            to_model: Arc::new(|value| ToolOutput::from_value(value.clone())),
            approval: None,
            timeout: None,
            alone: false,
            only_reads: false,
        }
    }

    fn validator(&self) -> Result<&SchemaValidator, &String> {
        let invalid = |err| format!("its parameters can't be used: {err}");
        self.validator.get_or_init(|| SchemaValidator::new(&self.tool.parameters).map_err(invalid)).as_ref()
    }

    /// Returns why the tool can't be registered, if it can't.
    pub(crate) fn refused(&self) -> Option<ToolRefused> {
        let fault = check_name(&self.tool.name).and(self.validator().map(drop).map_err(Clone::clone));
        fault.err().map(|reason| ToolRefused { name: self.tool.name.clone(), reason })
    }

    /// Sets how the raw value is converted to what the model sees.
    #[must_use]
    pub fn to_model_output(mut self, map: impl Fn(&Value) -> ToolOutput + Send + Sync + 'static) -> Self {
        self.to_model = Arc::new(map);
        self
    }

    /// Requires a person's approval before each call.
    #[must_use]
    pub fn needs_approval(self) -> Self {
        self.needs_approval_if(|_| true)
    }

    /// Requires a person's approval for calls whose arguments satisfy the predicate.
    #[must_use]
    pub fn needs_approval_if(mut self, predicate: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.approval = Some(Arc::new(predicate));
        self
    }

    /// Sets how long a call may take; by default the agent's configuration decides.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Runs calls of this tool alone: no other call of the same round runs at the same time.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Says that the tool only reads what the model could be shown anyway. Active skills that list the tools they allow
    /// do not make it need approval.
    #[must_use]
    pub fn only_reads(mut self) -> Self {
        self.only_reads = true;
        self
    }

    /// Returns the definition that the model sees.
    pub fn definition(&self) -> &ToolDefinition {
        &self.tool
    }

    /// Returns the tool's name.
    pub fn name(&self) -> &str {
        &self.tool.name
    }

    /// Returns whether a call may need a person's approval, depending on its arguments.
    pub fn may_need_approval(&self) -> bool {
        self.approval.is_some()
    }

    pub(crate) fn requires_approval(&self, arguments: &Value) -> bool {
        // A predicate that panics counts as true: its failure must not let a call run without approval.
        let decides = |it: &Arc<ApprovalFn>| catch_unwind(AssertUnwindSafe(|| it(arguments))).unwrap_or(true);
        self.approval.as_ref().is_some_and(decides)
    }

    pub(crate) fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Value, BoxError>> {
        (self.run)(invocation)
    }

    pub(crate) fn model_output(&self, value: &Value) -> ToolOutput {
        (self.to_model)(value)
    }

    /// Returns what is wrong with the arguments of a call, if anything is.
    pub(crate) fn argument_faults(&self, arguments: &Value) -> Option<String> {
        let validator = match self.validator() {
            Ok(validator) => validator,
            Err(fault) => return Some(fault.clone()),
        };
        if let Value::String(text) = arguments
            && !validator.is_valid(arguments)
        {
            let shown: String = text.chars().take(200).collect();
            // Arguments that are valid JSON were turned into text only because they are nested too deep for the log.
            let fault = match serde_json::from_str::<IgnoredAny>(text) {
                Ok(IgnoredAny) => "nested too deep",
                Err(_) => "not JSON",
            };
            return Some(format!("the arguments are {fault}: {shown}"));
        }
        let faults = crate::checks::faults(validator, arguments);
        (!faults.is_empty()).then(|| format!("the arguments are invalid: {}", faults.join("; ")))
    }
}

/// Returns a tool from an async function with typed arguments. The schema is derived from the type.
pub fn tool<A, R, F>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: impl Fn(A) -> F + Send + Sync + 'static,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + 'static,
    R: Serialize,
    F: Future<Output = Result<R, BoxError>> + Send + 'static,
{
    let definition = ToolDefinition::new(name, description).parameters((**Schema::of::<A>().value()).clone());
    let function = Arc::new(function);
    Tool::unchecked(definition, move |invocation: Invocation| {
        // The schema can't express every rule of a type; serde checks the rest.
        let arguments = serde_json::from_value::<A>(invocation.call.arguments);
        let function = Arc::clone(&function);
        let work = arguments.map(|it| function(it));
        async move { Ok(serde_json::to_value(work?.await?)?) }
    })
}

impl From<Tool> for SharedTool {
    fn from(tool: Tool) -> Self {
        SharedTool::new(tool.definition().clone()).run_by(Runner::new(tool))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Checks a name against what all providers accept; some accept more.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fine = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    match name {
        "" => Err("a tool needs a name".to_owned()),
        _ if name.len() > 64 => Err(format!("the name has {} bytes, the limit is 64", name.len())),
        _ if !name.chars().all(fine) => Err("a name has letters, digits, `_` and `-` only".to_owned()),
        _ => Ok(()),
    }
}

/// Tools by name.
#[derive(Clone, Debug, Default)]
pub struct Tools(BTreeMap<String, Tool>);

impl Tools {
    /// Adds a tool. Returns an error if the tool is invalid or its name is taken.
    pub fn add(&mut self, tool: Tool) -> Result<(), ToolRefused> {
        if let Some(refused) = tool.refused() {
            return Err(refused);
        }
        let name = tool.name().to_owned();
        if self.0.contains_key(&name) {
            return Err(ToolRefused { name, reason: "there is another tool of this name".to_owned() });
        }
        self.0.insert(name, tool);
        Ok(())
    }

    /// Returns the tool with that name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.0.get(name)
    }

    /// Returns all tools, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.values()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
