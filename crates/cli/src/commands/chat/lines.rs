//! Reads lines from a terminal, with an editor and a history, or from a pipe.

use contexture_message::ErrorCode;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Behavior, CompletionType, Config, Editor};

use super::complete::Commands;
use crate::error::Failure;
use crate::output;
use crate::terminal::type_ahead::{self, Ahead};

/// The maximum number of lines in the history.
const MAX_LINES: usize = 1000;

/// The result of reading input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Typed {
    Line(String),
    /// Ctrl-C: the typed text is discarded.
    Nothing,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// A source of lines.
pub(in crate::commands) enum Lines {
    Terminal { editor: Box<Editor<Commands, FileHistory>>, file: Option<PathBuf> },
    Pipe(Box<dyn BufRead>),
}

impl Lines {
    /// Opens the terminal, with a history file in `folder`, or the pipe.
    pub(in crate::commands) fn open(folder: Option<&Path>) -> Result<Self, Failure> {
        if !io::stdin().is_terminal() {
            return Ok(Lines::Pipe(Box::new(io::stdin().lock())));
        }
        let failed =
            |err: ReadlineError| Failure::new(ErrorCode::RuntimeFailed, format!("the terminal: {err}"));
        let config = Config::builder().behavior(Behavior::PreferTerm).max_history_size(MAX_LINES);
        let config = config.map_err(failed)?.history_ignore_space(false).auto_add_history(true);
        let config = config.completion_type(CompletionType::List).build();
        let mut editor = Box::new(Editor::with_config(config).map_err(failed)?);
        let file = folder.map(|it| it.join("chat_history"));
        if let Some(file) = &file {
            // The file does not exist the first time.
            let _ = editor.load_history(file);
        }
        Ok(Lines::Terminal { editor, file })
    }

    /// Enables tab completion of chat commands.
    pub(super) fn with_commands(mut self) -> Self {
        if let Lines::Terminal { editor, .. } = &mut self {
            editor.set_helper(Some(Commands));
        }
        self
    }

    /// Whether the lines come from a terminal.
    pub(in crate::commands) fn is_terminal(&self) -> bool {
        matches!(self, Lines::Terminal { .. })
    }

    /// Reads the next input: a line, with its continuation lines if it ends in `\`.
    pub(in crate::commands) fn read(&mut self) -> Result<Typed, Failure> {
        let mut whole = String::new();
        loop {
            let line = match self.line(if whole.is_empty() { "> " } else { "… " })? {
                Typed::Line(line) => line,
                Typed::End if !whole.is_empty() => return Ok(Typed::Line(whole)),
                other => return Ok(other),
            };
            whole.push_str(&line);
            if !whole.ends_with('\\') {
                return Ok(Typed::Line(whole));
            }
            whole.pop();
            whole.push('\n');
        }
    }

    fn line(&mut self, prompt: &str) -> Result<Typed, Failure> {
        match self {
            Lines::Terminal { editor, file } => {
                let read = match type_ahead::next() {
                    Ahead::Line(line) => {
                        output::echo(&format!("{prompt}{line}"));
                        let _ = editor.add_history_entry(line.as_str());
                        Ok(line)
                    }
                    Ahead::End => Err(ReadlineError::Eof),
                    Ahead::Rest(begun) => editor.readline_with_initial(prompt, (&begun, "")),
                };
                match read {
                    Ok(line) => {
                        if let Some(file) = file {
                            // The chat works without its history, so errors are ignored.
                            let _ = editor.append_history(file);
                        }
                        Ok(Typed::Line(line))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Typed::Nothing),
                    Err(ReadlineError::Eof) => Ok(Typed::End),
                    Err(err) => Err(Failure::new(ErrorCode::RuntimeFailed, format!("the terminal: {err}"))),
                }
            }
            Lines::Pipe(from) => {
                let mut line = String::new();
                let read = from.read_line(&mut line);
                let read =
                    read.map_err(|err| Failure::input(format!("cannot read standard input: {err}")))?;
                line.truncate(line.trim_end_matches(['\n', '\r']).len());
                Ok(if read == 0 { Typed::End } else { Typed::Line(line) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, Typed};

    fn typed(text: &'static str) -> Vec<String> {
        let mut lines = Lines::Pipe(Box::new(text.as_bytes()));
        let mut all = Vec::new();
        while let Ok(Typed::Line(line)) = lines.read() {
            all.push(line);
        }
        all
    }

    #[test]
    fn a_line_that_ends_in_a_backslash_goes_on() {
        assert_eq!(typed("one\r\ntwo\\\nthree\n\nfour"), ["one", "two\nthree", "", "four"]);
        assert_eq!(typed("one\\\n"), ["one\n"]);
        assert_eq!(typed(""), Vec::<String>::new());
    }
}
