//! Built-in entries of prompts: retrieval, grounding, skills, memory, blackboards, artifacts, catalogues, and the standard
//! stack.
//!
//! ```text
//! KnowledgeBase ─▶ search (query, hits, what was left out) ─▶ pieces ─▶ retriever · pipeline · grounding
//!                └▶ tools <base>Search, <base>GetSource
//! ```
//!
//! Each lowers to the same contributor as any other entry; no stage of `compose` knows what it was. A hit is a Segment
//! of its own, so the budget keeps the best, and the Explanation has rank, score and signal shares of each, and a reason
//! for each that is not there.

mod artifacts;
mod base;
pub mod blackboard;
mod cards;
mod catalogue;
mod defaults;
mod grounding;
mod http_provider;
pub mod memory;
mod pieces;
mod query;
mod request;
mod retrieval;
mod search;
mod skills;
mod tools;

pub use artifacts::{ARTIFACT_CATALOGUE, Artifacts, READ_ARTIFACT, artifact_catalogue, artifacts};
pub use base::{BaseAccess, KnowledgeBase, Lookup};
pub use catalogue::{CATALOGUE, CatalogueItem, catalogue, listing};
pub use defaults::{DEFAULTS, Defaults, defaults};
pub use grounding::{Grounding, grounding};
pub use http_provider::{HttpProvider, http_provider};
pub use memory::memory;
pub use query::{QUERY_VARIABLES, QueryTemplate};
pub use request::Bases;
pub use retrieval::{Inject, Retrieval, pipeline, retriever};
pub use skills::{
    SKILL_CATALOGUE, SKILL_TOOLS, SkillIndex, SkillIndexForm, SkillMatch, Skills, UnknownSkill, skill, skills,
};
