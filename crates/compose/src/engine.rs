//! The one place that knows the order of the stages.

use std::fmt;
use std::sync::{Arc, OnceLock};

use contexture_message::{Message, Request, Settings, TokenCounter, Tool, ToolChoice};
use serde::Serialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::arrange::{Arranged, arrange};
use crate::cache::{CacheRules, Forecast, forecast, prefix_pieces};
use crate::define::{Input, matching_keys};
use crate::explain::{Explanation, explain};
use crate::fit::fit;
use crate::gate::gate;
use crate::gather::gather;
use crate::merge::{Draft, merge};
use crate::ports::{
    AllowAll, Clock, ContextMemo, Counters, Diagnostics, Event, Ignore, InMemoryMemo, ModelCounters, Policy,
    Sink, StoppedClock,
};
use crate::render::{Rendered, render};
use crate::{Adaptation, Budget, Call, Error, ModelLimits, Prompt, Scope, Segment, Turn};

/// The ports that a pass uses. Cheap to clone; clones share what they remember.
#[derive(Clone)]
pub struct Engine {
    /// Measures time and keeps deadlines.
    pub clock: Arc<dyn Clock>,
    /// Counts tokens.
    pub counters: Arc<dyn Counters>,
    /// Remembers contributions.
    pub memo: Arc<dyn ContextMemo>,
    /// Receives events.
    pub sink: Arc<dyn Sink>,
    /// Has the last word on Segments.
    pub policy: Arc<dyn Policy>,
    /// Receives warnings.
    pub diagnostics: Arc<dyn Diagnostics>,
}

impl Default for Engine {
    /// Real token counts, a memo in memory, no clock, nobody who listens.
    fn default() -> Self {
        Self {
            clock: Arc::new(StoppedClock),
            counters: Arc::new(ModelCounters::default()),
            memo: Arc::new(InMemoryMemo::default()),
            sink: Arc::new(Ignore),
            policy: Arc::new(AllowAll),
            diagnostics: Arc::new(Ignore),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

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
    pub tools: Vec<Tool>,
    /// Wins over the prompt's.
    pub tool_choice: Option<ToolChoice>,
    /// Limits that win over the prompt's, each where it is set.
    pub budget: Budget,
    /// Finished turns, oldest first.
    pub history: Vec<Turn>,
    /// What has happened in this turn so far, with its durable user message if there is one.
    pub in_flight: Vec<Arc<Message>>,
    /// The previous pass of the thread, for the cache forecast.
    pub previous: Option<Pass>,
    /// Other ports than the prompt's own.
    pub engine: Option<Engine>,
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

    /// Sets the previous pass.
    #[must_use]
    pub fn previous(mut self, pass: &Pass) -> Self {
        self.previous = Some(pass.clone());
        self
    }
}

/// One resolution of a Prompt: what is sent, and why it looks like that. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pass(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    prompt: String,
    arranged: Arranged,
    rendered: Rendered,
    fingerprint: OnceLock<String>,
}

impl Pass {
    /// Returns the prompt's id.
    pub fn prompt(&self) -> &str {
        &self.0.prompt
    }

    /// Returns what is sent.
    pub fn request(&self) -> &Request {
        &self.0.rendered.request
    }

    /// Says why the request looks like that. Runs nothing again: it reads the same Segments.
    pub fn explain(&self) -> Explanation {
        explain(&self.0.arranged, self.request(), self.fingerprint())
    }

    /// Returns all Segments in order, with their fates.
    pub fn segments(&self) -> &[Segment] {
        &self.0.arranged.draft.segments
    }

    /// Returns what is joined from all contributors besides text and tools.
    pub fn extras(&self) -> &crate::Extras {
        &self.0.arranged.draft.extras
    }

    /// Returns the hash of the request: equal requests have equal fingerprints.
    pub fn fingerprint(&self) -> &str {
        self.0.fingerprint.get_or_init(|| {
            // Plain data with string keys: writing it as JSON can't fail.
            let bytes = serde_json::to_vec(self.request()).unwrap_or_default();
            format!("{:032x}", xxh3_128(&bytes))
        })
    }
}

/// What is settled before the first stage.
pub(crate) struct Setup<'a> {
    pub(crate) prompt: &'a Prompt,
    pub(crate) options: &'a ResolveOptions,
    pub(crate) engine: &'a Engine,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// `provider/model`, as far as it is known.
    pub(crate) model: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) adaptations: Vec<(&'a str, &'a Adaptation)>,
    pub(crate) budget: Budget,
}

impl Prompt {
    /// Resolves the prompt for an input, without calling a model.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// use contexture_compose::{Prompt, ResolveOptions, Text};
    /// use serde_json::json;
    ///
    /// let prompt = Prompt::builder("hello")
    ///     .system("You are brief.")
    ///     .user(Text::template("Greet {{ input.name }}.")?)
    ///     .build()?;
    /// let pass = prompt.resolve(ResolveOptions::new(json!({"name": "Ada"}))).await?;
    /// assert_eq!(pass.request().messages[1].as_text(), Some("Greet Ada."));
    /// assert!(pass.explain().total_tokens.0 > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn resolve(&self, options: ResolveOptions) -> Result<Pass, Error> {
        let hooks = &self.definition().hooks;
        match run(self, &options).await {
            Ok(pass) => {
                hooks.on_prepare.iter().for_each(|hook| hook(&pass));
                Ok(pass)
            }
            Err(err) => {
                let err = err.or_at(self.definition().file.as_deref().unwrap_or(self.id()));
                hooks.on_error.iter().for_each(|hook| hook(&err));
                Err(err)
            }
        }
    }
}

async fn run(prompt: &Prompt, options: &ResolveOptions) -> Result<Pass, Error> {
    let setup = Setup::new(prompt, options);
    let gated = gate(&prompt.0, &setup.call())?;
    let gathered = gather(gated, &setup).await?; // The only stage that waits for anything.
    let draft = merge(gathered, &setup)?;
    let fitted = fit(draft, &setup)?;
    let mut arranged = arrange(fitted, &setup);
    let rendered = render(&arranged);
    arranged.cache.forecast = setup.forecast(&arranged, &rendered);
    setup.report(&arranged.draft);
    let prompt = prompt.id().to_owned();
    Ok(Pass(Arc::new(Inner { prompt, arranged, rendered, fingerprint: OnceLock::new() })))
}

impl<'a> Setup<'a> {
    fn new(prompt: &'a Prompt, options: &'a ResolveOptions) -> Self {
        let definition = prompt.definition();
        let named = options.model.as_deref().or(definition.model.as_deref());
        let provider = options.provider.as_deref();
        let model = match (provider, named) {
            (Some(provider), Some(model)) if !model.contains('/') => Some(format!("{provider}/{model}")),
            (_, model) => model.map(str::to_owned),
        };
        let keys = matching_keys(provider, named, model.as_deref());
        let adaptations: Vec<_> = keys
            .iter()
            .filter_map(|key| definition.adapt.get_key_value(*key))
            .map(|(key, adaptation)| (key.as_str(), adaptation))
            .collect();
        let adapted = adaptations
            .iter()
            .fold(definition.settings.clone(), |settings, (_, it)| settings.overridden_by(&it.settings));
        let engine = options.engine.as_ref().unwrap_or(&prompt.1);
        Self {
            prompt,
            options,
            engine,
            counter: engine.counters.for_model(model.as_deref()),
            model,
            settings: adapted.overridden_by(&options.settings),
            adaptations,
            budget: Budget {
                token_budget: options.budget.token_budget.or(definition.budget.token_budget),
                input_budget: options.budget.input_budget.or(definition.budget.input_budget),
                fill: options.budget.fill || definition.budget.fill,
            },
        }
    }

    fn call(&self) -> Call {
        Call::new(Input::new(self.options.input.clone()), self.options.scope.clone(), self.config())
    }

    /// What templates see as `config` before anything was gathered.
    pub(crate) fn config(&self) -> Value {
        let provider = self.options.provider.as_deref();
        let prefix = self.model.as_deref().and_then(|it| it.split_once('/')).map(|(prefix, _)| prefix);
        let mut config = json!(self.settings);
        // Each setting can be read by its own name, unless that is taken.
        config["settings"] = json!(self.settings);
        config["model"] = json!(self.model);
        config["provider"] = json!(provider.or(prefix));
        config
    }

    /// What the provider should read from its cache, if the previous pass is known.
    fn forecast(&self, arranged: &Arranged, rendered: &Rendered) -> Option<Forecast> {
        let previous = &self.options.previous.as_ref()?.0;
        let before = prefix_pieces(&previous.arranged, &previous.rendered, &*self.counter);
        let now = prefix_pieces(arranged, rendered, &*self.counter);
        Some(forecast(&before, &now, arranged.rules))
    }

    fn report(&self, draft: &Draft) {
        let total_tokens = draft.usage.total.0;
        self.engine.sink.record(Event::Resolved { prompt: self.prompt.id().to_owned(), total_tokens });
        draft.warnings.iter().for_each(|it| self.engine.diagnostics.warn(self.prompt.id(), it));
    }
}
