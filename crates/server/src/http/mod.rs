//! The vocabulary of the HTTP API: callers, input, problems, and how bodies, parameters and refusals are documented.

pub(crate) mod caller;
mod guard;
pub(crate) mod input;
pub(crate) mod params;
pub(crate) mod problem;
pub(crate) mod refusals;
pub(crate) mod schemas;

pub(crate) use guard::guarded;
