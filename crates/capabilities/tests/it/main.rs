//! Entries that search knowledge bases, and memory.
#![allow(clippy::unwrap_used, reason = "a test that can't continue should stop where it is")]

mod blackboard;
mod budget;
mod bundles;
mod grounded;
mod memory;
mod pairs;
mod place;
mod retrieval;
mod skills;
mod stage;
