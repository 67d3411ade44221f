//! A context: the entry that authors write most.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::Tokens;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::checks::{Constraint, Guardrail};
use super::{Entry, OnError, Placement, Predicate, Profile, Schema, TagValue, Text};
use crate::segment::{SharedTool, Trust, Volatility};

/// Something the model should know: text or tag values, with the input, tools and checks that belong to it.
///
/// A clone is the same context: included twice, it is rendered once.
///
/// `In` is the input that its functions read, see [`input`](Self::input).
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
    /// Returns a context with an id and nothing else: for values, tools or checks alone.
    pub fn new(id: impl Into<String>) -> Self {
        Self::from(ContextParts { id: Some(id.into()), ..ContextParts::default() })
    }

    /// Returns a context with a text.
    pub fn text(id: impl Into<String>, text: impl Into<Text>) -> Self {
        Self::new(id).with(|it| it.text = Some(text.into()))
    }

    /// Returns a context without an id, explained by its place: `context[2]`.
    pub fn unnamed(text: impl Into<Text>) -> Self {
        Self::from(ContextParts { text: Some(text.into()), ..ContextParts::default() })
    }

    /// Declares the input that it reads, by a type; closures that follow read it.
    #[must_use]
    pub fn input<In: JsonSchema>(self) -> Context<In> {
        Context { parts: self.input_schema(Schema::of::<In>()).parts, types: PhantomData }
    }
}

/// A condition, text and values that are functions of the input.
impl<In: DeserializeOwned + Send + Sync + 'static> Context<In> {
    /// Lets it take part only if the predicate holds.
    #[must_use]
    pub fn when(self, predicate: impl Fn(&In) -> bool + Send + Sync + 'static) -> Self {
        self.when_predicate(Predicate::of(predicate))
    }

    /// Sets its text to a function of the input.
    #[must_use]
    pub fn text_with<R: Into<String>>(self, text: impl Fn(&In) -> R + Send + Sync + 'static) -> Self {
        self.with(|it| it.text = Some(Text::of(text)))
    }

    /// Sets its values for the tag tree to a function of the input.
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

    /// Lets it take part only if the predicate holds.
    #[must_use]
    pub fn when_predicate(self, predicate: Predicate) -> Self {
        self.with(|it| it.when = Some(predicate))
    }

    /// Declares the input that it reads.
    #[must_use]
    pub fn input_schema(self, schema: Schema) -> Self {
        self.with(|it| it.input = Some(schema))
    }

    /// Brings another entry along; it stands before this one.
    #[must_use]
    pub fn include(self, entry: impl Into<Entry>) -> Self {
        self.with(|it| it.entries.push(entry.into()))
    }

    /// Brings a tool along. It stays even if the text is dropped.
    #[must_use]
    pub fn tool(self, tool: impl Into<SharedTool>) -> Self {
        self.with(|it| it.tools.push(tool.into()))
    }

    /// Brings a check of the answer along.
    #[must_use]
    pub fn constraint(self, constraint: Constraint) -> Self {
        self.with(|it| it.constraints.push(constraint))
    }

    /// Brings a guardrail along.
    #[must_use]
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        self.with(|it| it.guardrails.push(guardrail))
    }

    /// Sets how hard it holds on under a budget, 0 to 100. Checked when the prompt is built.
    #[must_use]
    pub fn priority(self, priority: impl Into<f64>) -> Self {
        self.with(|it| it.priority = Some(priority.into()))
    }

    /// Never shorten or drop it.
    #[must_use]
    pub fn pinned(self) -> Self {
        self.with(|it| it.profile.pinned = true)
    }

    /// Declares its bytes stable: it moves to the front, behind the prompt's own text.
    #[must_use]
    pub fn cached(self) -> Self {
        self.with(|it| it.profile.cached = true)
    }

    /// Declares how often its bytes change.
    #[must_use]
    pub fn volatility(self, volatility: Volatility) -> Self {
        self.with(|it| it.profile.volatility = Some(volatility))
    }

    /// Says which message its text belongs to.
    #[must_use]
    pub fn placement(self, placement: Placement) -> Self {
        self.with(|it| it.profile.placement = placement)
    }

    /// Says where its words come from.
    #[must_use]
    pub fn trust(self, trust: Trust) -> Self {
        self.with(|it| it.profile.trust = trust)
    }

    /// Under pressure, cut it to so many tokens before it is dropped.
    #[must_use]
    pub fn max_tokens(self, tokens: Tokens) -> Self {
        self.with(|it| it.profile.max_tokens = Some(tokens))
    }

    /// Under pressure, use this wording before it is dropped. Several: longest first.
    #[must_use]
    pub fn shorter(self, text: impl Into<Text>) -> Self {
        self.with(|it| it.profile.shorter.push(text.into()))
    }

    /// Limits how long its functions may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|it| it.profile.deadline = Some(deadline))
    }

    /// Says what a failure of its functions means.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|it| it.profile.on_error = on_error)
    }

    /// Lets the engine remember its contribution for the same input for so long.
    #[must_use]
    pub fn remember(self, for_how_long: Duration) -> Self {
        self.with(|it| it.profile.remember = Some(for_how_long))
    }

    /// Returns it without the type of its input, which nobody after the definition asks for.
    pub(crate) fn untyped(self) -> Context {
        Context { parts: self.parts, types: PhantomData }
    }

    // The parts are copied only if another clone of the context is alive; the copy is then another context.
    fn with(mut self, change: impl FnOnce(&mut ContextParts)) -> Self {
        change(Arc::make_mut(&mut self.parts));
        self
    }
}
