//! Numbers, dates, identifiers and URLs: what must not be altered between a source and an answer.
//!
//! A number has readings, and a source contains it if it has a number with one of them: `1,000` is read as a thousand and
//! as one, because both notations are in use. Numbers up to ninety-nine may be spelled out in the source. A date matches in
//! any notation, an identifier in any case and with any separators.

use std::collections::BTreeSet;
use std::fmt;

use contexture_message::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dates::{Date, date_at};
use super::normal::Normal;

/// A kind of fact that can be looked up word for word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "GroundedFactKind")]
pub enum FactKind {
    /// A number.
    Number,
    /// A date.
    Date,
    /// A name with digits or underscores, or a name in code.
    Identifier,
    /// A URL.
    Url,
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FactKind::Number => "number",
            FactKind::Date => "date",
            FactKind::Identifier => "identifier",
            FactKind::Url => "URL",
        })
    }
}

/// A fact of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fact {
    /// The place in the text that was searched.
    pub(super) span: Span,
    value: Value,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(BTreeSet<String>),
    Date(Vec<Date>),
    Identifier(String),
    Url(String),
}

impl Fact {
    pub(super) fn kind(&self) -> FactKind {
        match self.value {
            Value::Number(_) => FactKind::Number,
            Value::Date(_) => FactKind::Date,
            Value::Identifier(_) => FactKind::Identifier,
            Value::Url(_) => FactKind::Url,
        }
    }
}

/// The facts of a source, ready to be looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceFacts {
    numbers: BTreeSet<String>,
    dates: Vec<Date>,
    /// The text in lower case, in its normal form.
    text: String,
    /// The letters and digits of the text, with one space for everything else.
    plain: String,
}

impl SourceFacts {
    /// Collects the facts of a source.
    pub(super) fn new(text: &str) -> Self {
        let lower = Normal::new(text).as_str().to_lowercase();
        let words = words(text);
        let mut numbers: BTreeSet<String> =
            words.iter().flat_map(|(_, it)| runs(it)).flat_map(|(_, it)| readings(it)).collect();
        numbers.extend(lower.split(|it: char| !it.is_alphabetic()).filter_map(spelled_number));
        numbers.extend(spelled_pairs(&lower));
        let plain_words: Vec<&str> = words.iter().map(|(_, it)| *it).collect();
        let dates = (0..plain_words.len()).filter_map(|it| date_at(&plain_words[it..]));
        let dates = dates.flat_map(|(dates, _)| dates).collect();
        Self { numbers, dates, plain: plain(&lower), text: lower }
    }

    /// Whether the source has the fact.
    pub(super) fn has(&self, fact: &Fact) -> bool {
        match &fact.value {
            Value::Number(readings) => readings.iter().any(|it| self.numbers.contains(it)),
            Value::Date(dates) => dates.iter().any(|it| self.has_date(it)),
            Value::Identifier(name) => self.plain.contains(&plain(name)),
            Value::Url(url) => self.text.contains(url.as_str()),
        }
    }

    fn has_date(&self, date: &Date) -> bool {
        let has_year = |it: &Date| match (date.year, it.year) {
            (Some(own), Some(other)) => own == other,
            (Some(own), None) => self.numbers.contains(&own.to_string()),
            (None, _) => true,
        };
        let is_same = |it: &&Date| it.month == date.month && (date.day.is_none() || it.day == date.day);
        self.dates.iter().filter(is_same).any(has_year)
    }
}

/// Returns the facts of a text in order.
pub(super) fn facts(text: &str) -> Vec<Fact> {
    let words = words(text);
    let plain_words: Vec<&str> = words.iter().map(|(_, it)| *it).collect();
    let mut facts = Vec::new();
    let mut idx = 0;
    while let Some((start, word)) = words.get(idx) {
        if let Some((dates, n_words)) = date_at(&plain_words[idx..]) {
            let (last_start, last) = words[idx + n_words.max(1) - 1];
            let span = Span { start: *start, end: last_start + last.len() };
            facts.push(Fact { span, value: Value::Date(dates) });
            idx += n_words.max(1);
            continue;
        }
        word_facts(*start, word, &mut facts);
        idx += 1;
    }
    facts
}

fn word_facts(start: usize, word: &str, facts: &mut Vec<Fact>) {
    let fact = |value: Value| Fact { span: Span { start, end: start + word.len() }, value };
    let lower = Normal::new(word).as_str().to_lowercase();
    if ["http://", "https://", "www."].iter().any(|it| lower.starts_with(it)) || is_bare_url(&lower) {
        return facts.push(fact(Value::Url(lower.trim_end_matches('/').to_owned())));
    }
    let name = word.trim_matches('`');
    let is_code = name.len() < word.len() && name.chars().any(char::is_alphabetic);
    if is_code || is_identifier(name) {
        return facts.push(fact(Value::Identifier(lower)));
    }
    for (at, run) in runs(word) {
        let number = run.trim_end_matches(char::is_alphabetic);
        let span = Span { start: start + at, end: start + at + number.len() };
        facts.push(Fact { span, value: Value::Number(readings(run).into_iter().collect()) });
    }
}

/// Whether a word is a host with a path: `example.com/docs`. A path alone, such as `and/or`, has no dot in front.
fn is_bare_url(word: &str) -> bool {
    word.split_once('/').is_some_and(|(host, path)| {
        let is_label =
            |it: &str| !it.is_empty() && it.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
        let ends_in_letters = host
            .rsplit('.')
            .next()
            .is_some_and(|it| it.len() > 1 && it.chars().all(|it| it.is_ascii_alphabetic()));
        !path.is_empty() && host.contains('.') && host.split('.').all(is_label) && ends_in_letters
    })
}

/// Whether a word is a name: it has an underscore, an address, a capital after a small letter (`getUser`), or letters
/// before or between digits.
fn is_identifier(word: &str) -> bool {
    let has = |test: fn(char) -> bool| word.chars().any(test);
    // Scripts without spaces join whole sentences to one word.
    let is_unspaced = |it: char| it.is_alphabetic() && it >= '\u{900}';
    if !has(char::is_alphabetic) || word.chars().any(is_unspaced) {
        return false;
    }
    let is_joined = word.trim_matches('_').contains('_') || word.contains("::");
    // `PostgreSQL` is a name too, but one that answers may know by themselves.
    let is_camel = word.starts_with(|it: char| it.is_ascii_lowercase())
        && word.len() > 5
        && word.chars().all(|it| it.is_ascii_alphanumeric())
        && has(|it| it.is_ascii_uppercase());
    let is_address = word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    // Digits with a unit behind each run, such as `30km` or `9am-5pm`, are numbers.
    let is_quantity = word.split(|it: char| !it.is_alphanumeric() && !".,".contains(it)).all(|it| {
        let unit = it.trim_start_matches(|it: char| it.is_ascii_digit() || ".,".contains(it));
        unit.chars().all(char::is_alphabetic) && (unit.len() < it.len() || it.is_empty())
    });
    is_joined || is_camel || is_address || (has(|it| it.is_ascii_digit()) && !is_quantity)
}

/// Returns the words of a text without the punctuation around them. A narrow space inside a number does not end it.
fn words(text: &str) -> Vec<(usize, &str)> {
    let is_narrow = |it: char| matches!(it, '\u{a0}' | '\u{202f}' | '\u{2009}');
    let joins = |at: usize, it: char| {
        let is_digit = |it: Option<char>| it.is_some_and(|it| it.is_ascii_digit());
        let (before, after) = (text[..at].chars().next_back(), text[at + it.len_utf8()..].chars().next());
        is_narrow(it) && is_digit(before) && is_digit(after)
    };
    let mut words = Vec::new();
    let mut start = 0;
    let ends = text.char_indices().filter(|(at, it)| it.is_whitespace() && !joins(*at, *it));
    let ends: Vec<(usize, usize)> = ends.map(|(at, it)| (at, at + it.len_utf8())).collect();
    for (end, next) in ends.into_iter().chain([(text.len(), text.len())]) {
        let word = &text[start..end];
        let is_edge = |it: char| !it.is_alphanumeric() && it != '`' && it != '_';
        let trimmed = word.trim_start_matches(is_edge);
        let at = start + word.len() - trimmed.len();
        let trimmed = trimmed.trim_end_matches(|it: char| is_edge(it) && it != '/');
        if !trimmed.is_empty() {
            words.push((at, trimmed));
        }
        start = next;
    }
    words
}

/// Returns the numbers in a word, each with the letters directly behind it.
fn runs(word: &str) -> Vec<(usize, &str)> {
    let bytes = word.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut runs = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_digit(at) {
            at += 1;
            continue;
        }
        let start = at;
        while let Some(next) = word.get(at..).and_then(|it| it.chars().next()) {
            let length = next.len_utf8();
            let joins = matches!(next, '.' | ',' | '\'' | '’' | '_' | '\u{a0}' | '\u{202f}' | '\u{2009}');
            let goes_on = next.is_ascii_digit() || (joins && is_digit(at + length));
            if !goes_on {
                break;
            }
            at += length;
        }
        let rest = word.get(at..).unwrap_or_default();
        at += rest.len() - rest.trim_start_matches(char::is_alphabetic).len();
        runs.push((start, &word[start..at]));
    }
    runs
}

/// Returns the numbers that a run of digits may stand for.
fn readings(run: &str) -> Vec<String> {
    let digits = run.trim_end_matches(char::is_alphabetic);
    let unit = run[digits.len()..].to_lowercase();
    let clean: String = digits.chars().filter(|it| it.is_ascii_digit() || ".,".contains(*it)).collect();
    let plain = plain_readings(&clean);
    let times = |zeros: usize| plain.iter().filter_map(|it| shifted(it, zeros)).collect::<Vec<_>>();
    match unit.as_str() {
        "k" => times(3),
        "m" | "mio" | "mn" => [plain.clone(), times(6)].concat(),
        "bn" | "b" => [plain.clone(), times(9)].concat(),
        _ => plain,
    }
}

fn plain_readings(clean: &str) -> Vec<String> {
    let groups: Vec<&str> = clean.split(['.', ',']).collect();
    let Some((last, before)) = groups.split_last().filter(|(_, before)| !before.is_empty()) else {
        return vec![whole(clean)];
    };
    let separators: Vec<char> = clean.chars().filter(|it| !it.is_ascii_digit()).collect();
    let is_grouped = groups[1..].iter().all(|it| it.len() == 3) && (1..=3).contains(&groups[0].len());
    let is_uniform = separators.iter().all(|it| *it == separators[0]);
    let decimal = || fraction(&before.concat(), last);
    match (is_uniform, separators.len(), is_grouped) {
        (true, 1, true) => vec![whole(&groups.concat()), decimal()],
        (true, 1, false) => vec![decimal()],
        (true, _, true) => vec![whole(&groups.concat())],
        // A version or a date, which has no value.
        (true, _, false) => vec![clean.to_owned()],
        (false, _, _) => vec![decimal()],
    }
}

fn whole(digits: &str) -> String {
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

fn fraction(integer: &str, decimals: &str) -> String {
    match decimals.trim_end_matches('0') {
        "" => whole(integer),
        decimals => format!("{}.{decimals}", whole(integer)),
    }
}

/// Moves the decimal point of a number to the right.
fn shifted(number: &str, zeros: usize) -> Option<String> {
    let (integer, decimals) = number.split_once('.').unwrap_or((number, ""));
    let padded = format!("{decimals:0<zeros$}");
    let (more, rest) = padded.split_at_checked(zeros)?;
    Some(fraction(&format!("{integer}{more}"), rest))
}

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const ORDINALS: [&str; 10] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

fn spelled(word: &str) -> Option<usize> {
    let place = |list: &[&str]| list.iter().position(|it| *it == word);
    place(&ONES)
        .or_else(|| place(&TENS).map(|it| (it + 2) * 10))
        .or_else(|| place(&ORDINALS).map(|it| it + 1))
}

fn spelled_number(word: &str) -> Option<String> {
    spelled(word).map(|it| it.to_string())
}

/// Returns the numbers that are spelled as two words, such as `twenty-one`.
fn spelled_pairs(lower: &str) -> Vec<String> {
    let words: Vec<&str> = lower.split(|it: char| !it.is_alphabetic()).filter(|it| !it.is_empty()).collect();
    let pair = |pair: &[&str]| match pair {
        [tens, ones] if TENS.contains(tens) => {
            let ones = spelled(ones).filter(|it| (1..10).contains(it))?;
            Some((spelled(tens)? + ones).to_string())
        }
        _ => None,
    };
    words.windows(2).filter_map(pair).collect()
}

/// Returns the letters and digits of a text between spaces, with one space for everything else.
fn plain(lower: &str) -> String {
    let mut plain = String::from(" ");
    for c in lower.chars() {
        match c.is_alphanumeric() {
            true => plain.push(c),
            false if plain.ends_with(' ') => {}
            false => plain.push(' '),
        }
    }
    if !plain.ends_with(' ') {
        plain.push(' ');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{SourceFacts, facts};

    /// Lists the facts of a sentence, with `!` before those that the source lacks.
    fn checked(sentence: &str, source: &str) -> String {
        let source = SourceFacts::new(source);
        let shown = facts(sentence).into_iter().map(|it| {
            let sign = if source.has(&it) { "" } else { "!" };
            format!("{sign}{} {}", it.kind(), it.span.of(sentence).unwrap())
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn numbers_match_in_any_notation() {
        assert_eq!(
            checked("It costs 1,000.50 €, 30 % or 5GB.", "1.000,50 and thirty, 5 GB"),
            "number 1,000.50, number 30, number 5"
        );
        assert_eq!(
            checked("10k users, 1\u{202f}000 seats", "10,000 users; 1000 seats"),
            "number 10, number 1\u{202f}000"
        );
        assert_eq!(checked("3 of 31, 2.5", "30 of 310, 2.05"), "!number 3, !number 31, !number 2.5");
        assert_eq!(checked("the 2nd of 21", "the second of twenty-one"), "number 2, number 21");
    }

    #[test]
    fn dates_match_in_any_notation() {
        assert_eq!(
            checked("On March 5, 2024 and 2024-03-06.", "5th of March 2024; 06.03.2024"),
            "date March 5, 2024, date 2024-03-06"
        );
        assert_eq!(checked("Am 3. März 2024", "March 3rd, 2023"), "!date 3. März 2024");
        assert_eq!(checked("by 5 March", "on 03/05/2024"), "date 5 March");
        assert_eq!(checked("May I have 4?", "4"), "number 4");
    }

    #[test]
    fn identifiers_and_urls_match_as_a_whole() {
        assert_eq!(
            checked("Set `max_len` of ISO-9001 v2.1 for a@b.org.", "MAX_LEN, iso 9001, V2.1, a@b.org"),
            "identifier `max_len`, identifier ISO-9001, identifier v2.1, identifier a@b.org"
        );
        assert_eq!(checked("Error E-1001", "Error E-1002"), "!identifier E-1001");
        assert_eq!(checked("See (https://a.org/b/).", "at https://a.org/b"), "URL https://a.org/b/");
        assert_eq!(checked("See https://a.org/c", "https://a.org/b"), "!URL https://a.org/c");
    }
}
