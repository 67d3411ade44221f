//! Reads JSON documents of others, and says where they are wrong.
//!
//! A [`Place`] is a value together with the path that leads to it. Reading it gives the value or a [`DecodeError`] that
//! names the path. A field that is absent and one that is null are the same. A name in camel case is also found in snake
//! case, as Google's servers do it. A place remembers which of its fields were asked for: what nobody asked for is what we
//! don't know. [`Place::left`] hands it on, [`Place::report`] lists it as losses.

use std::cell::RefCell;

use serde_json::{Map, Number, Value};

use crate::error::{classify, failure, shortened};
use crate::loss::Losses;
use crate::{DecodeError, Dialect, Frame, StreamError};

/// A value of a document and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    at: String,
    pub(crate) value: &'a Value,
    /// The fields that were asked for.
    asked: RefCell<Vec<&'a str>>,
}

impl<'a> Place<'a> {
    /// Returns the whole document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self::new(String::new(), value)
    }

    /// Returns the whole document, which must be an object.
    pub(crate) fn root_object(value: &'a Value) -> Result<Self, DecodeError> {
        let root = Self::root(value);
        root.object()?;
        Ok(root)
    }

    fn new(at: String, value: &'a Value) -> Self {
        Self { at, value, asked: RefCell::default() }
    }

    /// Returns the path that leads here, such as `messages[3].content`.
    pub(crate) fn at(&self) -> &str {
        if self.at.is_empty() { "body" } else { &self.at }
    }

    /// Returns the path that leads to a field.
    pub(crate) fn below(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Returns a field, unless it is absent or null or this is no object.
    pub(crate) fn get(&self, name: &str) -> Option<Place<'a>> {
        let fields = self.value.as_object()?;
        let found = fields.get_key_value(name).or_else(|| fields.get_key_value(&snake_case(name)?));
        let (own_name, value) = found?;
        self.asked.borrow_mut().push(own_name);
        (!value.is_null()).then(|| Place::new(self.below(name), value))
    }

    /// Returns a field that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<Place<'a>, DecodeError> {
        self.object()?;
        self.get(name).ok_or_else(|| DecodeError::new(self.below(name), "is missing"))
    }

    /// Returns the value of a field, if the field is there.
    pub(crate) fn get_value(&self, name: &str) -> Option<Value> {
        self.get(name).map(|it| it.value.clone())
    }

    /// Returns the text of a field, if the field is there.
    pub(crate) fn get_str(&self, name: &str) -> Result<Option<&'a str>, DecodeError> {
        self.get(name).map(|it| it.str()).transpose()
    }

    /// Returns the text of a field as our own, if the field is there.
    pub(crate) fn get_string(&self, name: &str) -> Result<Option<String>, DecodeError> {
        Ok(self.get_str(name)?.map(str::to_owned))
    }

    /// Returns the text of a field that must be there, as our own.
    pub(crate) fn need_string(&self, name: &str) -> Result<String, DecodeError> {
        Ok(self.need(name)?.str()?.to_owned())
    }

    /// Returns a name, such as an id: no reason to give up a document, so what is no text, or an empty one, is none.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        self.get(name)?.value.as_str().filter(|it| !it.is_empty()).map(str::to_owned)
    }

    /// Returns an object in a field, if the field is there.
    pub(crate) fn get_object(&self, name: &str) -> Result<Option<Place<'a>>, DecodeError> {
        let place = self.get(name);
        place.map(|it| it.object().map(|_| it.clone())).transpose()
    }

    /// Returns an object in a field that must be there.
    pub(crate) fn need_object(&self, name: &str) -> Result<Place<'a>, DecodeError> {
        let place = self.need(name)?;
        place.object()?;
        Ok(place)
    }

    /// Returns the elements of a field, none if the field is not there.
    pub(crate) fn get_list(&self, name: &str) -> Result<Vec<Place<'a>>, DecodeError> {
        self.get(name).map_or(Ok(Vec::new()), |it| it.list())
    }

    /// Returns the objects in a field, none if the field is not there.
    pub(crate) fn get_objects(&self, name: &str) -> Result<Vec<Place<'a>>, DecodeError> {
        self.get(name).map_or(Ok(Vec::new()), |it| it.objects())
    }

    /// Returns the texts in a field, none if the field is not there.
    pub(crate) fn get_strings(&self, name: &str) -> Result<Vec<String>, DecodeError> {
        self.get_list(name)?.iter().map(|it| it.str().map(str::to_owned)).collect()
    }

    /// Returns the number in a field as it is written, if the field is there.
    pub(crate) fn get_number(&self, name: &str) -> Result<Option<Number>, DecodeError> {
        self.get(name).map(|it| it.number()).transpose()
    }

    /// Returns the whole number of 32 bits in a field, if the field is there.
    pub(crate) fn get_u32(&self, name: &str) -> Result<Option<u32>, DecodeError> {
        self.get(name).map(|it| it.u32()).transpose()
    }

    /// Returns the whole number in a field, if the field is there.
    pub(crate) fn get_i64(&self, name: &str) -> Result<Option<i64>, DecodeError> {
        let number = self.get(name).map(|it| it.value.as_i64().ok_or_else(|| it.expected("a whole number")));
        number.transpose()
    }

    /// Returns whether a field is true; one that is not there is not.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, DecodeError> {
        let flag = self.get(name).map(|it| it.value.as_bool().ok_or_else(|| it.expected("a boolean")));
        Ok(flag.transpose()?.unwrap_or_default())
    }

    /// Returns a field's count, such as of tokens. A number such as `40.0` is whole; what is no count is none, as no
    /// count is a reason to give up an answer.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        whole(self.get(name)?.value)
    }

    /// Returns the elements of a list.
    pub(crate) fn list(&self) -> Result<Vec<Place<'a>>, DecodeError> {
        let items = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        let places = items.iter().enumerate();
        Ok(places.map(|(idx, value)| Place::new(format!("{}[{idx}]", self.at), value)).collect())
    }

    /// Returns the elements of a list of objects.
    pub(crate) fn objects(&self) -> Result<Vec<Place<'a>>, DecodeError> {
        let items = self.list()?;
        items.iter().try_for_each(|it| it.object().map(drop))?;
        Ok(items)
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
        let number = whole(self.value).and_then(|it| u32::try_from(it).ok());
        number.ok_or_else(|| self.expected("a whole number of 32 bits"))
    }

    /// Says that nobody wants to know these fields.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.get(name);
        }
    }

    /// Returns what nobody asked for, without fields that are null.
    pub(crate) fn left(&self) -> Map<String, Value> {
        let left = self.unasked().filter(|(_, value)| !value.is_null());
        left.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Lists what says something and nobody asked for as losses.
    pub(crate) fn report(&self, losses: &mut Losses) {
        for (name, _) in self.unasked().filter(|(_, value)| says(value)) {
            losses.add(self.below(name), "left out: it has no place here");
        }
    }

    fn unasked(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let asked = self.asked.borrow().clone();
        let fields = self.value.as_object().into_iter().flatten();
        fields.filter(move |(name, _)| !asked.contains(&name.as_str()))
    }

    /// Returns the error of a value that is something else.
    pub(crate) fn expected(&self, what: &str) -> DecodeError {
        DecodeError::new(self.at(), format!("expected {what}, found {}", kind(self.value)))
    }
}

/// Reads the data of a frame, whatever the dialect. A server's error is returned as one, in whichever of the usual ways
/// it says so; data that is no JSON is shown from its beginning.
pub(crate) fn parse_frame(dialect: Dialect, frame: &Frame) -> Result<Value, StreamError> {
    let data = frame.data.trim();
    let is_error = frame.event.as_deref() == Some("error");
    let body = match serde_json::from_str(data) {
        Ok(body) => body,
        Err(_) if is_error => Value::from(data),
        Err(_) => {
            let reason = format!("is not JSON: `{}`", shortened(data, 80));
            return Err(DecodeError::new("frame", reason).into());
        }
    };
    match failure(dialect, &body) {
        Some(err) => Err(err.into()),
        None if is_error => Err(classify(dialect, 0, &body).into()),
        None => Ok(body),
    }
}

fn whole(value: &Value) -> Option<u64> {
    let float = value.as_f64().filter(|it| it.fract() == 0.0 && (0.0..=9e15).contains(it));
    value.as_u64().or(float.map(|it| it as u64))
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

/// Whether a field says anything: SDKs write empty lists and nulls for what is not there. An empty object is a switch.
fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    }
}

/// Returns a name of camel case in snake case.
fn snake_case(name: &str) -> Option<String> {
    if !name.contains(|it: char| it.is_ascii_uppercase()) {
        return None;
    }
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    Some(snake)
}
