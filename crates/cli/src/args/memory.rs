//! The arguments of `memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, global = true, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// Whose store it is.
    #[arg(long, global = true, value_name = "TENANT", default_value = "default", help_heading = "Store")]
    pub(crate) tenant: String,
    /// The memory of this user.
    #[arg(long, global = true, value_name = "USER", help_heading = "Namespace")]
    pub(crate) user: Option<String>,
    /// The memory of this agent.
    #[arg(long, global = true, value_name = "AGENT", help_heading = "Namespace")]
    pub(crate) agent: Option<String>,
    /// The memory of this name of the application's own.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Namespace")]
    pub(crate) custom: Option<String>,
    #[command(subcommand)]
    pub(crate) command: MemoryCommand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayerName {
    Rules,
    Facts,
    Digests,
    Procedures,
    Working,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the records of a memory; without a namespace, the namespaces.
    List {
        /// Only those of this layer.
        #[arg(long, value_name = "LAYER")]
        layer: Option<LayerName>,
        /// Only those that wait for approval.
        #[arg(long)]
        proposed: bool,
        /// Also those that hold no more.
        #[arg(long)]
        past: bool,
    },
    /// Add a record.
    Add {
        /// The text.
        text: String,
        /// The layer.
        #[arg(long, value_name = "LAYER", default_value = "facts")]
        layer: LayerName,
    },
    /// Search records, summaries and what was said.
    Search {
        /// Words or a question; there is no syntax.
        query: String,
        /// How many hits at most.
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
    },
    /// Show a record.
    Show {
        /// The record's id; `contexture memory list` shows it.
        id: String,
    },
    /// Show all versions of a record.
    History {
        /// The record's id.
        id: String,
    },
    /// Accept a proposal, so that it counts.
    Approve {
        /// The record's id.
        id: String,
    },
    /// Refuse a proposal, so that it is not proposed again.
    Reject {
        /// The record's id.
        id: String,
    },
    /// Forget for good, with everything that was derived from it.
    Forget {
        /// The record's id.
        #[arg(required_unless_present_any = ["turn", "session", "source", "everything"])]
        id: Option<String>,
        /// A turn instead: `THREAD:TURN`, such as `demo:t7`.
        #[arg(long, value_name = "THREAD:TURN", conflicts_with = "id")]
        turn: Option<String>,
        /// A session instead, with all of its threads.
        #[arg(long, value_name = "SESSION", conflicts_with_all = ["id", "turn"])]
        session: Option<String>,
        /// What was imported from a source instead.
        #[arg(long, value_name = "SOURCE", conflicts_with_all = ["id", "turn", "session"])]
        source: Option<String>,
        /// The whole namespace instead.
        #[arg(long, conflicts_with_all = ["id", "turn", "session", "source"])]
        everything: bool,
        /// Only say what would be forgotten.
        #[arg(long)]
        dry_run: bool,
        /// Leave the bytes in the files of the store until they are written over.
        #[arg(long)]
        keep_bytes: bool,
        /// Leave forgotten turns in the logs of their sessions.
        #[arg(long)]
        keep_turns: bool,
    },
    /// List what a person should look at: duplicates, secrets, stale and unused records.
    Audit,
    /// Print all records, one JSON document a line.
    Export,
    /// Add the records of an export.
    Import {
        /// The file with the lines.
        file: PathBuf,
        /// Names where they come from; by default the name of the file.
        #[arg(long, value_name = "SOURCE")]
        source: Option<String>,
    },
    /// Capture what processes left behind, in all threads of the namespace.
    CatchUp,
}
