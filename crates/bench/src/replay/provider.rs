//! A simulated provider: its cache, its prices, and a tally of all calls.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use contexture::message::{Price, Request, TokenCounter, Usage, counter_for};
use contexture::wire::{Catalogue, Dialect, ModelFacts, Target, encode_request};
use contexture_message::{Message, Tokens, message_tokens};
use contexture_mockmodel::cache::{AnthropicRules, CacheRefused, CacheRules, OpenaiRules, PromptCache};

/// A provider with the model that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Chat Completions.
    Openai,
    /// Responses.
    OpenaiResponses,
    /// Messages.
    Anthropic,
}

impl Provider {
    /// All providers.
    pub const ALL: [Provider; 3] = [Provider::Openai, Provider::OpenaiResponses, Provider::Anthropic];

    /// Returns its dialect.
    pub fn dialect(self) -> Dialect {
        match self {
            Provider::Openai => Dialect::Openai,
            Provider::OpenaiResponses => Dialect::OpenaiResponses,
            Provider::Anthropic => Dialect::Anthropic,
        }
    }

    /// Returns the model as `provider/model`.
    pub fn model(self) -> &'static str {
        match self {
            Provider::Openai | Provider::OpenaiResponses => "openai/gpt-5-mini",
            Provider::Anthropic => "anthropic/claude-sonnet-4-5",
        }
    }

    /// Returns the known facts about the model.
    pub fn facts(self) -> ModelFacts {
        Catalogue::standard().facts(self.model())
    }

    /// Returns the counter that all strategies use.
    pub fn counter(self) -> Arc<dyn TokenCounter> {
        counter_for(Some(self.model()))
    }

    fn target(self) -> Target {
        let (provider, model) = self.model().split_once('/').unwrap_or_default();
        Target { facts: self.facts(), stream: true, ..Target::new(self.dialect(), provider, model) }
    }

    /// The published rules, with the numbers that the catalogue has for the model.
    fn rules(self) -> CacheRules {
        let cache = self.facts().cache;
        let min_tokens = cache.map_or(1024, |it| u64::from(it.min_tokens.0));
        let lifetime = Duration::from_secs(cache.map_or(300, |it| it.lifetime_s));
        match self {
            Provider::Openai | Provider::OpenaiResponses => {
                CacheRules::Openai(OpenaiRules { min_tokens, lifetime, ..OpenaiRules::default() })
            }
            Provider::Anthropic => {
                CacheRules::Anthropic(AnthropicRules { min_tokens, lifetime, ..AnthropicRules::default() })
            }
        }
    }
}

/// The totals of all calls to a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// The number of calls.
    pub calls: u64,
    /// The total usage.
    pub usage: Usage,
    /// The total cost in USD.
    pub cost: f64,
    /// The largest input of a call.
    pub largest: u64,
    /// How many calls had clearly more input than the window: a provider with such a window would refuse them.
    pub too_large: u64,
}

impl Tally {
    /// Returns the share of the input that was read from the cache, from 0 to 1.
    pub fn share(&self) -> f64 {
        match self.usage.input_tokens {
            0 => 0.0,
            input => self.usage.cache_read_tokens.unwrap_or_default() as f64 / input as f64,
        }
    }
}

/// A provider during one replay.
pub struct SimulatedProvider {
    target: Target,
    cache: PromptCache,
    price: Price,
    counter: Arc<dyn TokenCounter>,
    window: Tokens,
    tally: Tally,
}

impl SimulatedProvider {
    /// Returns a provider with an empty cache; fails if the catalogue has no price for the model.
    pub fn new(provider: Provider, window: Tokens) -> Result<Self, Box<dyn Error>> {
        let price = provider.facts().price.ok_or("the catalogue has no price for the model")?;
        let counter = provider.counter();
        let cache = PromptCache::new(provider.rules(), Arc::clone(&counter));
        Ok(Self { target: provider.target(), cache, price, counter, window, tally: Tally::default() })
    }

    /// Processes a request that is answered with `answer`, and returns its usage.
    pub fn call(
        &mut self,
        request: &Request,
        answer: &Message,
        now: Duration,
    ) -> Result<Usage, CacheRefused> {
        let body = encode_request(&self.target, request).body;
        let output = u64::from(message_tokens(&*self.counter, answer).0);
        let usage = self.cache.request(&body, now)?.with_output(output);
        self.tally.calls += 1;
        self.tally.usage += usage;
        self.tally.cost += self.price.of(usage).unwrap_or_default();
        self.tally.largest = self.tally.largest.max(usage.input_tokens);
        // The simulation counts ids and a frame for each block, about 2 % that is not counted before the call.
        let clearly_more = u64::from(self.window.0) * 105 / 100;
        self.tally.too_large += u64::from(usage.input_tokens > clearly_more);
        Ok(usage)
    }

    /// Returns the totals so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}
