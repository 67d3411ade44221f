//! Tools that run here: their definition, their function, and how they are treated.
//!
//! A tool has two outputs. Its function gives the raw value, for the application; `to_model_output` makes of it what
//! the model sees (by default a string becomes text and anything else JSON). Arguments are validated against the
//! tool's schema before its function is called.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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

/// One call of a tool, as its function and middleware see it.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The model's call; its arguments have been validated.
    pub call: ToolCall,
    /// The thread on which it was made.
    pub thread: ThreadId,
    /// The turn in which it was made.
    pub turn: TurnNo,
    /// Cancelled when the run is; a tool that is not done by then is dropped.
    pub cancel: CancellationToken,
    /// The thread itself, for the engine's own tools to read.
    pub(crate) log: Thread,
    /// How many tokens a result may have to be shown whole.
    pub(crate) result_tokens: Tokens,
}

type RunFn = dyn Fn(Invocation) -> BoxFuture<'static, Result<Value, BoxError>> + Send + Sync;
type OutputFn = dyn Fn(&Value) -> ToolOutput + Send + Sync;
type ApprovalFn = dyn Fn(&Value) -> bool + Send + Sync;

/// A tool: what the model sees of it, and what runs it. Cheap to clone. Made by [`tool`] from a Rust function, or by
/// [`Tool::new`] from a definition. Give it to the prompt, the context or the contributor that it belongs to, or to an
/// agent for all of its runs.
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
    /// What checks arguments, or why the schema can't be used.
    validator: Result<SchemaValidator, String>,
    run: Arc<RunFn>,
    to_model: Arc<OutputFn>,
    approval: Option<Arc<ApprovalFn>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) alone: bool,
}

/// A tool that can't be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool `{name}`: {reason}")]
pub struct ToolRefused {
    /// The tool.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Tool {
    /// Returns a tool with a schema of its own, from a function that gets the whole call.
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

    fn unchecked<F>(tool: ToolDefinition, function: impl Fn(Invocation) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Value, BoxError>> + Send + 'static,
    {
        let invalid = |err| format!("its parameters can't be used: {err}");
        Self {
            validator: SchemaValidator::new(&tool.parameters).map_err(invalid),
            tool: Arc::new(tool),
            run: Arc::new(move |invocation| Box::pin(function(invocation))),
            to_model: Arc::new(|value| ToolOutput::from_value(value.clone())),
            approval: None,
            timeout: None,
            alone: false,
        }
    }

    /// Says why the tool can't be registered, if it can't.
    pub(crate) fn refused(&self) -> Option<ToolRefused> {
        let fault = check_name(&self.tool.name).and(self.validator.as_ref().map(drop).map_err(Clone::clone));
        fault.err().map(|reason| ToolRefused { name: self.tool.name.clone(), reason })
    }

    /// Says what the model sees of the raw value.
    #[must_use]
    pub fn to_model_output(mut self, map: impl Fn(&Value) -> ToolOutput + Send + Sync + 'static) -> Self {
        self.to_model = Arc::new(map);
        self
    }

    /// Lets a person decide before each call is run.
    #[must_use]
    pub fn needs_approval(self) -> Self {
        self.needs_approval_if(|_| true)
    }

    /// Lets a person decide before a call with such arguments is run.
    #[must_use]
    pub fn needs_approval_if(mut self, predicate: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.approval = Some(Arc::new(predicate));
        self
    }

    /// Says how long a call may take; by default as long as the agent's configuration says.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes sure that no other call of the same round runs at the same time.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
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

    pub(crate) fn asks(&self, arguments: &Value) -> bool {
        // Who can't say whether to ask is asked: nothing runs because a predicate broke.
        let decides = |it: &Arc<ApprovalFn>| catch_unwind(AssertUnwindSafe(|| it(arguments))).unwrap_or(true);
        self.approval.as_ref().is_some_and(decides)
    }

    pub(crate) fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Value, BoxError>> {
        (self.run)(invocation)
    }

    pub(crate) fn model_output(&self, value: &Value) -> ToolOutput {
        (self.to_model)(value)
    }

    /// Says what is wrong with the arguments of a call, if anything is.
    pub(crate) fn argument_faults(&self, arguments: &Value) -> Option<String> {
        let validator = match &self.validator {
            Ok(validator) => validator,
            Err(fault) => return Some(fault.clone()),
        };
        if let Value::String(text) = arguments
            && !validator.is_valid(arguments)
        {
            let shown: String = text.chars().take(200).collect();
            // Arguments that were JSON are a text only because no log could hold them.
            let fault = match serde_json::from_str::<IgnoredAny>(text) {
                Ok(IgnoredAny) => "nested too deep",
                Err(_) => "not JSON",
            };
            return Some(format!("the arguments are {fault}: {shown}"));
        }
        let faults = crate::output::faults(validator, arguments);
        (!faults.is_empty()).then(|| format!("the arguments are invalid: {}", faults.join("; ")))
    }
}

/// Returns a tool from an async function with typed arguments: the schema comes from the type.
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
        // The schema can't say everything that a type can: what is left to say, serde does.
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

/// All providers take these names; some take more.
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
    /// Adds a tool; a second one of the same name is refused.
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

    /// Returns all tools in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.values()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
