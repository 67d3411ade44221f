//! The server's process: its address, memory and CPU time.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running server; it is killed when dropped.
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

    /// Returns its memory in megabytes, if the system reports it.
    pub(super) fn rss_mb(&self) -> Option<f64> {
        self.megabytes("VmRSS:")
    }

    /// Returns its peak memory.
    pub(super) fn peak_rss_mb(&self) -> Option<f64> {
        self.megabytes("VmHWM:")
    }

    fn megabytes(&self, name: &str) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((kilobytes / 1024.0 * 10.0).round() / 10.0)
    }

    /// Returns its CPU time in milliseconds, if the system reports it.
    pub(super) fn cpu_ms(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name of the program comes before, in parentheses, and may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        // Linux reports a hundred ticks per second.
        Some((user + system) * 10.0)
    }

    /// Returns how many kilobytes it has caused to be written to disks, if the system reports it.
    pub(super) fn written_kb(&self) -> Option<f64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id())).ok()?;
        let bytes: f64 = io.lines().find_map(|it| it.strip_prefix("write_bytes: "))?.parse().ok()?;
        Some(bytes / 1024.0)
    }

    /// Shuts it down and returns whether it exited successfully.
    pub(super) fn stop(mut self) -> std::io::Result<bool> {
        drop(self.child.stdin.take());
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
