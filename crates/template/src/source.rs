//! The text of a template, and the conversion of byte offsets to places.

use crate::{
    error::{Error, Fault, Place},
    limits::Limits,
};

/// Options for parsing a template.
#[derive(Clone, Debug)]
pub struct ParseConfig {
    /// Bounds for size and nesting.
    pub limits: Limits,
    /// The template's name in errors, such as a file name.
    pub name: Option<String>,
    /// The line number of the template's first line, for templates embedded in a file. Default 1.
    pub first_line: usize,
    /// The column of the template's first character. Default 1.
    pub first_column: usize,
}

impl Default for ParseConfig {
    fn default() -> Self {
        Self { limits: Limits::default(), name: None, first_line: 1, first_column: 1 }
    }
}

/// The text of one template, with the information that errors need to point into it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) text: Box<str>,
    pub(crate) name: Option<String>,
    first_line: usize,
    first_column: usize,
}

impl Source {
    /// Copies `text` if it is within the size limit.
    pub(crate) fn new(text: &str, config: &ParseConfig) -> Result<Self, Error> {
        // Offsets are `u32`, so no limit can allow more than that.
        let limit = config.limits.source_bytes.min(u32::MAX as usize);
        let fits = text.len() <= limit;
        let source = Self {
            text: if fits { text.into() } else { "".into() },
            name: config.name.clone(),
            first_line: config.first_line,
            first_column: config.first_column,
        };
        if fits {
            Ok(source)
        } else {
            Err(source.error(0, Fault::limit("the template's size in bytes", limit)))
        }
    }

    /// Converts a byte offset to a place.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |idx| idx + 1);
        let column = before.get(start..).unwrap_or("").chars().count();
        let first = if line == 0 { self.first_column } else { 1 };
        Place { line: self.first_line.saturating_add(line), column: first.saturating_add(column) }
    }

    /// Converts many byte offsets to places in one pass over the text. The result has the order of `offsets`.
    pub(crate) fn places(&self, offsets: &[usize]) -> Vec<Place> {
        let mut order: Vec<usize> = (0..offsets.len()).collect();
        order.sort_by_key(|&it| offsets[it]);
        let mut places = vec![self.place(0); offsets.len()];
        let (mut at, mut here) = (0, self.place(0));
        for position in order {
            for c in self.text.get(at..offsets[position]).unwrap_or_default().chars() {
                match c {
                    '\n' => here = Place { line: here.line.saturating_add(1), column: 1 },
                    _ => here.column = here.column.saturating_add(1),
                }
            }
            at = offsets[position];
            places[position] = here;
        }
        places
    }

    /// Turns `fault` into an error at `offset`.
    pub(crate) fn error(&self, offset: usize, fault: Fault) -> Error {
        Error::new(fault, self.place(offset), self.name.clone())
    }
}
