//! Decodes front matter and configuration by serde, and collects every fault with its path and position.
//!
//! serde stops at the first error. A struct that wants all of them wraps its fields in [`Field`]: a value that does
//! not decode is recorded and left out, and decoding continues. If the value is a map, each of its leaves is then
//! tried alone, so that all invalid keys are reported. Unknown keys of any struct are recorded and skipped.
//!
//! Values that need more than serde, such as templates and entries, are decoded to a [`Raw`], which gives access to
//! the tree.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde_json::Value;

use crate::error::{Place, Problem};
use crate::source::yaml::{Data, Node, Pair};
use contexture_message::ErrorCode;
use contexture_template::{did_you_mean, nearest};

/// A value in a file, with the path that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) node: &'a Node,
    /// The position of its key, or of the value itself if it has none.
    pub(crate) key: Place,
    /// Such as `tools[0].name`; empty for the root.
    pub(crate) path: String,
}

impl<'a> Cursor<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { node, key: node.place, path: String::new() }
    }

    /// Returns the value under a key of a map; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.node.get(key).filter(|it| !it.value.is_null()).map(|it| self.child(it))
    }

    /// Returns the items of a list, or a single value as a list of one.
    pub(crate) fn items(&self) -> Vec<Self> {
        match &self.node.data {
            Data::List(items) => items.iter().enumerate().map(|(idx, it)| self.item(idx, it)).collect(),
            _ => vec![self.clone()],
        }
    }

    /// Returns the values of a map with their keys.
    pub(crate) fn pairs(&self) -> Result<Vec<(&'a str, Self)>, Problem> {
        match &self.node.data {
            Data::Map(pairs) => Ok(pairs.iter().map(|it| (it.key.as_str(), self.child(it))).collect()),
            _ => Err(self.wrong("a map")),
        }
    }

    fn item(&self, idx: usize, node: &'a Node) -> Self {
        Self { node, key: node.place, path: format!("{}[{idx}]", self.path) }
    }

    pub(crate) fn child(&self, pair: &'a Pair) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { node: &pair.value, key: pair.place, path: format!("{}{dot}{}", self.path, pair.key) }
    }

    /// Returns a text. A number or boolean is read as the text it was written as.
    pub(crate) fn word(&self) -> Result<String, Problem> {
        self.node.word().ok_or_else(|| self.wrong("a text"))
    }

    /// Decodes the value, or returns its first fault.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let log = RefCell::default();
        Located { at: self.clone(), only: &[], is_list: false, advice: |_| None, log: &log }
            .seeded(PhantomData)
    }

    /// Returns a problem with this value.
    pub(crate) fn invalid(&self, message: impl Into<String>) -> Problem {
        self.locate(Problem::invalid(message))
    }

    /// Returns the problem that states what was expected and what was found.
    pub(crate) fn wrong(&self, expected: &str) -> Problem {
        self.invalid(format!("expected {expected}, found {}", self.node.describe()))
    }

    /// Adds the path and position to a problem that has none.
    pub(crate) fn locate(&self, problem: Problem) -> Problem {
        problem.at(self.node.place).within(&self.path)
    }
}

/// What decoding collects.
#[derive(Debug, Default)]
pub(crate) struct Collected<'a> {
    pub(crate) problems: Vec<Problem>,
    raws: Vec<Cursor<'a>>,
}

impl<'a> Collected<'a> {
    /// Decodes a value; `advice` has hints for unknown keys.
    pub(crate) fn decode<T: DeserializeOwned>(&mut self, at: Cursor<'a>, advice: Advice) -> Option<T> {
        let log = RefCell::new(std::mem::take(self));
        let field = Field::<T>::deserialize(Located { at, only: &[], is_list: false, advice, log: &log });
        *self = log.into_inner();
        match field {
            Ok(field) => field.value,
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    pub(crate) fn cursor(&self, raw: Raw) -> &Cursor<'a> {
        &self.raws[raw.0]
    }
}

/// Returns a hint for an unknown key that authors know from elsewhere.
pub(crate) type Advice = fn(&str) -> Option<&'static str>;

/// A value to be read through its [`Cursor`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename = "contexture::Raw")]
pub(crate) struct Raw(usize);

/// A value to be read through its [`Cursor`], even if it is `null`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given(pub(crate) Option<Raw>);

/// A field that is recorded and left out if its value is invalid; `null` counts as absent.
#[derive(Debug)]
pub(crate) struct Field<T> {
    pub(crate) value: Option<T>,
    pub(crate) raw: Option<Raw>,
}

/// A list whose items are decoded one by one.
pub(crate) type Each<T> = Field<Vec<Field<T>>>;

/// A list, or a single value as a list of one.
#[derive(Debug, Deserialize)]
#[serde(rename = "contexture::Many")]
pub(crate) struct Many<T>(pub(crate) Vec<T>);

/// A text; a number or boolean is read as the text it was written as.
#[derive(Debug)]
pub(crate) struct Word(pub(crate) String);

/// A duration such as `2s`, `500ms` or `10m`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSpan(pub(crate) Duration);

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self { value: None, raw: None }
    }
}

impl<T> Field<Vec<Field<T>>> {
    /// Returns the valid items with their cursors.
    pub(crate) fn items(self) -> impl Iterator<Item = (T, Raw)> {
        self.value.into_iter().flatten().filter_map(|it| it.value.zip(it.raw))
    }
}

impl<T> Field<Many<T>> {
    /// Returns the items; none if the field is absent.
    pub(crate) fn many(self) -> Vec<T> {
        self.value.map(|it| it.0).unwrap_or_default()
    }
}

impl Field<Many<Word>> {
    pub(crate) fn words(self) -> Vec<String> {
        self.many().into_iter().map(|it| it.0).collect()
    }
}

impl Field<Word> {
    pub(crate) fn word(self) -> Option<String> {
        self.value.map(|it| it.0)
    }
}

// The names by which the types above ask the deserializer for what serde's data model does not have.
const FIELD: &str = "contexture::Field";
const RAW: &str = "contexture::Raw";
const MANY: &str = "contexture::Many";

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Attempt<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Attempt<T> {
            type Value = Field<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_none<E>(self) -> Result<Field<T>, E> {
                Ok(Field::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut attempts: A) -> Result<Field<T>, A::Error> {
                let raw = attempts.next_element::<usize>()?.map(Raw);
                let value = attempts.next_element::<T>()?;
                // After a failure, the attempts that remain find the other faults.
                while attempts.size_hint() != Some(0) {
                    attempts.next_element::<T>()?;
                }
                Ok(Field { value, raw })
            }
        }

        deserializer.deserialize_newtype_struct(FIELD, Attempt(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Raw::deserialize(deserializer).map(|it| Given(Some(it)))
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Word(text)),
            Value::Number(number) => Ok(Word(number.to_string())),
            Value::Bool(it) => Ok(Word(it.to_string())),
            other => Err(Error::invalid_type(unexpected(&other), &"a text")),
        }
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wrong = || Error::invalid_type(unexpected(&value), &"a duration such as `2s` or `500ms`");
        value.as_str().and_then(duration).map(TimeSpan).ok_or_else(wrong)
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(it) => Unexpected::Bool(*it),
        Value::Number(it) => match (it.as_u64(), it.as_i64()) {
            (Some(it), _) => Unexpected::Unsigned(it),
            (None, Some(it)) => Unexpected::Signed(it),
            (None, None) => Unexpected::Float(it.as_f64().unwrap_or_default()),
        },
        Value::String(it) => Unexpected::Str(it),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let milliseconds = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

impl Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Problem::invalid(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Problem::invalid(format!("expected {}, found {}", in_words(expected), found(unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown_field(field, expected, None)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Problem::invalid(format!("expected {}, found `{variant}`", alternatives(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Problem::absence(format!("`{field}` is missing"))
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Describes a type without Rust terms.
fn in_words(expected: &dyn Expected) -> String {
    let name = expected.to_string();
    match name.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
        "i32" | "i64" => "a whole number".to_owned(),
        "f64" | "a JSON number" => "a number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a string" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ if name.starts_with("struct ") => "a map".to_owned(),
        _ => name,
    }
}

fn found(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(it) => format!("`{it}`"),
        Unexpected::Unsigned(it) => format!("`{it}`"),
        Unexpected::Signed(it) => format!("`{it}`"),
        Unexpected::Float(it) => format!("`{it}`"),
        Unexpected::Str(it) if it.chars().count() <= 40 => format!("the text `{it}`"),
        Unexpected::Str(_) => "a text".to_owned(),
        Unexpected::Unit => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => other.to_string(),
    }
}

fn alternatives(names: &[&str]) -> String {
    names.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(" or ")
}

/// Fields that authors often put next to `settings` instead of below it.
const SETTINGS: [&str; 6] = ["temperature", "max_tokens", "top_p", "top_k", "stop", "seed"];

fn unknown_field(key: &str, known: &[&str], advice: Option<&str>) -> Problem {
    if key == "hooks" && known.contains(&"settings") {
        let problem = Problem::invalid("`hooks` are functions: a file can't hold them");
        return problem.hint(Some("add them to the prompt's definition in Rust".to_owned()));
    }
    let setting = || known.contains(&"settings").then(|| nearest(key, SETTINGS)).flatten();
    // Prompts and contexts use different names for the same field.
    let other = [("context", "values"), ("values", "context")]
        .into_iter()
        .find(|(one, other)| key == *one && known.contains(other) && known.contains(&"use"))
        .map(|(_, other)| format!("did you mean `{other}`?"));
    let list = || (!known.is_empty()).then(|| format!("known fields: {}", known.join(", ")));
    let hint = advice
        .map(str::to_owned)
        .or(other)
        .or_else(|| did_you_mean(key, known.iter().copied()))
        .or_else(|| setting().map(|it| format!("did you mean `{it}` under `settings`?")))
        .or_else(list);
    Problem::new(ErrorCode::UnknownField, format!("unknown field `{key}`")).hint(hint)
}

/// The deserializer: a value of the tree.
#[derive(Clone)]
struct Located<'a, 's> {
    at: Cursor<'a>,
    /// The path to the one leaf that is shown, as indexes of pairs; empty if the whole value is shown.
    only: &'s [usize],
    /// Whether a value that is no list is shown as a list of one.
    is_list: bool,
    advice: Advice,
    log: &'s RefCell<Collected<'a>>,
}

impl<'a, 's> Located<'a, 's> {
    fn below(&self, at: Cursor<'a>, only: &'s [usize]) -> Self {
        Self { at, only, is_list: false, ..self.clone() }
    }

    /// Decodes the value; a check that a type makes after decoding is located here, too.
    fn seeded<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Problem> {
        let at = self.at.clone();
        seed.deserialize(self).map_err(|it| at.locate(it))
    }

    fn record(&self, problem: Problem) {
        self.log.borrow_mut().problems.push(problem);
    }

    /// Keeps the cursor and returns its index.
    fn keep(&self) -> usize {
        let raws = &mut self.log.borrow_mut().raws;
        raws.push(self.at.clone());
        raws.len() - 1
    }

    /// Returns the pairs that are shown, each with the path to the leaf below it.
    fn shown(&self, pairs: &'a [Pair]) -> Vec<(&'a Pair, &'s [usize])> {
        match self.only {
            [] => pairs.iter().map(|it| (it, self.only)).collect(),
            [idx, rest @ ..] => pairs.get(*idx).map(|it| (it, rest)).into_iter().collect(),
        }
    }

    fn list<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_seq(Items { items: self.at.items().into_iter(), list: self })
    }

    fn map<V: Visitor<'a>>(
        self,
        pairs: Vec<(&'a Pair, &'s [usize])>,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let at = self.at.clone();
        visitor
            .visit_map(Pairs { map: self, pairs: pairs.into_iter(), value: None })
            .map_err(|it| at.locate(it))
    }
}

impl<'a> Deserializer<'a> for Located<'a, '_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Problem> {
        let at = self.at.clone();
        let result = match &at.node.data {
            _ if self.is_list => self.list(visitor),
            Data::Null => visitor.visit_unit(),
            Data::Bool(it) => visitor.visit_bool(*it),
            Data::Number(it) => match (it.as_u64(), it.as_i64()) {
                (Some(it), _) => visitor.visit_u64(it),
                (None, Some(it)) => visitor.visit_i64(it),
                (None, None) => visitor.visit_f64(it.as_f64().unwrap_or_default()),
            },
            Data::Text(it) => visitor.visit_borrowed_str(it),
            Data::List(_) => self.list(visitor),
            Data::Map(pairs) => {
                let pairs = self.shown(pairs);
                self.map(pairs, visitor)
            }
        };
        result.map_err(|it| at.locate(it))
    }

    /// Shows the known keys to the struct and records the others.
    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let Data::Map(pairs) = &self.at.node.data else { return self.deserialize_any(visitor) };
        let is_known = |it: &(&Pair, _)| known.contains(&it.0.key.as_str());
        let (shown, unknown): (Vec<_>, Vec<_>) = self.shown(pairs).into_iter().partition(is_known);
        for (pair, _) in unknown {
            let problem = unknown_field(&pair.key, known, (self.advice)(&pair.key));
            self.record(problem.at(pair.place).within(&self.at.path));
        }
        self.map(shown, visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.at.node.data {
            Data::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match name {
            FIELD if self.at.node.is_null() => visitor.visit_none(),
            FIELD => visitor.visit_seq(Attempts { value: self, step: Step::Index }),
            RAW => visitor.visit_newtype_struct(self.keep().into_deserializer()),
            MANY => visitor.visit_newtype_struct(Self { is_list: true, ..self }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let at = self.at.clone();
        let (name, content) = match &at.node.data {
            Data::Text(name) => (name, None),
            Data::Map(pairs) => match self.shown(pairs).as_slice() {
                [(pair, only)] => (&pair.key, Some(self.below(at.child(pair), only))),
                _ => return Err(at.wrong("a map with one key")),
            },
            _ => return Err(at.wrong(&alternatives(names))),
        };
        visitor.visit_enum(Variant { name, content }).map_err(|it| at.locate(it))
    }

    serde::forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// Tries to decode the value of a [`Field`], and finds all its faults if that fails.
///
/// The first element is the index of the cursor, the second the value: `None` if it is invalid. Then follows one
/// element per leaf.
struct Attempts<'a, 's> {
    value: Located<'a, 's>,
    step: Step,
}

enum Step {
    Index,
    Whole,
    Leaves { whole: Problem, leaves: std::vec::IntoIter<Vec<usize>>, found: bool },
    Done,
}

impl<'a> SeqAccess<'a> for Attempts<'a, '_> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Problem> {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Index => {
                self.step = Step::Whole;
                seed.deserialize(self.value.keep().into_deserializer()).map(Some)
            }
            Step::Whole => match self.value.clone().seeded(seed) {
                Ok(value) => Ok(Some(value)),
                Err(whole) => {
                    let mut leaves = Vec::new();
                    // A single leaf is not divided further.
                    if self.value.only.is_empty() {
                        collect_leaves(self.value.at.node, &mut Vec::new(), &mut leaves);
                    }
                    self.step = Step::Leaves { whole, leaves: leaves.into_iter(), found: false };
                    self.settle();
                    Ok(None)
                }
            },
            Step::Leaves { whole, mut leaves, mut found } => {
                let leaf = leaves.next().unwrap_or_default();
                let alone = Located { only: &leaf, ..self.value.clone() };
                // A leaf alone lacks its neighbours, so only problems below the value itself count.
                if let Err(problem) = alone.seeded(seed)
                    && !problem.is_absence()
                    && problem.path() != self.value.at.path
                {
                    self.value.record(problem);
                    found = true;
                }
                self.step = Step::Leaves { whole, leaves, found };
                self.settle();
                Ok(None)
            }
            Step::Done => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(match &self.step {
            Step::Index => 2,
            Step::Whole => 1,
            Step::Leaves { leaves, .. } => leaves.len(),
            Step::Done => 0,
        })
    }
}

impl Attempts<'_, '_> {
    /// Once no leaf is left, records the problem of the whole value, unless it is that of a leaf.
    fn settle(&mut self) {
        let Step::Leaves { whole, leaves, found } = &self.step else { return };
        if leaves.len() == 0 {
            if !*found || whole.path() == self.value.at.path {
                self.value.record(whole.clone());
            }
            self.step = Step::Done;
        }
    }
}

/// Collects the paths to all values of a map that are not maps themselves, as indexes of pairs.
fn collect_leaves(node: &Node, path: &mut Vec<usize>, leaves: &mut Vec<Vec<usize>>) {
    match &node.data {
        Data::Map(pairs) if !pairs.is_empty() => {
            for (idx, pair) in pairs.iter().enumerate() {
                path.push(idx);
                collect_leaves(&pair.value, path, leaves);
                path.pop();
            }
        }
        _ if !path.is_empty() => leaves.push(path.clone()),
        _ => {}
    }
}

struct Items<'a, 's> {
    items: std::vec::IntoIter<Cursor<'a>>,
    list: Located<'a, 's>,
}

impl<'a> SeqAccess<'a> for Items<'a, '_> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Problem> {
        self.items.next().map(|it| self.list.below(it, &[]).seeded(seed)).transpose()
    }
}

struct Pairs<'a, 's> {
    map: Located<'a, 's>,
    pairs: std::vec::IntoIter<(&'a Pair, &'s [usize])>,
    value: Option<Located<'a, 's>>,
}

impl<'a> MapAccess<'a> for Pairs<'a, '_> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        let Some((pair, only)) = self.pairs.next() else { return Ok(None) };
        self.value = Some(self.map.below(self.map.at.child(pair), only));
        let key = StrDeserializer::<Problem>::new(&pair.key);
        seed.deserialize(key).map(Some).map_err(|it| it.at(pair.place))
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        match self.value.take() {
            Some(value) => value.seeded(seed),
            None => Err(Problem::invalid("a value without a key")),
        }
    }
}

struct Variant<'a, 's> {
    name: &'a str,
    content: Option<Located<'a, 's>>,
}

impl<'a> EnumAccess<'a> for Variant<'a, '_> {
    type Error = Problem;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Self), Problem> {
        let name = StrDeserializer::<Problem>::new(self.name);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'a> VariantAccess<'a> for Variant<'a, '_> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        match self.content {
            None => Ok(()),
            Some(content) => Err(content.at.invalid(format!("`{}` takes no value", self.name))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Problem> {
        match self.content {
            Some(content) => content.seeded(seed),
            None => Err(Problem::invalid(format!("`{0}` needs a value: `{0}: …`", self.name))),
        }
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.newtype_variant_seed(Seed(visitor))
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.newtype_variant_seed(Seed(visitor))
    }
}

/// Passes a visitor to a value.
struct Seed<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Seed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}
