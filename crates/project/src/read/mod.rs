//! Reads one file of a project: its fields, texts and entries, with all problems and dependencies.

pub(crate) mod blackboard;
pub(crate) mod block_file;
mod capability;
pub(crate) mod capability_file;
mod catalogue;
mod circles;
pub(crate) mod context;
pub(crate) mod context_file;
pub(crate) mod entries;
pub(crate) mod facts;
pub(crate) mod index;
mod injectable;
pub(crate) mod knowledge;
pub(crate) mod memory;
pub(crate) mod partials;
pub(crate) mod pipeline;
pub(crate) mod places;
pub(crate) mod prompt_file;
pub(crate) mod reader;
mod skills;
pub(crate) mod tools;
pub(crate) mod unit;
