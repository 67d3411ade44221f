//! Colours, and escaping of text for the terminal.

use std::borrow::Cow;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const BLUE: Style = AnsiColor::Blue.on_default().bold();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();
pub(crate) const MAGENTA: Style = AnsiColor::Magenta.on_default();

/// Returns `text` in a style. `output` removes styles when it prints to a pipe.
pub(crate) fn paint(style: Style, text: &str) -> String {
    match style == PLAIN || text.is_empty() {
        true => text.to_owned(),
        false => format!("{style}{text}{style:#}"),
    }
}

/// Returns `text` with control characters in readable form, so that text from a prompt cannot control the terminal or
/// reorder its letters.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let reorders = |it: char| matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmless = |it: char| it == '\n' || it == '\t' || !(it.is_control() || reorders(it));
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for char in text.replace("\r\n", "\n").chars() {
        match harmless(char) {
            true => out.push(char),
            false => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(char));
            }
        }
    }
    Cow::Owned(out)
}

/// Returns `text` as one visible line.
pub(crate) fn one_line(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// Returns the width of an unstyled text in columns.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Cuts an unstyled text to `columns`, and marks the cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    for char in text.chars() {
        if width(&out) + width(char.encode_utf8(&mut [0; 4])) + 2 > columns {
            break;
        }
        out.push(char);
    }
    out.push_str("..");
    out
}

/// Wraps an unstyled text to lines of at most `columns`, at blanks where possible.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_owned();
        while !word.is_empty() {
            let line = lines.last_mut().expect("there is always a line");
            let blank = usize::from(!line.is_empty());
            if width(line) + blank + width(&word) <= columns {
                line.push_str(if blank == 1 { " " } else { "" });
                line.push_str(&word);
                break;
            }
            if blank == 1 {
                lines.push(String::new());
                continue;
            }
            // A word wider than a whole line is broken at the end of the line.
            let fits =
                word.char_indices().take_while(|(at, it)| width(&word[..at + it.len_utf8()]) <= columns);
            let end = fits.last().map_or(word.len(), |(at, it)| at + it.len_utf8());
            line.push_str(&word[..end]);
            word.replace_range(..end, "");
            lines.push(String::new());
        }
    }
    if lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Wraps an unstyled text after a styled prefix that is `indent` columns wide; further lines are indented to match.
pub(crate) fn behind(front: &str, indent: usize, text: &str, columns: usize) -> Vec<String> {
    let lines = wrapped(text, columns.saturating_sub(indent));
    let lines = lines.iter().enumerate();
    lines
        .map(|(idx, it)| if idx == 0 { format!("{front}{it}") } else { format!("{:indent$}{it}", "") })
        .collect()
}

/// Joins texts to lines of at most `columns`, which break only between texts. Each text is painted in its style.
pub(crate) fn joined(texts: &[(Style, String)], separator: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for (style, text) in texts {
        let fits = used + width(separator) + width(text) <= columns;
        match lines.last_mut().filter(|_| fits) {
            Some(line) => {
                line.push_str(&paint(DIM, separator));
                line.push_str(&paint(*style, text));
                used += width(separator) + width(text);
            }
            None => {
                let wrapped = wrapped(text, columns);
                used = wrapped.last().map_or(0, |it| width(it));
                lines.extend(wrapped.iter().map(|it| paint(*style, it)));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{PLAIN, behind, cut, joined, visible, wrapped};

    #[test]
    fn facts_are_broken_between_each_other() {
        let facts = ["one two", "three", "a-very-long-name"].map(|it| (PLAIN, it.to_owned()));
        let plain = |it: &String| anstream::adapter::strip_str(it).to_string();
        let lines: Vec<String> = joined(&facts, " | ", 12).iter().map(plain).collect();
        assert_eq!(lines, ["one two", "three", "a-very-long-", "name"]);
        let lines: Vec<String> = joined(&facts, " | ", 15).iter().map(plain).collect();
        assert_eq!(lines, ["one two | three", "a-very-long-nam", "e"]);
        assert_eq!(behind("a: ", 3, "one two three", 11), ["a: one two", "   three"]);
    }

    #[test]
    fn an_escape_sequence_is_shown_and_not_obeyed() {
        assert_eq!(visible("a\u{1b}[2Jb\r\nc\td"), "a\\u{1b}[2Jb\nc\td");
        assert_eq!(visible("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn a_line_breaks_at_blanks_and_inside_long_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghijklm", 8), ["abcdefgh", "ijklm"]);
        assert_eq!(wrapped("abcdefgh", 8), ["abcdefgh"]);
        assert_eq!(wrapped("", 8), [""]);
    }

    #[test]
    fn a_cut_counts_columns_and_not_bytes() {
        assert_eq!(cut("日本語日本語", 8), "日本語..");
        assert_eq!(cut("short", 8), "short");
    }
}
