//! The suite that every store passes.

use std::sync::Arc;

use contexture_session::Store;
use contexture_session::conformance::{Open, SystemTime, store_conformance};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

/// Opens one file again and again, as several processes would.
async fn opener() -> Open {
    let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
    Arc::new(move || {
        let folder = Arc::clone(&folder);
        Box::pin(async move {
            let path = folder.path().join("contexture.db");
            Arc::new(SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime))).expect("an open file"))
                as Arc<dyn Store>
        })
    })
}

store_conformance!(opener);
