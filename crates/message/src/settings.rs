//! Settings of a model call.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

/// How the model should generate. A field that is not set is left to the provider.
///
/// Numbers keep the form they were written in: `1` stays `1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How freely the model chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// The most tokens the model may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// Sampling among the best k.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Texts that end the generation; one or a list.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_many")]
    pub stop: Vec<String>,
    /// The provider's random seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Passed through to the provider as it is.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub provider: Map<String, Value>,
}

impl Settings {
    /// Returns these settings with every field that `over` sets replaced.
    #[must_use]
    pub fn overridden_by(mut self, over: &Settings) -> Settings {
        // Taken apart by name: a new field can't be forgotten here.
        let Settings { temperature, max_tokens, top_p, top_k, stop, seed, provider } = over.clone();
        self.provider.extend(provider);
        Settings {
            temperature: temperature.or(self.temperature),
            max_tokens: max_tokens.or(self.max_tokens),
            top_p: top_p.or(self.top_p),
            top_k: top_k.or(self.top_k),
            stop: if stop.is_empty() { self.stop } else { stop },
            seed: seed.or(self.seed),
            provider: self.provider,
        }
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a string or a list of strings")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}
