//! Wraps a text as it arrives, so that no word is cut at the edge of the terminal.
//!
//! Input is pieces of any length, output is what can be printed now. The full rule:
//!
//! 1. A word is printed once its end is known: with the blank after it, or at the end of the text.
//! 2. A word that does not fit on the line starts the next one; the blanks before it are dropped.
//! 3. Line breaks and indentation of the text are kept as far as there is room. The terminal breaks words that are
//!    wider than a line.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The state of a text being printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wrap {
    columns: usize,
    /// The number of columns used on the current line.
    used: usize,
    /// Blanks to print before the word if it fits on the line.
    blanks: String,
    word: String,
}

impl Wrap {
    /// Starts a text on a terminal of that width.
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns: columns.max(1), ..Self::default() }
    }

    /// Adds the next piece, and returns what can be printed.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for char in piece.chars() {
            match char {
                '\n' => {
                    self.flush(&mut out);
                    out.push('\n');
                    self.used = 0;
                }
                ' ' | '\t' => {
                    self.end_word(&mut out);
                    self.blanks.push(char);
                }
                other => self.word.push(other),
            }
        }
        out
    }

    /// Returns the text still to be printed, for when no more arrives for now. More pieces may follow later.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        self.flush(&mut out);
        out
    }

    fn flush(&mut self, out: &mut String) {
        self.end_word(out);
        let blanks = std::mem::take(&mut self.blanks);
        self.used += width(&blanks);
        out.push_str(&blanks);
    }

    fn end_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let (blanks, word) = (std::mem::take(&mut self.blanks), std::mem::take(&mut self.word));
        let needed = width(&blanks) + width(&word);
        if self.used > 0 && self.used + needed > self.columns {
            out.push('\n');
            self.used = width(&word);
        } else if needed > self.columns && width(&word) <= self.columns {
            // Reduce the indentation rather than cut the word.
            out.extend(std::iter::repeat_n(' ', self.columns - width(&word)));
            self.used = self.columns;
        } else {
            out.push_str(&blanks);
            self.used += needed;
        }
        out.push_str(&word);
        if self.used > self.columns {
            // The terminal has broken the word.
            self.used = (self.used - 1) % self.columns + 1;
        }
    }
}

/// Returns the width of a text in columns; a tab counts as its maximum width.
fn width(text: &str) -> usize {
    match text.contains('\t') {
        true => text.chars().map(|it| if it == '\t' { 8 } else { it.width().unwrap_or(0) }).sum(),
        false => text.width(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::Wrap;

    fn wrapped(columns: usize, pieces: &[&str]) -> String {
        let mut wrap = Wrap::new(columns);
        let mut out: String = pieces.iter().map(|it| wrap.push(it)).collect();
        out.push_str(&wrap.end());
        out
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrapped(8, &["one two three"]), "one two\nthree");
        assert_eq!(wrapped(8, &["o", "ne tw", "o thr", "ee"]), "one two\nthree");
        assert_eq!(wrapped(7, &["one two three"]), "one two\nthree");
        assert_eq!(wrapped(8, &["abcdefghijklm no p"]), "abcdefghijklm no\np");
        assert_eq!(wrapped(4, &["日本 語"]), "日本\n語");
    }

    #[test]
    fn lines_and_indentation_stay() {
        assert_eq!(wrapped(20, &["- one\n  two  three \n\n    code"]), "- one\n  two  three \n\n    code");
        assert_eq!(wrapped(10, &["  indented line"]), "  indented\nline");
        assert_eq!(wrapped(9, &["  indented line"]), " indented\nline");
        assert_eq!(wrapped(20, &["one two "]), "one two ");
    }

    proptest! {
        #[test]
        fn only_blanks_become_line_breaks(text in "[a-z \n]{0,80}", cut in 0..80_usize, columns in 3..20_usize) {
            let cut = cut.min(text.len());
            let out = wrapped(columns, &[&text[..cut], &text[cut..]]);
            prop_assert_eq!(&out, &wrapped(columns, &[&text]), "it does not matter how a text arrives");
            let words = |it: &str| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&out), words(&text));
            let is_wide = |it: &str| it.split_whitespace().any(|it| it.len() > columns);
            let fits = |it: &str| it.trim_end().len() <= columns || is_wide(it);
            prop_assert!(out.lines().all(fits), "{out:?}");
        }
    }
}
