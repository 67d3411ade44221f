//! The arguments of `knowledge`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::help;

#[derive(Debug, Args)]
pub(crate) struct KnowledgeArgs {
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, global = true, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// Whose knowledge bases. Folders of the project serve every tenant.
    #[arg(long, global = true, value_name = "TENANT", default_value = "default", help_heading = "Store")]
    pub(crate) tenant: String,
    #[command(subcommand)]
    pub(crate) command: KnowledgeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KnowledgeCommand {
    /// Add files to a base, or replace those that have changed.
    #[command(after_help = help::KNOWLEDGE_ADD)]
    Add {
        /// The base; it is created if it does not exist.
        base: String,
        /// Files and folders: Markdown, text, code, HTML, JSON lines.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// List the bases, or the documents of one.
    List {
        /// The base.
        base: Option<String>,
    },
    /// Search a base and show what each signal adds to the scores.
    Search {
        /// The base.
        base: String,
        /// Words or a question; there is no syntax.
        query: String,
        /// How many hits at most.
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        top_k: u32,
        /// No hit below this score, from 0 to 1.
        #[arg(long, value_name = "SCORE", default_value_t = 0.0)]
        min_score: f64,
    },
    /// Show a document as it is indexed.
    Show {
        /// The base.
        base: String,
        /// The document's id; `contexture knowledge list BASE` shows it.
        document: String,
    },
    /// Remove a document from a base.
    Remove {
        /// The base.
        base: String,
        /// The document's id; `contexture knowledge list BASE` shows it.
        document: String,
    },
    /// Bring the folders of the project up to date in the store, and make missing vectors.
    Reindex {
        /// Only this base.
        base: Option<String>,
    },
}
