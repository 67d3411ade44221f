//! Skills: instructions that a model loads when it needs them.
//!
//! ```text
//! SkillSource ─▶ Skills ─┬▶ catalogue (frozen prefix: names, or everything if that is short)
//!                        ├▶ hints (reminders of the turn: the few that match what the user says)
//!                        └▶ tools LoadSkill, LoadReference, UnloadSkill ─▶ records of the thread (in `agent`)
//! ```
//!
//! All entries of a prompt that list skills are joined to one. What loading means for the requests that follow, and how
//! it survives compactions and restarts, is decided in `agent`.

mod catalogue;
mod entry;
mod filled;
mod index;
mod set;
mod tools;

pub use catalogue::{SKILL_CATALOGUE, SkillIndexForm};
pub use entry::{Skills, skill, skills};
pub use index::{SkillIndex, SkillMatch};
pub use set::UnknownSkill;
pub use tools::SKILL_TOOLS;
