//! Flows behind the routes: what runs need from the server, and their drivers.
//!
//! Runs are recorded in the store, so any instance can drive any of them. An instance drives what it was asked to, and
//! every few seconds looks for runs without a driver: released ones, and those of lost instances.

mod drivers;
mod library;

pub(crate) use drivers::Drivers;
pub(crate) use library::ProjectLibrary;
