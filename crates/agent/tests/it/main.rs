//! Tests of the agent loop.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod approval;
mod checks;
mod depth;
mod endings;
mod http;
mod loops;
mod own_tools;
mod panics;
mod served;
mod stage;
mod tools;
mod valid;
