//! The sentences of an answer in Markdown.
//!
//! The rule, in full:
//!
//! 1. Fenced code, headings and lines without a letter or digit are no sentences. Each item of a list and each row of a
//!    table stands for itself; other lines that follow each other are one paragraph.
//! 2. A sentence ends with `.`, `!`, `?` or `…` before a space, or with their full-width forms anywhere. Abbreviations,
//!    initials and the number of a day before its month do not end one, nor does anything in inline code, in a mark or
//!    inside a quotation.
//! 3. Closing quotation marks, brackets and marks that follow the end belong to the sentence.

use std::ops::Range;

use contexture_message::Span;

use super::marks::{Mark, is_quotation_mark, quotation_at};

/// Returns the ranges of fenced and inline code.
pub(super) fn code(text: &str) -> Vec<Range<usize>> {
    let mut code: Vec<Range<usize>> = Vec::new();
    let mut fence: Option<(usize, &str)> = None;
    for (start, line) in lines(text) {
        let marker = fence_marker(line);
        match (fence, marker) {
            (Some((begin, open)), Some(close)) if close.starts_with(open) => {
                code.push(begin..start + line.len());
                fence = None;
            }
            (None, Some(open)) => fence = Some((start, open)),
            (None, None) => inline_code(start, line, &mut code),
            (Some(_), _) => {}
        }
    }
    // An open fence reaches to the end.
    code.extend(fence.map(|(begin, _)| begin..text.len()));
    code
}

/// Returns the range that contains an offset. Ranges are in order and do not overlap.
fn in_range(ranges: &[Range<usize>], at: usize) -> Option<&Range<usize>> {
    let behind = ranges.partition_point(|it| it.start <= at);
    ranges.get(behind.checked_sub(1)?).filter(|it| at < it.end)
}

fn mark_at(marks: &[Mark], at: usize) -> Option<&Mark> {
    marks.binary_search_by_key(&at, |it| it.span.start).ok().and_then(|it| marks.get(it))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

fn fence_marker(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let fence = |c: char| {
        let length = line.len() - line.trim_start_matches(c).len();
        (length >= 3).then(|| &line[..length])
    };
    fence('`').or_else(|| fence('~'))
}

fn inline_code(start: usize, line: &str, code: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(open) = line[at..].find('`').map(|it| at + it) {
        match line[open + 1..].find('`') {
            Some(length) => {
                at = open + length + 2;
                code.push(start + open..start + at);
            }
            None => return,
        }
    }
}

/// Returns the sentences of a text.
pub(super) fn sentences(text: &str, code: &[Range<usize>], marks: &[Mark]) -> Vec<Span> {
    let mut sentences = Vec::new();
    for unit in units(text, code) {
        split(text, unit, code, marks, &mut sentences);
    }
    sentences.retain(|it| it.of(text).is_some_and(|it| it.contains(char::is_alphanumeric)));
    sentences
}

/// Returns the paragraphs, list items and table rows of a text.
fn units(text: &str, code: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut units: Vec<Range<usize>> = Vec::new();
    let mut is_open = false;
    for (start, line) in lines(text) {
        let is_fenced = in_range(code, start).is_some_and(|it| start + line.trim_end().len() <= it.end);
        let plain = line.trim_start();
        let is_heading = plain.starts_with('#') && plain.trim_start_matches('#').starts_with(' ');
        if is_fenced || is_heading || plain.is_empty() {
            is_open = false;
            continue;
        }
        let marker = list_marker(plain);
        let begin = start + line.len() - plain.len() + marker;
        let end = start + line.len();
        match units.last_mut() {
            Some(last) if is_open && marker == 0 && !plain.starts_with('|') => last.end = end,
            _ => units.push(begin..end),
        }
        is_open = !plain.starts_with('|');
    }
    units
}

/// Returns the length of the bullet or number that begins an item of a list.
fn list_marker(line: &str) -> usize {
    let digits = line.len() - line.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let marker = match line.as_bytes().get(digits) {
        Some(b'.' | b')') if (1..=3).contains(&digits) => digits + 1,
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        _ => return line.strip_prefix("• ").map_or(0, |it| line.len() - it.len()),
    };
    let rest = &line[marker..];
    match rest.starts_with(char::is_whitespace) {
        true => marker + (rest.len() - rest.trim_start().len()),
        false => 0,
    }
}

fn split(text: &str, unit: Range<usize>, code: &[Range<usize>], marks: &[Mark], sentences: &mut Vec<Span>) {
    let mut start = unit.start;
    let mut at = unit.start;
    while let Some(c) = text[at..unit.end].chars().next() {
        let opaque = in_range(code, at).filter(|it| it.start == at).map(|it| it.end);
        let opaque = opaque.or_else(|| mark_at(marks, at).map(|it| it.span.end));
        if let Some(end) = opaque {
            at = end.min(unit.end);
            continue;
        }
        let quoted = quotation_at(text, at..unit.end);
        at = quoted.map_or(at + c.len_utf8(), |it| it.end);
        // The end of a quotation ends the sentence if what is quoted does.
        let ends = match quoted {
            Some(quoted) => {
                let inner = text[quoted.start..quoted.end].trim_end_matches(is_quotation_mark);
                let end = quoted.start + inner.len();
                end > start && ends_sentence(&text[start..end], &text[quoted.end..unit.end])
            }
            None => ends_sentence(&text[start..at], &text[at..unit.end]),
        };
        if ends {
            at = with_closers(text, at, unit.end, marks);
            push(text, start..at, sentences);
            start = at;
        }
    }
    push(text, start..unit.end, sentences);
}

fn push(text: &str, range: Range<usize>, sentences: &mut Vec<Span>) {
    let sentence = &text[range.clone()];
    let start = range.start + (sentence.len() - sentence.trim_start().len());
    let end = start + sentence.trim().len();
    if end > start {
        sentences.push(Span { start, end });
    }
}

/// Words after which a period does not end a sentence.
const ABBREVIATIONS: &[&str] = &[
    "approx", "bzw", "ca", "cf", "co", "corp", "dept", "dr", "e.g", "est", "etc", "evtl", "ggf", "gov",
    "i.e", "inc", "incl", "jr", "ltd", "max", "min", "misc", "mr", "mrs", "ms", "prof", "rev", "sen", "sr",
    "st", "tel", "usw", "u.a", "u.s", "vgl", "vs", "z.b",
];

/// Words that are abbreviations before a number only.
const BEFORE_NUMBERS: &[&str] =
    &["abb", "abs", "art", "eq", "fig", "no", "nr", "p", "para", "pp", "ref", "sec", "vol"];

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "mär", "apr", "may", "mai", "jun", "jul", "aug", "sep", "oct", "okt", "nov", "dec",
    "dez",
];

/// Whether the last character of `before` ends a sentence.
fn ends_sentence(before: &str, after: &str) -> bool {
    let Some(last) = before.chars().next_back() else { return false };
    if matches!(last, '。' | '！' | '？') {
        return true;
    }
    if !matches!(last, '.' | '!' | '?' | '…') {
        return false;
    }
    let rest = after.trim_start_matches(is_closer);
    let follows = rest.trim_start();
    // A mark directly behind the period still belongs to the sentence.
    if !(rest.is_empty() || rest.starts_with(char::is_whitespace) || rest.starts_with(['[', '【'])) {
        return false;
    }
    if last == '…' {
        return !follows.starts_with(char::is_lowercase);
    }
    if last != '.' {
        return true;
    }
    let head = &before[..before.len() - 1];
    let word = head.rsplit(|it: char| it.is_whitespace() || matches!(it, '(' | '[' | '"' | '“' | '„')).next();
    let word = word.unwrap_or_default().to_lowercase();
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    let is_numbered =
        BEFORE_NUMBERS.contains(&word.as_str()) && follows.starts_with(|it: char| it.is_ascii_digit());
    let is_abbreviation = ABBREVIATIONS.contains(&word.as_str()) || is_initial || is_numbered;
    let is_day = word.len() <= 2 && !word.is_empty() && word.bytes().all(|it| it.is_ascii_digit());
    // Enough to recognize a month.
    let next: String = follows.chars().take(4).flat_map(char::to_lowercase).collect();
    let is_date = is_day && MONTHS.iter().any(|it| next.starts_with(it));
    let goes_on = follows.starts_with(char::is_lowercase);
    !(is_date || (is_abbreviation && !follows.is_empty()) || goes_on)
}

fn is_closer(c: char) -> bool {
    matches!(c, '\'' | '”' | '’' | '»' | '›' | ')' | '*' | '_' | '」' | '』')
}

/// Returns the end of a sentence with the closing characters and marks behind it.
fn with_closers(text: &str, at: usize, limit: usize, marks: &[Mark]) -> usize {
    let mut end = at;
    loop {
        let rest = &text[end..limit];
        let closed = rest.trim_start_matches(is_closer);
        end += rest.len() - closed.len();
        let gap = closed.len() - closed.trim_start_matches([' ', '\t']).len();
        let mark = mark_at(marks, end + gap).filter(|it| it.span.end <= limit);
        match mark {
            Some(mark) => {
                end = mark.span.end;
                // `… [handbook:12].` has its period behind the mark.
                let rest = &text[end..limit];
                end += rest.len() - rest.trim_start_matches(['.', '!', '?', ',']).len();
            }
            None => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::marks;
    use super::{code, sentences};

    fn split(text: &str) -> Vec<&str> {
        let code = code(text);
        let marks = marks(text, &code, &|_| false);
        sentences(text, &code, &marks).into_iter().map(|it| it.of(text).unwrap()).collect()
    }

    #[test]
    fn abbreviations_and_dates_do_not_end_a_sentence() {
        assert_eq!(
            split("Dr. Smith pays approx. 3.5 €, e.g. on 3. März. So does J. Doe! Am I right? Yes…"),
            ["Dr. Smith pays approx. 3.5 €, e.g. on 3. März.", "So does J. Doe!", "Am I right?", "Yes…"]
        );
        assert_eq!(split("返品は30日。質問は？"), ["返品は30日。", "質問は？"]);
    }

    #[test]
    fn marks_behind_the_end_belong_to_the_sentence() {
        assert_eq!(
            split("It takes 30 days. [h:1] [h:2] A receipt helps [h:3]. He said \"no.\" [h:4]\nEnd"),
            ["It takes 30 days. [h:1] [h:2]", "A receipt helps [h:3].", "He said \"no.\" [h:4]", "End"]
        );
    }

    #[test]
    fn lists_tables_and_code_are_read_as_markdown() {
        let text = "# Title. Here\n\nIntro:\n- One. Two\n- Three\n1. Four\n\n| a | b |\n|---|---|\n```\nx. Y. z\n```\nUse `a. B` now.";
        assert_eq!(split(text), ["Intro:", "One.", "Two", "Three", "Four", "| a | b |", "Use `a. B` now."]);
        assert_eq!(split("```\nopen. Code"), Vec::<&str>::new());
    }
}
