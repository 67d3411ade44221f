//! Templates in their files: from a place that a template counts to the place in the file.
//!
//! A template counts lines and columns through its own text, from the place where it begins. In a front matter the
//! text may be written otherwise: indented, folded, in quotes. What stays the same are the characters that are not
//! white space, so a place is found again by how many of them stand before it.

use std::sync::Arc;

use crate::error::Place;

/// How a text is written in its file.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// As it is: lines and columns can be counted through.
    Verbatim,
    /// With other white space, beginning at a place.
    Spread { raw: Lines, place: Place },
    /// With escapes: only its beginning can be told.
    Escaped,
}

impl Written {
    /// Returns how `text` is written as `raw`, which begins at `place`.
    pub(crate) fn spread(text: &str, raw: &str, place: Place) -> Self {
        let mut rest = raw.chars().filter(is_ink);
        match text.chars().filter(is_ink).all(|it| rest.next() == Some(it)) {
            true => Written::Spread { raw: Lines::new(raw), place },
            false => Written::Escaped,
        }
    }
}

/// A template in its file.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    lines: Lines,
    /// Where the template begins to count.
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

    /// Returns the place in the file; the same place if it is none of this text.
    pub(crate) fn in_file(&self, counted: Place) -> Place {
        self.find(counted).unwrap_or(counted)
    }

    /// Whether something can be seen at a place.
    pub(crate) fn has_ink(&self, counted: Place) -> bool {
        let char = self.position(counted).and_then(|(line_idx, column_idx)| {
            self.lines.line(line_idx).and_then(|(line, _)| line.chars().nth(column_idx))
        });
        char.is_some_and(|it| is_ink(&it))
    }

    /// Returns the place in the file of what the template counts as `counted`, if that is in its text.
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

    /// Returns the line of the text and the column in it, both from 0.
    fn position(&self, counted: Place) -> Option<(usize, usize)> {
        let line_idx = counted.line.checked_sub(self.start.line)?;
        let first_column = if line_idx == 0 { self.start.column } else { 1 };
        Some((line_idx, counted.column.checked_sub(first_column)?))
    }
}

/// A text that knows where its lines begin and how many characters stand before each that are no white space: a text
/// may read thousands of variables.
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

    /// Returns a line and how much ink stands before it.
    fn line(&self, line_idx: usize) -> Option<(&str, usize)> {
        let (start, ink_before) = *self.starts.get(line_idx)?;
        let end = self.starts.get(line_idx + 1).map_or(self.text.len(), |(next, _)| next - 1);
        Some((self.text.get(start..end)?, ink_before))
    }

    /// Returns the place of the character before which `ink_before` others stand; the text begins at `first`.
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
