//! Flows behind the routes: what runs take from the server, and who drives them.
//!
//! Runs are on record in the store, so any instance may drive any of them. An instance drives what it was asked for, and looks every few
//! seconds for what nobody drives: runs that were left, and those of instances that are gone.

mod drivers;
mod library;

pub(crate) use drivers::Drivers;
pub(crate) use library::ProjectLibrary;
