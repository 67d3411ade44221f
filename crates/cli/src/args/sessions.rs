//! The arguments of `sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::help;

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

/// Where sessions are.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, global = true, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// Whose sessions.
    #[arg(long, global = true, value_name = "TENANT", default_value = "default", help_heading = "Store")]
    pub(crate) tenant: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, those that were written to last first.
    List {
        /// Only so many.
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Show what a session's log holds.
    #[command(after_help = help::SESSIONS_SHOW)]
    Show(ShowArgs),
    /// List what was summarised or left out, and show what an archive covers.
    #[command(after_help = help::SESSIONS_ARCHIVES)]
    Archives(ArchivesArgs),
    /// Have the frozen prefix of a session evaluated again at its next turn.
    Refresh {
        /// The session.
        id: String,
        /// An isolated thread of the session; by default its main one.
        #[arg(long, value_name = "THREAD")]
        thread: Option<String>,
    },
    /// Append a system event: a durable fact that the model reads from its next turn on.
    #[command(after_help = help::SESSIONS_EVENT)]
    Event(EventArgs),
    /// List, show, add and delete the artifacts of a session.
    Artifacts(ArtifactsArgs),
    /// Write a session down as JSON lines.
    Export {
        /// The session.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All sessions of the tenant.
        #[arg(long)]
        all: bool,
        /// The file to write; by default standard output.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Read sessions that `export` wrote.
    Import {
        /// The file; `-` for standard input.
        #[arg(value_name = "FILE|-")]
        file: String,
        /// Give the session another name.
        #[arg(long = "as", value_name = "ID")]
        rename: Option<String>,
    },
    /// Copy the main thread of a session into a new session.
    Fork {
        /// The session.
        id: String,
        /// Copy no further than this item (`12`), or this turn (`t3`).
        #[arg(long, value_name = "SEQ|TURN")]
        at: Option<String>,
        /// The name of the copy; by default a new one.
        #[arg(long = "as", value_name = "ID")]
        rename: Option<String>,
        /// What people call the copy.
        #[arg(long)]
        label: Option<String>,
    },
    /// Remove sessions with everything in them.
    Delete {
        /// The sessions.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Show how much the store holds.
    Usage,
    /// Give back the space of what was deleted.
    Vacuum,
    /// Copy what is readable of a damaged SQLite file into a new one.
    Recover {
        /// The damaged file; it is not changed.
        #[arg(value_name = "FILE")]
        damaged: PathBuf,
        /// The new file.
        #[arg(long, value_name = "FILE")]
        into: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session.
    pub(crate) id: String,
    /// Whose eyes to look with.
    #[arg(long, value_enum, default_value_t = ViewArg::History)]
    pub(crate) view: ViewArg,
    /// Only the newest N turns of `history`, or the newest N items of the other views.
    #[arg(long, visible_alias = "turns", value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Only what fits into N tokens, from the newest back.
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub(crate) tokens: Option<u32>,
    /// An isolated thread of the session; by default its main one.
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// The event's name, such as `deploy.finished`.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// What the model reads; `-` for standard input.
    #[arg(long, value_name = "TEXT|-")]
    pub(crate) text: String,
    /// Data for the application, as JSON. The model does not read it.
    #[arg(long, value_name = "JSON")]
    pub(crate) data: Option<String>,
    /// A name for the write: repeating it writes nothing.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Fail instead of waiting when a turn is running.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// An isolated thread of the session; by default its main one.
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ArtifactsArgs {
    #[command(subcommand)]
    pub(crate) command: ArtifactsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsCommand {
    /// List the artifacts of a session.
    List {
        /// The session.
        id: String,
    },
    /// Show the text of an artifact.
    Show {
        /// The session.
        id: String,
        /// The artifact.
        name: String,
        /// The version; by default the newest.
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Add an artifact, or a version of one.
    Add(ArtifactAddArgs),
    /// Delete an artifact.
    Delete {
        /// The session.
        id: String,
        /// The artifact.
        name: String,
        /// Only if this is its newest version.
        #[arg(long, value_name = "N")]
        expected: Option<u64>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ArtifactAddArgs {
    /// The session.
    pub(crate) id: String,
    /// The artifact, such as `plan.md`.
    pub(crate) name: String,
    /// The file with its text; `-` for standard input.
    #[arg(value_name = "FILE|-")]
    pub(crate) file: String,
    /// What people call it.
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Its media type.
    #[arg(long, value_name = "TYPE")]
    pub(crate) media_type: Option<String>,
    /// What it holds, for the catalogue that the model reads.
    #[arg(long)]
    pub(crate) summary: Option<String>,
    /// Only if this is its newest version; 0 if there must be none.
    #[arg(long, value_name = "N")]
    pub(crate) expected: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ArchivesArgs {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// Show this archive (`1` or `a1`): its summary, and all that it covers.
    #[arg(value_name = "N", value_parser = archive_number, conflicts_with_all = ["search", "full"])]
    pub(crate) number: Option<u64>,
    /// Look for words in what is archived; the best hits come first.
    #[arg(long, value_name = "WORDS", conflicts_with = "full")]
    pub(crate) search: Option<String>,
    /// Show everything that was ever said, archived or not, also before a reset.
    #[arg(long)]
    pub(crate) full: bool,
    /// An isolated thread of the session; by default its main one.
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
}

fn archive_number(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix('a').unwrap_or(text);
    number.parse().map_err(|_| "archives are numbered: `1`, or `a1`".to_owned())
}

/// The views of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewArg {
    History,
    Client,
    All,
}
