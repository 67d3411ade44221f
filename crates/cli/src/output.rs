//! Prints: with `live`, the only module that writes to standard output and standard error.
//!
//! Styled text keeps its colours on a terminal and loses them in a pipe (and with NO_COLOR). A reader that goes away,
//! as in `contexture inspect p | head`, ends the printing and nothing else.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::error::{Exit, Failure};
use crate::paint::{DIM, YELLOW, paint, visible};
use crate::type_ahead;

/// Columns in a pipe.
const PIPE_WIDTH: usize = 100;
/// Longer lines are hard to read, however wide the terminal is.
const MAX_WIDTH: usize = 140;

/// What standard output can show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Screen {
    /// How many columns there are.
    pub(crate) width: usize,
    /// Whether it is a terminal, where blocks and lines can be drawn. In a pipe only ASCII is.
    pub(crate) terminal: bool,
}

impl Screen {
    /// A pipe or a file.
    pub(crate) const PIPE: Screen = Screen { width: PIPE_WIDTH, terminal: false };

    /// Returns what standard output is now.
    pub(crate) fn of_stdout() -> Self {
        if !io::stdout().is_terminal() {
            return Self::PIPE;
        }
        Self { width: columns().clamp(60, MAX_WIDTH), terminal: true }
    }
}

/// Returns how many columns the terminal has now.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size().map_or(PIPE_WIDTH, |(width, _)| usize::from(width.0))
}

/// What a command answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    body: Body,
    /// How the process ends.
    pub(crate) exit: Exit,
    /// Remarks for standard error.
    notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Body {
    #[default]
    Nothing,
    Json(Value),
    Document(String),
    Styled(String),
    Verbatim(String),
}

impl Reply {
    /// A document for programs.
    pub(crate) fn json(value: Value) -> Self {
        Self { body: Body::Json(value), ..Self::default() }
    }

    /// A document for programs that was written already, for values that go out as they came.
    pub(crate) fn document(text: impl Into<String>) -> Self {
        Self { body: Body::Document(text.into()), ..Self::default() }
    }

    /// A page for people, with styles.
    pub(crate) fn styled(text: impl Into<String>) -> Self {
        Self { body: Body::Styled(text.into()), ..Self::default() }
    }

    /// Text that is a result itself and goes out byte for byte.
    pub(crate) fn verbatim(text: impl Into<String>) -> Self {
        Self { body: Body::Verbatim(text.into()), ..Self::default() }
    }

    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Returns the reply as a value, for programs that read several of them.
    pub(crate) fn into_value(self) -> Value {
        match self.body {
            Body::Nothing => Value::Null,
            Body::Json(value) => value,
            Body::Document(text) | Body::Verbatim(text) => Value::String(text),
            Body::Styled(text) => Value::String(anstream::adapter::strip_str(&text).to_string()),
        }
    }

    /// Adds a remark for people, which goes to standard error.
    pub(crate) fn note(self, note: impl AsRef<str>) -> Self {
        let note = visible(note.as_ref()).into_owned();
        self.styled_note(note)
    }

    /// Adds a remark with styles, of which nothing can drive the terminal.
    pub(crate) fn styled_note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }
}

/// Prints what a command answered and returns how the process ends.
pub(crate) fn print(screen: Screen, json: bool, outcome: Result<Reply, Failure>) -> ExitCode {
    let (exit, written) = match outcome {
        Ok(reply) => {
            let written = body(screen, reply.body);
            // Nothing can be told if standard error is gone, so its errors are of no use here and below.
            reply.notes.iter().for_each(|it| drop(writeln!(anstream::stderr(), "{it}")));
            (reply.exit, written)
        }
        Err(failure) if json => (failure.exit(), body(screen, Body::Json(failure.to_json()))),
        Err(failure) => {
            let _ = writeln!(anstream::stderr(), "{}", failure.to_text());
            (failure.exit(), Ok(()))
        }
    };
    match written {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "error[write_failed]: standard output can't be written: {err}");
            ExitCode::from(Exit::World.code())
        }
        _ => ExitCode::from(exit.code()),
    }
}

/// Prints a warning, which does not change how the process ends.
pub(crate) fn warn(message: &str) {
    let _ = writeln!(anstream::stderr(), "{}: {}", paint(YELLOW, "warning"), visible(message));
}

/// Prints a line about what happens, for people.
pub(crate) fn aside(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", paint(DIM, &visible(text)));
}

/// Shows a line that was typed before anyone read it, as if it were typed now.
pub(crate) fn echo(line: &str) {
    let _ = writeln!(io::stderr(), "{}", visible(line));
}

/// Says that something has begun that goes on: a line for people, and one of JSON for programs.
pub(crate) fn started(document: &Value, text: &str, as_json: bool) {
    if as_json {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{document}").and_then(|()| out.flush());
    }
    aside(text);
}

/// Prints what went wrong where that is not the end.
pub(crate) fn fail(failure: &Failure) {
    let _ = writeln!(anstream::stderr(), "{}", failure.to_text());
}

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question on the terminal and returns whether the answer is yes; nothing if there is nobody to ask.
pub(crate) fn ask(question: &str) -> Option<bool> {
    if !can_ask() {
        return None;
    }
    // What was typed before the question answers something else.
    type_ahead::put_aside();
    // The line editor hears Ctrl-C as a key, so that it means no here whatever it means to a running turn.
    let config = rustyline::Config::builder().behavior(rustyline::Behavior::PreferTerm).build();
    let mut editor = rustyline::DefaultEditor::with_config(config).ok()?;
    let answer = editor.readline(&format!("{} [y/N] ", visible(question))).unwrap_or_default();
    Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn body(screen: Screen, body: Body) -> io::Result<()> {
    match body {
        Body::Nothing => Ok(()),
        Body::Json(value) => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            serde_json::to_writer_pretty(&mut out, &value)?;
            writeln!(out)?;
            out.flush()
        }
        Body::Document(text) => {
            let mut out = io::stdout().lock();
            writeln!(out, "{text}")?;
            out.flush()
        }
        Body::Styled(text) => {
            let mut out = anstream::AutoStream::auto(io::stdout().lock());
            writeln!(out, "{text}")?;
            out.flush()
        }
        Body::Verbatim(text) => {
            let text = if screen.terminal { visible(&text) } else { text.into() };
            let mut out = io::stdout().lock();
            writeln!(out, "{text}")?;
            out.flush()
        }
    }
}
