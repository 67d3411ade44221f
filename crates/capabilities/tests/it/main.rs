//! Entries that search knowledge bases.
#![allow(clippy::unwrap_used, reason = "a test that can't continue should stop where it is")]

mod blackboard;
mod budget;
mod grounded;
mod pairs;
mod retrieval;
mod stage;
