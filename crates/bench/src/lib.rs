//! What a job costs, beside the shortest loop that does the same.
//!
//! A [`Job`] is one operation of a user on one size of data. It runs on two [`Side`]s: through the public API
//! (`jobs`) and as a straight loop on the raw tokenizer library (`floors`), and both must give the same answer.
//! [`data`] reads the files that the jobs are defined on; [`sample`] makes data of the same kinds where there
//! are none. [`replay`] is no job: it asks what provider caches make of a conversation. [`serve`] has no floor: it is the whole server under load; nor have [`flows`]. [`measure`] is the only place that looks at a clock. Arguments, environment and printing are the
//! binary's.

pub mod data;
mod error;
mod floors;
pub mod flows;
mod job;
mod jobs;
pub mod measure;
pub mod replay;
pub mod sample;
pub mod serve;
mod store;
mod turn;
mod window;

pub use error::BenchError;
pub use floors::push_tree;
pub use job::{Answer, Data, Job, Runner, Side};
pub use jobs::{built_prompt, resolve_options, tree_tag};
