//! Inline rules of a definition, without any code.
//!
//! | key | holds if |
//! |---|---|
//! | `contains` / `not_contains` | the text has all / none of these (one text or a list) |
//! | `matches` / `not_matches` | the regular expression is found / not found |
//! | `min_chars`, `max_chars`, `max_words` | the text is that long |
//! | `one_of` | the trimmed text is one of these |
//! | `schema` | the text is JSON that fits this JSON Schema |
//!
//! All keys must hold.

use contexture_compose::SchemaValidator;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::output;

/// Compiled rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    contains: Vec<String>,
    not_contains: Vec<String>,
    matches: Option<Regex>,
    not_matches: Option<Regex>,
    min_chars: Option<usize>,
    max_chars: Option<usize>,
    max_words: Option<usize>,
    one_of: Vec<String>,
    schema: Option<SchemaValidator>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Spec {
    contains: Texts,
    not_contains: Texts,
    matches: Option<String>,
    not_matches: Option<String>,
    min_chars: Option<usize>,
    max_chars: Option<usize>,
    max_words: Option<usize>,
    one_of: Vec<String>,
    schema: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum Texts {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl From<Texts> for Vec<String> {
    fn from(texts: Texts) -> Self {
        match texts {
            Texts::None => Vec::new(),
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        }
    }
}

impl Rules {
    /// Compiles the rules of a definition.
    pub(crate) fn new(spec: Map<String, Value>) -> Result<Self, String> {
        if spec.is_empty() {
            return Err("it has no rules, and no function of this name is known".to_owned());
        }
        let spec: Spec = serde_json::from_value(Value::Object(spec)).map_err(|err| err.to_string())?;
        let schema = |it: Value| SchemaValidator::new(&it).map_err(|err| format!("`schema`: {err}"));
        Ok(Self {
            contains: spec.contains.into(),
            not_contains: spec.not_contains.into(),
            matches: spec.matches.map(|it| regex("matches", &it)).transpose()?,
            not_matches: spec.not_matches.map(|it| regex("not_matches", &it)).transpose()?,
            min_chars: spec.min_chars,
            max_chars: spec.max_chars,
            max_words: spec.max_words,
            one_of: spec.one_of,
            schema: spec.schema.map(schema).transpose()?,
        })
    }

    /// Returns the broken rules, worded for the model.
    pub(crate) fn broken(&self, text: &str) -> Vec<String> {
        let mut broken = Vec::new();
        let missing = self.contains.iter().filter(|it| !text.contains(it.as_str()));
        broken.extend(missing.map(|it| format!("it must contain `{it}`")));
        let present = self.not_contains.iter().filter(|it| text.contains(it.as_str()));
        broken.extend(present.map(|it| format!("it must not contain `{it}`")));
        if let Some(regex) = self.matches.as_ref().filter(|it| !it.is_match(text)) {
            broken.push(format!("it must match `{regex}`"));
        }
        if let Some(regex) = self.not_matches.as_ref().filter(|it| it.is_match(text)) {
            broken.push(format!("it must not match `{regex}`"));
        }
        broken.extend(self.broken_lengths(text));
        if !self.one_of.is_empty() && !self.one_of.iter().any(|it| it == text.trim()) {
            broken.push(format!("it must be one of `{}`", self.one_of.join("`, `")));
        }
        if let Some(validator) = &self.schema {
            broken.extend(match output::json(text) {
                Ok(value) => output::faults(validator, &value),
                Err(fault) => vec![fault],
            });
        }
        broken
    }

    fn broken_lengths(&self, text: &str) -> Vec<String> {
        let (chars, words) = (text.chars().count(), text.split_whitespace().count());
        let least = self.min_chars.filter(|it| chars < *it);
        let most = self.max_chars.filter(|it| chars > *it);
        let most_words = self.max_words.filter(|it| words > *it);
        let least = least.map(|it| format!("it has {chars} characters, at least {it} are needed"));
        let most = most.map(|it| format!("it has {chars} characters, at most {it} are allowed"));
        let most_words = most_words.map(|it| format!("it has {words} words, at most {it} are allowed"));
        [least, most, most_words].into_iter().flatten().collect()
    }

    /// Replaces the matches of `not_matches` and `not_contains`.
    pub(crate) fn replaced(&self, text: &str, replacement: &str) -> String {
        let text = match &self.not_matches {
            Some(regex) => regex.replace_all(text, regex::NoExpand(replacement)).into_owned(),
            None => text.to_owned(),
        };
        self.not_contains
            .iter()
            .filter(|it| !it.is_empty())
            .fold(text, |text, it| text.replace(it.as_str(), replacement))
    }
}

fn regex(key: &str, pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|err| format!("`{key}` is not a valid regular expression: {err}"))
}
