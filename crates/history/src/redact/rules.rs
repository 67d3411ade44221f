//! Redaction rules: what counts as a secret.

use std::ops::Range;

use regex::Regex;

use super::RedactError;

const EMAIL: &str = r"[\p{L}\p{N}._%+'-]+@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}";

/// API keys with a prefix that identifies their provider. A letter or digit before the prefix makes it part of a word.
const API_KEY: &str = r"(?x)
    (?:^|[^A-Za-z0-9])
    (
        sk-[A-Za-z0-9_-]{20,}                 # OpenAI, Anthropic and others
      | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}  # Stripe
      | gh[pousr]_[A-Za-z0-9]{20,}            # GitHub
      | github_pat_[A-Za-z0-9_]{20,}
      | glpat-[A-Za-z0-9_-]{16,}              # GitLab
      | (?:AKIA|ASIA)[A-Z0-9]{16,}            # AWS
      | AIza[A-Za-z0-9_-]{30,}                # Google
      | xox[abeoprs]-[A-Za-z0-9-]{10,}        # Slack
      | npm_[A-Za-z0-9]{30,}
      | hf_[A-Za-z0-9]{20,}                   # Hugging Face
    )";

const BEARER: &str = r"(?i)bearer\s+([A-Za-z0-9._~+/-]{16,}=*)";

/// A block that is cut off before its end is a secret, too.
const PRIVATE_KEY: &str = r"(?x)
    -----BEGIN\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY(?:\ BLOCK)?-----
    (?:
        (?s:.*?)-----END\ (?:[A-Z0-9]+\ )*PRIVATE\ KEY(?:\ BLOCK)?-----
      | [A-Za-z0-9+/=\s\\]*
    )";

/// A kind of secret and how to find it.
#[derive(Clone, Debug)]
pub struct RedactRule {
    name: String,
    find: Find,
}

#[derive(Clone, Debug)]
enum Find {
    /// The whole match, or its first group if it has one, provided that the predicate accepts the text.
    Pattern(Regex, fn(&str) -> bool),
    Cards,
}

impl RedactRule {
    /// The names of the built-in rules.
    pub const BUILT_IN: [&'static str; 5] = ["email", "credit_card", "api_key", "bearer", "private_key"];

    /// Returns a built-in rule: `email`, `credit_card` (with a valid check digit), `api_key` (recognised by provider
    /// prefixes), `bearer` (the token after that word) or `private_key` (a PEM block).
    pub fn built_in(name: &str) -> Result<Self, RedactError> {
        let (pattern, test): (&str, fn(&str) -> bool) = match name {
            "credit_card" => return Ok(Self { name: name.to_owned(), find: Find::Cards }),
            "email" => (EMAIL, |_| true),
            "api_key" => (API_KEY, is_random),
            "bearer" => (BEARER, |it| it.len() >= 40 || has_digit(it)),
            "private_key" => (PRIVATE_KEY, |_| true),
            _ => return Err(RedactError::UnknownRule { name: name.to_owned() }),
        };
        Self::compiled(name, pattern, test)
    }

    /// Returns all built-in rules.
    pub fn all_built_in() -> Vec<Self> {
        Self::BUILT_IN.iter().filter_map(|it| Self::built_in(it).ok()).collect()
    }

    /// Returns a custom rule that redacts every match of a regular expression, or its first group if it has one.
    /// Matching takes time linear in the text.
    pub fn pattern(name: impl Into<String>, pattern: &str) -> Result<Self, RedactError> {
        let name = name.into();
        let fits = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
            return Err(RedactError::InvalidName { name });
        }
        Self::compiled(&name, pattern, |_| true)
    }

    fn compiled(name: &str, pattern: &str, test: fn(&str) -> bool) -> Result<Self, RedactError> {
        let name = name.to_owned();
        match Regex::new(pattern) {
            Ok(regex) => Ok(Self { name, find: Find::Pattern(regex, test) }),
            Err(err) => {
                // The message starts with a drawing of the pattern and ends with the reason.
                let told = err.to_string();
                let reason = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Err(RedactError::InvalidPattern { name, reason: reason.to_owned() })
            }
        }
    }

    /// Returns the name used in the marks.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mark(&self) -> String {
        format!("[redacted:{}]", self.name)
    }

    /// Appends `text` to `out` with matches replaced by marks. Returns whether anything matched.
    pub(super) fn replace(&self, text: &str, out: &mut String) -> bool {
        let found = self.found(text);
        let mut done = 0;
        for secret in &found {
            out.push_str(&text[done..secret.start]);
            out.push_str(&self.mark());
            done = secret.end;
        }
        out.push_str(&text[done..]);
        !found.is_empty()
    }

    fn found(&self, text: &str) -> Vec<Range<usize>> {
        match &self.find {
            Find::Cards => cards(text),
            Find::Pattern(regex, test) if regex.captures_len() == 1 => {
                let found = regex.find_iter(text).filter(|it| !it.is_empty() && test(it.as_str()));
                found.map(|it| it.range()).collect()
            }
            Find::Pattern(regex, test) => {
                let secrets = regex.captures_iter(text).filter_map(|it| it.get(1).or_else(|| it.get(0)));
                secrets.filter(|it| !it.is_empty() && test(it.as_str())).map(|it| it.range()).collect()
            }
        }
    }
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|it| it.is_ascii_digit())
}

/// Whether a key is more than plain words: `sk-learn-contrib-packages` is not a key.
fn is_random(key: &str) -> bool {
    has_digit(key) || key.bytes().any(|it| it.is_ascii_uppercase())
}

/// Finds card numbers: 13 to 19 digits with a valid check digit, contiguous or in groups of at least three separated
/// by a space or a hyphen. A number that touches a letter or a further digit is not a card number.
fn cards(text: &str) -> Vec<Range<usize>> {
    let groups = digit_groups(text.as_bytes());
    let (mut found, mut first) = (Vec::new(), 0);
    while first < groups.len() {
        match card_from(text, &groups[first..]) {
            Some(count) => {
                found.push(groups[first].start..groups[first + count - 1].end);
                first += count;
            }
            None => first += 1,
        }
    }
    found
}

fn digit_groups(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut groups, mut position) = (Vec::new(), 0);
    while position < bytes.len() {
        let start = position;
        while bytes.get(position).is_some_and(u8::is_ascii_digit) {
            position += 1;
        }
        if position > start {
            groups.push(start..position);
        }
        position += 1;
    }
    groups
}

/// Returns the number of groups in the longest card number that starts at the first group.
fn card_from(text: &str, groups: &[Range<usize>]) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_bound =
        |at: Option<usize>| at.and_then(|it| bytes.get(it)).is_none_or(|it| !it.is_ascii_alphanumeric());
    if !is_bound(groups.first()?.start.checked_sub(1)) {
        return None;
    }
    let (mut digits, mut longest) = (Vec::new(), None);
    for (idx, group) in groups.iter().enumerate() {
        let follows = idx == 0 || {
            let between = &bytes[groups[idx - 1].end..group.start];
            matches!(between, b" " | b"-") && group.len() >= 3 && groups[0].len() >= 3
        };
        if !follows || digits.len() + group.len() > 19 {
            break;
        }
        digits.extend(bytes[group.clone()].iter().map(|it| it - b'0'));
        if is_bound(Some(group.end)) && is_card(&digits) {
            longest = Some(idx + 1);
        }
    }
    longest
}

/// Whether the digits form a card number: checks length, prefix and Luhn checksum.
fn is_card(digits: &[u8]) -> bool {
    let is_doubled = |idx: usize| idx % 2 == 1;
    let worth = |(idx, digit): (usize, &u8)| match (is_doubled(idx), *digit) {
        (true, digit) if digit > 4 => u32::from(digit) * 2 - 9,
        (true, digit) => u32::from(digit) * 2,
        (false, digit) => u32::from(digit),
    };
    let sum: u32 = digits.iter().rev().enumerate().map(worth).sum();
    (13..=19).contains(&digits.len()) && matches!(digits.first(), Some(2..=6)) && sum.is_multiple_of(10)
}
