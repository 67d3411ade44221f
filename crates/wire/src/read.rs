//! Reads JSON documents of others, and says where they are wrong.
//!
//! A [`Place`] is a value together with the path that leads to it. Reading it gives the value or a [`DecodeError`] that
//! names the path. A field that is absent and one that is null are the same.

use serde_json::{Map, Number, Value};

use crate::DecodeError;
use crate::loss::Losses;

/// A value of a document and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    at: String,
    pub(crate) value: &'a Value,
}

impl<'a> Place<'a> {
    /// Returns the whole document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { at: String::new(), value }
    }

    /// Returns the path that leads here, such as `messages[3].content`.
    pub(crate) fn at(&self) -> &str {
        if self.at.is_empty() { "body" } else { &self.at }
    }

    /// Returns a field, unless it is absent or null or this is no object.
    pub(crate) fn get(&self, name: &str) -> Option<Place<'a>> {
        let value = self.value.get(name).filter(|it| !it.is_null())?;
        Some(Place { at: self.below(name), value })
    }

    /// Returns a field that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<Place<'a>, DecodeError> {
        self.object()?;
        self.get(name).ok_or_else(|| DecodeError::new(self.below(name), "is missing"))
    }

    /// Returns the text of a field, if the field is there.
    pub(crate) fn get_str(&self, name: &str) -> Result<Option<&'a str>, DecodeError> {
        self.get(name).map(|it| it.str()).transpose()
    }

    /// Returns the elements of a list.
    pub(crate) fn list(&self) -> Result<Vec<Place<'a>>, DecodeError> {
        let items = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        let places = items.iter().enumerate();
        Ok(places.map(|(idx, value)| Place { at: format!("{}[{idx}]", self.at), value }).collect())
    }

    /// Returns the elements of a field, none if the field is not there.
    pub(crate) fn get_list(&self, name: &str) -> Result<Vec<Place<'a>>, DecodeError> {
        self.get(name).map_or(Ok(Vec::new()), |it| it.list())
    }

    pub(crate) fn object(&self) -> Result<&'a Map<String, Value>, DecodeError> {
        self.value.as_object().ok_or_else(|| self.expected("an object"))
    }

    pub(crate) fn str(&self) -> Result<&'a str, DecodeError> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    pub(crate) fn number(&self) -> Result<Number, DecodeError> {
        self.value.as_number().cloned().ok_or_else(|| self.expected("a number"))
    }

    pub(crate) fn u32(&self) -> Result<u32, DecodeError> {
        let number = self.value.as_u64().and_then(|it| u32::try_from(it).ok());
        number.ok_or_else(|| self.expected("a whole number of 32 bits"))
    }

    pub(crate) fn i64(&self) -> Result<i64, DecodeError> {
        self.value.as_i64().ok_or_else(|| self.expected("a whole number"))
    }

    /// Returns a field's count of tokens; what is absent or no count is none.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.value.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Reports every field that says something and is not among `known`.
    pub(crate) fn report_unknown(&self, known: &[&str], losses: &mut Losses) {
        let fields = self.value.as_object().into_iter().flatten();
        for (name, _) in fields.filter(|(name, value)| !known.contains(&name.as_str()) && says(value)) {
            losses.add(self.below(name), "has no place in a request, left out");
        }
    }

    /// Returns the error of a value that is something else.
    pub(crate) fn expected(&self, what: &str) -> DecodeError {
        DecodeError::new(self.at(), format!("expected {what}, found {}", kind(self.value)))
    }

    fn below(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether a field says anything: SDKs write empty lists and nulls for what is not there.
fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
