//! What differs from one pass to the next.

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

/// Everything that differs from one pass of a prompt to the next.
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
    /// Who the pass is for.
    pub scope: Scope,
    /// The provider, if the model's name does not say it.
    pub provider: Option<String>,
    /// The model, `model` or `provider/model`; wins over the prompt's own.
    pub model: Option<String>,
    /// What the model can take.
    pub limits: ModelLimits,
    /// How the provider caches; by default known from the model's name.
    pub cache_rules: Option<CacheRules>,
    /// Settings that win over the prompt's and its adaptations'.
    pub settings: Settings,
    /// Tools of the call site; they replace others of the same name.
    pub tools: Vec<SharedTool>,
    /// Tools that are offered where no other has their name.
    pub spare_tools: Vec<SharedTool>,
    /// A spare tool that reads the whole of a result: it is offered where one is shown as a preview, see `results`.
    pub result_reader: Option<SharedTool>,
    /// Wins over the prompt's.
    pub tool_choice: Option<ToolChoice>,
    /// Limits that win over the prompt's, each where it is set.
    pub budget: Budget,
    /// Finished turns, oldest first.
    pub history: Vec<Turn>,
    /// What of the thread is not in `history`, and why, oldest first. It costs nothing and is explained.
    pub absent: Vec<Absence>,
    /// How large tool results of `history` and `in_flight_turn`, one list in that order, are shown; by default whole.
    pub results: Option<ResultView>,
    /// What has happened in this turn so far, with its durable user message if there is one.
    pub in_flight: Vec<Arc<Message>>,
    /// What a log holds of this turn so far; it stands before `in_flight`. Unlike plain messages, a turn that was built from
    /// a log may hold envelopes of the engine, and they stay what they are.
    pub in_flight_turn: Option<Turn>,
    /// Whether `in_flight_turn` holds its envelopes already, as a later step of a turn does, see [`Pass::envelope`]. Then
    /// nothing is put into the envelope again: blocks of the user's message are not evaluated.
    pub enclosed: bool,
    /// Blocks of this request, for the envelope of the user's message.
    pub blocks: Vec<InlineBlock>,
    /// Bodies that the thread has pinned, by the names of their blocks (and `provider:<name>`), see [`Pass::cached_blocks`]. Such a block says what is
    /// pinned, whatever its definition says now; its function is not run.
    pub pinned: BTreeMap<String, Arc<str>>,
    /// Evaluates what belongs to the frozen prefix and is not pinned anew, also where it is remembered for a time.
    pub anew: bool,
    /// What stands in the place of the prompt's own messages of the user, such as after a guardrail rewrote them. An empty
    /// list means that the prompt adds nothing to what is in flight.
    pub user: Option<Arc<[Message]>>,
    /// Standing instructions of the thread; they follow the prompt's own system text.
    pub instructions: Option<Arc<str>>,
    /// The previous step of the same turn: what does not change with the turn is taken over from it.
    pub continues: Option<Pass>,
    /// The same call, resolved before more of its turn was on record: nothing is evaluated a second time.
    pub repeats: Option<Pass>,
    /// What was sent in the thread before, for the cache forecast, see [`Pass::sent`].
    pub previous: Option<Arc<Sent>>,
    /// How long ago that was: a cache that is not read is lost after a while.
    pub idle: Option<Duration>,
    /// What the model's tokens cost.
    pub price: Option<Price>,
    /// Which edits of earlier bytes were weighed for this pass, see [`weigh`](crate::weigh); they are explained.
    pub edits: Vec<EditDecision>,
    /// Other ports than the prompt's own.
    pub engine: Option<Engine>,
    /// What rewrites the history and the turn in flight for this request, behind the prompt's own transforms.
    pub transforms: Transforms,
    /// Context providers of this request, behind the prompt's own.
    pub providers: Vec<ContextProvider>,
}

/// Something of the thread that is not in the history that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// What, such as `history:t1..t7`.
    pub source: String,
    /// Why.
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

    /// Bounds the composed system text.
    #[must_use]
    pub fn token_budget(mut self, tokens: u32) -> Self {
        self.budget.token_budget = Some(Tokens(tokens));
        self
    }

    /// Bounds the whole request.
    #[must_use]
    pub fn input_budget(mut self, tokens: u32) -> Self {
        self.budget.input_budget = Some(Tokens(tokens));
        self
    }

    /// Sets settings that win over the prompt's and its adaptations'.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the ports.
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

    /// Pins everything that the frozen prefix of an earlier pass said.
    #[must_use]
    pub fn pinned_by(mut self, pass: &Pass) -> Self {
        self.pinned.extend(pass.cached_blocks().into_iter().map(|it| (it.name.to_string(), it.body)));
        self
    }

    /// Sets the previous pass.
    #[must_use]
    pub fn previous(mut self, pass: &Pass) -> Self {
        self.previous = Some(pass.sent());
        self
    }
}
