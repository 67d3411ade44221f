//! Equality, order and `contains`.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json};

use crate::{error::Fault, limits::Meter, value::Value};

/// A comparison operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// Applies a comparison operator.
pub(crate) fn test(
    left: &Value<'_>,
    operator: Operator,
    right: &Value<'_>,
    meter: &mut Meter,
) -> Result<bool, Fault> {
    let wanted: fn(Ordering) -> bool = match operator {
        Operator::Equal => return equal(left, right, meter),
        Operator::NotEqual => return Ok(!equal(left, right, meter)?),
        Operator::Contains => return contains(left, right, meter),
        Operator::Less => Ordering::is_lt,
        Operator::LessOrEqual => Ordering::is_le,
        Operator::Greater => Ordering::is_gt,
        Operator::GreaterOrEqual => Ordering::is_ge,
    };
    Ok(relation(left, right, meter)?.is_some_and(wanted))
}

/// Returns whether two values are equal. Types are not converted, except that `1` equals `1.0`.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>, meter: &mut Meter) -> Result<bool, Fault> {
    equal_at(left, right, meter, 0)
}

fn equal_at(left: &Value<'_>, right: &Value<'_>, meter: &mut Meter, depth: usize) -> Result<bool, Fault> {
    Meter::data_depth(depth)?;
    meter.steps(1)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        meter.read(if left.len() == right.len() { left } else { "" })?;
        return Ok(left == right);
    }
    Ok(match (left, right) {
        (Value::Empty, other) | (other, Value::Empty) => other.is_empty(),
        (Value::Blank, other) | (other, Value::Blank) => {
            meter.read(other.as_str().unwrap_or(""))?;
            other.is_blank()
        }
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            left.number().compare(right.number()) == Some(Ordering::Equal)
        }
        (Value::Range(a, b), Value::Range(c, d)) => (a, b) == (c, d),
        (Value::Object(left), Value::Object(right)) => equal_maps(left, right, meter, depth)?,
        _ => match (items(left), items(right)) {
            (Some(left), Some(right)) => equal_lists(left, right, meter, depth)?,
            _ => false,
        },
    })
}

/// A borrowed JSON array or a list built by a filter.
#[derive(Clone, Copy)]
enum Items<'v, 'a> {
    Array(&'a [Json]),
    List(&'v [Value<'a>]),
}

impl<'a> Items<'_, 'a> {
    fn len(&self) -> usize {
        match self {
            Items::Array(items) => items.len(),
            Items::List(items) => items.len(),
        }
    }

    fn get(&self, idx: usize) -> Value<'a> {
        match self {
            Items::Array(items) => items.get(idx).map_or(Value::Nil, Value::from),
            Items::List(items) => items.get(idx).cloned().unwrap_or(Value::Nil),
        }
    }
}

fn items<'v, 'a>(value: &'v Value<'a>) -> Option<Items<'v, 'a>> {
    match value {
        Value::Array(items) => Some(Items::Array(items)),
        Value::List(items) => Some(Items::List(items)),
        _ => None,
    }
}

fn equal_lists(
    left: Items<'_, '_>,
    right: Items<'_, '_>,
    meter: &mut Meter,
    depth: usize,
) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for idx in 0..left.len() {
        if !equal_at(&left.get(idx), &right.get(idx), meter, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(
    left: &Map<String, Json>,
    right: &Map<String, Json>,
    meter: &mut Meter,
    depth: usize,
) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, value) in left {
        let Some(other) = right.get(key) else { return Ok(false) };
        if !equal_at(&value.into(), &other.into(), meter, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Orders numbers and strings; returns `None` for values without an order, such as nil.
fn relation(left: &Value<'_>, right: &Value<'_>, meter: &mut Meter) -> Result<Option<Ordering>, Fault> {
    let is_number = |it: &Value<'_>| matches!(it, Value::Int(_) | Value::Float(_));
    match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => {
            meter.read(left)?;
            Ok(Some(left.cmp(right)))
        }
        (None, None) if is_number(left) && is_number(right) => Ok(left.number().compare(right.number())),
        (Some(_), None) if is_number(right) => Err(incomparable(left, right)),
        (None, Some(_)) if is_number(left) => Err(incomparable(left, right)),
        _ => Ok(None),
    }
}

fn incomparable(left: &Value<'_>, right: &Value<'_>) -> Fault {
    Fault::argument(format!("{} cannot be compared with {}", left.describe(), right.describe()))
}

fn contains(left: &Value<'_>, right: &Value<'_>, meter: &mut Meter) -> Result<bool, Fault> {
    if !right.is_true() {
        return Ok(false);
    }
    if let Some(text) = left.as_str() {
        meter.read(text)?;
        let part = right.text(meter)?;
        meter.read(&part)?;
        return Ok(text.contains(part.as_ref()));
    }
    match left {
        Value::Object(map) => {
            let Some(key) = right.as_str() else { return Ok(false) };
            meter.read(key)?;
            Ok(map.contains_key(key))
        }
        Value::Range(start, end) => Ok(match right {
            Value::Int(int) => (i128::from(*start)..=i128::from(*end)).contains(int),
            _ => false,
        }),
        _ => {
            let Some(items) = items(left) else { return Ok(false) };
            for idx in 0..items.len() {
                if equal(&items.get(idx), right, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Orders two values for `sort`: nil comes last, and different types have no order.
pub(crate) fn sort_order(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Fault> {
    let is_number = |it: &Value<'_>| matches!(it, Value::Int(_) | Value::Float(_));
    let order = match (left, right) {
        (Value::Nil, Value::Nil) => Some(Ordering::Equal),
        (Value::Nil, _) => Some(Ordering::Greater),
        (_, Value::Nil) => Some(Ordering::Less),
        (Value::Bool(left), Value::Bool(right)) if left == right => Some(Ordering::Equal),
        _ if is_number(left) && is_number(right) => left.number().compare(right.number()),
        _ => match (left.as_str(), right.as_str()) {
            (Some(left), Some(right)) => Some(left.cmp(right)),
            _ => None,
        },
    };
    order.ok_or_else(|| {
        Fault::argument(format!("{} and {} cannot be sorted", left.describe(), right.describe()))
    })
}
