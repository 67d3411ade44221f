//! Settings of a model call.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

/// Generation settings of a model call. A field that is not set is left to the provider.
///
/// Numbers keep the form in which they were written: `1` stays `1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// The maximum number of tokens to generate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The probability mass for nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// The number of most likely tokens to sample from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Texts that end the generation; a single text or a list.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    #[schemars(with = "OneOrMany")]
    pub stop: Vec<String>,
    /// The provider's random seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// How much the model should think before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Settings that are passed through to the provider unchanged.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub provider: Map<String, Value>,
}

impl Settings {
    /// Returns settings that leave everything to the provider.
    ///
    /// ```
    /// use contexture_message::Settings;
    ///
    /// let settings = Settings::new().temperature(0.2).max_tokens(500);
    /// assert_eq!(settings.temperature.and_then(|it| it.as_f64()), Some(0.2));
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the sampling temperature. A number that JSON cannot represent (NaN, infinity) sets nothing.
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        Self { temperature: Number::from_f64(temperature), ..self }
    }

    /// Sets the maximum number of tokens to generate.
    #[must_use]
    pub fn max_tokens(self, tokens: u32) -> Self {
        Self { max_tokens: Some(tokens), ..self }
    }

    /// Sets nucleus sampling. A number that JSON cannot represent (NaN, infinity) sets nothing.
    #[must_use]
    pub fn top_p(self, top_p: f64) -> Self {
        Self { top_p: Number::from_f64(top_p), ..self }
    }

    /// Sets the number of most likely tokens to sample from.
    #[must_use]
    pub fn top_k(self, top_k: u32) -> Self {
        Self { top_k: Some(top_k), ..self }
    }

    /// Adds a text that ends the generation.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Sets the provider's random seed.
    #[must_use]
    pub fn seed(self, seed: i64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sets how much the model should think before it answers.
    #[must_use]
    pub fn reasoning(self, reasoning: Reasoning) -> Self {
        Self { reasoning: Some(reasoning), ..self }
    }

    /// Passes a setting through to the provider unchanged.
    #[must_use]
    pub fn provider(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.provider.insert(key.into(), value.into());
        self
    }

    /// Returns these settings with every field that is set in `over` replaced.
    #[must_use]
    pub fn overridden_by(mut self, over: &Settings) -> Settings {
        // Destructured by name, so that a new field cannot be forgotten here.
        let Settings { temperature, max_tokens, top_p, top_k, stop, seed, reasoning, provider } =
            over.clone();
        self.provider.extend(provider);
        Settings {
            temperature: temperature.or(self.temperature),
            max_tokens: max_tokens.or(self.max_tokens),
            top_p: top_p.or(self.top_p),
            top_k: top_k.or(self.top_k),
            stop: if stop.is_empty() { self.stop } else { stop },
            seed: seed.or(self.seed),
            reasoning: reasoning.or(self.reasoning),
            provider: self.provider,
        }
    }

    /// Returns the maximum number of tokens to generate, thinking included: the setting, or else `default`.
    ///
    /// Thinking counts as output, so a thinking budget is added if it would leave no room for the answer.
    ///
    /// ```
    /// use contexture_message::{Reasoning, Settings};
    ///
    /// let settings = Settings { max_tokens: Some(1000), reasoning: Some(Reasoning::Budget(4096)), ..Settings::default() };
    /// assert_eq!(settings.output_tokens(None), Some(5096));
    /// ```
    pub fn output_tokens(&self, default: Option<u32>) -> Option<u32> {
        let limit = self.max_tokens.or(default);
        match (self.reasoning.map(Reasoning::budget), limit) {
            (Some(budget), Some(limit)) if limit <= budget => Some(budget.saturating_add(limit)),
            (Some(budget), None) => Some(budget.saturating_add(ANSWER_BESIDES_THINKING)),
            (_, limit) => limit,
        }
    }
}

/// Room for the answer if only a thinking budget is known.
const ANSWER_BESIDES_THINKING: u32 = 4096;

/// How much a model should think: a token budget or an effort. Each dialect gets the form that it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// At most this many tokens of thinking: `{"budget": 4096}`.
    Budget(u32),
    /// A level of effort: `{"effort": "low"}`.
    Effort(Effort),
}

/// How hard a model should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Almost no thinking.
    Minimal,
    /// Less thinking than usual.
    Low,
    /// The usual amount of thinking.
    Medium,
    /// More thinking than usual.
    High,
}

impl Reasoning {
    /// Returns the thinking budget in tokens; an effort is converted to one.
    pub fn budget(self) -> u32 {
        match self {
            Reasoning::Budget(tokens) => tokens,
            Reasoning::Effort(Effort::Minimal) => 1024,
            Reasoning::Effort(Effort::Low) => 4096,
            Reasoning::Effort(Effort::Medium) => 8192,
            Reasoning::Effort(Effort::High) => 24576,
        }
    }

    /// Returns the effort; a budget is converted to the lowest effort that covers it.
    pub fn effort(self) -> Effort {
        let efforts = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High];
        match self {
            Reasoning::Effort(effort) => effort,
            Reasoning::Budget(tokens) => {
                let covers = |it: &Effort| Reasoning::Effort(*it).budget() >= tokens;
                efforts.into_iter().find(covers).unwrap_or(Effort::High)
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a string or a list of strings")]
#[schemars(inline)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}
