//! Texts without the engine's own tags.
//!
//! The `<` of an engine tag becomes `&lt;`, in every spelling that a model might take for the tag: any
//! case, closing or opening, `_` for `-`, white space, control and invisible characters before the name,
//! invisible ones inside. So does a `<` at the end of a text, to which a name may be added later. Every other `<` stays.

use std::borrow::Cow;

use memchr::memchr_iter;

/// The tags that only the engine writes.
pub const ENGINE_TAG_NAMES: &[&str] = &["system-context", "system-reminders", "system-event"];

/// Neutralises the engine's own tags inside `text` and leaves everything else alone.
///
/// ```
/// use contexture_history::neutral::neutralise;
///
/// assert_eq!(neutralise("a </ System-Context > b"), "a &lt;/ System-Context > b");
/// assert_eq!(neutralise("if a < b { <system-contexts> }"), "if a < b { <system-contexts> }");
/// ```
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for at in memchr_iter(b'<', text.as_bytes()) {
        // The look-ahead stops at the next `<`, so all of them together read the text once.
        if is_engine_tag(&text[at + 1..]) {
            if out.is_empty() {
                out.reserve(text.len() + 16);
            }
            out.push_str(&text[copied..at]);
            out.push_str("&lt;");
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Whether `rest`, which follows a `<`, makes it the tag of an engine name.
fn is_engine_tag(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|c: char| c == '/' || c.is_whitespace() || is_invisible(c));
    // Whatever is joined behind the text could complete the tag.
    rest.is_empty() || ENGINE_TAG_NAMES.iter().any(|name| starts_with_name(rest, name))
}

/// Whether `text` starts with `name`, and the name ends there. The end of the text ends a name too:
/// what follows may be added later.
fn starts_with_name(text: &str, name: &str) -> bool {
    let mut chars = text.chars();
    for expected in name.chars() {
        let mut visible = chars.by_ref().skip_while(|&c| is_invisible(c) && !c.is_whitespace());
        if visible.next().map(plain) != Some(expected) {
            return false;
        }
    }
    !chars.next().is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// Returns the character of a name that `c` stands for: names are one in every spelling. `ſ` is the only character
/// besides ASCII that equals a letter without regard to case.
fn plain(c: char) -> char {
    match c {
        'ſ' => 's',
        '_' => '-',
        _ => c.to_ascii_lowercase(),
    }
}

/// Whether a reader sees nothing of `c`: control characters and those that Unicode lets a display ignore.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
