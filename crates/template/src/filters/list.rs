//! Filters on whole lists.
//!
//! [`flat`] defines what counts as a list: nested lists are flattened, a map or a single value is a list of one, and
//! nil is an empty list.

use std::cmp::Ordering;

use super::{Args, Tools};
use crate::{
    error::Fault,
    limits::{Builder, Meter},
    value::compare,
    value::{Value, write_text},
};

type Out<'a> = Result<Value<'a>, Fault>;

/// Returns the flattened items of `input`, after counting them.
pub(super) fn flat<'a>(input: &Value<'a>, tools: &mut Tools<'_>) -> Result<Vec<Value<'a>>, Fault> {
    let mut items = Vec::new();
    match input {
        Value::Nil => {}
        Value::Range(start, end) => {
            tools.meter.long_list(input.size().unwrap_or(0))?;
            items.extend((*start..=*end).map(|it| Value::Int(it.into())));
        }
        _ => flatten(input, &mut items, tools.meter, 0)?,
    }
    Ok(items)
}

fn flatten<'a>(
    value: &Value<'a>,
    items: &mut Vec<Value<'a>>,
    meter: &mut Meter,
    depth: usize,
) -> Result<(), Fault> {
    Meter::data_depth(depth)?;
    meter.list(1)?;
    match value {
        Value::Array(array) => array.iter().try_for_each(|it| flatten(&it.into(), items, meter, depth + 1)),
        Value::List(list) => list.iter().try_for_each(|it| flatten(it, items, meter, depth + 1)),
        _ => {
            items.push(value.clone());
            Ok(())
        }
    }
}

pub(super) fn size<'a>(input: Value<'a>, _: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(Value::Int(input.size().unwrap_or(0) as i128))
}

pub(super) fn first<'a>(input: Value<'a>, _: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.first().unwrap_or(Value::Nil))
}

pub(super) fn last<'a>(input: Value<'a>, _: &Args<'a>, _: &mut Tools<'_>) -> Out<'a> {
    Ok(input.last().unwrap_or(Value::Nil))
}

pub(super) fn join<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let glue = match &args.first {
        Some(glue) => glue.text(tools.meter)?.into_owned(),
        None => " ".to_owned(),
    };
    let items = flat(&input, tools)?;
    let mut builder = Builder::new(tools.meter);
    for (idx, item) in items.iter().enumerate() {
        builder.push(if idx > 0 { &glue } else { "" })?;
        write_text(item, &mut |part| builder.push(part))?;
    }
    Ok(builder.finish().into())
}

pub(super) fn concat<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let mut items = flat(&input, tools)?;
    match args.first() {
        Value::Array(more) => {
            tools.meter.list(more.len())?;
            items.extend(more.iter().map(Value::from));
        }
        Value::List(more) => {
            tools.meter.list(more.len())?;
            items.extend(more.iter().cloned());
        }
        other => return Err(Fault::argument(format!("`concat` needs a list, found {}", other.describe()))),
    }
    Ok(items.into())
}

pub(super) fn reverse<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let mut items = flat(&input, tools)?;
    items.reverse();
    Ok(items.into())
}

pub(super) fn slice<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let offset = args.first().integer()?;
    let length = match args.second() {
        Value::Nil => 1,
        length => length.integer()?,
    };
    match &input {
        Value::Array(items) => {
            let (start, count) = window(items.len(), offset, length);
            Ok(Value::Array(items.get(start..start + count).unwrap_or(&[])))
        }
        Value::List(items) => {
            let (start, count) = window(items.len(), offset, length);
            tools.meter.list(count)?;
            Ok(items.get(start..start + count).unwrap_or(&[]).to_vec().into())
        }
        _ => {
            let text = input.text(tools.meter)?.into_owned();
            let (start, count) = window(text.chars().count(), offset, length);
            tools.meter.build(text.len())?;
            Ok(text.chars().skip(start).take(count).collect::<String>().into())
        }
    }
}

/// Returns the start and length of a slice; a negative offset counts from the end.
fn window(size: usize, offset: i128, length: i128) -> (usize, usize) {
    let start = if offset < 0 { offset.saturating_add(size as i128) } else { offset };
    match (usize::try_from(start), usize::try_from(length.min(size as i128))) {
        (Ok(start), Ok(length)) if start <= size => (start, length.min(size - start)),
        _ => (0, 0),
    }
}

pub(super) fn sort<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let Some(keyed) = keys(&input, args, tools)? else { return Ok(Value::Nil) };
    sorted(keyed, compare::sort_order)
}

pub(super) fn sort_natural<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let Some(mut keyed) = keys(&input, args, tools)? else { return Ok(Value::Nil) };
    for (key, _) in &mut keyed {
        if !key.is_nil() {
            let text = key.text(tools.meter)?.into_owned();
            tools.meter.build(text.len())?;
            *key = text.to_ascii_lowercase().into();
        }
    }
    sorted(keyed, compare::sort_order)
}

/// Pairs each item with its sort key, key first; returns `None` if an item has no properties to sort by.
fn keys<'a>(
    input: &Value<'a>,
    args: &Args<'a>,
    tools: &mut Tools<'_>,
) -> Result<Option<Vec<(Value<'a>, Value<'a>)>>, Fault> {
    let items = flat(input, tools)?;
    tools.meter.list(items.len())?;
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let key = match args.first() {
            Value::Nil => item.clone(),
            name => match property(&item, name, tools)? {
                Some(key) => key,
                None => return Ok(None),
            },
        };
        tools.meter.read(key.as_str().unwrap_or(""))?;
        keyed.push((key, item));
    }
    Ok(Some(keyed))
}

fn sorted<'a>(
    mut keyed: Vec<(Value<'a>, Value<'a>)>,
    order: fn(&Value<'_>, &Value<'_>) -> Result<Ordering, Fault>,
) -> Out<'a> {
    // Values of different types have no order. Check for them first, since a sort must not fail midway.
    let mut known = keyed.iter().map(|(key, _)| key).filter(|it| !it.is_nil());
    if let Some(first) = known.next() {
        known.try_for_each(|key| order(first, key).map(drop))?;
    }
    keyed.sort_by(|(left, _), (right, _)| order(left, right).unwrap_or(Ordering::Equal));
    Ok(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>().into())
}

/// Returns `item[name]`, or `None` if values of the item's type have no properties.
///
/// Besides map entries, properties include substrings (`"zoo"["oo"]` is `"oo"`) and the bits of integers, as in Ruby:
/// `find: "oo"` finds the strings that contain it.
pub(super) fn property<'a>(
    item: &Value<'a>,
    name: &Value<'a>,
    tools: &mut Tools<'_>,
) -> Result<Option<Value<'a>>, Fault> {
    tools.meter.read(name.as_str().unwrap_or(""))?;
    let wrong = || Fault::argument(format!("{} has no property {}", item.describe(), name.describe()));
    if let Some(text) = item.as_str() {
        tools.meter.read(text)?;
        return match name {
            Value::Nil => Ok(None),
            Value::Int(idx) => Ok(Some(char_at(text, *idx))),
            _ => {
                let part = name.as_str().ok_or_else(wrong)?;
                Ok(Some(if text.contains(part) { name.clone() } else { Value::Nil }))
            }
        };
    }
    match (item, name) {
        (Value::Object(map), _) => {
            Ok(Some(name.as_str().and_then(|key| map.get(key)).map_or(Value::Nil, Value::from)))
        }
        (Value::Loop(state), _) => {
            Ok(Some(name.as_str().and_then(|key| state.field(key)).unwrap_or(Value::Nil)))
        }
        (Value::Int(int), Value::Int(bit)) => {
            let bit = u32::try_from(*bit).unwrap_or(u32::MAX).min(127);
            Ok(Some(Value::Int(int >> bit & 1)))
        }
        (Value::Int(_), _) => Err(wrong()),
        _ => Ok(None),
    }
}

fn char_at<'a>(text: &str, idx: i128) -> Value<'a> {
    let at = |idx: i128| usize::try_from(idx).ok();
    let char = if idx < 0 {
        at(-(idx.max(-i128::MAX)) - 1).and_then(|idx| text.chars().rev().nth(idx))
    } else {
        at(idx).and_then(|idx| text.chars().nth(idx))
    };
    char.map_or(Value::Nil, |it| it.to_string().into())
}
