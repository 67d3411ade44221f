//! Tests of flows.
#![allow(clippy::unwrap_used, reason = "tests")]

mod due;
mod nodes;
mod policies;
mod scene;
