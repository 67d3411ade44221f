//! Decodes typed values from a [`Node`], and reports the position of what does not match.
//!
//! A node is a serde deserializer: an error carries the position of the innermost value it concerns and the path to
//! it. [`each_key`] decodes a map key by key, so that all invalid keys are reported, not just the first.

use contexture_message::ErrorCode;
use std::fmt;
use std::time::Duration;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

use crate::error::Problem;
use crate::yaml::{Data, Node, Pair};
use contexture_template::did_you_mean;

/// Reads one value.
pub(crate) fn value<T: DeserializeOwned>(node: &Node) -> Result<T, Problem> {
    T::deserialize(node)
}

/// Decodes a map to a type; on failure returns the problems of each key.
pub(crate) fn each_key<T: DeserializeOwned>(node: &Node) -> Result<T, Vec<Problem>> {
    let whole = match value::<T>(node) {
        Ok(value) => return Ok(value),
        Err(problem) => problem,
    };
    let Data::Map(pairs) = &node.data else { return Err(vec![whole]) };
    let alone = pairs.iter().map(|pair| Node::new(Data::Map(vec![pair.clone()]), node.place));
    let mut problems: Vec<Problem> =
        alone.filter_map(|it| value::<T>(&it).err()).filter(|it| !it.is_absence()).collect();
    if problems.is_empty() {
        problems.push(whole);
    }
    Err(problems)
}

/// Reads a text.
pub(crate) fn text(node: &Node) -> Result<String, Problem> {
    match &node.data {
        Data::Text(text) => Ok(text.clone()),
        _ => Err(wrong(node, "a text")),
    }
}

/// Reads a text. A number or boolean is read as the text it was written as.
pub(crate) fn word(node: &Node) -> Result<String, Problem> {
    match &node.data {
        Data::Text(text) => Ok(text.clone()),
        Data::Number(number) => Ok(number.to_string()),
        Data::Bool(it) => Ok(it.to_string()),
        _ => Err(wrong(node, "a text")),
    }
}

/// Returns the items of a list, or a single value as a list of one.
pub(crate) fn one_or_many(node: &Node) -> &[Node] {
    match &node.data {
        Data::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// Reads a list of texts, or a single one.
pub(crate) fn texts(node: &Node) -> Result<Vec<String>, Problem> {
    one_or_many(node).iter().map(word).collect()
}

/// Returns the items of a list of any type.
pub(crate) fn list(node: &Node) -> Result<&[Node], Problem> {
    match &node.data {
        Data::List(items) => Ok(items),
        _ => Err(wrong(node, "a list")),
    }
}

/// Returns the pairs of a map.
pub(crate) fn map(node: &Node) -> Result<&[Pair], Problem> {
    match &node.data {
        Data::Map(pairs) => Ok(pairs),
        _ => Err(wrong(node, "a map")),
    }
}

/// Returns the pair with that key, if the node is a map that has it.
pub(crate) fn pair<'n>(node: &'n Node, key: &str) -> Option<&'n Pair> {
    match &node.data {
        Data::Map(pairs) => pairs.iter().find(|it| it.key == key),
        _ => None,
    }
}

/// Returns the pair of a map that has exactly one.
pub(crate) fn one_pair(node: &Node) -> Option<&Pair> {
    match &node.data {
        Data::Map(pairs) => pairs.first().filter(|_| pairs.len() == 1),
        _ => None,
    }
}

/// Reads a duration such as `2s`, `500ms` or `10m`.
pub(crate) fn duration(node: &Node) -> Result<Duration, Problem> {
    let wrong = || wrong(node, "a duration such as `2s` or `500ms`");
    let Data::Text(text) = &node.data else { return Err(wrong()) };
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let milliseconds = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    count.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(wrong)
}

/// Reads one of a fixed set of words.
pub(crate) fn choice<T: Copy>(node: &Node, choices: &[(&str, T)]) -> Result<T, Problem> {
    let found = match &node.data {
        Data::Text(text) => choices.iter().find(|(name, _)| name == text),
        _ => None,
    };
    let names = || choices.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    found.map(|(_, value)| *value).ok_or_else(|| wrong(node, &names()))
}

/// Returns the problem that states what was expected and what was found.
pub(crate) fn wrong(node: &Node, expected: &str) -> Problem {
    Problem::invalid(format!("expected {expected}, found {}", node.describe())).at(node.place)
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
        Problem::new(ErrorCode::UnknownField, format!("unknown field `{field}`"))
            .hint(did_you_mean(field, expected.iter().copied()).or_else(|| known_fields(expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let names: Vec<String> = expected.iter().map(|it| format!("`{it}`")).collect();
        Problem::invalid(format!("expected {}, found `{variant}`", names.join(" or ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Problem::absence(format!("`{field}` is missing"))
    }
}

/// Describes a type without Rust terms.
fn in_words(expected: &dyn Expected) -> String {
    let name = expected.to_string();
    match name.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
        "i64" => "a whole number".to_owned(),
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

/// Returns a hint that lists the known fields, for use when no name is similar.
pub(crate) fn known_fields(known: &[&str]) -> Option<String> {
    (!known.is_empty()).then(|| format!("known fields: {}", known.join(", ")))
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let result = match &self.data {
            Data::Null => visitor.visit_unit(),
            Data::Bool(it) => visitor.visit_bool(*it),
            Data::Number(it) => match (it.as_u64(), it.as_i64()) {
                (Some(it), _) => visitor.visit_u64(it),
                (None, Some(it)) => visitor.visit_i64(it),
                (None, None) => visitor.visit_f64(it.as_f64().unwrap_or_default()),
            },
            Data::Text(it) => visitor.visit_borrowed_str(it),
            Data::List(items) => visitor.visit_seq(Items { items: items.iter(), idx: 0 }),
            Data::Map(pairs) => visitor.visit_map(Pairs { pairs: pairs.iter(), value: None }),
        };
        result.map_err(|it| it.at(self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.data {
            Data::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let variant = match &self.data {
            Data::Text(name) => Variant { name, content: None },
            Data::Map(pairs) => match pairs.as_slice() {
                [pair] => Variant { name: &pair.key, content: Some(&pair.value) },
                _ => return Err(wrong(self, "a map with one key")),
            },
            _ => return Err(wrong(self, "a text or a map with one key")),
        };
        visitor.visit_enum(variant).map_err(|it| it.at(self.place))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Node>,
    idx: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Problem> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let idx = self.idx;
        self.idx += 1;
        seed.deserialize(item).map(Some).map_err(|it| it.under(format!("[{idx}]")))
    }
}

struct Pairs<'a> {
    pairs: std::slice::Iter<'a, Pair>,
    value: Option<&'a Pair>,
}

impl<'de> MapAccess<'de> for Pairs<'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        let Some(pair) = self.pairs.next() else { return Ok(None) };
        self.value = Some(pair);
        let key = StrDeserializer::<Problem>::new(&pair.key);
        seed.deserialize(key).map(Some).map_err(|it| it.at(pair.place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        match self.value.take() {
            Some(pair) => seed.deserialize(&pair.value).map_err(|it| it.under(pair.key.clone())),
            None => Err(Problem::invalid("a value without a key")),
        }
    }
}

struct Variant<'a> {
    name: &'a str,
    content: Option<&'a Node>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Problem;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Problem> {
        let name = StrDeserializer::<Problem>::new(self.name);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        match self.content {
            None => Ok(()),
            Some(content) => {
                Err(Problem::invalid(format!("`{}` takes no value", self.name)).at(content.place))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Problem> {
        match self.content {
            Some(content) => seed.deserialize(content).map_err(|it| it.under(self.name)),
            None => Err(Problem::invalid(format!("`{0}` needs a value: `{0}: …`", self.name))),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.newtype_variant_seed(Seed(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.newtype_variant_seed(Seed(visitor))
    }
}

/// Passes a visitor to a node.
struct Seed<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Seed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}
