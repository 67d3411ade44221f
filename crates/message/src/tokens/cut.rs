//! Finds positions where a text can be cut without changing its token count.
//!
//! The encodings first split a text by a pattern into short runs (a word with the space before it, up to three
//! digits, a run of punctuation, whitespace) and then merge bytes inside each run, never across two. So a cut
//! keeps the count if it falls between two runs and no run before it looks ahead past it. The
//! patterns never look back, hence only the left side needs an argument. For all our patterns:
//!
//! * **Before a space or a tab that follows a visible character.** A space can only be the first
//!   character of a run with visible ones, so no run holds both. The only look-ahead, `\s+(?!\S)`, concerns
//!   the end of whitespace, and the text before the cut does not end in whitespace.
//! * **After a newline, before a visible character other than `/`.** A newline either ends a run of punctuation,
//!   where `o200k_base` lets only `\r`, `\n` and `/` follow, or belongs to `\s*[\r\n]+`, which ends with the
//!   last newline and has no look-ahead.
//! * **Between an ASCII letter, an ASCII digit and an ASCII sign other than `'`,** if the first is a letter
//!   or a digit. A run of letters includes no digit and no sign after it except the apostrophe of a contraction; a
//!   run of digits includes neither letters nor signs.
//! * **Between a Chinese, Japanese or Korean letter and one of their full-width signs.** The same argument, for texts
//!   without spaces and newlines.
//!
//! No tokens are counted here.

/// Cuts `text` into pieces of at least `size` bytes, each as short as the safe positions allow; the last one
/// may be shorter. A text without safe positions is one piece.
pub(super) fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, tail) = rest.split_at(next_cut(rest, size).unwrap_or(rest.len()));
        rest = tail;
        Some(piece)
    })
}

/// Returns the last safe position at or before `from`.
pub(super) fn previous_cut(text: &str, from: usize) -> Option<usize> {
    (1..=from).rev().find(|&at| is_safe(text, at))
}

/// Returns the first safe position at or after `from`, before the end.
pub(super) fn next_cut(text: &str, from: usize) -> Option<usize> {
    (from.max(1)..text.len()).find(|&at| is_safe(text, at))
}

/// Whether the count of `text` is the sum of the counts of both sides of `at`.
fn is_safe(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    match (bytes[at - 1], bytes[at]) {
        (before, b' ' | b'\t') if before.is_ascii() => before.is_ascii_graphic(),
        (_, b' ' | b'\t') => char_before(text, at).is_some_and(|it| !it.is_whitespace()),
        (b'\n', after) if after.is_ascii() => after.is_ascii_graphic() && after != b'/',
        (b'\n', _) => char_after(text, at).is_some_and(|it| !it.is_whitespace()),
        (before, after) if before.is_ascii_alphabetic() => {
            after.is_ascii_digit() || (after.is_ascii_punctuation() && after != b'\'')
        }
        (before, after) if before.is_ascii_digit() => {
            after.is_ascii_alphabetic() || (after.is_ascii_punctuation() && after != b'\'')
        }
        // U+3000 to U+30FF and U+FF00 to U+FF3F begin with these bytes.
        (0x80..=0xBF, 0xE3 | 0xEF) => {
            char_before(text, at).is_some_and(is_east_asian_letter)
                && char_after(text, at).is_some_and(is_full_width_sign)
        }
        _ => false,
    }
}

fn char_before(text: &str, at: usize) -> Option<char> {
    text.get(..at)?.chars().next_back()
}

fn char_after(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

fn is_east_asian_letter(it: char) -> bool {
    matches!(it, '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

fn is_full_width_sign(it: char) -> bool {
    matches!(it, '、' | '。' | '「' | '」' | '『' | '』' | '！' | '（' | '）' | '，' | '：' | '；' | '？')
}
