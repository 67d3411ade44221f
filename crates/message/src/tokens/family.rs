//! Chooses the counter for a model.

use std::sync::Arc;

use super::{Encoding, Estimate, TokenCounter};

/// A group of models that count tokens alike.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Family {
    /// OpenAI, since GPT-4o.
    OpenAiO200k,
    /// OpenAI, before GPT-4o.
    OpenAiCl100k,
    /// Anthropic's Claude.
    Claude,
    /// Google's Gemini and Gemma.
    Gemini,
    /// Llama 3; earlier and later versions have other vocabularies.
    Llama,
    /// Any other model.
    Other,
}

/// Prefixes of model names and their families. The first match wins.
#[rustfmt::skip]
const NAMES: &[(&str, Family)] = &[
    ("gpt-4o",         Family::OpenAiO200k),
    ("chatgpt-4o",     Family::OpenAiO200k),
    ("gpt-4.1",        Family::OpenAiO200k),
    ("gpt-4.5",        Family::OpenAiO200k),
    ("gpt-5",          Family::OpenAiO200k),
    ("gpt-oss",        Family::OpenAiO200k),
    ("o1",             Family::OpenAiO200k),
    ("o3",             Family::OpenAiO200k),
    ("o4",             Family::OpenAiO200k),
    ("codex-mini",     Family::OpenAiO200k),
    ("gpt-4",          Family::OpenAiCl100k),
    ("gpt-3.5",        Family::OpenAiCl100k),
    ("gpt-35",         Family::OpenAiCl100k), // As Azure writes it.
    ("text-embedding", Family::OpenAiCl100k),
    ("claude",         Family::Claude),
    ("gemini",         Family::Gemini),
    ("gemma",          Family::Gemini),
    ("llama-3",        Family::Llama),
    ("llama3",         Family::Llama),
    ("meta-llama-3",   Family::Llama),
];

impl Family {
    /// Returns the family of a model by its id, with or without provider prefixes: `gpt-4o`,
    /// `openrouter/anthropic/claude-sonnet-4-5`, `us.anthropic.claude-sonnet-4-5`, `ft:gpt-4o:team::id`.
    ///
    /// ```
    /// use contexture_message::tokens::Family;
    ///
    /// assert_eq!(Family::of_model("openai/gpt-5-mini"), Family::OpenAiO200k);
    /// assert_eq!(Family::of_model("mistral-large"), Family::Other);
    /// ```
    pub fn of_model(model: &str) -> Family {
        let model = model.to_ascii_lowercase();
        // The first match wins: in `ft:gpt-4o:gemini-team::id` the text after the model is not its name.
        let starts = std::iter::once(0).chain(model.match_indices(['/', ':', '.']).map(|(at, _)| at + 1));
        starts.into_iter().find_map(|at| family_at(&model[at..])).unwrap_or(Family::Other)
    }

    /// Returns the family's counter.
    pub fn counter(self) -> Arc<dyn TokenCounter> {
        match self {
            Family::OpenAiO200k => Arc::new(Encoding::O200kBase),
            Family::OpenAiCl100k => Arc::new(Encoding::Cl100kBase),
            Family::Claude => Arc::new(Estimate::CLAUDE),
            Family::Gemini => Arc::new(Estimate::GEMINI),
            Family::Llama => Arc::new(Encoding::Llama3),
            Family::Other => Arc::new(Estimate::OTHER),
        }
    }
}

/// Matches a name as a whole word: `o1` does not match `o100`, nor `gpt-4` `gpt-4o`.
fn family_at(name: &str) -> Option<Family> {
    let fits = |start: &str| {
        name.strip_prefix(start).is_some_and(|rest| !rest.starts_with(|it: char| it.is_ascii_alphanumeric()))
    };
    NAMES.iter().find(|(start, _)| fits(start)).map(|(_, family)| *family)
}

/// Returns the counter for a model: exact if its encoding is public, else an estimate. Without a model it
/// is `o200k_base`.
///
/// ```
/// use contexture_message::tokens::counter_for;
///
/// assert_eq!(counter_for(Some("openai/gpt-5-mini")).profile().name, "o200k_base");
///
/// let claude = counter_for(Some("anthropic/claude-sonnet-4-5"));
/// assert!(!claude.profile().exact);
/// assert!(claude.count("How many tokens is this?") >= counter_for(None).count("How many tokens is this?"));
/// ```
pub fn counter_for(model: Option<&str>) -> Arc<dyn TokenCounter> {
    model.map_or(Family::OpenAiO200k, Family::of_model).counter()
}
