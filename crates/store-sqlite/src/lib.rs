//! Durable threads in one SQLite file: the embedded default.
//!
//! [`SqliteStore`] keeps the promises of [`Store`](contexture_session::Store) on one machine, for any number of
//! processes.

mod append;
mod checkpoint;
mod create;
mod delete;
mod failure;
mod list;
mod notice;
mod number;
mod open;
mod read;
mod readers;
mod recover;
mod store;
mod writer;

pub use recover::Recovered;
pub use store::{SqliteConfig, SqliteStore};
