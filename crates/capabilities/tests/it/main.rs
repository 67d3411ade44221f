//! Entries that search knowledge bases.

mod budget;
mod grounded;
mod pairs;
mod retrieval;
mod stage;
