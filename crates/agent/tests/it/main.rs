//! Tests of the agent loop.

#![allow(clippy::unwrap_used, reason = "a test that can't go on should stop where it is")]

mod approval;
mod bytes;
mod checks;
mod depth;
mod endings;
mod forged;
mod http;
mod loops;
mod panics;
mod reactive;
mod scene;
mod served;
mod stability;
mod stage;
mod tools;
mod valid;
mod whole;
