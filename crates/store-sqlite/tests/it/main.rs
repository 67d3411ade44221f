//! Tests of the SQLite store.

mod changed_file;
mod changes;
mod conformance;
mod crash;
mod damage;
mod deleting;
mod journals;
mod legacy;
mod listed;
mod opening;
mod searching;
mod support;
mod writing;
