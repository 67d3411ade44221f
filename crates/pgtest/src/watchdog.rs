//! Cleans up after a process, whichever way it ends.
//!
//! Values in statics are never dropped, and a killed process drops nothing. So a small shell waits at the other
//! end of a pipe: when our end closes, it stops the server and removes the folder.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || break
    sleep 0.2
done
rm -rf "$1"
"#;

/// The process that waits for our end.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Starts to watch over the server in `folder`.
    pub(crate) fn start(folder: &Path) -> io::Result<Watchdog> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(folder);
        // A group of its own: Ctrl-C ends us, not the one who cleans up after us.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Watchdog)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
