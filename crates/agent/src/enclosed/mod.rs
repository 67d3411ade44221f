//! What a request brings for the hidden envelope of the user's message: references, which are resolved first, and
//! attachments. Both are recorded with the turn and replayed to the byte.

mod attachment;
mod reference;

pub(crate) use attachment::attachment_entries;
pub use reference::{HttpReference, ReferencePolicy, ReferenceResolver, References};

use std::borrow::Cow;

use contexture_compose::tags::{escape_attribute, escape_text};

/// Returns a body in a tag that it can't leave. An attribute without a value is left out.
fn tagged(tag: &str, attributes: &[(&str, Option<&str>)], body: &str) -> String {
    let mut out = format!("<{tag}");
    for (name, value) in attributes {
        if let Some(value) = value {
            out.push_str(&format!(" {name}=\"{}\"", one_line(&escape_attribute(value))));
        }
    }
    let body = escape_text(body.trim_matches(['\n', '\r']));
    format!("{out}>\n{body}\n</{tag}>")
}

/// Returns a text without line breaks: a line that is nothing but a tag is read as the beginning of a block.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ").into() } else { text.into() }
}
