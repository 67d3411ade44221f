//! Tests of the SQLite store.

mod changed_file;
mod changes;
mod conformance;
mod crash;
mod damage;
mod deleting;
mod opening;
mod records;
mod searching;
mod support;
mod writing;
