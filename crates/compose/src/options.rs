//! The options of one pass, in groups that callers can pass on as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_history::compaction::{Frontier, ResultLimits};
use contexture_history::{Transform, Transforms};
use contexture_message::{Message, Settings, Tokens, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use crate::cache::{EditDecision, Sent};
use crate::define::{Budget, ContextProvider, Entry, InlineBlock, ModelLimits, Scope};
use crate::evaluated::Reuse;
use crate::ports::Engine;
use crate::segment::SharedTool;
use crate::{CacheRules, Price, Turn};

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
    /// The model that the request is for.
    pub target: TargetModel,
    /// What takes the place of the prompt's own settings and limits.
    pub overrides: CallOverrides,
    /// What the call site adds to the prompt.
    pub additions: Additions,
    /// The thread and its running turn.
    pub conversation: Conversation,
    /// What is known about the provider's cache and the frozen prefix.
    pub cache: CacheState,
    /// An earlier pass whose results are reused.
    pub reuse: Option<Reuse>,
    /// Ports to use in place of the prompt's own.
    pub engine: Option<Engine>,
}

/// The model that a request is for, and what is known about it.
#[derive(Clone, Debug, Default)]
pub struct TargetModel {
    /// The provider, if the model's name does not include it.
    pub provider: Option<String>,
    /// The model, `model` or `provider/model`; overrides the prompt's own.
    pub model: Option<String>,
    /// The token limits of the model.
    pub limits: ModelLimits,
    /// How the provider caches; by default derived from the model's name.
    pub cache_rules: Option<CacheRules>,
    /// The price of the model's tokens.
    pub price: Option<Price>,
}

/// What takes the place of the prompt's own settings and limits in one pass.
#[derive(Clone, Debug, Default)]
pub struct CallOverrides {
    /// Settings that override those of the prompt and its adaptations.
    pub settings: Settings,
    /// Overrides the prompt's tool choice.
    pub tool_choice: Option<ToolChoice>,
    /// Limits that override the prompt's, each only if it is set.
    pub budget: Budget,
}

/// What the call site adds to a prompt for one pass.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Tools of the call site; they replace others with the same name.
    pub tools: Vec<SharedTool>,
    /// Tools that are offered only if no other tool has their name.
    pub spare_tools: Vec<SharedTool>,
    /// A spare tool that reads a whole tool result. It is offered if a result is shown as a preview, see
    /// [`Conversation::results`].
    pub result_reader: Option<SharedTool>,
    /// Blocks of this request, for the envelope of the user message.
    pub blocks: Vec<InlineBlock>,
    /// Entries of this request; they come after the prompt's own.
    pub entries: Vec<Entry>,
    /// Context providers of this request; they come after the prompt's own.
    pub providers: Vec<ContextProvider>,
    /// Transforms of the history and the turn in flight for this request; they run after the prompt's own.
    pub transforms: Transforms,
}

/// The thread that a pass is for, up to and including its running turn.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// Standing instructions of the thread; they follow the prompt's own system text.
    pub instructions: Option<Arc<str>>,
    /// Finished turns, oldest first.
    pub history: Vec<Turn>,
    /// What part of the thread is missing from `history`, and why, oldest first. It costs no tokens but is explained.
    pub absent: Vec<Absence>,
    /// How large tool results in `history` and `turn`, as one list in that order, are shown; by default whole.
    pub results: Option<ResultView>,
    /// The running turn as a log holds it so far. Unlike plain messages, it may contain envelopes of the engine, which
    /// are preserved.
    pub turn: Option<InFlightTurn>,
    /// Messages of the running turn that no log holds; they follow those of `turn`.
    pub in_flight: Vec<Arc<Message>>,
    /// Replaces the prompt's own user messages, for example after a guardrail rewrote them. With an empty list the
    /// prompt adds nothing to what is in flight.
    pub user: Option<Arc<[Message]>>,
}

/// How large tool results in the history and in the running turn are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultView {
    /// How many results are old, counted from the oldest in the history that is passed in.
    pub frontier: Frontier,
    /// The size limits of results.
    pub limits: ResultLimits,
}

/// The running turn, and whether this pass still adds hidden context to its user message.
#[derive(Clone, Debug)]
pub enum InFlightTurn {
    /// A turn that begins: this pass makes its envelope.
    New(Turn),
    /// A turn that was recorded with its envelope, as in a later step, see [`Pass::envelope`](crate::Pass::envelope). Nothing is added to the
    /// envelope: blocks of the user message are not evaluated.
    Recorded(Turn),
}

impl InFlightTurn {
    /// Returns the turn.
    pub fn turn(&self) -> &Turn {
        match self {
            InFlightTurn::New(turn) | InFlightTurn::Recorded(turn) => turn,
        }
    }
}

impl Conversation {
    /// Returns the running turn as its log holds it.
    pub(crate) fn logged(&self) -> Option<&Turn> {
        self.turn.as_ref().map(InFlightTurn::turn)
    }

    /// Returns whether the running turn was recorded with its envelope.
    pub(crate) fn has_envelope(&self) -> bool {
        matches!(self.turn, Some(InFlightTurn::Recorded(_)))
    }
}

/// What is known about the provider's cache and the frozen prefix of the thread.
#[derive(Clone, Debug, Default)]
pub struct CacheState {
    /// Bodies of the thread's frozen prefix, by block name (or `provider:<name>`), see [`Pass::frozen_blocks`](crate::Pass::frozen_blocks). A
    /// frozen block keeps this body even if its definition has changed; its function does not run.
    pub frozen: BTreeMap<String, Arc<str>>,
    /// Evaluates the rest of the frozen prefix again, even if its contributions are still in the memo.
    pub refresh: bool,
    /// What the thread sent before, for the cache forecast, see [`Pass::sent`](crate::Pass::sent).
    pub previous: Option<Arc<Sent>>,
    /// How long ago that was. Providers discard a cache that is not read for a while.
    pub idle: Option<Duration>,
    /// The edits of earlier bytes that were weighed for this pass, see [`weigh`](crate::weigh); they are explained.
    pub edits: Vec<EditDecision>,
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
        self.target.model = Some(model.into());
        self
    }

    /// Sets the provider and the model.
    #[must_use]
    pub fn provider_model(mut self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        (self.target.provider, self.target.model) = (Some(provider.into()), Some(model.into()));
        self
    }

    /// Limits the tokens of the composed system text.
    #[must_use]
    pub fn token_budget(mut self, tokens: u32) -> Self {
        self.overrides.budget.token_budget = Some(Tokens(tokens));
        self
    }

    /// Limits the tokens of the whole request.
    #[must_use]
    pub fn input_budget(mut self, tokens: u32) -> Self {
        self.overrides.budget.input_budget = Some(Tokens(tokens));
        self
    }

    /// Sets settings that override those of the prompt and its adaptations.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.overrides.settings = settings;
        self
    }

    /// Sets the session, tenant and user that the pass is for.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Adds a tool of this request; it replaces one with the same name.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<SharedTool>) -> Self {
        self.additions.tools.push(tool.into());
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
        self.conversation.history = turns;
        self
    }

    /// Sets the running turn.
    #[must_use]
    pub fn turn(mut self, turn: InFlightTurn) -> Self {
        self.conversation.turn = Some(turn);
        self
    }

    /// Sets the standing instructions of the thread, which follow the prompt's own system text.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.conversation.instructions = Some(text.into());
        self
    }

    /// Adds the user's message of this turn.
    #[must_use]
    pub fn user_message(mut self, text: impl Into<String>) -> Self {
        self.conversation.in_flight.push(Arc::new(Message::user(text)));
        self
    }

    /// Adds a block of this request.
    #[must_use]
    pub fn block(mut self, name: impl Into<String>, body: impl Into<String>) -> Self {
        self.additions.blocks.push(InlineBlock { name: name.into(), body: body.into(), order: 0 });
        self
    }

    /// Adds an entry of this request.
    #[must_use]
    pub fn entry(mut self, entry: impl Into<Entry>) -> Self {
        self.additions.entries.push(entry.into());
        self
    }

    /// Adds a transform of this request.
    #[must_use]
    pub fn transform(mut self, transform: impl Transform + 'static) -> Self {
        self.additions.transforms = self.additions.transforms.then(transform);
        self
    }

    /// Adds a context provider of this request.
    #[must_use]
    pub fn provider(mut self, provider: ContextProvider) -> Self {
        self.additions.providers.push(provider);
        self
    }

    /// Reuses the results of an earlier pass.
    #[must_use]
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.reuse = Some(reuse);
        self
    }
}
