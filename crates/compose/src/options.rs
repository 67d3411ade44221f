//! The options of one pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Transform, Transforms};
use contexture_message::{Message, Settings, Tokens, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Budget, CacheRules, ContextProvider, EditDecision, Engine, InlineBlock, ModelLimits, Pass, Price,
    ResultView, Scope, Sent, SharedTool, Turn,
};

/// Everything that differs between passes of the same prompt.
///
/// ```
/// use contexture_compose::ResolveOptions;
/// use serde_json::json;
///
/// let options = ResolveOptions::new(json!({"plan": "pro"})).model("openai/gpt-5-mini");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResolveOptions {
    /// The input, a JSON object.
    pub input: Value,
    /// The session, tenant and user that the pass is for.
    pub scope: Scope,
    /// The provider, if the model's name does not include it.
    pub provider: Option<String>,
    /// The model, `model` or `provider/model`; overrides the prompt's own.
    pub model: Option<String>,
    /// The token limits of the model.
    pub limits: ModelLimits,
    /// How the provider caches; by default derived from the model's name.
    pub cache_rules: Option<CacheRules>,
    /// Settings that override those of the prompt and its adaptations.
    pub settings: Settings,
    /// Tools of the call site; they replace others with the same name.
    pub tools: Vec<SharedTool>,
    /// Tools that are offered only if no other tool has their name.
    pub spare_tools: Vec<SharedTool>,
    /// A spare tool that reads a whole tool result. It is offered if a result is shown as a preview, see `results`.
    pub result_reader: Option<SharedTool>,
    /// Overrides the prompt's tool choice.
    pub tool_choice: Option<ToolChoice>,
    /// Limits that override the prompt's, each only if it is set.
    pub budget: Budget,
    /// Finished turns, oldest first.
    pub history: Vec<Turn>,
    /// What part of the thread is missing from `history`, and why, oldest first. It costs no tokens but is explained.
    pub absent: Vec<Absence>,
    /// How large tool results in `history` and `in_flight_turn`, as one list in that order, are shown; by default
    /// whole.
    pub results: Option<ResultView>,
    /// The messages of this turn so far, with its durable user message if there is one.
    pub in_flight: Vec<Arc<Message>>,
    /// The messages of this turn that a log holds so far; they come before `in_flight`. Unlike plain messages, a turn
    /// built from a log may contain envelopes of the engine, which are preserved.
    pub in_flight_turn: Option<Turn>,
    /// Whether `in_flight_turn` already contains its envelopes, as in a later step of a turn, see [`Pass::envelope`].
    /// Nothing is then added to the envelope: blocks of the user message are not evaluated.
    pub enclosed: bool,
    /// Blocks of this request, for the envelope of the user message.
    pub blocks: Vec<InlineBlock>,
    /// Bodies that the thread has pinned, by block name (or `provider:<name>`), see [`Pass::cached_blocks`]. A pinned
    /// block keeps this body even if its definition has changed; its function does not run.
    pub pinned: BTreeMap<String, Arc<str>>,
    /// Evaluates the unpinned part of the frozen prefix again, even if its contributions are still cached.
    pub anew: bool,
    /// Replaces the prompt's own user messages, for example after a guardrail rewrote them. With an empty list the
    /// prompt adds nothing to what is in flight.
    pub user: Option<Arc<[Message]>>,
    /// Standing instructions of the thread; they follow the prompt's own system text.
    pub instructions: Option<Arc<str>>,
    /// The previous step of the same turn: whatever does not change with the turn is reused from it.
    pub continues: Option<Pass>,
    /// The same call, resolved before more of its turn was recorded: nothing is evaluated a second time.
    pub repeats: Option<Pass>,
    /// What the thread sent before, for the cache forecast, see [`Pass::sent`].
    pub previous: Option<Arc<Sent>>,
    /// How long ago that was. Providers discard a cache that is not read for a while.
    pub idle: Option<Duration>,
    /// The price of the model's tokens.
    pub price: Option<Price>,
    /// The edits of earlier bytes that were weighed for this pass, see [`weigh`](crate::weigh); they are explained.
    pub edits: Vec<EditDecision>,
    /// Ports to use in place of the prompt's own.
    pub engine: Option<Engine>,
    /// Transforms of the history and the turn in flight for this request; they run after the prompt's own.
    pub transforms: Transforms,
    /// Context providers of this request; they come after the prompt's own.
    pub providers: Vec<ContextProvider>,
}

/// A part of the thread that is missing from the history passed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The missing part, such as `history:t1..t7`.
    pub source: String,
    /// Why the part is missing.
    pub reason: String,
}

impl ResolveOptions {
    /// Returns the options for an input given as JSON.
    pub fn new(input: Value) -> Self {
        Self { input, ..Self::default() }
    }

    /// Returns the options for a typed input.
    pub fn for_input(input: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_value(input).map(Self::new)
    }

    /// Sets the model.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the provider and the model.
    #[must_use]
    pub fn provider_model(mut self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        (self.provider, self.model) = (Some(provider.into()), Some(model.into()));
        self
    }

    /// Limits the tokens of the composed system text.
    #[must_use]
    pub fn token_budget(mut self, tokens: u32) -> Self {
        self.budget.token_budget = Some(Tokens(tokens));
        self
    }

    /// Limits the tokens of the whole request.
    #[must_use]
    pub fn input_budget(mut self, tokens: u32) -> Self {
        self.budget.input_budget = Some(Tokens(tokens));
        self
    }

    /// Sets settings that override those of the prompt and its adaptations.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the ports to use in place of the prompt's own.
    #[must_use]
    pub fn engine(mut self, engine: &Engine) -> Self {
        self.engine = Some(engine.clone());
        self
    }

    /// Sets the history.
    #[must_use]
    pub fn history(mut self, turns: Vec<Turn>) -> Self {
        self.history = turns;
        self
    }

    /// Adds the user's message of this turn.
    #[must_use]
    pub fn user_message(mut self, text: impl Into<String>) -> Self {
        self.in_flight.push(Arc::new(Message::user(text)));
        self
    }

    /// Adds a block of this request.
    #[must_use]
    pub fn block(mut self, name: impl Into<String>, body: impl Into<String>) -> Self {
        self.blocks.push(InlineBlock { name: name.into(), body: body.into(), order: 0 });
        self
    }

    /// Adds a transform of this request.
    #[must_use]
    pub fn transform(mut self, transform: impl Transform + 'static) -> Self {
        self.transforms = self.transforms.then(transform);
        self
    }

    /// Adds a context provider of this request.
    #[must_use]
    pub fn provider(mut self, provider: ContextProvider) -> Self {
        self.providers.push(provider);
        self
    }

    /// Pins the frozen prefix of an earlier pass.
    #[must_use]
    pub fn pinned_by(mut self, pass: &Pass) -> Self {
        self.pinned.extend(pass.cached_blocks().into_iter().map(|it| (it.name.to_string(), it.body)));
        self
    }

    /// Sets the previous pass of the thread, for the cache forecast.
    #[must_use]
    pub fn previous(mut self, pass: &Pass) -> Self {
        self.previous = Some(pass.sent());
        self
    }
}
