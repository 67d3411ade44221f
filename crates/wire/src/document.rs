//! Reads JSON objects field by field and says exactly where something is wrong.
//!
//! In comes a JSON value with its place, out come its fields, each with the type that the dialect says. A field that is
//! `null` counts as absent. What nobody took is what we don't know: [`Doc::left`] hands it on, [`Doc::report`] lists it
//! as losses. A name in camel case is found in snake case too, as Google's servers do.

use serde_json::{Map, Number, Value};

use crate::DecodeError;
use crate::loss::Losses;

/// An object that is being read.
#[derive(Debug)]
pub(crate) struct Doc {
    at: String,
    fields: Map<String, Value>,
}

impl Doc {
    /// Begins to read `value`, which must be an object; the place of a whole document is empty.
    pub(crate) fn new(at: impl Into<String>, value: Value) -> Result<Self, DecodeError> {
        let at = at.into();
        match value {
            Value::Object(fields) => Ok(Self { at, fields }),
            other if at.is_empty() => Err(wrong("body", "an object", &other)),
            other => Err(wrong(&at, "an object", &other)),
        }
    }

    /// Returns the place of a field.
    pub(crate) fn at(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// Returns the place of the object itself.
    pub(crate) fn place(&self) -> &str {
        &self.at
    }

    /// Whether a field is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// Takes a field of any type.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        let value = self.fields.shift_remove(key).or_else(|| self.fields.shift_remove(&snake_case(key)));
        value.filter(|it| !it.is_null())
    }

    /// Takes a text.
    pub(crate) fn string(&mut self, key: &str) -> Result<Option<String>, DecodeError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.at(key), "a string", &other)),
        }
    }

    /// Takes a text that must be there.
    pub(crate) fn needed_string(&mut self, key: &str) -> Result<String, DecodeError> {
        self.string(key)?.ok_or_else(|| DecodeError::new(self.at(key), "missing"))
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, DecodeError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong(&self.at(key), "a list", &other)),
        }
    }

    /// Takes a list of texts; none if it is absent.
    pub(crate) fn strings(&mut self, key: &str) -> Result<Vec<String>, DecodeError> {
        let items = self.list(key)?.unwrap_or_default().into_iter().enumerate();
        let texts = items.map(|(index, it)| match it {
            Value::String(text) => Ok(text),
            other => Err(wrong(&format!("{}[{index}]", self.at(key)), "a string", &other)),
        });
        texts.collect()
    }

    /// Takes an object.
    pub(crate) fn doc(&mut self, key: &str) -> Result<Option<Doc>, DecodeError> {
        let at = self.at(key);
        self.take(key).map(|it| Doc::new(at, it)).transpose()
    }

    /// Takes a list of objects; none if it is absent.
    pub(crate) fn docs(&mut self, key: &str) -> Result<Vec<Doc>, DecodeError> {
        let at = self.at(key);
        docs(&at, self.list(key)?.unwrap_or_default())
    }

    /// Takes a truth value; false if it is absent.
    pub(crate) fn flag(&mut self, key: &str) -> Result<bool, DecodeError> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(wrong(&self.at(key), "true or false", &other)),
        }
    }

    /// Takes a number as it is written.
    pub(crate) fn number(&mut self, key: &str) -> Result<Option<Number>, DecodeError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(wrong(&self.at(key), "a number", &other)),
        }
    }

    /// Takes a whole number of at least 0. A number such as `40.0` is whole.
    pub(crate) fn count(&mut self, key: &str) -> Result<Option<u64>, DecodeError> {
        let Some(number) = self.number(key)? else { return Ok(None) };
        let whole = number.as_f64().filter(|it| it.fract() == 0.0 && (0.0..=9e15).contains(it));
        let count = number.as_u64().or(whole.map(|it| it as u64));
        count.map(Some).ok_or_else(|| {
            DecodeError::new(self.at(key), format!("expected a whole number, found `{number}`"))
        })
    }

    /// Takes a whole number that fits into 32 bits.
    pub(crate) fn count32(&mut self, key: &str) -> Result<Option<u32>, DecodeError> {
        let Some(count) = self.count(key)? else { return Ok(None) };
        let small = u32::try_from(count);
        small.map(Some).map_err(|_| DecodeError::new(self.at(key), format!("`{count}` is too large")))
    }

    /// Returns what nobody took, without fields that are `null`.
    pub(crate) fn left(self) -> Map<String, Value> {
        self.fields.into_iter().filter(|(_, it)| !it.is_null()).collect()
    }

    /// Lists what nobody took as losses.
    pub(crate) fn report(self, losses: &mut Losses) {
        let at = self.at.clone();
        let place = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        for key in self.left().keys() {
            losses.add(place(key), "left out: this field has no place in a request or an answer of ours");
        }
    }
}

/// Reads every item of a list as an object.
pub(crate) fn docs(at: &str, items: Vec<Value>) -> Result<Vec<Doc>, DecodeError> {
    let items = items.into_iter().enumerate();
    items.map(|(index, it)| Doc::new(format!("{at}[{index}]"), it)).collect()
}

/// Reads the data of a frame. An error shows its beginning.
pub(crate) fn parse_frame(data: &str) -> Result<Value, DecodeError> {
    serde_json::from_str(data).map_err(|_| {
        let shown: String = data.chars().take(80).collect();
        let dots = if shown.len() < data.len() { "…" } else { "" };
        DecodeError::new("frame", format!("not JSON: `{shown}{dots}`"))
    })
}

/// Returns the error for a value of the wrong type.
pub(crate) fn wrong(at: &str, expected: &str, found: &Value) -> DecodeError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    DecodeError::new(at, format!("expected {expected}, found {found}"))
}

fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
