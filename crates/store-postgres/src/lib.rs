//! Durable logs in PostgreSQL, for many machines.
//!
//! [`PostgresStore`] keeps every promise of [`contexture_session::Store`]. What it adds:
//!
//! - An append is one statement, one round trip and one disk sync. The expected end and the writer's lease are
//!   checked in it, by the database's clock.
//! - Several processes on several machines may use one database: schema migrations are guarded against a
//!   concurrent start, and readers elsewhere are woken by `LISTEN`/`NOTIFY`, or by polling where that is not to be
//!   had.
//! - Lost connections, a restarted server and serialisation failures are retried for a while. An append whose
//!   connection was lost is recognised by its nonce if it had landed, so it is never written twice. One without a
//!   nonce, and a write of documents ([`contexture_session::Documents`]), is an error if its commit got no answer.
//! - The items of a session are numbered by a counter in the row of its main log.
//! - Every key starts with the tenant and then the thread, so a distributed database can shard by them.
//!
//! Its futures run on a Tokio runtime with I/O and time enabled.

mod append;
mod archive;
mod blobs;
mod config;
mod create;
mod database;
mod delete;
mod documents;
mod due;
mod failure;
mod feed;
mod fork;
mod guard;
mod head;
mod journal;
mod list;
mod log;
mod logs;
mod migrate;
mod notices;
mod numbers;
mod read;
mod rewrite;
mod rows;
mod search;
mod sources;
mod store;
mod unfinished;
mod waiters;

pub use config::PostgresConfig;
pub use store::PostgresStore;
