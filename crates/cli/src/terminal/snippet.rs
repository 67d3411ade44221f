//! Shows the source line of an error with a caret below it, as compilers do.
//!
//! ```text
//!   |
//! 3 | temprature: 1
//!   | ^^^^^^^^^^
//! ```

use std::fs;
use std::path::Path;

use crate::terminal::paint::{BLUE, RED, paint, visible, width};

/// The number of characters of a long line shown before the position, and in total.
const BEFORE: usize = 60;
const MOST: usize = 100;
/// Larger files are not read again to show a line.
const MAX_BYTES: u64 = 8 << 20;

/// A position in a file or in a given text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Spot {
    /// The file, relative to the project or to the current folder.
    pub(crate) file: String,
    /// The line, starting at 1.
    pub(crate) line: usize,
    /// The column in characters, starting at 1.
    pub(crate) column: usize,
}

/// Returns the line at a position, from a file in the project or else in the current folder.
pub(crate) fn line_of(spot: &Spot, root: Option<&Path>) -> Option<String> {
    let in_root = root.map(|it| it.join(&spot.file)).filter(|it| it.is_file());
    let path = in_root.unwrap_or_else(|| spot.file.clone().into());
    let is_small = fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
    let text = is_small.then(|| fs::read_to_string(&path).ok()).flatten()?;
    line(&text, spot.line)
}

/// Returns a line of a text, without its line ending.
pub(crate) fn line(text: &str, number: usize) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().nth(number.checked_sub(1)?).map(str::to_owned)
}

/// Draws a line with a caret below the word at `column`.
pub(crate) fn draw(line: &str, number: usize, column: usize) -> String {
    let chars: Vec<char> = line.chars().map(|it| if it == '\t' { ' ' } else { it }).collect();
    let at = column.saturating_sub(1).min(chars.len());
    let start = if chars.len() <= MOST { 0 } else { at.saturating_sub(BEFORE) };
    let end = chars.len().min(start + MOST);
    let text = |from: usize, to: usize| chars.get(from..to).unwrap_or_default().iter().collect::<String>();
    let (front, back) = (if start > 0 { "…" } else { "" }, if end < chars.len() { "…" } else { "" });
    let shown = format!("{front}{}{back}", visible(&text(start, end)));
    let word = chars.get(at..end).unwrap_or_default().iter().take_while(|it| is_word(**it)).count().max(1);
    let before = width(front) + width(&visible(&text(start, at)));
    let carets = width(&visible(&text(at, (at + word).min(end)))).max(1);
    let gutter = number.to_string();
    let empty = " ".repeat(gutter.len());
    let bar = paint(BLUE, "|");
    let caret = paint(RED, &"^".repeat(carets));
    format!(
        "{empty} {bar}\n{} {bar} {shown}\n{empty} {bar} {}{caret}",
        paint(BLUE, &gutter),
        " ".repeat(before)
    )
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::{draw, line};

    fn drawn(text: &str, number: usize, column: usize) -> String {
        let drawn = draw(&line(text, number).unwrap_or_default(), number, column);
        anstream::adapter::strip_str(&drawn).to_string()
    }

    #[test]
    fn a_caret_stands_below_the_word() {
        insta::assert_snapshot!(drawn("a: 1\n\tübel: {temprature: 1}\n", 2, 9), @"
          |
        2 |  übel: {temprature: 1}
          |         ^^^^^^^^^^
        ");
        insta::assert_snapshot!(drawn("日本: {{ x | nope }}", 1, 12), @"
          |
        1 | 日本: {{ x | nope }}
          |              ^^^^
        ");
        insta::assert_snapshot!(drawn("a", 1, 7), @"
          |
        1 | a
          |  ^
        ");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let long = format!("{}here{}", "x ".repeat(500), " y".repeat(500));
        let drawn = drawn(&long, 1, 1001);
        assert!(drawn.lines().all(|it| it.chars().count() < 115), "{drawn}");
        let lines: Vec<&str> = drawn.lines().collect();
        let caret = lines[2].chars().position(|it| it == '^').unwrap_or_default();
        assert_eq!(lines[1].chars().skip(caret).take(4).collect::<String>(), "here");
    }
}
