//! Maps positions in a template to positions in its file.
//!
//! A template counts lines and columns in its own text, from the position where it begins. In front matter that text
//! may be written differently: indented, folded or quoted. The non-whitespace characters stay the same, so a position
//! is mapped by counting how many of them precede it.

use std::sync::Arc;

use crate::error::Place;

/// How a text is written in its file.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// Verbatim: lines and columns match those of the file.
    Verbatim,
    /// With different whitespace, starting at a position.
    Spread { raw: Lines, place: Place },
    /// With escapes: only the start position is known.
    Escaped,
}

impl Written {
    /// Compares `text` with its source `raw`, which begins at `place`.
    pub(crate) fn spread(text: &str, raw: &str, place: Place) -> Self {
        let mut rest = raw.chars().filter(is_ink);
        match text.chars().filter(is_ink).all(|it| rest.next() == Some(it)) {
            true => Written::Spread { raw: Lines::new(raw), place },
            false => Written::Escaped,
        }
    }
}

/// A template and its position in the file.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    lines: Lines,
    /// The position that the template counts from.
    pub(crate) start: Place,
    written: Written,
}

impl Spread {
    pub(crate) fn new(text: &str, start: Place, written: Written) -> Self {
        Self { lines: Lines::new(text), start, written }
    }

    /// Returns the text of the template.
    pub(crate) fn text(&self) -> &str {
        &self.lines.text
    }

    /// Maps a position to the file; returns it unchanged if it lies outside this text.
    pub(crate) fn in_file(&self, counted: Place) -> Place {
        self.find(counted).unwrap_or(counted)
    }

    /// Whether the character at a position is not whitespace.
    pub(crate) fn has_ink(&self, counted: Place) -> bool {
        let char = self.position(counted).and_then(|(line_idx, column_idx)| {
            self.lines.line(line_idx).and_then(|(line, _)| line.chars().nth(column_idx))
        });
        char.is_some_and(|it| is_ink(&it))
    }

    /// Maps a position to the file, if it lies in this text.
    pub(crate) fn find(&self, counted: Place) -> Option<Place> {
        let (line_idx, column_idx) = self.position(counted)?;
        let (line, ink_before) = self.lines.line(line_idx)?;
        if line.chars().count() < column_idx {
            return None;
        }
        Some(match &self.written {
            Written::Verbatim => counted,
            Written::Escaped => self.start,
            Written::Spread { raw, place } => {
                let ink_before = ink_before + line.chars().take(column_idx).filter(is_ink).count();
                raw.behind(ink_before, *place)
            }
        })
    }

    /// Returns the line and column in the text, both counted from 0.
    fn position(&self, counted: Place) -> Option<(usize, usize)> {
        let line_idx = counted.line.checked_sub(self.start.line)?;
        let first_column = if line_idx == 0 { self.start.column } else { 1 };
        Some((line_idx, counted.column.checked_sub(first_column)?))
    }
}

/// A text with the offset of each line and the number of non-whitespace characters before it. They are computed once,
/// because a text may read thousands of variables.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    text: Arc<str>,
    starts: Arc<[(usize, usize)]>,
    n_ink: usize,
}

impl Lines {
    fn new(text: &str) -> Self {
        let (mut byte, mut n_ink) = (0, 0);
        let mut starts = Vec::new();
        for line in text.split('\n') {
            starts.push((byte, n_ink));
            byte += line.len() + 1;
            n_ink += line.chars().filter(is_ink).count();
        }
        Self { text: Arc::from(text), starts: starts.into(), n_ink }
    }

    /// Returns a line and the number of non-whitespace characters before it.
    fn line(&self, line_idx: usize) -> Option<(&str, usize)> {
        let (start, ink_before) = *self.starts.get(line_idx)?;
        let end = self.starts.get(line_idx + 1).map_or(self.text.len(), |(next, _)| next - 1);
        Some((self.text.get(start..end)?, ink_before))
    }

    /// Returns the position of the non-whitespace character with `ink_before` others before it; the text begins at
    /// `first`.
    fn behind(&self, ink_before: usize, first: Place) -> Place {
        if ink_before >= self.n_ink {
            let last = self.n_ink.checked_sub(1).map(|it| self.behind(it, first));
            return last.map_or(first, |it| Place { column: it.column + 1, ..it });
        }
        let line_idx = self.starts.partition_point(|(_, before)| *before <= ink_before).saturating_sub(1);
        let (line, before) = self.line(line_idx).unwrap_or_default();
        let ink = line.chars().enumerate().filter(|(_, it)| is_ink(it));
        let column_idx = ink.map(|(idx, _)| idx).nth(ink_before.saturating_sub(before)).unwrap_or_default();
        let first_column = if line_idx == 0 { first.column } else { 1 };
        Place { line: first.line + line_idx, column: first_column + column_idx }
    }
}

fn is_ink(it: &char) -> bool {
    !it.is_whitespace()
}
