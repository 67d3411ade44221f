//! Texts in a form in which spellings that mean the same are equal, with the way back to the original.
//!
//! The form: compatibility decomposition (two texts agree in it exactly if their NFKC forms agree), one space for any
//! white space, one mark for all quotation marks and apostrophes, one hyphen for all dashes, and no invisible characters.
//! The start and the end have no white space.

use contexture_message::Span;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// A text in its normal form.
#[derive(Clone, Debug, Default)]
pub(super) struct Normal {
    text: String,
    /// Where each group of characters begins, in the normal form and in the original, and where it ends there.
    groups: Vec<Group>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    at: usize,
    original: Span,
}

impl Normal {
    /// Returns the normal form of a text.
    pub(super) fn new(original: &str) -> Self {
        let mut normal = Self::default();
        let mut chars = original.char_indices().peekable();
        while let Some((start, first)) = chars.next() {
            let kind = Kind::of(first);
            let mut end = start + first.len_utf8();
            let belongs = |it: char| match kind {
                Kind::Space | Kind::Dash | Kind::Invisible => {
                    Kind::of(it) == kind || Kind::of(it) == Kind::Invisible
                }
                Kind::Quote | Kind::Other => canonical_combining_class(it) != 0,
            };
            while let Some((at, next)) = chars.next_if(|(_, it)| belongs(*it)) {
                end = at + next.len_utf8();
            }
            normal.push(kind, &original[start..end], Span { start, end });
        }
        if normal.text.ends_with(' ') {
            normal.text.pop();
            normal.groups.pop();
        }
        normal
    }

    fn push(&mut self, kind: Kind, group: &str, original: Span) {
        let at = self.text.len();
        match kind {
            Kind::Invisible => return,
            Kind::Space if self.text.is_empty() || self.text.ends_with(' ') => return,
            Kind::Space => self.text.push(' '),
            Kind::Dash => self.text.push('-'),
            Kind::Quote => self.text.push('\''),
            // Some characters decompose to a space and a mark.
            Kind::Other => self.text.extend(group.nfkd().filter(|it| !it.is_whitespace())),
        }
        if self.text.len() > at {
            self.groups.push(Group { at, original });
        }
    }

    /// Returns the normal form.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the span of the original in which `wanted` stands: whole words, if it begins and ends with words.
    pub(super) fn find(&self, wanted: &Normal) -> Option<Span> {
        if wanted.text.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(found) = self.text.get(from..).and_then(|it| it.find(&wanted.text)) {
            let (start, end) = (from + found, from + found + wanted.text.len());
            if let Some(span) = self.original(start, end).filter(|_| self.is_whole(start, end)) {
                return Some(span);
            }
            from = self.text.ceil_char_boundary(start + 1);
        }
        None
    }

    /// Returns the span of the original for a range that begins and ends with groups.
    fn original(&self, start: usize, end: usize) -> Option<Span> {
        let first = self.groups.binary_search_by_key(&start, |it| it.at).ok()?;
        let behind = match end == self.text.len() {
            true => self.groups.len(),
            false => self.groups.binary_search_by_key(&end, |it| it.at).ok()?,
        };
        let last = self.groups.get(behind.checked_sub(1)?)?;
        Some(Span { start: self.groups.get(first)?.original.start, end: last.original.end })
    }

    fn is_whole(&self, start: usize, end: usize) -> bool {
        let joins = |before: Option<char>, after: Option<char>| {
            before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric)
        };
        let (head, tail) = (&self.text[..start], &self.text[end..]);
        let inner = &self.text[start..end];
        !joins(head.chars().next_back(), inner.chars().next())
            && !joins(inner.chars().next_back(), tail.chars().next())
    }

    /// Returns the words of the normal form in lower case, with their spans in the original.
    pub(super) fn words(&self) -> Vec<(String, Span)> {
        let mut words = Vec::new();
        let mut at = 0;
        for word in self.text.split(' ') {
            let plain = word.trim_matches(|it: char| !it.is_alphanumeric()).to_lowercase();
            if let Some(span) = self.original(at, at + word.len()).filter(|_| !plain.is_empty()) {
                words.push((plain, span));
            }
            at += word.len() + 1;
        }
        words
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Space,
    Dash,
    Quote,
    Invisible,
    Other,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            '"'
            | '\''
            | '`'
            | '´'
            | '\u{2018}'..='\u{201f}'
            | '«'
            | '»'
            | '‹'
            | '›'
            | '＂'
            | '＇'
            | '「'..='』'
            | '〝'..='〟'
            | '′'
            | '″' => Kind::Quote,
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '﹘' | '﹣' | '－' | '⸺' | '⸻' => Kind::Dash,
            '\u{ad}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2064}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' => Kind::Invisible,
            _ if c.is_whitespace() => Kind::Space,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Normal;

    fn found(source: &str, wanted: &str) -> Option<String> {
        let span = Normal::new(source).find(&Normal::new(wanted))?;
        span.of(source).map(str::to_owned)
    }

    #[test]
    fn spellings_that_mean_the_same_are_found() {
        for (source, wanted, expected) in [
            ("Say “yes” – now.", "\"yes\" - now", "“yes” – now"),
            ("ﬁve\u{a0}\n  apples", "five apples", "ﬁve\u{a0}\n  apples"),
            ("cafe\u{301} crème", "café crème", "cafe\u{301} crème"),
            ("a—b", "a--b", "a—b"),
            ("soft\u{ad}ware", "software", "soft\u{ad}ware"),
            ("한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "한글"),
        ] {
            assert_eq!(found(source, wanted).as_deref(), Some(expected), "{source}");
        }
    }

    #[test]
    fn parts_of_words_and_of_characters_are_not_found() {
        for (source, wanted) in [
            ("pay 30 now", "pay 3"),
            ("ﬁve", "f"),
            ("cafe\u{301}", "cafe"),
            ("wait…", "wait."),
            ("a", ""),
            ("", "a"),
        ] {
            assert_eq!(found(source, wanted), None, "{source}");
        }
    }
}
