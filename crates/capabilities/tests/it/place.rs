//! Places that several processes share: a file of SQLite, or a schema of PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use contexture_session::Store;
use contexture_session::conformance::SystemTime;
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

/// Tells a process where its store is.
const PLACE: &str = "CONTEXTURE_TEST_PLACE";

/// Where a store is.
pub(crate) enum Place {
    File(PathBuf),
    Schema(String),
}

impl Place {
    pub(crate) fn file(folder: &tempfile::TempDir) -> Self {
        Self::File(folder.path().join("s.db"))
    }

    /// Returns a schema that no other test has, in no run on the same server.
    pub(crate) fn schema() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let no = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::Schema(format!("capabilities_{}_{now}_{no}", std::process::id()))
    }

    /// Returns the place that the test which started this process named.
    pub(crate) fn given() -> Self {
        let place = std::env::var(PLACE).expect("the test that starts this one names a place");
        match place.strip_prefix("schema:") {
            Some(schema) => Self::Schema(schema.to_owned()),
            None => Self::File(place.into()),
        }
    }

    /// Opens the store, as every process does for itself.
    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Place::File(path) => Arc::new(open_file(path)),
            Place::Schema(schema) => Arc::new(open_schema(schema).await),
        }
    }

    fn named(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Schema(schema) => format!("schema:{schema}"),
        }
    }

    /// Starts one test of this program as a process of its own, with the store in this place.
    pub(crate) fn start(&self, test: &str, variables: &[(&str, &str)]) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // Not captured: a panic of the process is in the output of the test that started it.
        command.args([test, "--exact", "--ignored", "--nocapture"]).env(PLACE, self.named());
        if let Place::Schema(_) = self {
            command.env(contexture_pgtest::URL_VARIABLE, server_url());
        }
        command.envs(variables.iter().copied()).stdout(Stdio::null()).spawn().unwrap()
    }
}

pub(crate) fn open_file(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime))).unwrap()
}

fn server_url() -> String {
    contexture_pgtest::shared_url().unwrap_or_else(|err| panic!("{err}"))
}

pub(crate) async fn open_schema(schema: &str) -> PostgresStore {
    let config = PostgresConfig { schema: schema.to_owned(), connections: 8, ..PostgresConfig::default() };
    PostgresStore::connect(&server_url(), config).await.unwrap()
}
