//! The store in memory passes every store's tests.

use std::sync::Arc;

use contexture_session::conformance::{
    Open, OpenDocuments, OpenSources, Opened, SystemTime, documents_conformance, sources_conformance,
    store_conformance,
};
use contexture_session::{MemoryStore, SourceIndex, Store};

async fn opener() -> Open {
    let store = MemoryStore::new(Arc::new(SystemTime));
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
}

store_conformance!(opener);

async fn documents_opener() -> OpenDocuments {
    let store = MemoryStore::new(Arc::new(SystemTime));
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { Opened::new(store) })
    })
}

documents_conformance!(documents_opener);

async fn sources_opener() -> OpenSources {
    let store = MemoryStore::new(Arc::new(SystemTime));
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn SourceIndex> })
    })
}

sources_conformance!(sources_opener);
