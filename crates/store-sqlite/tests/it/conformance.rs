//! The suite that every store passes.

use std::sync::Arc;

use contexture_session::conformance::{
    Open, OpenDocuments, OpenSources, Opened, SystemTime, documents_conformance, sources_conformance,
    store_conformance,
};
use contexture_session::{SourceIndex, Store};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

/// Opens one file again and again, as several processes would.
async fn opener() -> Open {
    let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
    Arc::new(move || {
        let folder = Arc::clone(&folder);
        Box::pin(async move { Arc::new(open_in(&folder)) as Arc<dyn Store> })
    })
}

fn open_in(folder: &tempfile::TempDir) -> SqliteStore {
    let path = folder.path().join("contexture.db");
    SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime))).expect("an open file")
}

store_conformance!(opener);

async fn documents_opener() -> OpenDocuments {
    let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
    Arc::new(move || {
        let folder = Arc::clone(&folder);
        Box::pin(async move { Opened::new(open_in(&folder)) })
    })
}

documents_conformance!(documents_opener);

async fn sources_opener() -> OpenSources {
    let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
    Arc::new(move || {
        let folder = Arc::clone(&folder);
        Box::pin(async move { Arc::new(open_in(&folder)) as Arc<dyn SourceIndex> })
    })
}

sources_conformance!(sources_opener);
