//! `[server]` of `contexture.toml`: the listen address and the limits of the server.

use serde::{Deserialize, Serialize};

/// The listen address and the limits of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The address and port to listen on.
    pub listen: String,
    /// A PEM file with the server's certificate chain. Set together with `tls_key`, the server accepts only TLS.
    pub tls_cert: Option<String>,
    /// A PEM file with the private key of the first certificate.
    pub tls_key: Option<String>,
    /// The origins that may call the server from a browser, such as `https://app.example`, or `*` for all.
    pub cors_origins: Vec<String>,
    /// The largest request body.
    pub max_body_bytes: u64,
    /// The maximum number of open connections; further ones wait.
    pub max_connections: u32,
    /// The time limit for receiving a request, and for answering one that calls no model.
    pub request_timeout_seconds: u64,
    /// The time limit of a turn.
    pub turn_timeout_seconds: u64,
    /// The maximum number of flow runs driven at the same time; further ones wait.
    pub max_flow_runs: u32,
    /// The interval between heartbeats on an event stream.
    pub heartbeat_seconds: u64,
    /// How long running turns may take to finish at shutdown before they are interrupted.
    pub shutdown_grace_seconds: u64,
    /// How long an instance may stay silent before its turns count as interrupted and other instances resume its runs.
    pub lease_seconds: u64,
    /// Has no effect: events are a view of the log. It is accepted because earlier versions had it.
    pub events_retention_hours: u64,
    /// How long the record of what a model saw is kept.
    pub passes_retention_hours: u64,
    /// How long finished flow runs are kept.
    pub runs_retention_hours: u64,
    /// How often to check for changed files; 0 disables reloading.
    pub reload_seconds: u64,
    /// The number of requests per minute for keys without their own limit; 0 means unlimited.
    pub requests_per_minute: u32,
    /// The number of concurrent requests for keys without their own limit; 0 means unlimited.
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
