//! A store that is away for a moment, at every step: the process lives, and brings the run to the same end.

use std::sync::Arc;

use contexture_flow::{Flow, RunError};
use contexture_session::{MemoryStore, StoreError, Tenant};
use contexture_testkit::{TokioTime, timeless};

use crate::fuse::{Fuse, Last};
use crate::kills::{parallel_ways, threads};
use crate::scene::LEASE;
use crate::world::{Seen, World, is_same, payment};

/// Lets one process do everything; whenever it is told that the store is away it comes again, after as long as a lease lasts.
async fn endured(flow: Flow, fuse: &Fuse) -> Seen {
    let clock = Arc::new(TokioTime::new());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let world = World { store, time: clock, flow, tenant: Tenant::default() };
    let scene = world.process(fuse);
    loop {
        match world.lives(&scene).await {
            Ok(info) => {
                let calls = scene.calls.lock().unwrap().drain(..).collect();
                return world.seen(&scene, info, calls).await;
            }
            Err(err) if is_passing(&err) => world.time.sleep(LEASE).await,
            Err(err) => panic!("{err}"),
        }
    }
}

/// Whether it makes sense to come again.
fn is_passing(err: &RunError) -> bool {
    err.code() == "store_unavailable"
        || matches!(err, RunError::Driven { .. } | RunError::Store(StoreError::NotFound { .. }))
}

/// Lets the store be away at every step.
fn away(flow: &Flow) {
    let undisturbed = timeless(async { endured(flow.clone(), &Fuse::default()).await });
    assert_eq!(undisturbed.error, None);
    for last in [Last::Refused, Last::Unsure, Last::Outage] {
        for k in 1.. {
            let fuse = Fuse::at(k, last);
            let seen = timeless(async { endured(flow.clone(), &fuse).await });
            let steps = fuse.steps();
            assert!(is_same(&seen, &undisturbed), "{k} {last:?} {steps:?}\n{seen:#?}\n{undisturbed:#?}");
            if (steps.len() as u64) < k {
                break;
            }
        }
    }
}

#[test]
fn tools_and_approvals_survive() {
    away(&payment());
}

#[test]
fn threads_survive() {
    away(&threads());
}

#[test]
fn parallel_ways_survive() {
    away(&parallel_ways());
}
