//! The arguments of `keys` and `audit`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, global = true, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key and show it, once.
    Create(NewKeyArgs),
    /// List all keys; what opens is not shown.
    List,
    /// Make keys worthless.
    Revoke {
        /// The ids of the keys: what stands between `ctx_` and the next `_`.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewKeyArgs {
    /// Whose data the key opens.
    #[arg(long, value_name = "TENANT", default_value = "default")]
    pub(crate) tenant: String,
    /// What people call it.
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// After how many days it opens nothing any more.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(crate) expires_days: Option<u32>,
    /// How many requests it may make in a minute; 0 any number. By default what the server's configuration says.
    #[arg(long, value_name = "N")]
    pub(crate) requests_per_minute: Option<u32>,
    /// How many of its requests may run at the same time; 0 any number. By default what the server's configuration says.
    #[arg(long, value_name = "N")]
    pub(crate) concurrent: Option<u32>,
    /// Let it read metrics and the audit log, too.
    #[arg(long)]
    pub(crate) admin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// Only the newest so many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}
