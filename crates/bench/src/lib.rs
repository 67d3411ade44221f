//! Benchmarks: what an operation costs, compared with the shortest loop that does the same.
//!
//! A [`Job`] is one operation of a user on one size of data. It runs on two [`Side`]s: through the public API
//! (`jobs::api`) and as a plain loop on the raw tokenizer library (`jobs::floors`). Both must give the same answer.
//! [`data`] reads the files that the jobs are defined on; [`sample`] generates data of the same kinds.
//!
//! [`knowledge`] measures search beside SQLite's own.
//! Three benchmarks have no floor: [`replay`] compares how well conversations use provider caches, [`serve`] puts load
//! on a whole server, [`flows`] runs flows. Only [`measure`] reads a clock; arguments, environment and printing are in
//! the binary.

pub mod data;
mod error;
pub mod flows;
mod jobs;
pub mod knowledge;
pub mod measure;
pub mod replay;
pub mod sample;
pub mod serve;

pub use error::BenchError;
pub use jobs::answer::{Answer, Runner};
pub use jobs::api::{built_prompt, resolve_options, tree_tag};
pub use jobs::floors::push_tree;
pub use jobs::{Data, Job, Side};
