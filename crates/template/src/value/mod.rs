//! Values during rendering.
//!
//! A [`Value`] borrows from the caller's data where it can: looking up a variable copies a pointer, not the value.
//! Lists and strings built by filters are reference-counted, so cloning them is cheap too.

pub(crate) mod compare;
pub(crate) mod loops;
pub(crate) mod number;

use std::{borrow::Cow, rc::Rc, sync::Arc};

use serde_json::{Map, Value as Json};

use crate::{
    error::Fault,
    limits::{Builder, Meter},
};
use loops::LoopState;
use number::Number;

/// A value from the caller's data, from a literal, or from a filter.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(&'a str),
    Text(Arc<str>),
    Array(&'a [Json]),
    Object(&'a Map<String, Json>),
    List(Rc<Vec<Value<'a>>>),
    /// A range that includes both ends. Its items are counted before it is expanded.
    Range(i64, i64),
    Loop(Rc<LoopState>),
    /// The literal `empty`.
    Empty,
    /// The literal `blank`.
    Blank,
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Value::Int(int.into()),
                (None, Some(int)) => Value::Int(int.into()),
                (None, None) => Value::Float(number.as_f64().unwrap_or(0.0)),
            },
            Json::String(text) => Value::Str(text),
            Json::Array(items) => Value::Array(items),
            Json::Object(map) => Value::Object(map),
        }
    }
}

impl From<Number> for Value<'_> {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(int) => Value::Int(int),
            Number::Float(float) => Value::Float(float),
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(text.into())
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Value::List(Rc::new(items))
    }
}

impl<'a> Value<'a> {
    /// Returns the text of a string value.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// Returns whether the value is truthy: everything except nil and false.
    pub(crate) fn is_true(&self) -> bool {
        !matches!(self, Value::Nil | Value::Bool(false))
    }

    /// Returns whether this is an empty string, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::List(items) => items.is_empty(),
            _ => self.as_str().is_some_and(str::is_empty),
        }
    }

    /// Returns whether this equals the literal `blank`.
    pub(crate) fn is_blank(&self) -> bool {
        match self.as_str() {
            Some(text) => text.trim_ascii().is_empty(),
            None => !self.is_true() || self.is_empty(),
        }
    }

    /// Returns the number of characters, items or entries.
    pub(crate) fn size(&self) -> Option<u128> {
        let size = match self {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            Value::List(items) => items.len(),
            Value::Range(start, end) => return Some(range_length(*start, *end)),
            _ => self.as_str()?.chars().count(),
        };
        Some(size as u128)
    }

    pub(crate) fn first(&self) -> Option<Value<'a>> {
        match self {
            Value::Array(items) => Some(items.first().map_or(Value::Nil, Value::from)),
            Value::List(items) => Some(items.first().cloned().unwrap_or(Value::Nil)),
            Value::Range(start, end) => {
                Some(if start <= end { Value::Int((*start).into()) } else { Value::Nil })
            }
            Value::Object(map) => Some(map.iter().next().map_or(Value::Nil, |(key, value)| pair(key, value))),
            _ => self.as_str().map(|text| one_char(text.chars().next())),
        }
    }

    pub(crate) fn last(&self) -> Option<Value<'a>> {
        match self {
            Value::Array(items) => Some(items.last().map_or(Value::Nil, Value::from)),
            Value::List(items) => Some(items.last().cloned().unwrap_or(Value::Nil)),
            Value::Range(start, end) => {
                Some(if start <= end { Value::Int((*end).into()) } else { Value::Nil })
            }
            _ => self.as_str().map(|text| one_char(text.chars().next_back())),
        }
    }

    /// Returns the value as a number, parsing strings; 0 for anything else.
    pub(crate) fn number(&self) -> Number {
        match self {
            Value::Int(int) => Number::Int(*int),
            Value::Float(float) => Number::Float(*float),
            _ => self.as_str().map_or(Number::Int(0), number::parse),
        }
    }

    /// Returns the integer that this value is or spells out in full, without any looser conversion.
    pub(crate) fn integer(&self) -> Result<i128, Fault> {
        let int = match self {
            Value::Int(int) => Some(*int),
            _ => self.as_str().and_then(number::strict_int),
        };
        int.ok_or_else(|| Fault::argument(format!("{} is not a whole number", self.describe())))
    }

    /// Returns the integer part of a number, the integer at the start of a string, or 0 for nil.
    pub(crate) fn loose_integer(&self) -> Result<i128, Fault> {
        let number = match self {
            Value::Nil => Number::Int(0),
            Value::Int(int) => Number::Int(*int),
            Value::Float(float) => Number::Float(float.trunc()),
            _ => match self.as_str() {
                Some(text) => number::leading_int(text),
                None => return self.integer(),
            },
        };
        Ok(match number {
            Number::Int(int) => int,
            Number::Float(float) => float as i128, // A cast saturates.
        })
    }

    /// Describes the value for error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Nil => "nil".into(),
            Value::Array(_) | Value::List(_) => "a list".into(),
            Value::Range(..) => "a range".into(),
            Value::Object(_) => "an object".into(),
            Value::Loop(_) => "a loop".into(),
            Value::Empty => "`empty`".into(),
            Value::Blank => "`blank`".into(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(int) => format!("`{int}`"),
            Value::Float(float) => format!("`{}`", number::format_float(*float)),
            Value::Str(_) | Value::Text(_) => {
                let text: String = self.as_str().unwrap_or("").chars().take(40).collect();
                format!("`\"{text}\"`")
            }
        }
    }

    /// Returns the value as text, borrowed if it is a string already.
    pub(crate) fn text(&self, meter: &mut Meter) -> Result<Cow<'_, str>, Fault> {
        match self {
            Value::Nil | Value::Empty | Value::Blank => Ok("".into()),
            Value::Str(_) | Value::Text(_) => Ok(self.as_str().unwrap_or("").into()),
            _ => {
                let mut builder = Builder::new(meter);
                write_text(self, &mut |part| {
                    builder.meter().steps(1)?;
                    builder.push(part)
                })?;
                Ok(builder.finish().into())
            }
        }
    }
}

/// Returns the number of integers in a range.
pub(crate) fn range_length(start: i64, end: i64) -> u128 {
    if start > end { 0 } else { (i128::from(end) - i128::from(start) + 1).unsigned_abs() }
}

/// Returns a map entry as loops see it: a list of key and value.
pub(crate) fn pair<'a>(key: &'a str, value: &'a Json) -> Value<'a> {
    vec![Value::Str(key), value.into()].into()
}

fn one_char<'a>(char: Option<char>) -> Value<'a> {
    char.map_or(Value::Nil, |char| char.to_string().into())
}

/// Passes the text of `value` to `write` in chunks: lists without separators, maps as JSON.
pub(crate) fn write_text(
    value: &Value<'_>,
    write: &mut dyn FnMut(&str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    text_of(value, write, 0)
}

fn text_of(
    value: &Value<'_>,
    write: &mut dyn FnMut(&str) -> Result<(), Fault>,
    depth: usize,
) -> Result<(), Fault> {
    Meter::data_depth(depth)?;
    match value {
        Value::Nil | Value::Empty | Value::Blank => Ok(()),
        Value::Bool(value) => write(if *value { "true" } else { "false" }),
        Value::Int(int) => write(&int.to_string()),
        Value::Float(float) => write(&number::format_float(*float)),
        Value::Str(text) => write(text),
        Value::Text(text) => write(text),
        // Write an empty chunk for each item, so that a caller that counts chunks counts items as well.
        Value::Array(items) => {
            items.iter().try_for_each(|it| write("").and_then(|()| text_of(&it.into(), write, depth + 1)))
        }
        Value::List(items) => {
            items.iter().try_for_each(|it| write("").and_then(|()| text_of(it, write, depth + 1)))
        }
        Value::Object(map) => json_map(map, write, depth),
        Value::Range(start, end) => write(&format!("{start}..{end}")),
        Value::Loop(state) => write(state.type_name()),
    }
}

/// Passes the JSON of `value` to `write` in chunks.
pub(crate) fn write_json(
    value: &Value<'_>,
    write: &mut dyn FnMut(&str) -> Result<(), Fault>,
    depth: usize,
) -> Result<(), Fault> {
    Meter::data_depth(depth)?;
    match value {
        Value::Nil | Value::Loop(_) => write("null"),
        Value::Empty | Value::Blank => write("\"\""),
        Value::Bool(_) | Value::Int(_) => text_of(value, write, depth),
        Value::Float(float) => write(&Json::from(*float).to_string()),
        Value::Str(_) | Value::Text(_) => json_string(value.as_str().unwrap_or(""), write),
        Value::Array(items) => json_list(&mut items.iter().map(Value::from), write, depth),
        Value::List(items) => json_list(&mut items.iter().cloned(), write, depth),
        Value::Range(start, end) => {
            json_list(&mut (*start..=*end).map(|it| Value::Int(it.into())), write, depth)
        }
        Value::Object(map) => json_map(map, write, depth),
    }
}

fn json_string(text: &str, write: &mut dyn FnMut(&str) -> Result<(), Fault>) -> Result<(), Fault> {
    // Escaping makes the text a few times longer at most; the caller has counted the text itself.
    write(&Json::from(text).to_string())
}

fn json_list<'a>(
    items: &mut dyn Iterator<Item = Value<'a>>,
    write: &mut dyn FnMut(&str) -> Result<(), Fault>,
    depth: usize,
) -> Result<(), Fault> {
    write("[")?;
    for (idx, item) in items.enumerate() {
        if idx > 0 {
            write(",")?;
        }
        write_json(&item, write, depth + 1)?;
    }
    write("]")
}

fn json_map(
    map: &Map<String, Json>,
    write: &mut dyn FnMut(&str) -> Result<(), Fault>,
    depth: usize,
) -> Result<(), Fault> {
    write("{")?;
    for (idx, (key, value)) in map.iter().enumerate() {
        if idx > 0 {
            write(",")?;
        }
        json_string(key, write)?;
        write(":")?;
        write_json(&value.into(), write, depth + 1)?;
    }
    write("}")
}

/// Converts a value to owned JSON.
pub(crate) fn to_json(value: &Value<'_>, meter: &mut Meter, depth: usize) -> Result<Json, Fault> {
    Meter::data_depth(depth)?;
    meter.list(1)?;
    Ok(match value {
        Value::Nil | Value::Loop(_) => Json::Null,
        Value::Empty | Value::Blank => Json::from(""),
        Value::Bool(value) => Json::from(*value),
        Value::Int(int) => int_json(*int),
        Value::Float(float) => Json::from(*float),
        Value::Str(_) | Value::Text(_) => {
            let text = value.as_str().unwrap_or("");
            meter.build(text.len())?;
            Json::from(text)
        }
        Value::Array(items) => {
            items.iter().map(|it| to_json(&it.into(), meter, depth + 1)).collect::<Result<_, _>>()?
        }
        Value::List(items) => {
            items.iter().map(|it| to_json(it, meter, depth + 1)).collect::<Result<_, _>>()?
        }
        Value::Range(start, end) => {
            (*start..=*end).map(|it| meter.list(1).map(|()| Json::from(it))).collect::<Result<_, _>>()?
        }
        Value::Object(map) => Json::Object(
            map.iter()
                .map(|(key, value)| {
                    meter.build(key.len())?;
                    Ok((key.clone(), to_json(&value.into(), meter, depth + 1)?))
                })
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn int_json(int: i128) -> Json {
    match (i64::try_from(int), u64::try_from(int)) {
        (Ok(int), _) => Json::from(int),
        (_, Ok(int)) => Json::from(int),
        _ => Json::from(int as f64),
    }
}
