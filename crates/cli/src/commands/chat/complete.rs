//! Tab completion of commands.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::slash::COMMANDS;

/// Completes the commands of a chat.
#[derive(Debug)]
pub(in crate::commands) struct Commands;

impl Helper for Commands {}
impl Highlighter for Commands {}
impl Validator for Commands {}

impl Hinter for Commands {
    type Hint = String;
}

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok((0, candidates(line.get(..pos).unwrap_or(line))))
    }
}

/// Returns the commands that start with the typed text. Commands with an argument end with a blank.
fn candidates(typed: &str) -> Vec<String> {
    let Some(name) = typed.strip_prefix('/') else { return Vec::new() };
    let fits = COMMANDS.iter().filter(|(command, _, _)| command.starts_with(name));
    fits.map(|(command, takes, _)| format!("/{command}{}", if takes.is_empty() { "" } else { " " })).collect()
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[test]
    fn only_commands_are_completed() {
        assert_eq!(candidates("/comp"), ["/compact"]);
        assert_eq!(candidates("/s"), ["/sessions", "/session ", "/system "]);
        assert_eq!(candidates("/nothing"), [""; 0]);
        assert_eq!(candidates("say /comp"), [""; 0]);
        assert_eq!(candidates("/session on"), [""; 0]);
    }
}
