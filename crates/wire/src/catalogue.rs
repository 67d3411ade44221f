//! Model facts as data: context windows, output limits, prices, cache rules, capabilities.
//!
//! A [`Catalogue`] maps a model's name to its [`ModelFacts`]. The table is `catalogue.json`: name patterns, such as
//! `gpt-5-mini*`, with the facts of the models that match. The facts of all matching patterns are merged field by
//! field, the more specific pattern first, and the user's entries override the table. No other source is consulted.

use std::collections::BTreeMap;

use contexture_message::{CacheRules, Price, Tokens, Usage};
use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("catalogue.json");

/// The known facts about a model. A field that is not set is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelFacts {
    /// The number of tokens that a request and its answer may have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<Tokens>,
    /// The maximum number of tokens that the model can write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<Tokens>,
    /// Tokens to reserve for the answer if the settings do not specify it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_reserve: Option<Tokens>,
    /// The price per million tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The cache rules of the model's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheRules>,
    /// Whether the model accepts a token budget for its thinking. If not, it takes an effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_budget: Option<bool>,
    /// The features that the model supports.
    pub capabilities: Capabilities,
}

/// The features that a model supports; a field that is not set is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Whether the model calls tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Whether the model accepts images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Whether the model reads PDF files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf: Option<bool>,
    /// Whether the model's answers can be constrained to a JSON Schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<bool>,
    /// Whether the model thinks before it answers, and accepts a setting for how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Whether the model accepts temperature, top_p and similar settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<bool>,
    /// Whether the model knows its provider's own memory tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_tool: Option<bool>,
}

impl ModelFacts {
    /// Returns these facts, with unset fields filled in from `other`.
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
        // Destructured by name, so that a new field cannot be forgotten here.
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

    /// Returns these facts with a window, [`ASSUMED_WINDOW`] if it is unknown, and whether the window is assumed.
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

    /// Returns the number of tokens to reserve for the answer if the settings do not specify it: `output_reserve` if
    /// it is set, otherwise 8192 or less, capped at the maximum output and a quarter of the window. Returns `None` if
    /// none of the three is known.
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

/// The context window assumed for an unknown model.
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
    /// Returns these capabilities, with unset fields filled in from `other`.
    #[must_use]
    pub fn or(self, other: Capabilities) -> Capabilities {
        let Capabilities { tools, images, pdf, structured_output, reasoning, sampling, memory_tool } = other;
        Capabilities {
            tools: self.tools.or(tools),
            images: self.images.or(images),
            pdf: self.pdf.or(pdf),
            structured_output: self.structured_output.or(structured_output),
            reasoning: self.reasoning.or(reasoning),
            sampling: self.sampling.or(sampling),
            memory_tool: self.memory_tool.or(memory_tool),
        }
    }
}

/// The known models: a table of name patterns, and the user's entries, which override it.
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
    /// Patterns and their facts, in table order.
    known: Vec<KnownModels>,
    /// Providers that need no configuration, with the patterns of their models' names.
    owners: Vec<(String, String)>,
    /// The user's entries, by exact name.
    own: BTreeMap<String, ModelFacts>,
}

/// The format of `catalogue.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "note")]
    _note: String,
    /// Providers that need no configuration, with the patterns of their models' names.
    owners: BTreeMap<String, String>,
    models: IndexedModels,
}

/// A map that keeps the order of the table.
type IndexedModels = serde_json::Map<String, serde_json::Value>;

impl Catalogue {
    /// Returns the catalogue built into this library.
    pub fn standard() -> Self {
        // A test parses the same table, so this cannot fail; if it did, all models would be unknown.
        let (known, owners) = table(TABLE).unwrap_or_default();
        let known = known.into_iter().map(|(names, facts)| KnownModels::new(names, facts)).collect();
        Self { known, owners, own: BTreeMap::new() }
    }

    /// Adds the user's models, by exact name, with or without the provider. Their facts extend or override the table.
    #[must_use]
    pub fn with_models(mut self, models: BTreeMap<String, ModelFacts>) -> Self {
        for (name, facts) in models {
            let before = self.own.remove(&name).unwrap_or_default();
            self.own.insert(name, facts.or(before));
        }
        self
    }

    /// Returns the facts about a model, given as `provider/model` or by name alone.
    ///
    /// All matching patterns are merged; longer patterns take precedence. Prefixes of the name, such as providers,
    /// are skipped: `openrouter/anthropic/claude-sonnet-4-5`, `us.anthropic.claude-…`, `ft:gpt-4o:team::id`.
    pub fn facts(&self, model: &str) -> ModelFacts {
        let alone = model.split_once('/').and_then(|(_, name)| self.own.get(name));
        let own = [self.own.get(model), alone].into_iter().flatten();
        let own = own.fold(ModelFacts::default(), |facts, it| facts.or(*it));
        own.or(self.known_facts(&model.to_ascii_lowercase()))
    }

    fn known_facts(&self, model: &str) -> ModelFacts {
        // Use the first position that matches: in `ft:gpt-4o:gemini-team::id`, the text after the model is not its
        // name.
        let starts = std::iter::once(0).chain(model.match_indices(['/', ':', '.']).map(|(at, _)| at + 1));
        let mut fitting: Vec<(usize, ModelFacts)> =
            starts.map(|at| self.fitting(&model[at..])).find(|it| !it.is_empty()).unwrap_or_default();
        fitting.sort_by_key(|(n_letters, _)| std::cmp::Reverse(*n_letters));
        fitting.into_iter().fold(ModelFacts::default(), |facts, (_, it)| facts.or(it))
    }

    /// Returns the facts of all matching patterns, each with the number of literal characters in its pattern.
    fn fitting(&self, name: &str) -> Vec<(usize, ModelFacts)> {
        let fits = self.known.iter().filter_map(|it| Some((it.n_letters_matching(name)?, it.facts)));
        fits.collect()
    }

    /// Returns the provider of a model, given by name alone.
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

    /// Returns the cost of a call, if the prices are known.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        self.facts(model).price?.of(usage)
    }

    /// Returns all entries: the patterns in table order, then the user's names.
    pub fn models(&self) -> impl Iterator<Item = (&str, ModelFacts)> {
        let known = self.known.iter().map(|it| (it.names.as_str(), it.facts));
        known.chain(self.own.iter().map(|(name, facts)| (name.as_str(), *facts)))
    }
}

/// The facts about the models with some names.
#[derive(Clone, Debug)]
struct KnownModels {
    /// The patterns, separated by `|`.
    names: String,
    patterns: Vec<Pattern>,
    facts: ModelFacts,
}

impl KnownModels {
    fn new(names: String, facts: ModelFacts) -> Self {
        let patterns = names.split('|').map(Pattern::new).collect();
        Self { names, patterns, facts }
    }

    /// Returns the number of literal characters in the longest pattern that matches a name.
    fn n_letters_matching(&self, name: &str) -> Option<usize> {
        self.patterns.iter().filter(|it| it.matches(name)).map(|it| it.n_letters).max()
    }
}

/// A pattern of names, taken apart: all of them are tried for each turn.
#[derive(Clone, Debug)]
struct Pattern {
    /// What comes before the first `*`.
    start: String,
    /// What comes after it.
    rest: Option<String>,
    n_letters: usize,
}

impl Pattern {
    fn new(pattern: &str) -> Self {
        let (start, rest) =
            pattern.split_once('*').map_or((pattern, None), |(start, rest)| (start, Some(rest)));
        let n_letters = pattern.len() - pattern.matches('*').count();
        Self { start: start.to_owned(), rest: rest.map(str::to_owned), n_letters }
    }

    fn matches(&self, name: &str) -> bool {
        let Some(left) = name.strip_prefix(self.start.as_str()) else { return false };
        match &self.rest {
            Some(rest) => ends_with(rest, left),
            None => left.is_empty(),
        }
    }
}

/// Facts by pattern, and name patterns by provider.
type Read = (Vec<(String, ModelFacts)>, Vec<(String, String)>);

fn table(text: &str) -> Result<Read, serde_json::Error> {
    let table: Table = serde_json::from_str(text)?;
    let models = table.models.into_iter();
    let models = models.map(|(pattern, facts)| Ok((pattern, serde_json::from_value(facts)?)));
    Ok((models.collect::<Result<_, serde_json::Error>>()?, table.owners.into_iter().collect()))
}

/// Returns whether a name matches a pattern, in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    name.strip_prefix(start).is_some_and(|left| ends_with(rest, left))
}

/// Returns whether the end of a name matches a pattern.
fn ends_with(pattern: &str, name: &str) -> bool {
    (0..=name.len()).filter(|it| name.is_char_boundary(*it)).any(|it| matches(pattern, &name[it..]))
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
    fn a_star_matches_anything() {
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
