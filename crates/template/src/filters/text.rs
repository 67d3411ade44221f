//! Filters on strings. Any input is converted to text; lengths and positions count characters.

use std::borrow::Cow;

use super::{Args, Tools, is_space};
use crate::{error::Fault, limits::Builder, value::Value};

type Out<'a> = Result<Value<'a>, Fault>;

/// Returns a part of `input`'s text, without copying it if the input is a string from the caller's data.
fn part<'a>(input: Value<'a>, tools: &mut Tools<'_>, cut: fn(&str) -> &str) -> Out<'a> {
    if let Value::Str(text) = input {
        return Ok(Value::Str(cut(text)));
    }
    let text = input.text(tools.meter)?;
    let text = cut(&text);
    tools.meter.build(text.len())?;
    Ok(text.to_owned().into())
}

/// Returns `input`'s text after a change that keeps its size within a factor of three.
fn changed<'a>(input: Value<'a>, tools: &mut Tools<'_>, change: fn(&str) -> String) -> Out<'a> {
    let text = input.text(tools.meter)?.into_owned();
    // Changing the case can triple the length of a text.
    tools.meter.build(text.len().saturating_mul(3))?;
    Ok(change(&text).into())
}

fn joined<'a>(parts: [&str; 2], tools: &mut Tools<'_>) -> Out<'a> {
    let mut builder = Builder::new(tools.meter);
    for part in parts {
        builder.push(part)?;
    }
    Ok(builder.finish().into())
}

pub(super) fn append<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let more = args.first().text(tools.meter)?;
    joined([&text, &more], tools)
}

pub(super) fn prepend<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let more = args.first().text(tools.meter)?;
    joined([&more, &text], tools)
}

pub(super) fn upcase<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    changed(input, tools, str::to_uppercase)
}

pub(super) fn downcase<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    changed(input, tools, str::to_lowercase)
}

pub(super) fn capitalize<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    changed(input, tools, |text| {
        let mut chars = text.chars();
        let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
        first + &chars.as_str().to_lowercase()
    })
}

pub(super) fn strip<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    part(input, tools, |text| text.trim_matches(is_space))
}

pub(super) fn lstrip<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    part(input, tools, |text| text.trim_start_matches(is_space))
}

pub(super) fn rstrip<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    part(input, tools, |text| text.trim_end_matches(is_space))
}

pub(super) fn squish<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    if input.is_nil() {
        return Ok(Value::Nil);
    }
    changed(input, tools, |text| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

pub(super) fn strip_newlines<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    changed(input, tools, |text| text.replace("\r\n", "").replace('\n', ""))
}

/// `replace` and, without a second argument, `remove`.
pub(super) fn replace<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let pattern = args.first().text(tools.meter)?;
    let with = args.second().text(tools.meter)?;
    // An empty pattern matches between all characters, so the result can be far longer than its parts.
    let mut builder = Builder::new(tools.meter);
    let mut rest = 0;
    for (at, found) in text.match_indices(pattern.as_ref()) {
        builder.push(text.get(rest..at).unwrap_or(""))?;
        builder.push(&with)?;
        rest = at + found.len();
    }
    builder.push(text.get(rest..).unwrap_or(""))?;
    Ok(builder.finish().into())
}

/// `replace_first` and, without a second argument, `remove_first`.
pub(super) fn replace_first<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    replace_one(input, args, tools, |text, pattern| text.find(pattern))
}

/// `replace_last` and, without a second argument, `remove_last`.
pub(super) fn replace_last<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    replace_one(input, args, tools, |text, pattern| text.rfind(pattern))
}

fn replace_one<'a>(
    input: Value<'a>,
    args: &Args<'a>,
    tools: &mut Tools<'_>,
    find: fn(&str, &str) -> Option<usize>,
) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let pattern = args.first().text(tools.meter)?;
    let with = args.second().text(tools.meter)?;
    let mut builder = Builder::new(tools.meter);
    match find(&text, &pattern) {
        Some(at) => {
            builder.push(text.get(..at).unwrap_or(""))?;
            builder.push(&with)?;
            builder.push(text.get(at + pattern.len()..).unwrap_or(""))?;
        }
        None => builder.push(&text)?,
    }
    Ok(builder.finish().into())
}

pub(super) fn split<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let pattern = args.first().text(tools.meter)?.into_owned();
    if let Value::Str(text) = input {
        return pieces(text, &pattern, tools, &Value::Str);
    }
    let text = input.text(tools.meter)?;
    tools.meter.build(text.len())?;
    pieces(&text, &pattern, tools, &|piece| piece.to_owned().into())
}

fn pieces<'t, 'a>(
    text: &'t str,
    pattern: &str,
    tools: &mut Tools<'_>,
    make: &dyn Fn(&'t str) -> Value<'a>,
) -> Out<'a> {
    let found: Box<dyn Iterator<Item = &'t str> + '_> = match pattern {
        " " => Box::new(text.split_ascii_whitespace()),
        "" => Box::new(text.split("").filter(|it| !it.is_empty())),
        _ => Box::new(text.split(pattern)),
    };
    let mut items = Vec::new();
    let mut kept = 0; // Empty pieces at the end are dropped.
    for piece in found {
        tools.meter.list(1)?;
        items.push(make(piece));
        kept = if piece.is_empty() { kept } else { items.len() };
    }
    items.truncate(kept);
    Ok(items.into())
}

pub(super) fn truncate<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    if input.is_nil() {
        return Ok(Value::Nil);
    }
    let length = args.first.as_ref().map_or(Ok(50), Value::integer)?;
    let text = input.text(tools.meter)?;
    if text.chars().count() as i128 <= length {
        return Ok(input.clone());
    }
    let end = ellipsis(args, tools)?;
    let keep = length.saturating_sub(end.chars().count() as i128).max(0);
    // The text is longer than `length`, so the part that is kept fits.
    let start: String = text.chars().take(usize::try_from(keep).unwrap_or(usize::MAX)).collect();
    joined([&start, &end], tools)
}

pub(super) fn truncatewords<'a>(input: Value<'a>, args: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    if input.is_nil() {
        return Ok(Value::Nil);
    }
    let count = args.first.as_ref().map_or(Ok(15), Value::integer)?.max(1);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let text = input.text(tools.meter)?;
    if text.split_ascii_whitespace().nth(count).is_none() {
        return Ok(input.clone());
    }
    let end = ellipsis(args, tools)?;
    let mut builder = Builder::new(tools.meter);
    for (idx, word) in text.split_ascii_whitespace().take(count).enumerate() {
        builder.push(if idx > 0 { " " } else { "" })?;
        builder.push(word)?;
    }
    builder.push(&end)?;
    Ok(builder.finish().into())
}

fn ellipsis<'v>(args: &'v Args<'_>, tools: &mut Tools<'_>) -> Result<Cow<'v, str>, Fault> {
    args.second.as_ref().map_or(Ok("...".into()), |it| it.text(tools.meter))
}
