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
