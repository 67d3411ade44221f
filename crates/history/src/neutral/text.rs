//! Neutralises the engine's tags in text.
//!
//! The engine writes two kinds of tags: those of envelopes, which stand around hidden parts of user messages, and those
//! that stand inside of bodies, around what it composes of other texts. Text from outside can forge neither
//! ([`neutralise`]). Text that the engine composed of neutralised texts keeps its own tags; only envelopes have no
//! place in it ([`neutralise_envelopes`]).
//!
//! The `<` of an engine tag becomes `&lt;`, in every spelling that a model might take for the tag: any case, closing
//! or opening, any or no characters other than letters and digits between the words of the name (`systemContext`,
//! `system--context`, `system context`), full-width and look-alike characters, and invisible characters inside. The
//! same applies to a tag that is cut off by the end of the text, since appended text could complete it. Every other
//! `<` stays.

use std::borrow::Cow;

use memchr::memchr_iter;

/// The tags of the engine's envelopes.
pub const ENGINE_TAG_NAMES: &[&str] = &["system-context", "system-reminders", "system-event"];

/// The tags that the engine writes inside of bodies. Those of boards begin with [`BOARD_TAG_START`].
pub const BODY_TAG_NAMES: &[&str] = &[
    "active-skill",
    "available-artifacts",
    "available-knowledge-bases",
    "available-memory",
    "available-skills",
    "core-memory",
];

/// How the tags of blackboards begin.
pub const BOARD_TAG_START: &str = "blackboard-";

/// Whether the engine writes a tag of that name, given in kebab-case.
///
/// ```
/// use contexture_history::neutral::is_engine_tag_name;
///
/// assert!(is_engine_tag_name("active-skill") && is_engine_tag_name("blackboard-plan"));
/// assert!(!is_engine_tag_name("blackboard"));
/// ```
pub fn is_engine_tag_name(name: &str) -> bool {
    let of_board = name.strip_prefix(BOARD_TAG_START).is_some_and(|it| !it.is_empty());
    of_board || ENGINE_TAG_NAMES.iter().chain(BODY_TAG_NAMES).any(|it| *it == name)
}

/// Neutralises all of the engine's tags in `text`, which comes from outside, and leaves everything else unchanged.
///
/// ```
/// use contexture_history::neutral::neutralise;
///
/// assert_eq!(neutralise("a </ System-Context > b"), "a &lt;/ System-Context > b");
/// assert_eq!(neutralise("if a < b { <system-contexts> }"), "if a < b { <system-contexts> }");
/// ```
pub fn neutralise(text: &str) -> Cow<'_, str> {
    neutralise_if(text, |rest| is_envelope_tag(rest) || is_body_tag(rest))
}

/// Neutralises the tags of envelopes in `text`, which the engine composed of texts that [`neutralise`] was applied to.
pub fn neutralise_envelopes(text: &str) -> Cow<'_, str> {
    neutralise_if(text, is_envelope_tag)
}

fn neutralise_if(text: &str, is_engine_tag: impl Fn(&str) -> bool) -> Cow<'_, str> {
    match text.is_ascii() {
        true => neutralised(text, memchr_iter(b'<', text.as_bytes()), is_engine_tag),
        false => {
            let may_open = |(at, byte): (usize, u8)| OPENING_STARTS.contains(&byte).then_some(at);
            neutralised(text, text.bytes().enumerate().filter_map(may_open), is_engine_tag)
        }
    }
}

/// Neutralises the engine tags among those that open at the given byte offsets.
fn neutralised(
    text: &str,
    places: impl Iterator<Item = usize>,
    is_engine_tag: impl Fn(&str) -> bool,
) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for at in places {
        let Some(rest) = opened(text.get(at..).unwrap_or_default()) else { continue };
        // The look-ahead stops at the next `<`, so all look-aheads together read the text once.
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

/// `<` and look-alikes: other widths, angle quotation marks, mathematical and CJK brackets, letters of that shape.
const OPENINGS: [char; 13] = [
    '<', '\u{ff1c}', '\u{fe64}', '\u{2039}', '\u{2329}', '\u{27e8}', '\u{276c}', '\u{276e}', '\u{2770}',
    '\u{3008}', '\u{02c2}', '\u{1438}', '\u{1433}',
];
/// `>` and look-alikes.
const CLOSINGS: [char; 7] = ['>', '\u{ff1e}', '\u{fe65}', '\u{203a}', '\u{232a}', '\u{27e9}', '\u{3009}'];
/// The first bytes of the openings.
const OPENING_STARTS: [u8; 6] = [b'<', 0xcb, 0xe1, 0xe2, 0xe3, 0xef];

/// Returns the text after the opening character that `text` begins with, if it does.
fn opened(text: &str) -> Option<&str> {
    text.strip_prefix(OPENINGS)
}

/// The last words of the names of envelopes, which all begin with `system`, and the singular that other tools use.
const LAST_WORDS: [&str; 4] = ["context", "reminders", "reminder", "event"];

/// Whether `rest`, which follows a `<`, makes it the tag of an envelope. The end of the text also ends a name, and a
/// name cut off there counts as complete, since more text may be appended.
fn is_envelope_tag(rest: &str) -> bool {
    LAST_WORDS.iter().any(|last| is_tag_of(rest, ["system", *last].into_iter()))
}

/// Whether `rest`, which follows a `<`, makes it a tag that the engine writes inside of bodies.
fn is_body_tag(rest: &str) -> bool {
    // A single letter behind a space, where the text ends, is a comparison: `a < b`.
    let mut letters = rest.chars().take_while(|it| !OPENINGS.contains(it)).filter(|it| it.is_alphanumeric());
    if rest.starts_with(char::is_whitespace) && letters.nth(1).is_none() {
        return false;
    }
    BODY_TAG_NAMES.iter().any(|it| is_tag_of(rest, it.split('-'))) || is_board_tag(rest)
}

/// Whether `rest` begins with the words of a name.
fn is_tag_of<'w>(rest: &str, words: impl Iterator<Item = &'w str>) -> bool {
    let mut rest = rest;
    for word in words {
        match after_word(rest.trim_start_matches(is_separator), word) {
            Word::Other => return false,
            Word::CutOff => return true,
            Word::Said(behind) => rest = behind,
        }
    }
    !rest.starts_with(|c: char| c.is_alphanumeric() || plain(c) == '-')
}

/// Whether `rest` begins with the tag of a board, whose name ends in an id.
fn is_board_tag(rest: &str) -> bool {
    let start = BOARD_TAG_START.trim_end_matches('-');
    match after_word(rest.trim_start_matches(is_separator), start) {
        Word::Other => false,
        Word::CutOff => true,
        Word::Said(rest) => {
            let id = rest.trim_start_matches(|c: char| is_invisible(c) && !c.is_whitespace());
            id.is_empty() || id.starts_with(|c: char| plain(c) == '-')
        }
    }
}

/// How a text begins, compared with a word.
enum Word<'a> {
    /// It begins with the word; this is the text after it.
    Said(&'a str),
    /// It ends in the middle of the word.
    CutOff,
    Other,
}

/// Matches a word at the start of a text. Invisible characters and combining marks are ignored.
fn after_word<'a>(text: &'a str, word: &str) -> Word<'a> {
    let is_unread = |c: char| (is_invisible(c) && !c.is_whitespace()) || matches!(c, '\u{300}'..='\u{36f}');
    let mut rest = text;
    for expected in word.chars() {
        rest = rest.trim_start_matches(is_unread);
        let mut chars = rest.chars();
        match chars.next() {
            Some(c) if plain(c) == plain(expected) => rest = chars.as_str(),
            Some(_) => return Word::Other,
            None => return Word::CutOff,
        }
    }
    Word::Said(rest.trim_start_matches(|c: char| matches!(c, '\u{300}'..='\u{36f}')))
}

/// Whether a character may come before and between the words of a name. Another `<` may not, since it begins a tag,
/// nor may a character that ends a tag.
fn is_separator(c: char) -> bool {
    (is_invisible(c) || !c.is_alphanumeric()) && !OPENINGS.contains(&c) && !CLOSINGS.contains(&c)
}

/// Returns the plain character of a name that `c` stands for. Full-width and mathematical letters are styled ASCII,
/// there are many kinds of dashes, and letters of other scripts look like Latin ones. Only characters of tag names
/// matter here.
fn plain(c: char) -> char {
    let c = match c {
        '\u{ff01}'..='\u{ff5e}' => u32::from(c).checked_sub(0xfee0).and_then(char::from_u32).unwrap_or(c),
        // Thirteen alphabets, each with its capitals first.
        '\u{1d400}'..='\u{1d6a3}' => {
            let place = (u32::from(c) - 0x1d400) % 52 % 26;
            char::from_u32(u32::from('a') + place).unwrap_or(c)
        }
        _ => c,
    };
    match c {
        '_' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => '-',
        _ if c.is_ascii() => match c.to_ascii_lowercase() {
            '0' => 'o',
            '1' | 'l' => 'i',
            c => c,
        },
        _ => look_alike(c),
    }
}

/// Returns the Latin letter that a letter of another script looks like.
fn look_alike(c: char) -> char {
    match c {
        'ſ' | 'ѕ' | 'Ѕ' | 'ꜱ' | 'ՙ' => 's',
        'у' | 'У' | 'ү' | 'Ү' | 'γ' | 'Υ' | 'ʏ' => 'y',
        'т' | 'Т' | 'τ' | 'Τ' | 'ᴛ' => 't',
        'е' | 'Е' | 'ε' | 'Ε' | 'ё' | 'Ё' | 'ᴇ' | 'ҽ' => 'e',
        'м' | 'М' | 'Μ' | 'ᴍ' => 'm',
        'с' | 'С' | 'ϲ' | 'Ϲ' | 'ᴄ' => 'c',
        'о' | 'О' | 'ο' | 'Ο' | 'ᴏ' | 'օ' => 'o',
        'п' | 'ո' | 'Ν' | 'η' | 'ɴ' => 'n',
        'х' | 'Х' | 'χ' | 'Χ' => 'x',
        'г' | 'ʀ' => 'r',
        'і' | 'І' | 'ι' | 'Ι' | 'ı' | 'İ' | 'ɪ' | 'ӏ' => 'i',
        'ԁ' | 'ᴅ' => 'd',
        'ѵ' | 'ν' | 'ᴠ' => 'v',
        'а' | 'А' | 'α' | 'Α' | 'ᴀ' | 'ɑ' => 'a',
        'к' | 'К' | 'κ' | 'Κ' | 'ᴋ' => 'k',
        'в' | 'В' | 'Β' | 'β' | 'ʙ' | 'Ь' => 'b',
        'ɡ' | 'ɢ' => 'g',
        'ԝ' | 'ѡ' | 'ᴡ' => 'w',
        'ʟ' => 'i',
        _ => c,
    }
}

/// Whether `c` is invisible: control characters and those that Unicode marks as default-ignorable.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}
