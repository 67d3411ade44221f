//! `[skills]` of `contexture.toml`.

use contexture_agent::SkillInject;
use serde::{Deserialize, Serialize};

/// Where skills are, and how prompts list them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillsConfig {
    /// Further folders of skills beside `skills` and `.agents/skills`, relative to the project.
    pub paths: Vec<String>,
    /// Up to so many tokens the frozen prefix has the descriptions of all skills. If they take more, it has the names, and
    /// each turn is reminded of those that match.
    pub full_index_tokens: u32,
    /// How many skills a turn is reminded of at most.
    pub max_hints: usize,
    /// Where the instructions of a loaded skill stand: `auto` or `system`.
    pub inject: SkillInject,
}

impl Default for SkillsConfig {
    fn default() -> Self {
        Self { paths: Vec::new(), full_index_tokens: 2_000, max_hints: 10, inject: SkillInject::Auto }
    }
}
