//! Escaping: `&`, `<` and `>` in text, also `"` in attributes.
//!
//! Text that is already escaped is escaped again: the model reads exactly what the author wrote.

use std::borrow::Cow;

use memchr::{memchr, memchr3, memchr3_iter};

/// Escapes `&`, `<` and `>`.
///
/// ```
/// use contexture_compose::tags::escape_text;
///
/// assert_eq!(escape_text("a < b && \"c\""), "a &lt; b &amp;&amp; \"c\"");
/// assert_eq!(escape_text("&amp;"), "&amp;amp;");
/// ```
pub fn escape_text(text: &str) -> Cow<'_, str> {
    if memchr3(b'&', b'<', b'>', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(escaped_capacity(text.len()));
    push_text(&mut out, text);
    Cow::Owned(out)
}

/// Escapes `&`, `<`, `>` and `"`.
///
/// ```
/// use contexture_compose::tags::escape_attribute;
///
/// assert_eq!(escape_attribute("say \"<hi>\""), "say &quot;&lt;hi&gt;&quot;");
/// ```
pub fn escape_attribute(value: &str) -> Cow<'_, str> {
    if memchr(b'"', value.as_bytes()).is_none() {
        return escape_text(value);
    }
    let mut out = String::with_capacity(escaped_capacity(value.len()));
    push_attribute(&mut out, value);
    Cow::Owned(out)
}

/// Returns a capacity that usually holds `length` bytes after escaping.
pub(super) fn escaped_capacity(length: usize) -> usize {
    length + length / 8 + 16
}

/// Appends `text`, escaped.
pub(super) fn push_text(out: &mut String, text: &str) {
    let mut copied = 0;
    for at in memchr3_iter(b'&', b'<', b'>', text.as_bytes()) {
        out.push_str(&text[copied..at]);
        out.push_str(match text.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            _ => "&gt;",
        });
        copied = at + 1;
    }
    out.push_str(&text[copied..]);
}

/// Appends `value`, escaped for an attribute.
pub(super) fn push_attribute(out: &mut String, value: &str) {
    let mut copied = 0;
    // Values are short, so checking each byte is faster than setting up a search.
    for (at, byte) in value.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => continue,
        };
        out.push_str(&value[copied..at]);
        out.push_str(entity);
        copied = at + 1;
    }
    out.push_str(&value[copied..]);
}
