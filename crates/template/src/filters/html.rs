//! Filters on HTML.

use super::{Args, Tools};
use crate::{error::Fault, limits::Builder, value::Value};

type Out<'a> = Result<Value<'a>, Fault>;

fn entity(char: char) -> Option<&'static str> {
    Some(match char {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => return None,
    })
}

pub(super) fn escape<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    escaped(input, tools, |_| false)
}

pub(super) fn escape_once<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    escaped(input, tools, is_entity)
}

/// Escapes all special characters, except those where `keep` accepts the text that starts there.
fn escaped<'a>(input: Value<'a>, tools: &mut Tools<'_>, keep: fn(&str) -> bool) -> Out<'a> {
    if input.is_nil() {
        return Ok(Value::Nil);
    }
    let text = input.text(tools.meter)?;
    let mut builder = Builder::new(tools.meter);
    let mut rest = 0;
    for (at, char) in text.char_indices() {
        let Some(entity) = entity(char) else { continue };
        if keep(text.get(at..).unwrap_or("")) {
            continue;
        }
        builder.push(text.get(rest..at).unwrap_or(""))?;
        builder.push(entity)?;
        rest = at + char.len_utf8();
    }
    builder.push(text.get(rest..).unwrap_or(""))?;
    Ok(builder.finish().into())
}

/// Returns whether a text starts with an entity such as `&lt;` or `&#39;`.
fn is_entity(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('&') else { return false };
    let (rest, wanted): (&str, fn(&u8) -> bool) = match rest.strip_prefix('#') {
        Some(rest) => (rest, u8::is_ascii_digit),
        None => (rest, u8::is_ascii_alphabetic),
    };
    let length = rest.bytes().take_while(wanted).count();
    length > 0 && rest.as_bytes().get(length) == Some(&b';')
}

pub(super) fn newline_to_br<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let mut builder = Builder::new(tools.meter);
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').map(|it| it.strip_suffix('\r').unwrap_or(it));
        builder.push(content.unwrap_or(line))?;
        if content.is_some() {
            builder.push("<br />\n")?;
        }
    }
    Ok(builder.finish().into())
}

/// Blocks that are removed together with their content.
const BLOCKS: [(&str, &str); 3] = [("<script", "</script>"), ("<!--", "-->"), ("<style", "</style>")];

pub(super) fn strip_html<'a>(input: Value<'a>, _: &Args<'a>, tools: &mut Tools<'_>) -> Out<'a> {
    let text = input.text(tools.meter)?;
    let text = without_blocks(&text, tools)?;
    let mut builder = Builder::new(tools.meter);
    let mut rest = text.as_str();
    while let Some((before, tag)) = rest.split_once('<') {
        let Some((_, after)) = tag.split_once('>') else { break };
        builder.push(before)?;
        rest = after;
    }
    builder.push(rest)?;
    Ok(builder.finish().into())
}

fn without_blocks(text: &str, tools: &mut Tools<'_>) -> Result<String, Fault> {
    let mut builder = Builder::new(tools.meter);
    // Once the search for an end fails, there is none further on, so it is not repeated.
    let mut open = BLOCKS.map(|_| true);
    let (mut kept, mut from) = (0, 0);
    while let Some(at) = text.get(from..).and_then(|it| it.find('<')).map(|it| from + it) {
        from = at + 1;
        let rest = text.get(at..).unwrap_or("");
        for ((start, end), open) in BLOCKS.iter().zip(&mut open) {
            if !*open || !rest.starts_with(start) {
                continue;
            }
            match rest.get(start.len()..).and_then(|it| it.find(end)) {
                Some(length) => {
                    builder.push(text.get(kept..at).unwrap_or(""))?;
                    from = at + start.len() + length + end.len();
                    kept = from;
                }
                None => *open = false,
            }
            break;
        }
    }
    builder.push(text.get(kept..).unwrap_or(""))?;
    Ok(builder.finish())
}
