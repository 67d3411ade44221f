//! Texts without the engine's own tags.
//!
//! The `<` of an engine tag becomes `&lt;`, in every spelling that a model might take for the tag: any
//! case, closing or opening, `_` for `-`, full-width characters, white space, control and invisible characters before the
//! name, invisible ones inside. So does the `<` of a tag that the end of the text cuts off, wherever: what is joined behind
//! the text could complete it. Every other `<` stays.

use std::borrow::Cow;

use memchr::memchr2_iter;

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
    for at in memchr2_iter(b'<', WIDE_START, text.as_bytes()) {
        let Some(rest) = opened(&text[at..]) else { continue };
        // The look-ahead stops at the next `<`, so all of them together read the text once.
        if is_engine_tag(rest) {
            if out.is_empty() {
                out.reserve(text.len() + 16);
            }
            out.push_str(&text[copied..at]);
            out.push_str("&lt;");
            copied = text.len() - rest.len();
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The full-width and the small form of `<`, and the byte that both begin with.
const WIDE: [&str; 2] = ["\u{ff1c}", "\u{fe64}"];
const WIDE_START: u8 = 0xef;

/// Returns what follows the `<` that `text` begins with, if it does.
fn opened(text: &str) -> Option<&str> {
    text.strip_prefix('<').or_else(|| WIDE.iter().find_map(|it| text.strip_prefix(it)))
}

/// Whether `rest`, which follows a `<`, makes it the tag of an engine name.
fn is_engine_tag(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|c: char| plain(c) == '/' || c.is_whitespace() || is_invisible(c));
    ENGINE_TAG_NAMES.iter().any(|name| starts_with_name(rest, name))
}

/// Whether `text` starts with `name`, and the name ends there. The end of the text ends a name too, and stands for the
/// rest of one: what follows may be added later.
fn starts_with_name(text: &str, name: &str) -> bool {
    let mut chars = text.chars();
    for expected in name.chars() {
        let mut visible = chars.by_ref().skip_while(|&c| is_invisible(c) && !c.is_whitespace());
        match visible.next() {
            Some(c) if plain(c) == expected => {}
            Some(_) => return false,
            None => return true,
        }
    }
    !chars.next().is_some_and(|c| c.is_alphanumeric() || plain(c) == '-')
}

/// Returns the character of a name that `c` stands for: names are one in every spelling. `ſ` is the only character
/// besides ASCII that equals a letter without regard to case; full-width characters are ASCII in another width, and there
/// are dashes of many kinds.
fn plain(c: char) -> char {
    let c = match c {
        '\u{ff01}'..='\u{ff5e}' => u32::from(c).checked_sub(0xfee0).and_then(char::from_u32).unwrap_or(c),
        _ => c,
    };
    match c {
        'ſ' => 's',
        '_' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => '-',
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
