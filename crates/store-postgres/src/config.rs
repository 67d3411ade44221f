//! Configuration besides the URL.

use std::path::PathBuf;
use std::time::Duration;

use contexture_session::StoreError;

use crate::failure::unavailable;

/// How a [`PostgresStore`](crate::PostgresStore) uses its database.
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    /// The database schema of the tables: lower-case letters, digits and `_`. It is created if it does not exist.
    pub schema: String,
    /// The maximum number of connections, besides one for notifications.
    pub connections: usize,
    /// How long to wait for a new connection, unless the URL sets it.
    pub connect_timeout: Duration,
    /// How long to wait for one of the connections when all are in use.
    pub wait_timeout: Duration,
    /// How long an operation is tried again when connections are lost or the server restarts.
    pub retry_for: Duration,
    /// Whether to use `LISTEN` and `NOTIFY`. Not every engine that speaks PostgreSQL's protocol has them; nor do they
    /// work through a pooler that shares connections between transactions.
    pub listen: bool,
    /// The polling interval while there are no notifications.
    pub poll: Duration,
    /// How often a reader looks by itself although there are notifications: one is lost when its writer dies right
    /// after the append.
    pub recheck: Duration,
    /// The certificates to trust, in a PEM file; otherwise those of the system.
    pub root_certificates: Option<PathBuf>,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        PostgresConfig {
            schema: "contexture".to_owned(),
            connections: 16,
            connect_timeout: Duration::from_secs(5),
            wait_timeout: Duration::from_secs(30),
            retry_for: Duration::from_secs(10),
            listen: true,
            poll: Duration::from_millis(500),
            recheck: Duration::from_secs(5),
            root_certificates: None,
        }
    }
}

impl PostgresConfig {
    /// Checks what becomes part of SQL text. Nothing else from outside ever does.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_letter = |it: u8| it.is_ascii_lowercase() || it == b'_';
        let name = self.schema.as_bytes();
        let is_name = name.first().is_some_and(|it| is_letter(*it))
            && name.iter().all(|it| is_letter(*it) || it.is_ascii_digit())
            && name.len() <= 63
            && !name.starts_with(b"pg_");
        if is_name {
            return Ok(());
        }
        Err(unavailable(format!(
            "invalid schema name {:?}: at most 63 lower-case letters, digits and `_`, not starting with a digit or `pg_`",
            self.schema
        )))
    }
}
