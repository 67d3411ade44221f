//! What is typed while nobody reads it: it is not shown among what is printed, and it is kept for who reads next.
//!
//! While an answer is printed the terminal does not echo; it still corrects lines as they are typed, and Ctrl-C is still
//! heard. There is one terminal, and so one queue for the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was typed and not read yet.
static TYPED: Mutex<String> = Mutex::new(String::new());

fn typed() -> MutexGuard<'static, String> {
    TYPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the terminal quiet until it is dropped. Outside of a terminal it does nothing.
pub(crate) struct Quiet(());

/// Stops the terminal from showing what is typed.
pub(crate) fn quiet() -> Quiet {
    terminal::hide();
    Quiet(())
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore();
    }
}

/// Has the terminal show again what is typed, for an end that drops nothing.
pub(crate) fn restore() {
    terminal::show();
}

/// Puts aside what was typed so far: what is asked next is answered by what is typed from now on.
pub(crate) fn put_aside() {
    let bytes = terminal::pending();
    typed().push_str(&String::from_utf8_lossy(&bytes));
}

/// What was typed ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A whole line.
    Line(String),
    /// The end, Ctrl-D.
    End,
    /// The beginning of a line, perhaps nothing.
    Rest(String),
}

/// Takes the next thing that was typed ahead.
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

    /// How the terminal was before it was made quiet.
    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    fn set(termios: &Termios) {
        // A terminal that is gone needs nothing.
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

    /// Reads what was typed, without waiting for more.
    pub(super) fn pending() -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(termios) = tcgetattr(stdin()).ok().filter(|_| stdin().is_terminal()) else { return bytes };
        let mut at_once = termios.clone();
        // A line that is not ended can be read only where lines mean nothing.
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
