//! Splits text into lines and sentences, and normalises it for comparison.

use std::ops::Range;

/// Returns a text normalised for comparison: lower case, single spaces, without quotes and emphasis.
pub fn normal(text: &str) -> String {
    let text = text.replace("&lt;", "<").to_lowercase();
    let is_mark = |it: char| "\"'`*“”„‟‘’‚‛«»‹›".contains(it);
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let end = out.len();
        out.extend(word.chars().filter(|it| !is_mark(*it)));
        if out.len() > end && end > 0 {
            out.insert(end, ' ');
        }
    }
    out
}

/// Whether a text contains a phrase as whole words; both are [`normal`].
pub fn holds(text: &str, phrase: &str) -> bool {
    let is_word = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
    let (begins, ends) = (is_word(phrase.chars().next()), is_word(phrase.chars().next_back()));
    phrase.is_empty()
        || text.match_indices(phrase).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + phrase.len()..].chars().next();
            let is_inside = (begins && is_word(before)) || (ends && is_word(after));
            !is_inside
        })
}

/// Whether a text begins with a phrase as whole words; both are [`normal`].
pub(super) fn begins_with(text: &str, phrase: &str) -> bool {
    let rest = text.strip_prefix(phrase);
    rest.is_some_and(|it| !it.starts_with(char::is_alphanumeric))
}

/// Returns the text on one line, at most `max_chars` characters, cut between words if possible.
pub(super) fn clipped(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = line.char_indices().nth(max_chars) else { return line };
    let cut = &line[..end];
    // Words longer than half of the limit are cut.
    match cut.rfind(' ') {
        Some(blank) if blank >= end / 2 && !line[end..].starts_with(' ') => cut[..blank].to_owned(),
        _ => cut.trim_end().to_owned(),
    }
}

/// Returns [`clipped`] text with a mark where it was cut.
pub(super) fn excerpt(text: &str, max_chars: usize) -> String {
    let mut out = clipped(text, max_chars);
    if out.chars().filter(|it| !it.is_whitespace()).count()
        < text.chars().filter(|it| !it.is_whitespace()).count()
    {
        out.push('…');
    }
    out
}

/// Returns the lines of a text outside fenced code, without list and quotation markers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
            return None;
        }
        let line = line.trim_start_matches(['-', '*', '•', '>', '#', ' ']).trim_start();
        (!is_code && !line.is_empty()).then_some(line)
    })
}

/// Returns the sentences of a text, see [`prose`]. They end at a line end or at a punctuation mark followed by a
/// space.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            let Range { end, .. } = sentence(rest)?;
            let (sentence, after) = rest.split_at(end);
            rest = after;
            Some(sentence.trim())
        })
        .filter(|it| !it.is_empty())
    })
}

fn sentence(text: &str) -> Option<Range<usize>> {
    if text.is_empty() {
        return None;
    }
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_end = match c {
            '.' | '!' | '?' => chars.peek().is_none_or(|(_, it)| it.is_whitespace()),
            '。' | '！' | '？' => true,
            _ => false,
        };
        if is_end {
            return Some(0..at + c.len_utf8());
        }
    }
    Some(0..text.len())
}

#[cfg(test)]
mod tests {
    use super::{clipped, excerpt, holds, normal, sentences};

    #[test]
    fn quotes_case_and_blanks_do_not_matter() {
        assert_eq!(normal("  „Nie“  wieder\n*DON’T*  \" x"), "nie wieder dont x");
        assert_eq!(normal("&lt;system-event"), "<system-event");
    }

    #[test]
    fn phrases_are_whole_words() {
        assert!(holds("see order-12, please", "order-12"));
        assert!(!holds("see order-123", "order-12"));
        assert!(!holds("nievergelt", "nie"));
        assert!(holds("anything", ""));
    }

    #[test]
    fn texts_are_cut_between_words() {
        assert_eq!(clipped("one two\nthree", 9), "one two");
        assert_eq!(clipped("one two", 7), "one two");
        assert_eq!(clipped("abcdefgh", 3), "abc");
        assert_eq!(excerpt("one two three", 9), "one two…");
        assert_eq!(excerpt("one two", 9), "one two");
    }

    #[test]
    fn sentences_end_at_lines_and_marks() {
        let text = "- See a.rs now. Then?\n```\nnever\n```\n> Done!";
        assert_eq!(sentences(text).collect::<Vec<_>>(), ["See a.rs now.", "Then?", "Done!"]);
    }
}
