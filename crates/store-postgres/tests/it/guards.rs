//! The rules of leases in SQL are those of [`LeaseRow::admit`].

use std::sync::Arc;
use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{Fence, Guard, LeaseRow, Log as _, StoreError};

use crate::support::{Log, config, store_in};

/// Returns one of many guards. Leases end at once or not within this test, so that no clock matters.
fn some_guard(random: u64, last: Fence) -> Guard {
    let ttl = if random & 1 == 0 { Duration::ZERO } else { Duration::from_secs(3_600) };
    let owner = Arc::from(if random & 2 == 0 { "a" } else { "b" });
    let fence = Fence(last.0.saturating_sub(u64::from(random & 0b1100 == 0)));
    match (random >> 4) % 7 {
        0 => Guard::Free,
        5 => Guard::Any,
        6 => Guard::Call,
        1 | 2 => Guard::Acquire { owner, ttl },
        3 => Guard::Hold { fence, ttl },
        _ => Guard::Release { fence },
    }
}

fn shown(outcome: Result<Option<Fence>, StoreError>) -> String {
    match outcome {
        Ok(fence) => format!("{fence:?}"),
        Err(StoreError::Held { .. }) => "held".to_owned(),
        Err(StoreError::Fenced { fence, .. }) => format!("fenced {fence:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn the_database_decides_as_the_model_does() {
    let mut log = Log::create(&store_in(config("guards")).await).await;
    let (mut model, now) = (LeaseRow::default(), Timestamp(1));
    let mut random: u64 = 7;
    for round in 0..400 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let guard = some_guard(random >> 33, model.fence);
        let admitted = model.admit(&log.key, &guard, now).map(|lease| {
            model = lease;
            guard.fence(model.fence)
        });
        let expected = shown(admitted);
        let found = if round % 2 == 0 {
            log.store.lease(log.key.clone(), guard.clone()).await
        } else {
            log.say_with(guard.clone(), &["x"]).await.map(|it| it.fence)
        };
        assert_eq!(shown(found), expected, "round {round}: {guard:?}");
        let head = log.store.head(log.key.clone()).await.unwrap().unwrap();
        let lease = head.lease.map(|it| (it.owner, it.fence, it.live));
        assert_eq!(lease, model.owner.clone().map(|it| (it, model.fence, model.is_live(now))));
    }
    log.assert_whole().await;
}
