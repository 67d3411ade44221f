//! What is known of models, as data: windows, output limits, prices, cache rules, capabilities.
//!
//! In comes a model's name, out come its [`ModelFacts`]. The table is `catalogue.json`: patterns of names, such as
//! `gpt-5-mini*`, and what is known of the models that fit. A model's facts are those of all patterns that fit, the more
//! exact one winning field by field, and the user's own entries win over all. Nothing is looked up anywhere else.

use std::collections::BTreeMap;

use contexture_message::{CacheRules, Price, Tokens, Usage};
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("catalogue.json");

/// What is known of a model. What is not set is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelFacts {
    /// Tokens that fit into one request together with its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<Tokens>,
    /// The most tokens that the model writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<Tokens>,
    /// Tokens kept free for the answer if the settings do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_reserve: Option<Tokens>,
    /// What a million tokens cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// How its provider caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheRules>,
    /// Whether the model takes a number of tokens for its thinking. One that does not takes an effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_budget: Option<bool>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// What a model can do; unknown where it is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Calls tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Sees images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Reads PDF files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf: Option<bool>,
    /// Keeps to a JSON Schema for its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<bool>,
    /// Thinks before it answers, and takes a setting for how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Takes temperature, top_p and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<bool>,
}

impl ModelFacts {
    /// Returns these facts, and where they say nothing, what `other` says, field by field.
    ///
    /// ```
    /// use contexture_message::Tokens;
    /// use contexture_wire::ModelFacts;
    ///
    /// let mine = ModelFacts { max_output: Some(Tokens(500)), ..ModelFacts::default() };
    /// let known = ModelFacts { max_output: Some(Tokens(8192)), context_window: Some(Tokens(32_000)), ..ModelFacts::default() };
    /// let both = mine.or(known);
    /// assert_eq!((both.max_output, both.context_window), (Some(Tokens(500)), Some(Tokens(32_000))));
    /// ```
    #[must_use]
    pub fn or(self, other: ModelFacts) -> ModelFacts {
        // Taken apart by name: a new field can't be forgotten here.
        let ModelFacts {
            context_window,
            max_output,
            output_reserve,
            price,
            cache,
            thinking_budget,
            capabilities,
        } = other;
        ModelFacts {
            context_window: self.context_window.or(context_window),
            max_output: self.max_output.or(max_output),
            output_reserve: self.output_reserve.or(output_reserve),
            price: match (self.price, price) {
                (Some(own), Some(other)) => Some(price_or(own, other)),
                (own, other) => own.or(other),
            },
            cache: self.cache.or(cache),
            thinking_budget: self.thinking_budget.or(thinking_budget),
            capabilities: self.capabilities.or(capabilities),
        }
    }

    /// Returns these facts with a window: [`ASSUMED_WINDOW`] where none is known. The second value says whether it is assumed.
    ///
    /// ```
    /// use contexture_wire::{ASSUMED_WINDOW, ModelFacts};
    ///
    /// let (facts, is_assumed) = ModelFacts::default().with_window();
    /// assert_eq!((facts.context_window, is_assumed), (Some(ASSUMED_WINDOW), true));
    /// ```
    #[must_use]
    pub fn with_window(self) -> (ModelFacts, bool) {
        let context_window = self.context_window.or(Some(ASSUMED_WINDOW));
        (ModelFacts { context_window, ..self }, self.context_window.is_none())
    }

    /// Returns how many tokens are kept free for the answer if the settings do not say: `output_reserve`, else 8192, but
    /// no more than the model writes and no more than a quarter of its window. Nothing if neither is known.
    ///
    /// ```
    /// use contexture_message::Tokens;
    /// use contexture_wire::ModelFacts;
    ///
    /// let small = ModelFacts { context_window: Some(Tokens(2048)), ..ModelFacts::default() };
    /// assert_eq!(small.reserve(), Some(Tokens(512)));
    /// assert_eq!(ModelFacts::default().reserve(), None);
    /// ```
    pub fn reserve(&self) -> Option<Tokens> {
        let quarter = self.context_window.map(|it| Tokens(it.0 / 4));
        let bound = self.max_output.into_iter().chain(quarter).min();
        self.output_reserve.or(bound.map(|it| it.min(DEFAULT_RESERVE)))
    }
}

const DEFAULT_RESERVE: Tokens = Tokens(8192);

/// The window of a model of which nothing is known.
pub const ASSUMED_WINDOW: Tokens = Tokens(200_000);

fn price_or(own: Price, other: Price) -> Price {
    let Price { input, output, cache_read, cache_write } = other;
    Price {
        input: own.input.or(input),
        output: own.output.or(output),
        cache_read: own.cache_read.or(cache_read),
        cache_write: own.cache_write.or(cache_write),
    }
}

impl Capabilities {
    /// Returns these capabilities, and where they say nothing, what `other` says.
    #[must_use]
    pub fn or(self, other: Capabilities) -> Capabilities {
        let Capabilities { tools, images, pdf, structured_output, reasoning, sampling } = other;
        Capabilities {
            tools: self.tools.or(tools),
            images: self.images.or(images),
            pdf: self.pdf.or(pdf),
            structured_output: self.structured_output.or(structured_output),
            reasoning: self.reasoning.or(reasoning),
            sampling: self.sampling.or(sampling),
        }
    }
}

/// What is known of models: a table by patterns of names, and the user's own entries, which win.
///
/// ```
/// use contexture_wire::Catalogue;
///
/// let catalogue = Catalogue::standard();
/// let direct = catalogue.facts("anthropic/claude-sonnet-4-5");
/// assert_eq!(direct, catalogue.facts("us.anthropic.claude-sonnet-4-5-20250929-v1:0"));
/// assert_eq!(direct.cache.map(|it| it.max_breakpoints), Some(4));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Patterns and their facts, in the order of the table.
    known: Vec<(String, ModelFacts)>,
    /// Who serves models at an address of their own, with the patterns of their names.
    owners: Vec<(String, String)>,
    /// The user's own, by exact name.
    own: BTreeMap<String, ModelFacts>,
}

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "note")]
    _note: String,
    /// Providers that need no configuration, with the patterns of their models' names.
    owners: BTreeMap<String, String>,
    models: IndexedModels,
}

/// Keeps the order of the table.
type IndexedModels = serde_json::Map<String, serde_json::Value>;

impl Catalogue {
    /// Returns the catalogue that comes with this library.
    pub fn standard() -> Self {
        // A test reads the same table: it can't be wrong here, and if it were, nothing would be known.
        let (known, owners) = table(TABLE).unwrap_or_default();
        Self { known, owners, own: BTreeMap::new() }
    }

    /// Returns the catalogue with the user's own models, by exact name, with or without the provider. Each adds to what
    /// is known or corrects it.
    #[must_use]
    pub fn with_models(mut self, models: BTreeMap<String, ModelFacts>) -> Self {
        for (name, facts) in models {
            let before = self.own.remove(&name).unwrap_or_default();
            self.own.insert(name, facts.or(before));
        }
        self
    }

    /// Returns what is known of a model, by `provider/model` or its name alone.
    ///
    /// All patterns that fit are merged; the one with more letters wins. Providers and other things in front of the name
    /// are skipped: `openrouter/anthropic/claude-sonnet-4-5`, `us.anthropic.claude-…`, `ft:gpt-4o:team::id`.
    pub fn facts(&self, model: &str) -> ModelFacts {
        let alone = model.split_once('/').and_then(|(_, name)| self.own.get(name));
        let own = [self.own.get(model), alone].into_iter().flatten();
        let own = own.fold(ModelFacts::default(), |facts, it| facts.or(*it));
        own.or(self.known_facts(&model.to_ascii_lowercase()))
    }

    fn known_facts(&self, model: &str) -> ModelFacts {
        // The first place that fits: what follows the model in `ft:gpt-4o:gemini-team::id` is not its name.
        let starts = std::iter::once(0).chain(model.match_indices(['/', ':', '.']).map(|(at, _)| at + 1));
        let mut fitting: Vec<(usize, ModelFacts)> =
            starts.map(|at| self.fitting(&model[at..])).find(|it| !it.is_empty()).unwrap_or_default();
        fitting.sort_by_key(|(n_letters, _)| std::cmp::Reverse(*n_letters));
        fitting.into_iter().fold(ModelFacts::default(), |facts, (_, it)| facts.or(it))
    }

    /// Returns the facts of all patterns that fit, with how many letters each says.
    fn fitting(&self, name: &str) -> Vec<(usize, ModelFacts)> {
        let fits = self.known.iter().filter_map(|(patterns, facts)| {
            let fitting = patterns.split('|').filter(|it| matches(it, name));
            let n_letters = fitting.map(|it| it.len() - it.matches('*').count()).max()?;
            Some((n_letters, *facts))
        });
        fits.collect()
    }

    /// Returns the provider that a model belongs to, by its name alone.
    ///
    /// ```
    /// # use contexture_wire::Catalogue;
    /// assert_eq!(Catalogue::standard().owner("gpt-5-mini"), Some("openai"));
    /// assert_eq!(Catalogue::standard().owner("my-own-model"), None);
    /// ```
    pub fn owner(&self, model: &str) -> Option<&str> {
        let model = model.to_ascii_lowercase();
        let full = self.own.keys().find_map(|it| it.split_once('/').filter(|(_, name)| *name == model));
        let owns = |patterns: &str| patterns.split('|').any(|it| matches(it, &model));
        let of_table = || self.owners.iter().find(|(_, patterns)| owns(patterns)).map(|(it, _)| it.as_str());
        full.map(|(provider, _)| provider).or_else(of_table)
    }

    /// Returns what a call cost, if the prices are known.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        self.facts(model).price?.of(usage)
    }

    /// Returns all entries: the patterns of the table in its order, then the user's own names.
    pub fn models(&self) -> impl Iterator<Item = (&str, ModelFacts)> {
        let known = self.known.iter().map(|(pattern, facts)| (pattern.as_str(), *facts));
        known.chain(self.own.iter().map(|(name, facts)| (name.as_str(), *facts)))
    }
}

/// Facts by pattern, and patterns by owner.
type Read = (Vec<(String, ModelFacts)>, Vec<(String, String)>);

fn table(text: &str) -> Result<Read, serde_json::Error> {
    let table: Table = serde_json::from_str(text)?;
    let models = table.models.into_iter();
    let models = models.map(|(pattern, facts)| Ok((pattern, serde_json::from_value(facts)?)));
    Ok((models.collect::<Result<_, serde_json::Error>>()?, table.owners.into_iter().collect()))
}

/// Whether a name fits a pattern, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).filter(|it| name.is_char_boundary(*it)).any(|it| matches(rest, &name[it..]))
}

#[cfg(test)]
mod tests {
    use super::{TABLE, matches, table};

    #[test]
    fn the_table_can_be_read() {
        let (models, owners) = table(TABLE).expect("the table is right");
        assert_eq!(owners.len(), 3);
        assert!(models.len() > 30);
        for (pattern, facts) in models {
            assert_eq!(pattern, pattern.to_ascii_lowercase(), "names are compared in lower case");
            assert!(facts.max_output <= facts.context_window || facts.context_window.is_none(), "{pattern}");
            let prices = facts.price.map(|it| [it.input, it.output, it.cache_read, it.cache_write]);
            assert!(
                prices.into_iter().flatten().flatten().all(|it| (0.0..1000.0).contains(&it)),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(
            matches("o1", "o1") && matches("o1-*", "o1-mini") && matches("claude-*-4-5*", "claude-opus-4-5")
        );
        assert!(
            !matches("o1", "o1-mini")
                && !matches("o1-*", "o100")
                && !matches("claude-*-4-5*", "claude-opus-4")
        );
    }
}
