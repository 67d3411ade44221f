//! The same on PostgreSQL: what is true in memory is true there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use contexture_flow::RunStatus;
use contexture_session::Tenant;
use contexture_session::conformance::SystemTime;
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use futures::{StreamExt, stream};

use crate::crowd::crowded;
use crate::forget::Place;
use crate::fuse::{Fuse, Last};
use crate::world::{World, is_same, once, payment, twice};

/// How many histories go on at once on PostgreSQL: most of their time is spent waiting for leases.
const AT_ONCE: usize = 12;

/// Returns a name that no other test has, in no run on the same server.
fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    format!("{what}_{}_{now}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn postgres() -> Arc<PostgresStore> {
    let url = contexture_pgtest::shared_url().unwrap_or_else(|err| panic!("{err}"));
    let config = PostgresConfig { schema: unique("flow"), ..PostgresConfig::default() };
    Arc::new(PostgresStore::connect(&url, config).await.unwrap())
}

/// A tenant of its own on the same server, and the same run.
fn on_postgres(store: &Arc<PostgresStore>) -> World<PostgresStore> {
    let tenant = Tenant::parse(unique("tenant")).unwrap();
    World { store: Arc::clone(store), time: Arc::new(SystemTime), flow: payment(), tenant }
}

/// Lets processes die, as in memory, at every n-th step.
async fn killed_on_postgres(n: usize, fuses: fn(u64, Last) -> Vec<Fuse>) {
    let store = postgres().await;
    let world = on_postgres(&store);
    let life = Fuse::default();
    let undisturbed = world.history(std::slice::from_ref(&life)).await;
    assert_eq!(undisturbed.status, RunStatus::Completed);
    let n_steps = life.steps().len() as u64;
    assert!(n_steps > 25, "{:?}", life.steps());
    let deaths = (1..=n_steps).step_by(n).flat_map(|k| [(k, Last::Lost), (k, Last::Made)]);
    let histories = deaths.map(async |(k, last)| {
        let fuses = fuses(k, last);
        let seen = on_postgres(&store).history(&fuses).await;
        let steps = fuses[0].steps();
        assert!(is_same(&seen, &undisturbed), "{k} {last:?} {steps:?}\n{seen:#?}\n{undisturbed:#?}");
    });
    stream::iter(histories).buffer_unordered(AT_ONCE).collect::<()>().await;
}

#[tokio::test]
async fn runs_on_postgres_survive() {
    killed_on_postgres(1, once).await;
}

#[tokio::test]
async fn runs_on_postgres_survive_another_death() {
    killed_on_postgres(5, twice).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_postgres_leaves_nothing_behind() {
    crowded(Place::on(Arc::into_inner(postgres().await).unwrap())).await;
}
