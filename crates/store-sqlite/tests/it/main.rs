//! Tests of the SQLite store.

mod changes;
mod conformance;
mod crash;
mod damage;
mod deleting;
mod opening;
mod support;
mod writing;
