//! Reads JSON documents and reports where they are invalid.
//!
//! A [`Place`] is a value with its path in the document. Reading it returns the value or a [`DecodeError`] with the
//! path, which is put together only then: every piece of a streamed answer is read this way, and hardly one is invalid. An absent field and a null field are the same. A camel-case name also matches its snake-case form, as on
//! Google's servers. A place records which of its fields were read; the remaining fields are unknown to us.
//! [`Place::left`] returns them, [`Place::report`] lists them as losses.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use serde_json::{Map, Number, Value};

use crate::error::{classify, failure, shortened};
use crate::loss::Losses;
use crate::{DecodeError, Dialect, Frame, StreamError};

/// A value and its path in the document.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// The last step to it; the whole document has none.
    at: Option<Rc<PathStep<'a>>>,
    pub(crate) value: &'a Value,
    /// The fields that were read.
    asked: RefCell<Vec<&'a str>>,
}

/// A step from a value to one within it, and the step before.
#[derive(Debug)]
struct PathStep<'a> {
    before: Option<Rc<PathStep<'a>>>,
    to: StepTo<'a>,
}

#[derive(Debug)]
enum StepTo<'a> {
    Field(&'a str),
    Element(usize),
}

impl PathStep<'_> {
    /// Adds the path up to here to a text.
    fn write(&self, path: &mut String) {
        if let Some(before) = &self.before {
            before.write(path);
        }
        // Writing to a text can't fail.
        let _ = match self.to {
            StepTo::Field(name) if path.is_empty() => write!(path, "{name}"),
            StepTo::Field(name) => write!(path, ".{name}"),
            StepTo::Element(idx) => write!(path, "[{idx}]"),
        };
    }
}

impl<'a> Place<'a> {
    /// Returns the whole document.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { at: None, value, asked: RefCell::default() }
    }

    /// Returns the whole document, which must be an object.
    pub(crate) fn root_object(value: &'a Value) -> Result<Self, DecodeError> {
        let root = Self::root(value);
        root.object()?;
        Ok(root)
    }

    /// Returns a value within this one.
    fn inner(&self, to: StepTo<'a>, value: &'a Value) -> Self {
        let step = PathStep { before: self.at.clone(), to };
        Self { at: Some(Rc::new(step)), value, asked: RefCell::default() }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        if let Some(step) = &self.at {
            step.write(&mut path);
        }
        path
    }

    /// Returns the path of this value, such as `messages[3].content`.
    pub(crate) fn at(&self) -> String {
        if self.at.is_none() { "body".to_owned() } else { self.path() }
    }

    /// Returns the path of a field.
    pub(crate) fn below(&self, name: &str) -> String {
        if self.at.is_none() { name.to_owned() } else { format!("{}.{name}", self.path()) }
    }

    /// Returns a field, or `None` if it is absent or null or this is not an object.
    pub(crate) fn get(&self, name: &str) -> Option<Place<'a>> {
        let fields = self.value.as_object()?;
        let found = fields.get_key_value(name).or_else(|| fields.get_key_value(&snake_case(name)?));
        let (own_name, value) = found?;
        self.asked.borrow_mut().push(own_name);
        (!value.is_null()).then(|| self.inner(StepTo::Field(own_name), value))
    }

    /// Returns a required field.
    pub(crate) fn need(&self, name: &str) -> Result<Place<'a>, DecodeError> {
        self.object()?;
        self.get(name).ok_or_else(|| DecodeError::new(self.below(name), "is missing"))
    }

    /// Returns the value of an optional field.
    pub(crate) fn get_value(&self, name: &str) -> Option<Value> {
        self.get(name).map(|it| it.value.clone())
    }

    /// Returns the text of an optional field.
    pub(crate) fn get_str(&self, name: &str) -> Result<Option<&'a str>, DecodeError> {
        self.get(name).map(|it| it.str()).transpose()
    }

    /// Returns the owned text of an optional field.
    pub(crate) fn get_string(&self, name: &str) -> Result<Option<String>, DecodeError> {
        Ok(self.get_str(name)?.map(str::to_owned))
    }

    /// Returns the owned text of a required field.
    pub(crate) fn need_string(&self, name: &str) -> Result<String, DecodeError> {
        Ok(self.need(name)?.str()?.to_owned())
    }

    /// Returns a name, such as an id. A wrong type or an empty text counts as absent: it is no reason to reject a
    /// document.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        self.get(name)?.value.as_str().filter(|it| !it.is_empty()).map(str::to_owned)
    }

    /// Returns the object in an optional field.
    pub(crate) fn get_object(&self, name: &str) -> Result<Option<Place<'a>>, DecodeError> {
        let place = self.get(name);
        place.map(|it| it.object().map(|_| it.clone())).transpose()
    }

    /// Returns the object in a required field.
    pub(crate) fn need_object(&self, name: &str) -> Result<Place<'a>, DecodeError> {
        let place = self.need(name)?;
        place.object()?;
        Ok(place)
    }

    /// Returns the elements of a list field; empty if the field is absent.
    pub(crate) fn get_list(&self, name: &str) -> Result<Vec<Place<'a>>, DecodeError> {
        self.get(name).map_or(Ok(Vec::new()), |it| it.list())
    }

    /// Returns the objects in a list field; empty if the field is absent.
    pub(crate) fn get_objects(&self, name: &str) -> Result<Vec<Place<'a>>, DecodeError> {
        self.get(name).map_or(Ok(Vec::new()), |it| it.objects())
    }

    /// Returns the texts in a list field; empty if the field is absent.
    pub(crate) fn get_strings(&self, name: &str) -> Result<Vec<String>, DecodeError> {
        self.get_list(name)?.iter().map(|it| it.str().map(str::to_owned)).collect()
    }

    /// Returns the number in an optional field, exactly as written.
    pub(crate) fn get_number(&self, name: &str) -> Result<Option<Number>, DecodeError> {
        self.get(name).map(|it| it.number()).transpose()
    }

    /// Returns the `u32` in an optional field.
    pub(crate) fn get_u32(&self, name: &str) -> Result<Option<u32>, DecodeError> {
        self.get(name).map(|it| it.u32()).transpose()
    }

    /// Returns the integer in an optional field.
    pub(crate) fn get_i64(&self, name: &str) -> Result<Option<i64>, DecodeError> {
        let number = self.get(name).map(|it| it.value.as_i64().ok_or_else(|| it.expected("a whole number")));
        number.transpose()
    }

    /// Returns whether a boolean field is true; false if it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, DecodeError> {
        let flag = self.get(name).map(|it| it.value.as_bool().ok_or_else(|| it.expected("a boolean")));
        Ok(flag.transpose()?.unwrap_or_default())
    }

    /// Returns a count, such as a number of tokens. `40.0` is accepted as an integer. Anything that is not a count is
    /// treated as absent: it is no reason to reject an answer.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        whole(self.get(name)?.value)
    }

    /// Returns the elements of a list.
    pub(crate) fn list(&self) -> Result<Vec<Place<'a>>, DecodeError> {
        let items = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        let places = items.iter().enumerate();
        Ok(places.map(|(idx, value)| self.inner(StepTo::Element(idx), value)).collect())
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

    /// Marks fields as read, so that they are not reported.
    pub(crate) fn ignore(&self, names: &[&str]) {
        for name in names {
            self.get(name);
        }
    }

    /// Returns the fields that were not read, except null ones.
    pub(crate) fn left(&self) -> Map<String, Value> {
        let left = self.unasked().filter(|(_, value)| !value.is_null());
        left.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Reports the non-empty fields that were not read as losses.
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

    /// Returns the error for a value of the wrong type.
    pub(crate) fn expected(&self, what: &str) -> DecodeError {
        DecodeError::new(self.at(), format!("expected {what}, found {}", kind(self.value)))
    }
}

/// Parses the data of a frame, for all dialects. Returns an error that the server reports in any of the usual forms
/// as a provider error. If the data is not JSON, the error quotes its beginning.
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

/// Returns whether a field carries information: SDKs write null and empty lists for absent values. An empty object
/// can be a switch.
fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    }
}

/// Converts a camel-case name to snake case; returns `None` if it has no capitals.
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
