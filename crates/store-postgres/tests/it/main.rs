//! What is promised of the PostgreSQL store, on a real server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod blobs;
mod changes;
mod conformance;
mod costs;
mod crash;
mod damage;
mod deadlocks;
mod erasing;
mod guards;
mod inputs;
mod legacy;
mod lost;
mod migrations;
mod places;
mod proxy;
mod searching;
mod support;
mod tls;
