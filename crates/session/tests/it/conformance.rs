//! The store in memory passes every store's tests.

use std::sync::Arc;

use contexture_session::conformance::{
    Open, OpenRecords, Opened, SystemTime, records_conformance, store_conformance,
};
use contexture_session::{MemoryStore, Store};

async fn opener() -> Open {
    let store = MemoryStore::new(Arc::new(SystemTime));
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
}

store_conformance!(opener);

async fn records_opener() -> OpenRecords {
    let store = MemoryStore::new(Arc::new(SystemTime));
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { Opened::new(store) })
    })
}

records_conformance!(records_opener);
