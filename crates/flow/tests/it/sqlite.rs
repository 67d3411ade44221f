//! The same in a SQLite file: what is true in memory is true there.

use std::sync::Arc;

use contexture_flow::RunStatus;
use contexture_session::Tenant;
use contexture_session::conformance::SystemTime;
use contexture_store_sqlite::{SqliteConfig, SqliteStore};

use crate::crowd::crowded;
use crate::forget::{Place, runs_are_forgotten};
use crate::fuse::{Fuse, Last};
use crate::world::{Seen, World, is_same, once, payment};

fn sqlite() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("x.db"), SqliteConfig::new(Arc::new(SystemTime)));
    (folder, store.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_forgotten_in_sqlite() {
    let (_folder, store) = sqlite();
    runs_are_forgotten(Place::on(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_sqlite_leaves_nothing_behind() {
    let (_folder, store) = sqlite();
    crowded(Place::on(store)).await;
}

#[tokio::test]
async fn runs_on_sqlite_survive() {
    let undisturbed = on_sqlite(&[]).await;
    assert_eq!(undisturbed.status, RunStatus::Completed);
    for k in [2, 5, 9, 13, 17, 21, 25] {
        for last in [Last::Lost, Last::Made] {
            let fuses = once(k, last);
            let seen = on_sqlite(&fuses).await;
            // On a busy machine a sign of life may be on its way beside the step that it died at.
            assert!(fuses[0].steps().len() as u64 >= k, "it died");
            assert!(is_same(&seen, &undisturbed), "{k} {last:?}\n{seen:#?}\n{undisturbed:#?}");
        }
    }
}

async fn on_sqlite(fuses: &[Fuse]) -> Seen {
    let (_folder, store) = sqlite();
    let (store, tenant) = (Arc::new(store), Tenant::default());
    World { store, time: Arc::new(SystemTime), flow: payment(), tenant }.history(fuses).await
}
