//! The arguments of `serve`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The project's folder, like `-C`.
    #[arg(value_name = "PROJECT", conflicts_with = "project")]
    pub(crate) dir: Option<PathBuf>,
    /// Print the OpenAPI document of the server and end.
    #[arg(long)]
    pub(crate) print_openapi: bool,
    /// Address and port; port 0 is any free one.
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Server")]
    pub(crate) listen: Option<String>,
    /// The store: `sqlite:PATH`, `postgres://…` or `memory:`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(crate) store: Option<String>,
    /// The file with the certificates of the server (PEM); it speaks TLS then.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The file with the certificate's key (PEM).
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Web pages that may call the server: an origin such as `https://app.example`, or `*`. Can be repeated.
    #[arg(long = "cors-origin", value_name = "ORIGIN", help_heading = "Server")]
    pub(crate) cors_origins: Vec<String>,
    /// How long turns may go on when the server is told to stop.
    #[arg(long, value_name = "SECONDS", help_heading = "Server")]
    pub(crate) shutdown_grace_seconds: Option<u64>,
    /// Which log lines are printed: `off`, a level such as `info`, or a filter.
    #[arg(long, value_name = "FILTER", help_heading = "Server")]
    pub(crate) log: Option<String>,
    /// How log lines look: `text` or `json`.
    #[arg(long, value_name = "FORMAT", help_heading = "Server")]
    pub(crate) log_format: Option<String>,
}
