//! The store in memory passes every store's tests.

use std::sync::Arc;

use contexture_session::conformance::{Open, SystemTime, store_conformance};
use contexture_session::{MemoryStore, Store};

async fn opener() -> Open {
    let store = MemoryStore::new(Arc::new(SystemTime));
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
}

store_conformance!(opener);
