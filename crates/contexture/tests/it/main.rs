//! What the machine gives to agents and flows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod flows;
mod http;
mod library;
