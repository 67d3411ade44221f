//! The citations in the text of an answer: marks such as `[handbook:12]`, and the words that are quoted beside them.
//!
//! A mark is a pair of brackets with one or more ids, separated by commas or semicolons; an id may be followed by a quote:
//! `[handbook:12 "within 30 days", faq:3]`. Full-width brackets count too. What looks like a mark in code, in a link or
//! behind a word (`list[a:b]`) is none, unless its id is known.

use std::ops::Range;

use contexture_message::Span;

/// A mark in a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) span: Span,
    pub(super) entries: Vec<Entry>,
}

/// One id of a mark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) id: String,
    /// The place of the quote in the text, without its quotation marks.
    pub(super) quote: Option<Span>,
}

const BRACKETS: [(char, char); 2] = [('[', ']'), ('【', '】')];

/// The longest mark or quotation. More in brackets is prose.
const LONGEST: usize = 4096;

/// Returns the marks of a text in order, without those in `code`.
pub(super) fn marks(text: &str, code: &[Range<usize>], is_known: &dyn Fn(&str) -> bool) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    let is_code = |at: usize| {
        let behind = code.partition_point(|it| it.start <= at);
        behind.checked_sub(1).is_some_and(|it| code[it].contains(&at))
    };
    for (start, open) in text.char_indices() {
        let Some((_, close)) = BRACKETS.iter().find(|(it, _)| *it == open) else { continue };
        if is_code(start) || marks.last().is_some_and(|it| it.span.end > start) {
            continue;
        }
        let inner = start + open.len_utf8();
        let window = &text[inner..text.floor_char_boundary(inner + LONGEST)];
        let Some(length) = closing(window, *close) else { continue };
        let Some(entries) = entries(text, inner..inner + length) else { continue };
        let span = Span { start, end: inner + length + close.len_utf8() };
        if entries.iter().any(|it| is_known(&it.id)) || is_free(text, span) {
            marks.push(Mark { span, entries });
        }
    }
    marks
}

/// Returns where the brackets close. Brackets in a quote do not count.
fn closing(window: &str, close: char) -> Option<usize> {
    let mut until = None;
    for (at, c) in window.char_indices() {
        match until {
            Some(end) if c == end => until = None,
            Some(_) => {}
            None if c == close => return Some(at),
            None if c == '[' || c == '\n' => return None,
            None => until = closing_quote(c),
        }
    }
    None
}

/// Whether nothing around a mark shows that it is something else: a link, an index, a footnote.
fn is_free(text: &str, span: Span) -> bool {
    let before = text[..span.start].chars().next_back();
    let after = text[span.end..].chars().next();
    !before.is_some_and(|it| it.is_alphanumeric() || it == ']' || it == '!') && after != Some('(')
}

fn entries(text: &str, inside: Range<usize>) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut at = inside.start;
    for piece in pieces(&text[inside]) {
        let start = at + (piece.len() - piece.trim_start().len());
        entries.push(entry(piece.trim(), start)?);
        at += piece.len() + 1;
    }
    (!entries.is_empty()).then_some(entries)
}

/// Splits at commas and semicolons outside of quotes.
fn pieces(text: &str) -> Vec<&str> {
    let mut until = None;
    let is_separator = |c: char| {
        match until {
            Some(end) if c == end => until = None,
            Some(_) => {}
            None if c == ',' || c == ';' => return true,
            None => until = closing_quote(c),
        }
        false
    };
    text.split(is_separator).collect()
}

/// Reads an id and its quote; `start` is the place of the piece in the text.
fn entry(piece: &str, start: usize) -> Option<Entry> {
    let (id, rest) = match piece.split_once(char::is_whitespace) {
        Some((id, rest)) => (id, rest.trim_start()),
        None => (piece, ""),
    };
    let id = id.trim_end_matches(':');
    if !is_id(id) {
        return None;
    }
    if rest.is_empty() {
        return Some(Entry { id: id.to_owned(), quote: None });
    }
    let quote = rest.chars().next().and_then(|open| {
        let inner = rest.strip_prefix(open)?.strip_suffix(closing_quote(open)?)?;
        let begin = start + piece.len() - rest.len() + open.len_utf8();
        Some(Span { start: begin, end: begin + inner.len() })
    })?;
    Some(Entry { id: id.to_owned(), quote: Some(quote) })
}

/// Whether a word is an id: a base that begins with a letter, a colon, and the id of a chunk.
fn is_id(word: &str) -> bool {
    let is_plain = |it: char| it.is_alphanumeric() || "_-./#@+%:~".contains(it);
    let Some((base, chunk)) = word.split_once(':') else { return false };
    base.starts_with(char::is_alphabetic)
        && !chunk.is_empty()
        && !chunk.starts_with("//")
        && word.chars().all(is_plain)
}

/// Returns the mark that closes a quotation, if `open` opens one. A straight apostrophe does not.
fn closing_quote(open: char) -> Option<char> {
    match open {
        '"' => Some('"'),
        '“' | '„' | '‟' => Some('”'),
        '«' => Some('»'),
        '»' => Some('«'),
        '‹' => Some('›'),
        '「' => Some('」'),
        '『' => Some('』'),
        _ => None,
    }
}

/// Whether a character opens or closes a quotation.
pub(super) fn is_quotation_mark(c: char) -> bool {
    closing_quote(c).is_some() || matches!(c, '”' | '›' | '」' | '』')
}

/// Returns the quotation that begins at the start of a range, with its quotation marks.
pub(super) fn quotation_at(text: &str, range: Range<usize>) -> Option<Span> {
    let open = text[range.clone()].chars().next()?;
    let close = closing_quote(open)?;
    let begin = range.start + open.len_utf8();
    // „German“ and “English” close with different marks.
    let closes = |it: char| it == close || (open == '„' && it == '“');
    let window = begin..text.floor_char_boundary(begin + LONGEST).min(range.end);
    let (length, mark) = text[window].char_indices().find(|(_, it)| closes(*it))?;
    Some(Span { start: range.start, end: begin + length + mark.len_utf8() })
}

/// Returns the quotations in a range of a text, without their quotation marks.
pub(super) fn quotations(text: &str, range: Range<usize>) -> Vec<Span> {
    let mut found = Vec::new();
    let mut rest = range;
    while let Some((at, open)) =
        text[rest.clone()].char_indices().find(|(_, it)| closing_quote(*it).is_some())
    {
        let start = rest.start + at;
        let inner = start + open.len_utf8();
        match quotation_at(text, start..rest.end) {
            Some(quotation) => {
                let mark = text[..quotation.end].chars().next_back().map_or(0, char::len_utf8);
                found.push(Span { start: inner, end: quotation.end - mark });
                rest.start = quotation.end;
            }
            None => rest.start = inner,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{marks, quotations};

    fn shown(text: &str) -> String {
        let marks = marks(text, &[], &|it| it == "k:1");
        let entry = |it: &super::Entry| match it.quote {
            Some(quote) => format!("{} {:?}", it.id, quote.of(text).unwrap()),
            None => it.id.clone(),
        };
        let mark = |it: &super::Mark| it.entries.iter().map(entry).collect::<Vec<_>>().join(" + ");
        marks.iter().map(mark).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn marks_have_one_or_more_ids() {
        assert_eq!(shown("a [h:1] b [h:2, f:3;x-y:a/b#4]"), "h:1 | h:2 + f:3 + x-y:a/b#4");
        assert_eq!(shown("【h:1】 [h:2 \"a, [b]\", h:3]"), "h:1 | h:2 \"a, [b]\" + h:3");
        assert_eq!(shown("[h:1 “näh” ]"), "h:1 \"näh\"");
    }

    #[test]
    fn what_only_looks_like_a_mark_is_none() {
        for text in [
            "[10:30]",
            "[note: x]",
            "x[a:b]",
            "[a:b](url)",
            "[https://a.b]",
            "[h:]",
            "[h:1",
            "[]",
            "[a\nb:1]",
        ] {
            assert_eq!(shown(text), "", "{text}");
        }
        assert_eq!(shown("x[k:1]"), "k:1");
    }

    #[test]
    fn quotations_of_any_language_are_found() {
        let text = "Er sagt „ja“, she says “no”, «oui» and \"no end";
        let found: Vec<_> = quotations(text, 0..text.len()).iter().map(|it| it.of(text).unwrap()).collect();
        assert_eq!(found, ["ja", "no", "oui"]);
    }
}
