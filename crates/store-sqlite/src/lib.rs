//! Durable sessions in one SQLite file: the embedded default.
//!
//! [`SqliteStore`] keeps the promises of [`Store`](contexture_session::Store) on one machine, for any number of
//! processes. How it is built:
//!
//! * **A commit is a row.** The commits of all threads, runs and journals are added at the end of one table; one index
//!   finds those of a log in their order, another the numbered ones of a session. So a group of appends touches few
//!   pages, and a read touches what it returns.
//! * **One writer.** Concurrent appends share one transaction and one disk sync (`file::writer`, `file::commit`); leases and the
//!   expected end are checked inside it.
//! * **Durable.** A write-ahead log with `synchronous = FULL`: what was acknowledged survives a loss of power. Lazy
//!   changes are committed without a sync, which the next commit makes up for. The log is copied into the file in the
//!   background (`file::checkpoint`).
//! * **No runtime.** Small operations run where they are polled as long as they are quick; everything else runs on
//!   threads of the store (`file::latency`, `file::readers`).
//! * **Damage is reported.** A missing or unreadable row is an error, never a gap in a history, and
//!   [`SqliteStore::recover`] copies what is readable into a new file.

mod append;
mod archive;
mod blobs;
mod config;
mod create;
mod delete;
mod documents;
mod due;
mod failure;
mod feed;
mod file;
mod fork;
mod guard;
mod head;
mod journal;
mod list;
mod logs;
mod migrate;
mod notices;
mod numbers;
mod read;
mod recover;
mod rewrite;
mod rows;
mod search;
mod sources;
mod store;
#[cfg(test)]
mod tests;
mod unfinished;
mod waiters;

pub use config::SqliteConfig;
pub use recover::Recovered;
pub use store::SqliteStore;
