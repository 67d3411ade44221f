//! The builder of prompts.

use std::marker::PhantomData;
use std::sync::Arc;

use contexture_history::{Transform, Visibility};
use contexture_message::{Message, Role, Settings, Tokens, ToolChoice};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Hooks, Prompt, PromptInner};
use crate::define::checks::{Constraint, Guardrail, StopCondition, ToolMiddleware};
use crate::define::{
    Adaptation, Branch, Budget, CacheConfig, ContextProvider, Contributor, Definition, Entry, HistoryConfig,
    InputPolicy, MatchBuilder, MessageText, Messages, Schema, TagValue, Text, UserMessage, matching, when,
};
use crate::lower::lower;
use crate::segment::SharedTool;
use crate::{Engine, Error};

/// Builds a [`Prompt`]; `build` checks the whole definition.
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
///
/// [`input`](Self::input) sets the input type of all closures added after it:
///
/// ```
/// use contexture_compose::{Context, Prompt};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Ticket { plan: String, question: String }
/// let prompt = Prompt::builder("support")
///     .input::<Ticket>()
///     .system_with(|it| format!("The customer's plan is {}.", it.plan))
///     .include_when(|it| it.plan != "free", Context::text("phone", "Offer a call."))
///     .user_with(|it| it.question.clone())
///     .build()?;
/// # Ok::<(), contexture_compose::Error>(())
/// ```
#[must_use]
pub struct PromptBuilder<In = Value, Out = String> {
    definition: Definition,
    hooks: Hooks,
    types: PhantomData<fn(&In) -> Out>,
}

impl Prompt {
    /// Starts the definition of a prompt.
    pub fn builder(id: impl Into<String>) -> PromptBuilder {
        PromptBuilder::from(Definition { id: id.into(), ..Definition::default() })
    }
}

impl From<Definition> for PromptBuilder {
    fn from(definition: Definition) -> Self {
        Self { definition, hooks: Hooks::default(), types: PhantomData }
    }
}

impl<In, Out> Clone for PromptBuilder<In, Out> {
    fn clone(&self) -> Self {
        Self { definition: self.definition.clone(), hooks: self.hooks.clone(), types: PhantomData }
    }
}

impl<In, Out> std::fmt::Debug for PromptBuilder<In, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PromptBuilder").field(&self.definition).finish()
    }
}

impl<Out> PromptBuilder<Value, Out> {
    /// Declares the type of the input; closures added after this call receive that type.
    pub fn input<In: JsonSchema>(self) -> PromptBuilder<In, Out> {
        self.input_schema(Schema::of::<In>()).retyped()
    }
}

impl<In> PromptBuilder<In, String> {
    /// Declares the type of the answer, which `generate` returns.
    pub fn output<Out: JsonSchema>(self) -> PromptBuilder<In, Out> {
        self.output_schema(Schema::of::<Out>()).retyped()
    }
}

/// Methods for texts, conditions and values computed from the input.
impl<In: DeserializeOwned + Send + Sync + 'static, Out> PromptBuilder<In, Out> {
    /// Sets a function that computes the system text from the input.
    pub fn system_with<R: Into<String>>(self, text: impl Fn(&In) -> R + Send + Sync + 'static) -> Self {
        self.system(Text::of(text))
    }

    /// Sets a function that computes the user text of calls that have no user message.
    pub fn prompt_with<R: Into<String>>(self, text: impl Fn(&In) -> R + Send + Sync + 'static) -> Self {
        self.prompt(Text::of(text))
    }

    /// Sets a function that computes this turn's user message from the input, see [`user`](Self::user).
    pub fn user_with<R: Into<String>>(self, text: impl Fn(&In) -> R + Send + Sync + 'static) -> Self {
        self.user(Text::of(text))
    }

    /// Sets a function that computes the prompt's own list of messages from the input.
    pub fn messages<L: IntoIterator<Item = Message>>(
        self,
        messages: impl Fn(&In) -> L + Send + Sync + 'static,
    ) -> Self {
        self.with(|it| it.messages = Messages::of(messages))
    }

    /// Adds a function that computes a value of the context slot from the input.
    pub fn context_with(self, value: impl Fn(&In) -> Value + Send + Sync + 'static) -> Self {
        self.context(TagValue::of(value))
    }

    /// Adds entries that are included only if the predicate holds.
    pub fn include_when(
        self,
        predicate: impl Fn(&In) -> bool + Send + Sync + 'static,
        branch: impl Into<Branch>,
    ) -> Self {
        self.include(when(predicate, branch))
    }

    /// Adds entries chosen by a value of the input; `cases` names the branches.
    ///
    /// ```
    /// use contexture_compose::{Context, Prompt};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Ticket { locale: String }
    /// let prompt = Prompt::builder("support")
    ///     .input::<Ticket>()
    ///     .include_match(|it| it.locale.clone(), |cases| {
    ///         cases
    ///             .case("de", Context::text("german", "Antworte auf Deutsch."))
    ///             .default_case(Context::text("english", "Answer in English."))
    ///     })
    ///     .build()?;
    /// # Ok::<(), contexture_compose::Error>(())
    /// ```
    pub fn include_match<R: Into<String>>(
        self,
        on: impl Fn(&In) -> R + Send + Sync + 'static,
        cases: impl FnOnce(MatchBuilder) -> MatchBuilder,
    ) -> Self {
        self.include(cases(matching(on)))
    }
}

impl<In, Out> PromptBuilder<In, Out> {
    /// Checks ids, schemas, tool names and nesting, and compiles the prompt.
    pub fn build(self) -> Result<Prompt<In, Out>, Error> {
        let compiled = lower(self.definition)?;
        let inner = Arc::new(PromptInner { compiled, hooks: self.hooks });
        Ok(Prompt { inner, engine: Engine::default(), types: PhantomData })
    }

    /// Sets what the prompt is for.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.with(|it| it.description = Some(description.into()))
    }

    /// Adds keywords for finding the prompt.
    pub fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        self.with(|it| it.tags.extend(tags.into_iter().map(Into::into)))
    }

    /// Adds a test of the prompt.
    pub fn test(self, test: Value) -> Self {
        self.with(|it| it.tests.push(test))
    }

    /// Sets the system text.
    pub fn system(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.system = Some(text.into()))
    }

    /// Sets the user text of calls that have no user message.
    pub fn prompt(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.prompt = Some(text.into()))
    }

    /// Sets the text that is resolved to this turn's user message. If the user says the same, it is sent once; if
    /// they differ, it comes after what the user says.
    pub fn user(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.user = vec![UserMessage::text(text)])
    }

    /// Adds a message to the user slot, see [`user`](Self::user).
    pub fn user_message(self, message: UserMessage) -> Self {
        self.with(|it| it.user.push(message))
    }

    /// Sets the text that becomes the user's message of a turn whose request brings no text of the user. It is recorded
    /// in the thread as what the user said, so a client sends a text once: as an input.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use contexture_compose::{Prompt, ResolveOptions, Text};
    /// use serde_json::json;
    ///
    /// let question = || Text::template("{{ input.question }}");
    /// let prompt = Prompt::builder("ask").said_by_user(question()?).user(question()?).build()?;
    /// let pass = prompt.resolve(ResolveOptions::new(json!({"question": "Where is it?"}))).await?;
    /// assert_eq!(pass.request().messages.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn said_by_user(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.user_message = Some(text.into()))
    }

    /// Sets which views include what its turns say. A turn that is not part of the history is read by the model while
    /// it runs, and not by later turns.
    pub fn visibility(self, visibility: Visibility) -> Self {
        self.with(|it| it.visibility = Some(visibility))
    }

    /// Adds a message to the prompt's own list.
    pub fn message(self, role: Role, text: impl Into<Text>) -> Self {
        self.with(|it| it.messages.push(MessageText { role, text: text.into() }))
    }

    /// Adds an entry.
    pub fn include(self, entry: impl Into<Entry>) -> Self {
        self.with(|it| it.entries.push(entry.into()))
    }

    /// Adds entries.
    pub fn include_all<E: Into<Entry>>(self, entries: impl IntoIterator<Item = E>) -> Self {
        self.with(|it| it.entries.extend(entries.into_iter().map(Into::into)))
    }

    /// Adds a contributor.
    pub fn contribute(self, contributor: impl Contributor + 'static) -> Self {
        self.include(Entry::Contributor(Arc::new(contributor)))
    }

    /// Adds a value to the context slot: an object for the tag tree, or a string for a separate message.
    pub fn context(self, value: impl Into<TagValue>) -> Self {
        self.with(|it| it.context.push(value.into()))
    }

    /// Declares the input by a JSON Schema.
    pub fn input_schema(self, schema: Schema) -> Self {
        self.with(|it| it.input = Some(schema))
    }

    /// Declares the answer by a JSON Schema.
    pub fn output_schema(self, schema: Schema) -> Self {
        self.with(|it| it.output = Some(schema))
    }

    /// Lets the prompt's own declaration of an input key override an entry's.
    pub fn override_key(self, key: impl Into<String>) -> Self {
        self.with(|it| it.overrides.push(key.into()))
    }

    /// Sets how input strings are escaped and sanitized before anything reads them.
    pub fn input_policy(self, policy: InputPolicy) -> Self {
        self.with(|it| it.input_policy = policy)
    }

    /// Sets the model, `provider/model`.
    pub fn model(self, model: impl Into<String>) -> Self {
        self.with(|it| it.model = Some(model.into()))
    }

    /// Sets the generation settings.
    pub fn settings(self, settings: Settings) -> Self {
        self.with(|it| it.settings = settings)
    }

    /// Adds changes for a model, a provider, or all models (`*`).
    pub fn adapt(self, key: impl Into<String>, adaptation: Adaptation) -> Self {
        self.with(|it| {
            it.adapt.insert(key.into(), adaptation);
        })
    }

    /// Adds a tool.
    pub fn tool(self, tool: impl Into<SharedTool>) -> Self {
        self.with(|it| it.tools.push(tool.into()))
    }

    /// Adds middleware for tool calls.
    pub fn tool_middleware(self, middleware: ToolMiddleware) -> Self {
        self.with(|it| it.tool_middleware.push(middleware))
    }

    /// Ends the loop of model calls when the condition holds. Several conditions are combined with OR.
    pub fn stop_when(self, condition: StopCondition) -> Self {
        self.with(|it| it.stop_when.push(condition))
    }

    /// Sets whether the model must use tools.
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

    /// Sets how much of the history is used.
    pub fn history(self, history: HistoryConfig) -> Self {
        self.with(|it| it.history = history)
    }

    /// Sets the functions that observe passes and runs.
    pub fn hooks(self, hooks: Hooks) -> Self {
        Self { hooks, ..self }
    }

    /// Sets all token limits.
    pub fn budget(self, budget: Budget) -> Self {
        self.with(|it| it.budget = budget)
    }

    /// Limits the tokens of the composed system text.
    pub fn token_budget(self, tokens: u32) -> Self {
        self.with(|it| it.budget.token_budget = Some(Tokens(tokens)))
    }

    /// Limits the tokens of the whole request.
    pub fn input_budget(self, tokens: u32) -> Self {
        self.with(|it| it.budget.input_budget = Some(Tokens(tokens)))
    }

    /// Sets the layout for provider caches.
    pub fn cache(self, cache: CacheConfig) -> Self {
        self.with(|it| it.cache = cache)
    }

    /// Adds a transform. It rewrites the history and the turn in flight for each request, after earlier transforms.
    pub fn transform(self, transform: impl Transform + 'static) -> Self {
        self.with(|it| it.transforms = std::mem::take(&mut it.transforms).then(transform))
    }

    /// Adds a context provider: its messages are put before the history and never stored.
    pub fn provider(self, provider: ContextProvider) -> Self {
        self.with(|it| it.providers.push(provider))
    }

    fn with(mut self, change: impl FnOnce(&mut Definition)) -> Self {
        change(&mut self.definition);
        self
    }

    fn retyped<I, O>(self) -> PromptBuilder<I, O> {
        PromptBuilder { definition: self.definition, hooks: self.hooks, types: PhantomData }
    }
}
