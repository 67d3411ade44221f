//! Built-in entries of prompts: retrieval, grounding, skills, memory, blackboards, and catalogues.
//!
//! ```text
//! KnowledgeBase ─▶ search (query, hits, what was left out) ─▶ pieces ─▶ retriever · pipeline · grounding
//!                └▶ tools <base>Search, <base>GetSource
//! ```
//!
//! Each lowers to the same contributor as any other entry; no stage of `compose` knows what it was. A hit is a Segment
//! of its own, so the budget keeps the best, and the Explanation has rank, score and signal shares of each, and a reason
//! for each that is not there.

mod base;
pub mod blackboard;
mod cards;
mod catalogue;
mod grounding;
pub mod memory;
mod pieces;
mod query;
mod request;
mod retrieval;
mod search;
mod skills;
mod tools;

pub use base::{BaseAccess, KnowledgeBase, Lookup};
pub use catalogue::{CATALOGUE, catalogue};
pub use grounding::{Grounding, grounding};
pub use memory::memory;
pub use query::{QUERY_VARIABLES, QueryTemplate};
pub use request::Bases;
pub use retrieval::{Inject, Retrieval, pipeline, retriever};
pub use skills::{
    SKILL_CATALOGUE, SKILL_TOOLS, SkillIndex, SkillIndexForm, SkillMatch, Skills, UnknownSkill, skill, skills,
};
