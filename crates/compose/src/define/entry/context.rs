//! Contexts, the most common kind of entry.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::Tokens;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Entry;
use super::contributor::{OnError, Placement, Profile};
use crate::define::checks::{Constraint, Guardrail};
use crate::define::{Predicate, Schema, TagValue, Text};
use crate::segment::{SharedTool, Trust, Volatility};

/// Something the model should know: text or tag values, with the input, tools and checks that belong to it.
///
/// A clone is the same context: included twice, it is rendered once.
///
/// `In` is the type of the input that its functions read, see [`input`](Self::input).
///
/// ```
/// use contexture_compose::Context;
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Ticket { plan: String }
/// let refunds = Context::text("refunds", "Refunds take five days.").priority(80);
/// let plan = Context::new("plan")
///     .input::<Ticket>()
///     .text_with(|it| format!("The plan is {}.", it.plan))
///     .when(|it| it.plan != "free");
/// ```
pub struct Context<In = Value> {
    pub(crate) parts: Arc<ContextParts>,
    types: PhantomData<fn(&In)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ContextParts {
    pub(crate) id: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) text: Option<Text>,
    pub(crate) values: Option<TagValue>,
    pub(crate) when: Option<Predicate>,
    pub(crate) input: Option<Schema>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) tools: Vec<SharedTool>,
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) guardrails: Vec<Guardrail>,
    pub(crate) priority: Option<f64>,
    pub(crate) profile: Profile,
}

impl<In> Clone for Context<In> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts), types: PhantomData }
    }
}

impl<In> fmt::Debug for Context<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.parts).finish()
    }
}

impl From<ContextParts> for Context {
    fn from(parts: ContextParts) -> Self {
        Self { parts: Arc::new(parts), types: PhantomData }
    }
}

impl Context {
    /// Returns a context with only an id, for adding values, tools or checks without text.
    pub fn new(id: impl Into<String>) -> Self {
        Self::from(ContextParts { id: Some(id.into()), ..ContextParts::default() })
    }

    /// Returns a context with a text.
    pub fn text(id: impl Into<String>, text: impl Into<Text>) -> Self {
        Self::new(id).with(|it| it.text = Some(text.into()))
    }

    /// Returns a context without an id. An Explanation identifies it by its position: `context[2]`.
    pub fn unnamed(text: impl Into<Text>) -> Self {
        Self::from(ContextParts { text: Some(text.into()), ..ContextParts::default() })
    }

    /// Declares the type of the input that it reads; closures added after this call receive that type.
    #[must_use]
    pub fn input<In: JsonSchema>(self) -> Context<In> {
        Context { parts: self.input_schema(Schema::of::<In>()).parts, types: PhantomData }
    }
}

/// Methods for conditions, texts and values computed from the input.
impl<In: DeserializeOwned + Send + Sync + 'static> Context<In> {
    /// Includes it only if the predicate holds.
    #[must_use]
    pub fn when(self, predicate: impl Fn(&In) -> bool + Send + Sync + 'static) -> Self {
        self.when_predicate(Predicate::of(predicate))
    }

    /// Sets a function that computes its text from the input.
    #[must_use]
    pub fn text_with<R: Into<String>>(self, text: impl Fn(&In) -> R + Send + Sync + 'static) -> Self {
        self.with(|it| it.text = Some(Text::of(text)))
    }

    /// Sets a function that computes its tag tree values from the input.
    #[must_use]
    pub fn values_with(self, values: impl Fn(&In) -> Value + Send + Sync + 'static) -> Self {
        self.values(TagValue::of(values))
    }
}

impl<In> Context<In> {
    /// Sets the file it was read from, for errors.
    #[must_use]
    pub fn file(self, file: impl Into<String>) -> Self {
        self.with(|it| it.file = Some(file.into()))
    }

    /// Sets its values for the tag tree.
    #[must_use]
    pub fn values(self, values: impl Into<TagValue>) -> Self {
        self.with(|it| it.values = Some(values.into()))
    }

    /// Includes it only if the predicate holds.
    #[must_use]
    pub fn when_predicate(self, predicate: Predicate) -> Self {
        self.with(|it| it.when = Some(predicate))
    }

    /// Declares the schema of the input that it reads.
    #[must_use]
    pub fn input_schema(self, schema: Schema) -> Self {
        self.with(|it| it.input = Some(schema))
    }

    /// Includes another entry, placed before this one.
    #[must_use]
    pub fn include(self, entry: impl Into<Entry>) -> Self {
        self.with(|it| it.entries.push(entry.into()))
    }

    /// Adds a tool. The tool is offered even if the text is dropped.
    #[must_use]
    pub fn tool(self, tool: impl Into<SharedTool>) -> Self {
        self.with(|it| it.tools.push(tool.into()))
    }

    /// Adds a check of the answer.
    #[must_use]
    pub fn constraint(self, constraint: Constraint) -> Self {
        self.with(|it| it.constraints.push(constraint))
    }

    /// Adds a guardrail.
    #[must_use]
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        self.with(|it| it.guardrails.push(guardrail))
    }

    /// Sets its priority under a budget, 0 to 100: the lowest is dropped first. Checked when the prompt is built.
    #[must_use]
    pub fn priority(self, priority: impl Into<f64>) -> Self {
        self.with(|it| it.priority = Some(priority.into()))
    }

    /// Exempts it from being shortened or dropped.
    #[must_use]
    pub fn pinned(self) -> Self {
        self.with(|it| it.profile.pinned = true)
    }

    /// Declares its bytes stable, which moves it to the front, after the prompt's own text.
    #[must_use]
    pub fn cached(self) -> Self {
        self.with(|it| it.profile.cached = true)
    }

    /// Declares how often its bytes change.
    #[must_use]
    pub fn volatility(self, volatility: Volatility) -> Self {
        self.with(|it| it.profile.volatility = Some(volatility))
    }

    /// Sets which message its text belongs to.
    #[must_use]
    pub fn placement(self, placement: Placement) -> Self {
        self.with(|it| it.profile.placement = placement)
    }

    /// Sets where its content comes from, for policies.
    #[must_use]
    pub fn trust(self, trust: Trust) -> Self {
        self.with(|it| it.profile.trust = trust)
    }

    /// Under a tight budget, cuts it to this many tokens before it is dropped.
    #[must_use]
    pub fn max_tokens(self, tokens: Tokens) -> Self {
        self.with(|it| it.profile.max_tokens = Some(tokens))
    }

    /// Adds a shorter version to try under a tight budget before it is dropped. Add several longest first.
    #[must_use]
    pub fn shorter(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.profile.shorter.push(text.into()))
    }

    /// Limits how long its functions may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|it| it.profile.deadline = Some(deadline))
    }

    /// Sets what happens to the pass if one of its functions fails.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|it| it.profile.on_error = on_error)
    }

    /// Lets the engine reuse its contribution for the same input for this long.
    #[must_use]
    pub fn remember(self, for_how_long: Duration) -> Self {
        self.with(|it| it.profile.remember = Some(for_how_long))
    }

    pub(crate) fn with_text(self, text: Text) -> Self {
        self.with(|it| it.text = Some(text))
    }

    pub(crate) fn with_entries(self, entries: Vec<Entry>) -> Self {
        self.with(|it| it.entries = entries)
    }

    /// Erases the input type, which is only needed while defining.
    pub(crate) fn untyped(self) -> Context {
        Context { parts: self.parts, types: PhantomData }
    }

    // The parts are copied only if another clone of the context exists; the copy is then a different context.
    fn with(mut self, change: impl FnOnce(&mut ContextParts)) -> Self {
        change(Arc::make_mut(&mut self.parts));
        self
    }
}
