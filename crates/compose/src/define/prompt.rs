//! The definition of a prompt, and its builder.

use std::sync::Arc;

use contexture_history::{Transform, Transforms};
use contexture_message::{Role, Settings, Tokens, Tool, ToolChoice};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde_json::Value;

use super::checks::{Constraint, Guardrail, StopCondition, ToolMiddleware};
use super::{
    Adaptation, Budget, CacheConfig, Contributor, Entry, HistoryConfig, Hooks, InputPolicy, Provider, Schema,
    TagValue, Text, UserMessage,
};
use crate::Error;
use crate::lower::{Prompt, lower};

/// Everything an author says about one model call. Checked as a whole by [`PromptBuilder::build`].
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The prompt's name.
    pub id: String,
    /// What it is for.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The file it was read from, for errors.
    pub file: Option<String>,
    /// The model it was written for, `provider/model`.
    pub model: Option<String>,
    /// Entries.
    pub entries: Vec<Entry>,
    /// The input's schema.
    pub input: Option<Schema>,
    /// Input keys for which the prompt's own schema wins over an entry's.
    pub overrides: Vec<String>,
    /// What happens to input strings before anyone sees them.
    pub input_policy: InputPolicy,
    /// The answer's schema.
    pub output: Option<Schema>,
    /// The prompt's own system text.
    pub system: Option<Text>,
    /// The user text of calls that bring no user message.
    pub prompt: Option<Text>,
    /// This turn's user messages, resolved at the time of the call. They stand behind what the user says where they differ.
    pub user: Vec<UserMessage>,
    /// Messages given as a list.
    pub messages: Vec<MessageText>,
    /// The context slot: array and object forms, mixed.
    pub context: Vec<TagValue>,
    /// A text that takes the place of the tag block; it may read `config.context`.
    pub context_section: Option<Text>,
    /// Whether the system text itself holds what takes the place of the tag block.
    pub context_in_system: bool,
    /// What is taken of the history.
    pub history: HistoryConfig,
    /// How to generate.
    pub settings: Settings,
    /// Changes for particular models, by key.
    pub adapt: IndexMap<String, Adaptation>,
    /// Observers.
    pub hooks: Hooks,
    /// The prompt's own tools.
    pub tools: Vec<Tool>,
    /// What wraps tool calls.
    pub tool_middleware: Vec<ToolMiddleware>,
    /// Whether tools must be used.
    pub tool_choice: Option<ToolChoice>,
    /// When the loop ends.
    pub stop_when: Vec<StopCondition>,
    /// The prompt's own tests.
    pub tests: Vec<Value>,
    /// Checks of the answer.
    pub constraints: Vec<Constraint>,
    /// Checks of input and output.
    pub guardrails: Vec<Guardrail>,
    /// Cache wishes.
    pub cache: CacheConfig,
    /// Limits.
    pub budget: Budget,
    /// What rewrites the history and the turn in flight for a request, left to right.
    pub transforms: Transforms,
    /// Who puts messages before the history, in this order.
    pub providers: Vec<Provider>,
}

/// One message of a prompt's own list.
#[derive(Clone, Debug)]
pub struct MessageText {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: Text,
}

/// Builds a [`Prompt`]; `build` checks the whole.
///
/// ```
/// use contexture_compose::{Context, Prompt};
///
/// let prompt = Prompt::builder("support")
///     .system("You answer questions about invoices.")
///     .include(Context::text("refunds", "Refunds take five days.").priority(80))
///     .token_budget(4_000)
///     .build()?;
/// assert_eq!(prompt.id(), "support");
/// # Ok::<(), contexture_compose::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PromptBuilder(Definition);

impl Prompt {
    /// Starts the definition of a prompt.
    pub fn builder(id: impl Into<String>) -> PromptBuilder {
        PromptBuilder(Definition { id: id.into(), ..Definition::default() })
    }
}

impl From<Definition> for PromptBuilder {
    fn from(definition: Definition) -> Self {
        Self(definition)
    }
}

impl PromptBuilder {
    /// Checks ids, schemas, tool names and nesting, once, and compiles the prompt.
    pub fn build(self) -> Result<Prompt, Error> {
        lower(self.0)
    }

    /// Says what it is for.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with(|it| it.description = Some(description.into()))
    }

    /// Sets the system text.
    pub fn system(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.system = Some(text.into()))
    }

    /// Sets the user text of calls that bring no user message.
    pub fn prompt(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.prompt = Some(text.into()))
    }

    /// Sets what resolves to this turn's user message. Where the user says the same, it is sent once; where they differ,
    /// it stands behind what the user says.
    pub fn user(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.user = vec![UserMessage::text(text)])
    }

    /// Adds a message to what resolves to this turn's user message, see [`user`](Self::user).
    pub fn user_message(self, message: UserMessage) -> Self {
        self.with(|it| it.user.push(message))
    }

    /// Adds a message to the prompt's own list.
    pub fn message(self, role: Role, text: impl Into<Text>) -> Self {
        self.with(|it| it.messages.push(MessageText { role, text: text.into() }))
    }

    /// Adds an entry.
    pub fn include(self, entry: impl Into<Entry>) -> Self {
        self.with(|it| it.entries.push(entry.into()))
    }

    /// Adds a contributor.
    pub fn contribute(self, contributor: impl Contributor + 'static) -> Self {
        self.include(Entry::Contributor(Arc::new(contributor)))
    }

    /// Adds a value to the context slot: an object for the tag tree, or a string for a message of its own.
    pub fn context(self, value: impl Into<TagValue>) -> Self {
        self.with(|it| it.context.push(value.into()))
    }

    /// Declares the input by a type.
    pub fn input<I: JsonSchema>(self) -> Self {
        self.input_schema(Schema::of::<I>())
    }

    /// Declares the input.
    pub fn input_schema(self, schema: Schema) -> Self {
        self.with(|it| it.input = Some(schema))
    }

    /// Declares the answer by a type.
    pub fn output<O: JsonSchema>(self) -> Self {
        self.output_schema(Schema::of::<O>())
    }

    /// Declares the answer.
    pub fn output_schema(self, schema: Schema) -> Self {
        self.with(|it| it.output = Some(schema))
    }

    /// Lets the prompt's own declaration of an input key win over an entry's.
    pub fn override_key(self, key: impl Into<String>) -> Self {
        self.with(|it| it.overrides.push(key.into()))
    }

    /// Sets what happens to input strings before anyone sees them.
    pub fn input_policy(self, policy: InputPolicy) -> Self {
        self.with(|it| it.input_policy = policy)
    }

    /// Sets the model, `provider/model`.
    pub fn model(self, model: impl Into<String>) -> Self {
        self.with(|it| it.model = Some(model.into()))
    }

    /// Sets how to generate.
    pub fn settings(self, settings: Settings) -> Self {
        self.with(|it| it.settings = settings)
    }

    /// Adds changes for a model, a provider, or everyone (`*`).
    pub fn adapt(self, key: impl Into<String>, adaptation: Adaptation) -> Self {
        self.with(|it| {
            it.adapt.insert(key.into(), adaptation);
        })
    }

    /// Adds a tool.
    pub fn tool(self, tool: Tool) -> Self {
        self.with(|it| it.tools.push(tool))
    }

    /// Says whether tools must be used.
    pub fn tool_choice(self, choice: ToolChoice) -> Self {
        self.with(|it| it.tool_choice = Some(choice))
    }

    /// Adds a check of the answer.
    pub fn constraint(self, constraint: Constraint) -> Self {
        self.with(|it| it.constraints.push(constraint))
    }

    /// Adds a guardrail.
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        self.with(|it| it.guardrails.push(guardrail))
    }

    /// Sets what is taken of the history.
    pub fn history(self, history: HistoryConfig) -> Self {
        self.with(|it| it.history = history)
    }

    /// Sets the observers.
    pub fn hooks(self, hooks: Hooks) -> Self {
        self.with(|it| it.hooks = hooks)
    }

    /// Sets all limits.
    pub fn budget(self, budget: Budget) -> Self {
        self.with(|it| it.budget = budget)
    }

    /// Bounds the composed system text.
    pub fn token_budget(self, tokens: u32) -> Self {
        self.with(|it| it.budget.token_budget = Some(Tokens(tokens)))
    }

    /// Bounds the whole request.
    pub fn input_budget(self, tokens: u32) -> Self {
        self.with(|it| it.budget.input_budget = Some(Tokens(tokens)))
    }

    /// Sets the cache wishes.
    pub fn cache(self, cache: CacheConfig) -> Self {
        self.with(|it| it.cache = cache)
    }

    /// Adds a transform: it rewrites the history and the turn in flight for each request, behind those before it.
    pub fn transform(self, transform: impl Transform + 'static) -> Self {
        self.with(|it| it.transforms = std::mem::take(&mut it.transforms).then(transform))
    }

    /// Adds a context provider: its messages are put before the history and never stored.
    pub fn provider(self, provider: Provider) -> Self {
        self.with(|it| it.providers.push(provider))
    }

    fn with(mut self, change: impl FnOnce(&mut Definition)) -> Self {
        change(&mut self.0);
        self
    }
}
