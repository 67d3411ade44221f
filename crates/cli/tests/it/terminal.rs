//! `chat` on a terminal, as a person sees it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use contexture_message::{Answer, Delta};
use contexture_mockmodel::Reply;
use contexture_wire::Dialect;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::Folder;
use crate::served::{Served, calls, last_message, order, says};

const OPENAI: Dialect = Dialect::Openai;

/// Where the cursor is asked for, and what a terminal answers.
const WHERE: (&str, &[u8]) = ("\u{1b}[6n", b"\x1b[1;1R");

/// A terminal with the program in it.
struct Terminal {
    child: Child,
    keyboard: File,
    seen: Arc<Mutex<String>>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    /// Starts the program in a terminal of so many columns.
    fn open(folder: &Folder, columns: u16, args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it opens");
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("it has a size");
        let end = || Stdio::from(slave.try_clone().expect("it can be shared"));
        // In a session of its own, so that this is its terminal whatever ours is.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_contexture")).args(args).current_dir(folder.path());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts");
        let screen = File::from(master);
        let keyboard = screen.try_clone().expect("it can be shared");
        let seen = Arc::new(Mutex::new(String::new()));
        watch(screen, Arc::clone(&seen));
        Self { child, keyboard, seen }
    }

    fn seen(&self) -> String {
        self.seen.lock().expect("no watcher panics").clone()
    }

    /// Types something, as fast as it goes.
    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("it takes keys");
    }

    /// Waits until something is on the screen, `times` times.
    fn shows(&self, text: &str, times: usize) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.seen().matches(text).count() < times {
            assert!(Instant::now() < end, "`{text}` is not shown: {:?}", self.seen());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the program.
    fn ends(mut self) -> String {
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {:?}", self.seen());
        self.seen()
    }
}

/// Keeps everything that the program writes, and answers as terminals do.
fn watch(mut screen: File, seen: Arc<Mutex<String>>) {
    let mut keyboard = screen.try_clone().expect("it can be shared");
    let mut bytes = Vec::new();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        // A terminal that nobody holds any more ends with an error.
        while let Ok(count @ 1..) = screen.read(&mut buffer) {
            let n_before = String::from_utf8_lossy(&bytes).matches(WHERE.0).count();
            bytes.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            for _ in n_before..text.matches(WHERE.0).count() {
                let _ = keyboard.write_all(WHERE.1);
            }
            *seen.lock().expect("nobody panics with it") = text;
        }
    });
}

/// Returns a text as it reads without what drives the terminal.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn what_is_typed_during_an_answer_is_kept_and_not_shown_in_it() {
    let pieces = ["one two ", "three ", "four ", "five"].map(|it| Delta::Text(it.to_owned()));
    let whole = Delta::Done(Box::new(Answer::text("one two three four five")));
    let deltas: Vec<Delta> = pieces.into_iter().chain([whole]).collect();
    let slow = Reply::deltas(OPENAI, &deltas).event_by_event().every(Duration::from_millis(300));
    let served = Served::new(OPENAI, [slow, says(OPENAI, "Second."), says(OPENAI, "Third.")]);
    let mut terminal = Terminal::open(&served.folder, 80, &["chat", "--session", "s"]);
    terminal.shows("> ", 1);
    terminal.types("first\r");
    terminal.shows("one", 1);
    // Two whole lines, a mistake corrected in one of them, and the beginning of a third.
    terminal.types("and secomd\u{7f}\u{7f}nd\rand third\r/exi");
    terminal.shows("Third.", 1);
    terminal.types("t\r");
    let seen = terminal.ends();
    assert!(seen.contains("one two three four five"), "the answer is whole: {seen:?}");
    let asked: Vec<String> =
        served.asked().iter().map(|it| last_message(it)["content"].to_string()).collect();
    assert_eq!(asked, ["\"first\"", "\"and second\"", "\"and third\""]);
    let plain = plain(&seen);
    let (first, second) = (plain.find("four five"), plain.find("> and second"));
    assert!(first < second && second.is_some(), "it is shown where it is said: {plain:?}");
}

#[test]
fn what_is_typed_ahead_decides_about_no_call() {
    let replies = [
        calls(OPENAI, 7).after(Duration::from_millis(500)),
        says(OPENAI, "It is on its way."),
        says(OPENAI, "Yes."),
    ];
    let served = Served::with_tools(OPENAI, replies, [order("shipped")]).with_shop("    approval: true\n");
    let mut terminal = Terminal::open(&served.folder, 80, &["chat", "shop"]);
    terminal.shows("> ", 1);
    terminal.types("Where is it?\r");
    while served.asked().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    terminal.types("y\r");
    terminal.shows("[y/N] ", 1);
    assert!(served.called().is_empty());
    terminal.types("yes\r");
    terminal.shows("on its way.", 1);
    // What was typed before the question is the next thing that is said.
    terminal.shows("Yes.", 1);
    terminal.types("/exit\r");
    terminal.ends();
    assert_eq!(last_message(&served.asked()[2])["content"], "y");
}

#[test]
fn words_are_not_cut_at_the_edge() {
    let text = "The quick brown fox jumps over the lazy dog, and\n    an indented line stays where it is, however long it gets.";
    let served = Served::new(OPENAI, [says(OPENAI, text).in_pieces_of(7)]);
    let mut terminal = Terminal::open(&served.folder, 30, &["chat"]);
    terminal.shows("> ", 1);
    terminal.types("hi\r");
    terminal.shows("gets.", 1);
    terminal.types("/exit\r");
    let seen = plain(&terminal.ends()).replace('\r', "");
    let wanted = "The quick brown fox jumps over\nthe lazy dog, and\n    an indented line stays\nwhere it is, however long it\ngets.\n";
    assert!(seen.contains(wanted), "{seen:?}");
}

#[test]
fn a_sign_of_life_is_shown_until_the_model_speaks() {
    let served = Served::new(OPENAI, [says(OPENAI, "Here I am.").after(Duration::from_millis(700))]);
    let mut terminal = Terminal::open(&served.folder, 80, &["chat"]);
    terminal.shows("> ", 1);
    terminal.types("hello\r");
    terminal.shows("⠙", 1);
    terminal.shows("Here I am.", 1);
    terminal.types("/exit\r");
    let seen = terminal.ends();
    let (before, _) = seen.split_once("Here I am.").expect("it is shown");
    assert!(before.ends_with("\r\u{1b}[K"), "nothing is left of it: {before:?}");
    // In a pipe there is none.
    let served = Served::new(OPENAI, [says(OPENAI, "Here I am.").after(Duration::from_millis(700))]);
    assert!(!served.piped(&["chat"], "hello\n").shown().contains('⠙'));
}

#[test]
fn tab_completes_commands() {
    let served = Served::new(OPENAI, []);
    let mut terminal = Terminal::open(&served.folder, 80, &["chat"]);
    terminal.shows("> ", 1);
    terminal.types("/mod\t\r");
    terminal.shows("The model is mock/m-1.", 1);
    // Of two the common beginning.
    terminal.types("/se\ts\r");
    terminal.shows("There are no sessions.", 1);
    terminal.types("/hel\t\r");
    terminal.shows("leave; so does Ctrl-D", 1);
    terminal.types("/ex\t\r");
    terminal.ends();
}
