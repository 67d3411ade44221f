//! Tests of flows.
#![allow(clippy::unwrap_used, reason = "tests")]

mod nodes;
mod scene;
