//! Tests of the project crate: files in, prompts and faults out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod blackboard;
mod blocks;
mod capabilities;
mod cases;
mod config;
mod entries;
mod faults;
mod flows;
mod folder;
mod fuzz;
mod knowledge;
mod lint;
mod memory;
mod partials;
mod pictures;
mod pipeline;
mod provided;
mod reload;
mod sections;
mod skills;
mod support;
mod tools;
mod workspace;
