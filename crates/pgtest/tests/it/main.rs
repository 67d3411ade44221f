//! The server starts, dies, comes back and leaves nothing behind.

#![allow(clippy::unwrap_used)]

use std::net::TcpStream;
use std::path::Path;

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
fn a_dropped_server_leaves_no_folder() {
    let postgres = Postgres::start().unwrap();
    let shown = format!("{postgres:?}");
    let folder = shown.split("folder: \"").nth(1).and_then(|it| it.split('"').next()).unwrap().to_owned();
    assert!(Path::new(&folder).is_dir());
    drop(postgres);
    assert!(!Path::new(&folder).exists());
}
