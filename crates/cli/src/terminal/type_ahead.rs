//! Type-ahead: input typed while no prompt reads it. It is hidden while output is printed, and kept for the next read.
//!
//! While an answer is printed, the terminal does not echo. Line editing by the terminal and Ctrl-C still work. There
//! is one terminal, so there is one queue for the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Input that was typed and not read yet.
static TYPED: Mutex<String> = Mutex::new(String::new());

fn typed() -> MutexGuard<'static, String> {
    TYPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns off echo until it is dropped. Does nothing without a terminal.
pub(crate) struct Quiet(());

/// Turns off the echo of the terminal.
pub(crate) fn quiet() -> Quiet {
    terminal::hide();
    Quiet(())
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore();
    }
}

/// Turns the echo on again, for exits that run no destructors.
pub(crate) fn restore() {
    terminal::show();
}

/// Moves pending input to the queue, so that the next question is answered only by what is typed from now on.
pub(crate) fn put_aside() {
    let bytes = terminal::pending();
    typed().push_str(&String::from_utf8_lossy(&bytes));
}

/// Input that was typed ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A complete line.
    Line(String),
    /// End of input: Ctrl-D.
    End,
    /// The start of a line, possibly empty.
    Rest(String),
}

/// Takes the next piece of input that was typed ahead.
pub(crate) fn next() -> Ahead {
    put_aside();
    first(&mut typed())
}

/// Takes the first line from a queue.
fn first(typed: &mut String) -> Ahead {
    const ENDS: [char; 2] = ['\0', '\u{4}'];
    if typed.starts_with(ENDS) {
        typed.remove(0);
        return Ahead::End;
    }
    let shown = |it: &str| it.chars().filter(|it| !it.is_control() || *it == '\t').collect();
    match typed.find(['\n', '\r']) {
        Some(end) => {
            let line = shown(&typed[..end]);
            typed.drain(..=end);
            Ahead::Line(line)
        }
        None => Ahead::Rest(shown(&std::mem::take(typed))),
    }
}

#[cfg(unix)]
mod terminal {
    use std::io::{IsTerminal, stdin};
    use std::sync::{Mutex, PoisonError};

    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

    /// The terminal settings from before echo was turned off.
    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    fn set(termios: &Termios) {
        // Nothing to restore if the terminal is closed.
        let _ = tcsetattr(stdin(), OptionalActions::Now, termios);
    }

    pub(super) fn hide() {
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        if before.is_some() || !stdin().is_terminal() {
            return;
        }
        let Ok(termios) = tcgetattr(stdin()) else { return };
        let mut quiet = termios.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        set(&quiet);
        *before = Some(termios);
    }

    pub(super) fn show() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        before.iter().for_each(set);
    }

    /// Reads pending input without waiting for more.
    pub(super) fn pending() -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(termios) = tcgetattr(stdin()).ok().filter(|_| stdin().is_terminal()) else { return bytes };
        let mut at_once = termios.clone();
        // An unfinished line can be read only outside of canonical mode.
        at_once.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL);
        at_once.special_codes[SpecialCodeIndex::VMIN] = 0;
        at_once.special_codes[SpecialCodeIndex::VTIME] = 0;
        set(&at_once);
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = rustix::io::read(stdin(), &mut buffer) {
            bytes.extend_from_slice(&buffer[..count]);
        }
        set(&termios);
        bytes
    }
}

#[cfg(not(unix))]
mod terminal {
    pub(super) fn hide() {}

    pub(super) fn show() {}

    pub(super) fn pending() -> Vec<u8> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ahead, first};

    #[test]
    fn lines_come_one_by_one_and_then_what_is_begun() {
        let mut typed = "one\ntwo\u{1b}[A\r\0th".to_owned();
        let all: Vec<Ahead> = std::iter::from_fn(|| Some(first(&mut typed))).take(5).collect();
        let line = |it: &str| Ahead::Line(it.to_owned());
        let rest = |it: &str| Ahead::Rest(it.to_owned());
        assert_eq!(all, [line("one"), line("two[A"), Ahead::End, rest("th"), rest("")]);
    }
}
