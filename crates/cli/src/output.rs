//! Prints replies. Only this module and `live` write to standard output and standard error.
//!
//! Styled text keeps its colours on a terminal and loses them in a pipe or with NO_COLOR. If the reader closes the
//! pipe, as in `contexture inspect p | head`, printing stops without an error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::error::{Exit, Failure};
use crate::terminal::bar::gauge;
use crate::terminal::paint::{DIM, YELLOW, cut, paint, visible};
use crate::terminal::{Screen, columns, type_ahead};

/// The reply of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    body: Body,
    /// The exit status of the process.
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
    /// Replies with a JSON document for programs.
    pub(crate) fn json(value: Value) -> Self {
        Self { body: Body::Json(value), ..Self::default() }
    }

    /// Replies with a document that is already serialized, for values that must be printed unchanged.
    pub(crate) fn document(text: impl Into<String>) -> Self {
        Self { body: Body::Document(text.into()), ..Self::default() }
    }

    /// Replies with styled text for people.
    pub(crate) fn styled(text: impl Into<String>) -> Self {
        Self { body: Body::Styled(text.into()), ..Self::default() }
    }

    /// Replies with text that is printed byte for byte.
    pub(crate) fn verbatim(text: impl Into<String>) -> Self {
        Self { body: Body::Verbatim(text.into()), ..Self::default() }
    }

    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Returns the reply as a JSON value, for programs that read a stream of replies.
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

    /// Adds a styled remark. The caller must have escaped control characters in it.
    pub(crate) fn styled_note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }
}

/// Prints the outcome of a command and returns the exit code.
pub(crate) fn print(screen: Screen, json: bool, outcome: Result<Reply, Failure>) -> ExitCode {
    let (exit, written) = match outcome {
        Ok(reply) => {
            let written = body(screen, reply.body);
            // If standard error is closed, nothing can report it, so its errors are ignored here and below.
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
            let _ = writeln!(io::stderr(), "error[write_failed]: cannot write to standard output: {err}");
            ExitCode::from(Exit::World.code())
        }
        _ => ExitCode::from(exit.code()),
    }
}

/// Prints a warning. It does not affect the exit code.
pub(crate) fn warn(message: &str) {
    let _ = writeln!(anstream::stderr(), "{}: {}", paint(YELLOW, "warning"), visible(message));
}

/// Prints a dim progress line for people.
pub(crate) fn aside(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", paint(DIM, &visible(text)));
}

/// How wide the bar of a progress line is.
const BAR: usize = 24;

/// One line on a terminal that shows how far long work is. It is gone when the work is done; a pipe never sees it.
#[derive(Debug)]
pub(crate) struct Progress {
    screen: Screen,
    is_shown: AtomicBool,
}

impl Progress {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, is_shown: AtomicBool::new(false) }
    }

    /// Shows that `done` of `total` are done.
    pub(crate) fn show(&self, done: u64, total: u64, text: &str) {
        if !io::stderr().is_terminal() {
            return;
        }
        let (part, whole) =
            (u32::try_from(done).unwrap_or(u32::MAX), u32::try_from(total).unwrap_or(u32::MAX));
        let (full, empty) = gauge(Screen { terminal: true, ..self.screen }, part, whole, BAR);
        let line = cut(&format!("{full}{empty} {done}/{total} {}", visible(text)), columns());
        self.is_shown.store(true, Ordering::Relaxed);
        drop(write!(anstream::stderr(), "\r\u{1b}[K{}", paint(DIM, &line)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown.load(Ordering::Relaxed) {
            drop(write!(io::stderr(), "\r\u{1b}[K"));
        }
    }
}

/// Echoes a line that was typed ahead, as if it were typed now.
pub(crate) fn echo(line: &str) {
    let _ = writeln!(io::stderr(), "{}", visible(line));
}

/// Announces that a long-running process has started: a line for people, and with `as_json` a line of JSON.
pub(crate) fn started(document: &Value, text: &str, as_json: bool) {
    if as_json {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{document}").and_then(|()| out.flush());
    }
    aside(text);
}

/// Prints a failure that does not end the program.
pub(crate) fn fail(failure: &Failure) {
    let _ = writeln!(anstream::stderr(), "{}", failure.to_text());
}

/// Whether a person is present to answer questions.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a yes-or-no question on the terminal. Returns `None` if no person is present.
pub(crate) fn ask(question: &str) -> Option<bool> {
    if !can_ask() {
        return None;
    }
    // Text typed before the question is not an answer to it.
    type_ahead::put_aside();
    // The line editor reads Ctrl-C as a key, so here it means no, whatever it means to a running turn.
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
