//! `[server]` of `contexture.toml`: where the server listens, and what it allows.

use serde::{Deserialize, Serialize};

/// Where the server listens, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address and port.
    pub listen: String,
    /// A file with the certificates of the server, as PEM; with `tls_key` it speaks TLS only.
    pub tls_cert: Option<String>,
    /// The file with the key of the first certificate, as PEM.
    pub tls_key: Option<String>,
    /// Which web pages may call the server: origins such as `https://app.example`, or `*` for all.
    pub cors_origins: Vec<String>,
    /// The largest body of a request.
    pub max_body_bytes: u64,
    /// How many connections are open at the same time; more of them wait.
    pub max_connections: u32,
    /// How long a client may take to send its request, and the server to answer where no model is called.
    pub request_timeout_seconds: u64,
    /// How long a turn may run.
    pub turn_timeout_seconds: u64,
    /// How many runs of flows are driven at the same time; more of them wait.
    pub max_flow_runs: u32,
    /// How often a stream of events says that it is alive.
    pub heartbeat_seconds: u64,
    /// How long turns may go on when the server is told to stop; then they are interrupted.
    pub shutdown_grace_seconds: u64,
    /// How long an instance may be silent before its turns count as interrupted, and others go on with its runs.
    pub lease_seconds: u64,
    /// How long events can be read again.
    pub events_retention_hours: u64,
    /// How long it can be looked up what a model saw.
    pub passes_retention_hours: u64,
    /// How long runs of flows are kept that are over.
    pub runs_retention_hours: u64,
    /// How often changed files are looked for; 0 never.
    pub reload_seconds: u64,
    /// How many requests a key may make in a minute, where the key does not say; 0 any number.
    pub requests_per_minute: u32,
    /// How many requests of a key may run at the same time, where the key does not say; 0 any number.
    pub concurrent_requests: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:4747".to_owned(),
            tls_cert: None,
            tls_key: None,
            cors_origins: Vec::new(),
            max_body_bytes: 8 * 1024 * 1024,
            max_connections: 10_000,
            request_timeout_seconds: 30,
            turn_timeout_seconds: 600,
            max_flow_runs: 256,
            heartbeat_seconds: 15,
            shutdown_grace_seconds: 25,
            lease_seconds: 30,
            events_retention_hours: 24 * 7,
            passes_retention_hours: 24 * 7,
            runs_retention_hours: 24 * 30,
            reload_seconds: 2,
            requests_per_minute: 0,
            concurrent_requests: 0,
        }
    }
}
