//! Text for the terminal: colors, tables, wrapping, source snippets, and what the user types meanwhile.

pub(crate) mod bar;
pub(crate) mod paint;
pub(crate) mod snippet;
pub(crate) mod table;
pub(crate) mod type_ahead;
pub(crate) mod wrap;

use std::io::{self, IsTerminal};

/// The assumed width of a pipe, in columns.
const PIPE_WIDTH: usize = 100;
/// Longer lines are hard to read, however wide the terminal is.
const MAX_WIDTH: usize = 140;

/// The capabilities of standard output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Screen {
    /// The width in columns.
    pub(crate) width: usize,
    /// Whether it is a terminal, which can show block and line characters. Pipes get only ASCII.
    pub(crate) terminal: bool,
}

impl Screen {
    /// A pipe or a file.
    pub(crate) const PIPE: Screen = Screen { width: PIPE_WIDTH, terminal: false };

    /// Returns the current capabilities of standard output.
    pub(crate) fn of_stdout() -> Self {
        if !io::stdout().is_terminal() {
            return Self::PIPE;
        }
        Self { width: columns().clamp(60, MAX_WIDTH), terminal: true }
    }
}

/// Returns the current width of the terminal in columns.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(PIPE_WIDTH, |(width, _)| usize::from(width.0))
}
