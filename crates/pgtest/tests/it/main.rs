//! The server starts, dies, comes back and leaves nothing behind.

#![allow(clippy::unwrap_used)]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use contexture_pgtest::Postgres;

/// Returns the address in the server's URL.
fn address(postgres: &Postgres) -> String {
    let url = postgres.url();
    let rest = url.strip_prefix("postgres://postgres@").unwrap();
    rest.strip_suffix("/postgres").unwrap().to_owned()
}

#[test]
fn a_server_can_be_killed_and_comes_back_at_its_address() {
    let mut postgres = Postgres::start().unwrap();
    let address = address(&postgres);
    assert!(TcpStream::connect(&address).is_ok());
    postgres.kill();
    assert!(TcpStream::connect(&address).is_err());
    postgres.restart().unwrap();
    assert!(TcpStream::connect(&address).is_ok());
}

#[test]
fn orphaned_processes_of_a_server_do_not_keep_it_from_coming_back() {
    let mut postgres = Postgres::start().unwrap();
    let shown = std::fs::read_to_string(folder(&postgres).join("data/postmaster.pid")).unwrap();
    let pid = shown.lines().next().unwrap();
    let children =
        std::fs::read_to_string(Path::new("/proc").join(pid).join("task").join(pid).join("children"));
    // Stopped processes do not notice that their server has died.
    kill("-STOP", &children.unwrap());
    kill("-KILL", pid);
    while std::fs::read_link(Path::new("/proc").join(pid).join("cwd")).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    postgres.restart().unwrap();
    assert!(TcpStream::connect(address(&postgres)).is_ok());
}

#[test]
fn a_dropped_server_leaves_no_folder() {
    let postgres = Postgres::start().unwrap();
    let folder = folder(&postgres);
    assert!(folder.is_dir());
    drop(postgres);
    assert!(!folder.exists());
}

fn folder(postgres: &Postgres) -> PathBuf {
    let shown = format!("{postgres:?}");
    shown.split("folder: \"").nth(1).and_then(|it| it.split('"').next()).unwrap().into()
}

fn kill(signal: &str, pids: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill {signal} {pids}")]).status().unwrap();
    assert!(status.success());
}
