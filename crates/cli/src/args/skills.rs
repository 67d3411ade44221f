//! The arguments of `skills`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    pub(crate) command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills of the project.
    List,
    /// Check them against the specification of Agent Skills, strictly.
    Check,
    /// Show the hints that a turn with this sentence would get, with their scores.
    Route {
        /// What a user might say.
        sentence: String,
    },
}
