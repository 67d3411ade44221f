//! A throw-away PostgreSQL server for tests.
//!
//! [`Postgres::start`] makes a fresh cluster in a temporary folder and serves it on a free loopback port, with
//! `fsync` on as in production. The server and its folder go away when the value is dropped, and also when the
//! process that started it dies in whatever way: a watchdog process waits for that.
//!
//! Nothing is installed here; `cargo xtask test` does that.

mod account;
mod binaries;
mod processes;
mod server;
mod watchdog;

pub use binaries::{MISSING, find};
pub use server::{Postgres, URL_VARIABLE, shared_url};
