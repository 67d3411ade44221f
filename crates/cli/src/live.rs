//! Prints a turn as it happens: the model's text to standard output, everything else to standard error.
//!
//! Like `output`, it escapes control characters before they reach a terminal, and a closed pipe stops the printing
//! without an error.

use std::io::{self, IsTerminal, Write};

use contexture_agent::{CompactionReport, Event, Made, Outcome};
use contexture_message::{Citation, ToolOutput, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::output;
use crate::terminal::paint::{DIM, YELLOW, cut, one_line, paint, visible};
use crate::terminal::wrap::Wrap;
use crate::terminal::{Screen, columns};

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As text for people.
    Text,
    /// As JSON lines.
    Events,
    /// Not at all: a single document follows.
    Nothing,
}

/// Prints what the model says.
#[derive(Debug)]
pub(crate) struct Voice {
    form: Form,
    screen: Screen,
    /// Whether to show thinking.
    thinking: bool,
    /// Whether standard output was closed by its reader.
    is_mute: bool,
    /// Whether the current line of standard output has text.
    in_line: bool,
    /// Whether the current line of standard error is part of a thought.
    in_thought: bool,
    has_spoken: bool,
    /// Text that may still be discarded, held back where discarded text must not be printed.
    held: Option<String>,
    /// Wraps lines between words, for a person at a terminal.
    wrap: Option<Wrap>,
    sign: Option<Sign>,
}

/// A progress indicator for a person waiting at a terminal.
#[derive(Clone, Copy, Debug, Default)]
struct Sign {
    /// Whether a turn is running.
    is_wanted: bool,
    is_shown: bool,
    n_shown: usize,
}

/// The frames of the progress indicator.
const SIGNS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl Voice {
    pub(crate) fn new(form: Form, thinking: bool, screen: Screen) -> Self {
        let (is_mute, in_line, in_thought, has_spoken) = (false, false, false, false);
        let (held, wrap, sign) = (None, None, None);
        Self { form, screen, thinking, is_mute, in_line, in_thought, has_spoken, held, wrap, sign }
    }

    /// Enables word wrapping and the progress indicator. Both work only on a terminal.
    pub(crate) fn for_a_person(mut self) -> Self {
        if self.form == Form::Text {
            self.wrap = self.screen.terminal.then(|| Wrap::new(columns()));
            self.sign = io::stderr().is_terminal().then(Sign::default);
        }
        self
    }

    /// Shows the next frame of the progress indicator, unless the line is in use.
    pub(crate) fn tick(&mut self) {
        let is_free = !self.in_line && !self.in_thought;
        if let Some(sign) = self.sign.as_mut().filter(|it| it.is_wanted && is_free) {
            let shown = SIGNS[sign.n_shown % SIGNS.len()];
            (sign.is_shown, sign.n_shown) = (true, sign.n_shown + 1);
            drop(write!(anstream::stderr(), "\r{}", paint(DIM, shown)));
        }
    }

    /// Removes the progress indicator before something else is printed.
    fn clear_sign(&mut self) {
        if let Some(sign) = self.sign.as_mut().filter(|it| it.is_shown) {
            sign.is_shown = false;
            drop(write!(io::stderr(), "\r\u{1b}[K"));
        }
    }

    /// Holds back an answer until it is final, unless it goes to a terminal: a file must not contain discarded text.
    pub(crate) fn until_it_stands(mut self) -> Self {
        self.held = (!io::stdout().is_terminal()).then(String::new);
        self
    }

    /// Prints the text that was held back, which is now final.
    fn release(&mut self) {
        let held = self.held.as_mut().map(std::mem::take).unwrap_or_default();
        self.print(&held);
    }

    /// Prints one event.
    pub(crate) fn hear(&mut self, event: &Event) {
        if let Some(sign) = &mut self.sign {
            match event {
                Event::TurnStart { .. } => sign.is_wanted = true,
                Event::TurnEnd { .. } | Event::Error { .. } => sign.is_wanted = false,
                _ => {}
            }
        }
        match self.form {
            Form::Text => self.tell(event),
            Form::Events => self.line(event),
            Form::Nothing => {}
        }
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::TextDelta { text } => {
                self.end_thought();
                self.say(text);
            }
            Event::ThinkingDelta { text } if self.thinking && !text.is_empty() => {
                self.end_text();
                self.clear_sign();
                self.in_thought = true;
                drop(write!(anstream::stderr(), "{}", paint(DIM, &visible(text))));
            }
            Event::ToolCall { name, arguments, .. } => {
                self.release();
                self.aside(&format!("tool {name} {arguments}"), false);
            }
            Event::ToolResult { name, output, .. } => {
                let (text, is_bad) = shown(output);
                self.aside(&format!("  {name}: {text}"), is_bad);
            }
            Event::AttemptDiscarded { reason } => {
                self.end_line();
                let which = match &mut self.held {
                    Some(held) => {
                        held.clear();
                        "an answer"
                    }
                    None if !self.has_spoken => "an answer",
                    None => "the answer above",
                };
                output::warn(&format!("{which} does not count and is made again: {}", complaints(reason)));
            }
            Event::Warning { source, message } => {
                self.end_line();
                output::warn(&format!("{source}: {message}"));
            }
            Event::TurnEnd { .. } | Event::Error { .. } | Event::ApprovalRequired { .. } => self.end_line(),
            Event::TurnStart { .. } => {
                self.has_spoken = false;
                // The terminal may have been resized.
                self.wrap = self.wrap.take().map(|_| Wrap::new(columns()));
            }
            Event::ContextCompactionStart { .. } => self.aside("summarising older turns …", false),
            Event::ContextCompactionEnd(report) | Event::Compaction(report) => {
                self.aside(&compaction_line(report), !report.accepted);
            }
            // The sources are listed below the answer, once it stands.
            Event::Citations { .. } | Event::CheckReport(_) => {}
            Event::ContextUsage { .. } | Event::ThinkingDelta { .. } => {}
        }
    }

    /// Prints text of the model, or holds it back.
    fn say(&mut self, text: &str) {
        match &mut self.held {
            Some(held) => {
                held.push_str(text);
                self.has_spoken |= !text.is_empty();
            }
            None => self.print(text),
        }
    }

    fn print(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let shown = if self.screen.terminal { visible(text) } else { text.into() };
        let shown = match &mut self.wrap {
            Some(wrap) => wrap.push(&shown).into(),
            None => shown,
        };
        self.clear_sign();
        self.write(shown.as_bytes());
        self.in_line = !text.ends_with('\n');
        self.has_spoken = true;
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn line(&mut self, value: &impl Serialize) {
        if let Ok(mut text) = serde_json::to_vec(value) {
            text.push(b'\n');
            self.write(&text);
        }
    }

    /// Prints a dim progress line.
    pub(crate) fn aside(&mut self, text: &str, is_bad: bool) {
        self.end_line();
        let text = one_line(text);
        let text = if io::stderr().is_terminal() { cut(&text, self.screen.width) } else { cut(&text, 400) };
        drop(writeln!(anstream::stderr(), "{}", paint(if is_bad { YELLOW } else { DIM }, &text)));
    }

    /// Ends the current line, so that something else can be printed.
    pub(crate) fn end_line(&mut self) {
        self.clear_sign();
        self.end_text();
        self.end_thought();
    }

    fn end_text(&mut self) {
        let rest = self.wrap.as_mut().map(Wrap::end).unwrap_or_default();
        self.write(rest.as_bytes());
        if std::mem::take(&mut self.in_line) {
            self.write(b"\n");
            self.wrap = self.wrap.take().map(|_| Wrap::new(columns()));
        }
    }

    fn end_thought(&mut self) {
        if std::mem::take(&mut self.in_thought) {
            drop(writeln!(io::stderr()));
        }
    }

    /// Prints the rest of a turn: its text if none of it was printed, and totals on a terminal.
    pub(crate) fn finish(&mut self, outcome: &Outcome) {
        if self.form == Form::Text {
            if !self.has_spoken {
                self.say(&outcome.text());
            }
            self.release();
            self.end_line();
            for line in sources(&outcome.citations) {
                let line = cut(&one_line(&line), self.screen.width);
                drop(writeln!(anstream::stderr(), "{}", paint(DIM, &visible(&line))));
            }
            if io::stderr().is_terminal() && outcome.steps > 0 {
                drop(writeln!(anstream::stderr(), "{}", paint(DIM, &totals(outcome))));
            }
        }
        self.has_spoken = false;
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.is_mute || bytes.is_empty() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(err) = out.write_all(bytes).and_then(|()| out.flush()) {
            self.is_mute = true;
            if err.kind() != io::ErrorKind::BrokenPipe {
                output::warn(&format!("cannot write to standard output: {err}"));
            }
        }
    }
}

/// Returns the output of a tool as text, and whether it is an error.
fn shown(output: &ToolOutput) -> (String, bool) {
    match output {
        ToolOutput::Text(text) => (text.clone(), false),
        ToolOutput::ErrorText(text) => (text.clone(), true),
        ToolOutput::Json(value) => (value.to_string(), false),
        ToolOutput::ErrorJson(value) => (value.to_string(), true),
        ToolOutput::ExecutionDenied { reason } => {
            (format!("denied: {}", reason.as_deref().unwrap_or("no reason is given")), true)
        }
        ToolOutput::Content(parts) => (serde_json::to_value(parts).unwrap_or(Value::Null).to_string(), false),
    }
}

/// Returns the sources of an answer, one line each, in the order in which they are cited first.
fn sources(citations: &[Citation]) -> Vec<String> {
    let mut cited: Vec<(&Citation, Vec<&str>)> = Vec::new();
    for citation in citations {
        let quote = citation.quote.as_deref();
        match cited.iter_mut().find(|(it, _)| it.chunk == citation.chunk && it.source == citation.source) {
            Some((_, quotes)) => quotes.extend(quote.filter(|it| !quotes.contains(it))),
            None => cited.push((citation, quote.into_iter().collect())),
        }
    }
    let line = |(idx, (citation, quotes)): (usize, (&Citation, Vec<&str>))| {
        let Citation { source, chunk, .. } = citation;
        let place = if source == chunk { source.clone() } else { format!("{source} [{chunk}]") };
        let quotes: Vec<String> = quotes.iter().map(|it| format!("“{it}”")).collect();
        let quotes = if quotes.is_empty() { String::new() } else { format!(": {}", quotes.join(", ")) };
        format!("{}. {place}{quotes}", idx + 1)
    };
    cited.into_iter().enumerate().map(line).collect()
}

/// Describes the result of a compaction in one line.
pub(crate) fn compaction_line(report: &CompactionReport) -> String {
    let CompactionReport { tokens_before, tokens_after, archive, reason, .. } = report;
    let archive = archive.as_ref().map(|it| format!(" (archive {it})")).unwrap_or_default();
    let reason = reason.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
    let what = match report.made {
        Made::Summary => "summarised",
        Made::Extract => "put into excerpts",
        Made::LeftOut => "left out",
        Made::Unchanged => return format!("nothing is summarised, {tokens_before} tokens stay{reason}"),
    };
    format!("older conversation {what}, {tokens_before} to {tokens_after} tokens{archive}{reason}")
}

fn totals(outcome: &Outcome) -> String {
    let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = outcome.usage;
    let mut facts = vec![format!("{input_tokens} tokens in"), format!("{output_tokens} out")];
    facts.extend(cache_read_tokens.filter(|it| *it > 0).map(|it| format!("{it} from the cache")));
    facts.extend((outcome.steps > 1).then(|| format!("{} steps", outcome.steps)));
    facts.extend(outcome.cost.filter(|it| *it > 0.0).map(price));
    facts.join(" · ")
}

fn price(dollars: f64) -> String {
    if dollars < 0.0001 { "less than $0.0001".to_owned() } else { format!("${dollars:.4}") }
}

/// Returns what was wrong with an answer, on one line: the list in the text for the model, or its first line.
fn complaints(reason: &str) -> String {
    let mut lines = reason.lines().take_while(|it| !it.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let listed: Vec<&str> = lines.map(|it| it.trim().trim_start_matches("- ")).collect();
    if listed.is_empty() { first.to_owned() } else { listed.join(" ") }
}
