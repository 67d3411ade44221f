//! Contributors, which all entries become.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use contexture_history::SystemEvent;
use contexture_message::{Evidence, Message, Tokens};
use futures_util::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Entry;
use crate::BoxError;
use crate::define::checks::{Constraint, Guardrail};
use crate::define::{Call, Predicate, Schema, Text};
use crate::segment::{FrozenBody, Priority, Runner, SharedText, SharedTool, Source, Trust, Volatility};

/// Contributes to a pass.
///
/// Implementors promise that the same call gives the same contribution, and that dropping the future stops the work.
/// Callers rely on `declare` being cheap and constant, and on nothing running before the gate has returned `true`.
///
/// ```
/// use contexture_compose::{BoxError, BoxFuture, Call, Contribution, Contributor};
///
/// struct Weather;
///
/// impl Contributor for Weather {
///     fn id(&self) -> &str {
///         "weather"
///     }
///
///     fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
///         Box::pin(async move {
///             let city = call.input.value()["city"].as_str().unwrap_or("Osaka").to_owned();
///             Ok(Contribution::text(format!("It is sunny in {city}."))) // Await a service here.
///         })
///     }
/// }
/// ```
pub trait Contributor: Send + Sync {
    /// Returns the id that identifies it in an Explanation, `contributor:<id>`.
    fn id(&self) -> &str;

    /// Makes the contribution. Runs concurrently with all others.
    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>>;

    /// Returns whether it is included. If `false`, nothing of it runs.
    fn gate(&self, _call: &Call) -> Result<bool, BoxError> {
        Ok(true)
    }

    /// Returns whether [`gate`](Contributor::gate) can return `false`. If it cannot, every input must have the keys
    /// that the contributor requires.
    fn has_gate(&self) -> bool {
        true
    }

    /// Returns what is known before any call.
    fn declare(&self) -> Declaration {
        Declaration::default()
    }
}

/// What an entry declares before any call.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// The schema of the input that it reads.
    pub input: Option<Schema>,
    /// Entries that it includes; they are placed before it.
    pub entries: Vec<Entry>,
    /// Its placement, priority and deadline, and other options.
    pub profile: Profile,
    /// The family of contributors that it belongs to, if any.
    pub family: Option<String>,
    /// What it reads of the conversation. By default nothing, which saves the cost of collecting it.
    pub conversation: ConversationUse,
    /// What Explanations and errors call it, if not `contributor:<id>`.
    pub source: Option<Source>,
    /// How it is joined with others of its kind that a pass includes.
    pub joint: Option<Joint>,
}

/// What an entry adds to the one that several are joined to; only their kind knows its type.
pub type JointPart = Arc<dyn Any + Send + Sync>;

/// Joins the entries of one kind that a pass includes to one, which takes the place of the first: two entries that each
/// list skills make one list.
#[derive(Clone)]
pub struct Joint {
    /// Names the kind: entries with the same name are joined.
    pub kind: &'static str,
    /// What this entry adds.
    pub part: JointPart,
    /// Makes one contributor of several parts, which are in resolved order.
    pub join: fn(&[JointPart]) -> Arc<dyn Contributor>,
}

impl fmt::Debug for Joint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joint").field(&self.kind).finish()
    }
}

/// What a contributor reads of the conversation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ConversationUse {
    /// Nothing. The contributor runs for each request, unless its volatility says otherwise.
    #[default]
    Nothing,
    /// What was said when the turn began, see [`Call::conversation`] and [`Call::user_text`]. The contributor runs once
    /// per turn; later steps reuse its contribution.
    AtTurnStart,
}

/// The options of an entry, such as its placement, priority and deadline.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Its priority under a budget: the lowest is dropped first.
    pub priority: Priority,
    /// Whether it is exempt from being shortened or dropped.
    pub pinned: bool,
    /// Whether the author declares its bytes stable.
    pub cached: bool,
    /// How often its bytes change; inferred if not set.
    pub volatility: Option<Volatility>,
    /// Which message its text belongs to.
    pub placement: Placement,
    /// Its order among entries of the same placement, except where the author's order decides.
    pub rank: Rank,
    /// Where its content comes from, for policies.
    pub trust: Trust,
    /// Under a tight budget, it is cut to this many tokens before it is dropped.
    pub max_tokens: Option<Tokens>,
    /// Shorter versions to try under a tight budget before it is dropped, longest first.
    pub shorter: Vec<Text>,
    /// How long it may take.
    pub deadline: Option<Duration>,
    /// What happens to the pass if it fails.
    pub on_error: OnError,
    /// How long its contribution may be reused for the same input.
    pub remember: Option<Duration>,
}

/// Which message the text of an entry belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Placement {
    /// The composed system message, in the author's order.
    #[default]
    System,
    /// The frozen prefix of the system message, after the prompt's own text.
    Prefix,
    /// The end of the system message.
    SystemLast,
    /// The hidden envelope of this turn's user message.
    User,
    /// The hidden envelope of the first user message of the conversation.
    FirstUser,
    /// The reminders behind this turn's user message, in an envelope of their own.
    Reminders,
}

impl Placement {
    /// Returns whether the author's order decides; for the other placements the rank does.
    pub(crate) fn is_authors(self) -> bool {
        self == Placement::System
    }
}

/// The order of an entry among those of the same placement: lower first, then by name. An entry without a name comes
/// before the named ones of the same order.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Rank {
    /// Lower comes first.
    pub order: i32,
    /// Breaks ties between equal orders.
    pub name: String,
}

/// What happens to a pass when a contributor fails.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnError {
    /// The pass fails.
    #[default]
    Fail,
    /// The entry is left out and the reason is recorded.
    Skip,
    /// As [`Skip`](OnError::Skip), and the Explanation also warns.
    Warn,
}

/// What a contributor adds to a pass.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    /// Texts, each a separate piece of the system message.
    pub pieces: Vec<Piece>,
    /// Values for the tag tree: objects, in order.
    pub values: Vec<Value>,
    /// Messages that go before the history and are never stored.
    pub messages: Vec<Message>,
    /// Whether the messages keep the engine's tags: everything in them that comes from outside was neutralised.
    pub is_composed: bool,
    /// Tools for the model.
    pub tools: Vec<SharedTool>,
    /// Checks of the answer.
    pub constraints: Vec<Constraint>,
    /// Checks of input and output.
    pub guardrails: Vec<Guardrail>,
    /// Arbitrary values for the application.
    pub metadata: BTreeMap<String, Value>,
    /// Further entries, placed where the contributor is.
    pub entries: Vec<Entry>,
    /// Code to run when the turn is over, and before its thread is compacted. The agent runs it.
    pub hooks: Vec<Runner>,
    /// Events for the thread's log. The agent records them with a turn that begins, before the user's message; a turn
    /// that is recorded already gets none.
    pub events: Vec<SystemEvent>,
}

/// One text of a contribution.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The content of the piece.
    pub text: SharedText,
    /// Its own priority, if it differs from the contributor's: the best search hit should be dropped last.
    pub priority: Option<Priority>,
    /// Shorter versions to use if it does not fit, longest first.
    pub shorter: Vec<SharedText>,
    /// What the thread keeps of it, if it belongs to the frozen prefix.
    pub frozen: Option<FrozenBody>,
    /// Where it comes from, if the Explanation should name more than the contributor: the chunk of a search hit.
    pub source: Option<Source>,
    /// The search result that the text stands for. In the envelope of the user message it is sent in place of the text,
    /// so that the model can cite it.
    pub evidence: Option<Arc<Evidence>>,
    /// What the Explanation tells about it besides its fate, such as the rank and the score of a search hit.
    pub detail: Option<Arc<Value>>,
    /// Why it is left out, if its contributor decided that. It is explained, not sent.
    pub excluded: Option<String>,
}

impl Piece {
    /// Returns a piece that uses its contributor's priority.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self::from(SharedText::authored(text.as_ref()))
    }

    /// Returns a piece that keeps the engine's tags inside of it, see [`SharedText::composed`].
    pub fn composed(text: impl AsRef<str>) -> Self {
        Self::from(SharedText::composed(text.as_ref()))
    }
}

impl From<SharedText> for Piece {
    fn from(text: SharedText) -> Self {
        Self {
            text,
            priority: None,
            shorter: Vec::new(),
            frozen: None,
            source: None,
            evidence: None,
            detail: None,
            excluded: None,
        }
    }
}

impl Contribution {
    /// Returns a contribution of one text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::default().and_text(text)
    }

    /// Adds a text.
    #[must_use]
    pub fn and_text(mut self, text: impl AsRef<str>) -> Self {
        self.pieces.push(Piece::new(text));
        self
    }

    /// Adds a text with its own priority.
    #[must_use]
    pub fn and_ranked(mut self, text: impl AsRef<str>, priority: Priority) -> Self {
        self.pieces.push(Piece { priority: Some(priority), ..Piece::new(text) });
        self
    }

    /// Adds tag values.
    #[must_use]
    pub fn and_values(mut self, values: Value) -> Self {
        self.values.push(values);
        self
    }

    /// Adds a message before the history.
    #[must_use]
    pub fn and_message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Adds a value for the application.
    #[must_use]
    pub fn and_metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds a check of the answer.
    #[must_use]
    pub fn and_constraint(mut self, constraint: Constraint) -> Self {
        self.constraints.push(constraint);
        self
    }

    /// Adds a guardrail.
    #[must_use]
    pub fn and_guardrail(mut self, guardrail: Guardrail) -> Self {
        self.guardrails.push(guardrail);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn and_tool(mut self, tool: impl Into<SharedTool>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds an entry of any kind.
    #[must_use]
    pub fn and_entry(mut self, entry: impl Into<Entry>) -> Self {
        self.entries.push(entry.into());
        self
    }
}

type ContributeFn = dyn Fn(Call) -> BoxFuture<'static, Result<Contribution, BoxError>> + Send + Sync;

/// A contributor made from a closure. See [`contributor`] and [`injectable`].
///
/// `In` is the type of the input that it reads, see [`input`](Self::input).
pub struct FnContributor<In = Value> {
    parts: ContributorParts,
    types: PhantomData<fn(&In)>,
}

#[derive(Clone)]
struct ContributorParts {
    id: String,
    kind: FnKind,
    gate: Option<Predicate>,
    declaration: Declaration,
    contribute: Arc<ContributeFn>,
}

/// The word that names a closure's kind in an Explanation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FnKind {
    Contributor,
    Injectable,
}

/// Returns a contributor made from an async closure.
///
/// ```
/// use contexture_compose::{Contribution, contributor};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Ticket { plan: String }
/// let greeting = contributor("greeting", |call| async move {
///     let user = call.scope.user.clone().unwrap_or_default();
///     Ok(Contribution::text(format!("You talk to {user}.")))
/// })
/// .input::<Ticket>()
/// .when(|it| it.plan == "pro");
/// ```
pub fn contributor<F>(
    id: impl Into<String>,
    contribute: impl Fn(Call) -> F + Send + Sync + 'static,
) -> FnContributor
where
    F: Future<Output = Result<Contribution, BoxError>> + Send + 'static,
{
    FnContributor::new(FnKind::Contributor, id.into(), Arc::new(move |call| contribute(call).boxed()))
}

/// Returns an injectable: contexts, tools, checks and metadata produced by an async closure.
///
/// ```
/// use contexture_compose::{Contribution, injectable};
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Place { city: String }
/// let weather = injectable("weather", |call| async move {
///     let place = call.input.get::<Place>()?;
///     Ok(Contribution::text(format!("It rains in {}.", place.city)))
/// })
/// .input::<Place>();
/// ```
pub fn injectable<F>(
    id: impl Into<String>,
    inject: impl Fn(Call) -> F + Send + Sync + 'static,
) -> FnContributor
where
    F: Future<Output = Result<Contribution, BoxError>> + Send + 'static,
{
    FnContributor::new(FnKind::Injectable, id.into(), Arc::new(move |call| inject(call).boxed()))
}

impl FnContributor {
    fn new(kind: FnKind, id: String, contribute: Arc<ContributeFn>) -> Self {
        let parts =
            ContributorParts { id, kind, gate: None, declaration: Declaration::default(), contribute };
        Self { parts, types: PhantomData }
    }

    /// Declares the type of the input that it reads; predicates added after this call receive that type.
    #[must_use]
    pub fn input<In: JsonSchema>(self) -> FnContributor<In> {
        FnContributor { parts: self.input_schema(Schema::of::<In>()).parts, types: PhantomData }
    }
}

impl<In: DeserializeOwned + Send + Sync + 'static> FnContributor<In> {
    /// Includes it only if the predicate holds.
    #[must_use]
    pub fn when(self, predicate: impl Fn(&In) -> bool + Send + Sync + 'static) -> Self {
        self.with(|it| it.gate = Some(Predicate::of(predicate)))
    }
}

impl<In> FnContributor<In> {
    /// Declares the schema of the input that it reads.
    #[must_use]
    pub fn input_schema(self, schema: Schema) -> Self {
        self.with(|it| it.declaration.input = Some(schema))
    }

    /// Includes another entry, placed before this one.
    #[must_use]
    pub fn include(self, entry: impl Into<Entry>) -> Self {
        self.with(|it| it.declaration.entries.push(entry.into()))
    }

    /// Sets the family of contributors that it belongs to, for the timings in the Explanation.
    #[must_use]
    pub fn family(self, family: impl Into<String>) -> Self {
        self.with(|it| it.declaration.family = Some(family.into()))
    }

    /// Sets all its options.
    #[must_use]
    pub fn profile(self, profile: Profile) -> Self {
        self.with(|it| it.declaration.profile = profile)
    }

    /// Sets its priority under a budget: the lowest is dropped first.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|it| it.declaration.profile.priority = priority)
    }

    /// Sets how long it may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|it| it.declaration.profile.deadline = Some(deadline))
    }

    /// Sets what happens to the pass if it fails.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|it| it.declaration.profile.on_error = on_error)
    }

    pub(crate) fn kind(&self) -> FnKind {
        self.parts.kind
    }

    /// Erases the input type, which is only needed while defining.
    pub(crate) fn untyped(self) -> FnContributor {
        FnContributor { parts: self.parts, types: PhantomData }
    }

    fn with(mut self, change: impl FnOnce(&mut ContributorParts)) -> Self {
        change(&mut self.parts);
        self
    }
}

impl<In> Clone for FnContributor<In> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), types: PhantomData }
    }
}

impl<In> Contributor for FnContributor<In> {
    fn id(&self) -> &str {
        &self.parts.id
    }

    fn gate(&self, call: &Call) -> Result<bool, BoxError> {
        self.parts.gate.as_ref().map_or(Ok(true), |it| it.holds(call))
    }

    fn has_gate(&self) -> bool {
        self.parts.gate.is_some()
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        (self.parts.contribute)(call)
    }

    fn declare(&self) -> Declaration {
        self.parts.declaration.clone()
    }
}

impl<In> fmt::Debug for FnContributor<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnContributor").field("id", &self.parts.id).finish_non_exhaustive()
    }
}
