//! The process with the server: where it listens, and what it takes of the machine.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that runs; it ends when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) url: String,
}

impl Process {
    /// Starts the command of this program that serves a folder.
    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(program);
        command.arg("instance").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|err| format!("{}: {err}", program.display()))?;
        let mut url = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut url)?;
        }
        match url.trim() {
            "" => Err("the server did not start".into()),
            url => Ok(Self { url: url.to_owned(), child }),
        }
    }

    /// Returns the memory that it holds, in megabytes, where the system says it.
    pub(super) fn rss_mb(&self) -> Option<f64> {
        self.megabytes("VmRSS:")
    }

    /// Returns the most memory that it has held.
    pub(super) fn peak_rss_mb(&self) -> Option<f64> {
        self.megabytes("VmHWM:")
    }

    fn megabytes(&self, name: &str) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((kilobytes / 1024.0 * 10.0).round() / 10.0)
    }

    /// Returns how long it has kept processors busy, in milliseconds, where the system says it.
    pub(super) fn cpu_ms(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name of the program comes before, in parentheses, and may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        // A hundred ticks a second, on every Linux there is.
        Some((user + system) * 10.0)
    }

    /// Has it stop as it should, and says whether it did.
    pub(super) fn stop(mut self) -> std::io::Result<bool> {
        drop(self.child.stdin.take());
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
