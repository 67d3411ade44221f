//! Filters that read a property of each item.

use std::collections::HashSet;

use super::{
    Args, Tools,
    list::{flat, property},
};
use crate::{error::Fault, value::Value, value::compare, value::number::Number, value::write_json};

type Out<'a> = Result<Value<'a>, Fault>;

/// Returns whether each item matches, or `None` if an item has no properties at all.
///
/// `stop` ends the search at the first match.
fn matches<'a>(
    items: &[Value<'a>],
    args: &Args<'a>,
    tools: &mut Tools<'_>,
    stop: bool,
) -> Result<Option<Vec<bool>>, Fault> {
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        let Some(value) = property(item, args.first(), tools)? else { return Ok(None) };
        let is_match = match args.second() {
            Value::Nil => value.is_true(),
            target => compare::equal(&value, target, tools.meter)?,
        };
        found.push(is_match);
        if is_match && stop {
            break;
        }
    }
    Ok(Some(found))
}

fn selected<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>, wanted: bool) -> Out<'a> {
    let items = flat(&input, tools)?;
    let Some(found) = matches(&items, args, tools, false)? else { return Ok(Value::Nil) };
    let items = items.into_iter().zip(found).filter(|(_, it)| *it == wanted).map(|(item, _)| item);
    Ok(items.collect::<Vec<_>>().into())
}

pub(super) fn filter_where<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    selected(input, args, tools, true)
}

pub(super) fn reject<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    selected(input, args, tools, false)
}

pub(super) fn find<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let items = flat(&input, tools)?;
    let found = matches(&items, args, tools, true)?.unwrap_or_default();
    let at = found.iter().position(|it| *it);
    Ok(at.and_then(|at| items.get(at).cloned()).unwrap_or(Value::Nil))
}

pub(super) fn find_index<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let items = flat(&input, tools)?;
    let found = matches(&items, args, tools, true)?.unwrap_or_default();
    Ok(found.iter().position(|it| *it).map_or(Value::Nil, |at| Value::Int(at as i128)))
}

pub(super) fn has<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let items = flat(&input, tools)?;
    let found = matches(&items, args, tools, true)?;
    Ok(found.map_or(Value::Nil, |found| Value::Bool(found.contains(&true))))
}

pub(super) fn map<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let items = flat(&input, tools)?;
    tools.meter.list(items.len())?;
    let mapped = items.iter().map(|it| Ok(property(it, args.first(), tools)?.unwrap_or(Value::Nil)));
    Ok(mapped.collect::<Result<Vec<_>, Fault>>()?.into())
}

pub(super) fn compact<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let mut kept = Vec::new();
    for item in flat(&input, tools)? {
        let value = match args.first() {
            Value::Nil => item.clone(),
            name => match property(&item, name, tools)? {
                Some(value) => value,
                None => return Ok(Value::Nil),
            },
        };
        if !value.is_nil() {
            kept.push(item);
        }
    }
    Ok(kept.into())
}

pub(super) fn uniq<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for item in flat(&input, tools)? {
        let value = match args.first() {
            Value::Nil => item.clone(),
            name => match property(&item, name, tools)? {
                Some(value) => value,
                None => return Ok(Value::Nil),
            },
        };
        if seen.insert(identity(&value, tools)?) {
            kept.push(item);
        }
    }
    Ok(kept.into())
}

/// Returns a key that is the same for equal values only; a float never equals an integer.
fn identity(value: &Value<'_>, tools: &mut Tools<'_>) -> Result<String, Fault> {
    let mut text = String::new();
    let meter = &mut *tools.meter;
    write_json(
        value,
        &mut |part| {
            meter.steps(1)?;
            meter.build(part.len())?;
            text.push_str(part);
            Ok(())
        },
        0,
    )?;
    Ok(text)
}

pub(super) fn sum<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let mut items = flat(&input, tools)?;
    if let name @ Some(_) = args.first.as_ref().filter(|it| !it.is_nil()) {
        let name = name.unwrap_or(&Value::Nil);
        let values = items.iter().map(|it| Ok(property(it, name, tools)?.unwrap_or(Value::Int(0))));
        let values: Value<'_> = values.collect::<Result<Vec<_>, Fault>>()?.into();
        items = flat(&values, tools)?;
    }
    let total = items.iter().fold(Number::Int(0), |total, it| total.plus(it.number()));
    Ok(total.into())
}
