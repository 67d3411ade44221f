//! Signals, without a line of unsafe code.

use std::path::Path;
use std::process::{Command, Stdio};

/// Sends a signal, such as `KILL`, to processes; those that are gone already do not matter.
pub(crate) fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let script = format!("kill -{name} {}", pids.join(" "));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without a shell nothing here works, and the caller notices when the server does not stop.
    let _ = command.status();
}

/// Returns the processes that a process has started.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The name of the program comes before, in parentheses, and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
