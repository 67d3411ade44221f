//! Entries that search knowledge bases, and memory.
#![allow(clippy::unwrap_used, reason = "a test that can't continue should stop where it is")]

mod blackboard;
mod budget;
mod grounded;
mod memory;
mod pairs;
mod retrieval;
mod skills;
mod stage;
