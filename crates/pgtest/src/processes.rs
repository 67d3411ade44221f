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

/// Returns the processes whose working folder is `folder` or lies in it.
pub(crate) fn working_in(folder: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_working_in(*pid, folder)).collect()
}

fn is_working_in(pid: u32, folder: &Path) -> bool {
    // A process that has ended has no working folder, even while its parent has not asked for its status.
    let found = std::fs::read_link(Path::new("/proc").join(pid.to_string()).join("cwd"));
    found.is_ok_and(|it| it.starts_with(folder))
}
