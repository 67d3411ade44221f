//! Rate limits of keys: requests per minute, and concurrent requests.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::Key;
use crate::Problem;
use crate::lock::lock;

/// The usage of keys on this instance.
#[derive(Debug)]
pub(super) struct Limits {
    /// The limits of keys that have no limits of their own; 0 is unlimited.
    requests_per_minute: u32,
    concurrent: u32,
    /// By key id. Only valid keys get an entry, so the map is bounded by the number of keys.
    keys: Mutex<BTreeMap<String, KeyUsage>>,
}

#[derive(Debug)]
struct KeyUsage {
    bucket: Bucket,
    /// Each request that runs has a copy.
    running: Arc<()>,
}

/// A request that runs, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    _counted: Arc<()>,
}

impl Limits {
    pub(super) fn new(requests_per_minute: u32, concurrent: u32) -> Self {
        Self { requests_per_minute, concurrent, keys: Mutex::default() }
    }

    /// Admits a request of a key, or says when to retry.
    pub(super) fn begin(&self, key: &Key, now: Instant) -> Result<RunningRequest, Problem> {
        let per_minute = key.requests_per_minute.unwrap_or(self.requests_per_minute);
        let concurrent = key.concurrent.unwrap_or(self.concurrent);
        let mut keys = lock(&self.keys);
        let usage = keys
            .entry(key.id.clone())
            .or_insert_with(|| KeyUsage { bucket: Bucket::full(per_minute, now), running: Arc::default() });
        // Concurrency is checked first, so a request refused for it does not count against the rate limit.
        if concurrent > 0 && Arc::strong_count(&usage.running) > concurrent as usize {
            let text = format!("{concurrent} requests of this key run at the same time, which is its limit");
            return Err(Problem::new(ErrorCode::RateLimited, text).retry_after(1));
        }
        usage.bucket.take(per_minute, now).map_err(|wait| {
            let text = format!("this key may make {per_minute} requests a minute");
            Problem::new(ErrorCode::RateLimited, text).retry_after(wait.as_secs_f64().ceil().max(1.0) as u64)
        })?;
        Ok(RunningRequest { _counted: Arc::clone(&usage.running) })
    }
}

/// A token bucket: it fills by `per_minute` tokens a minute and holds as many; each request takes one.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn full(per_minute: u32, now: Instant) -> Self {
        Self { tokens: f64::from(per_minute), at: now }
    }

    /// Takes a token, or returns how long to wait for one.
    fn take(&mut self, per_minute: u32, now: Instant) -> Result<(), Duration> {
        if per_minute == 0 {
            return Ok(());
        }
        let per_second = f64::from(per_minute) / 60.0;
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + since * per_second).min(f64::from(per_minute));
        self.at = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contexture_history::Timestamp;
    use contexture_session::Tenant;
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::{Bucket, Key, Limits};

    fn key(per_minute: Option<u32>, concurrent: Option<u32>) -> Key {
        Key {
            id: "k".to_owned(),
            tenant: Tenant::default(),
            label: None,
            created: Timestamp(0),
            expires: None,
            revoked: None,
            requests_per_minute: per_minute,
            concurrent,
            admin: false,
        }
    }

    #[test]
    fn a_key_waits_until_its_bucket_fills_again() {
        let limits = Limits::new(0, 0);
        let (key, start) = (key(Some(2), None), Instant::now());
        let begin = |seconds| {
            let begun = limits.begin(&key, start + Duration::from_secs(seconds));
            begun.map(drop).map_err(|it| it.retry_after)
        };
        assert_eq!((begin(0), begin(0)), (Ok(()), Ok(())));
        assert_eq!(begin(0), Err(Some(30)));
        assert_eq!(begin(29), Err(Some(1)));
        assert_eq!(begin(30), Ok(()));
    }

    #[test]
    fn a_place_is_free_again_when_a_request_is_over() {
        let limits = Limits::new(0, 1);
        let (key, now) = (key(None, None), Instant::now());
        let first = limits.begin(&key, now);
        assert!(first.is_ok() && limits.begin(&key, now).is_err());
        drop(first);
        assert!(limits.begin(&key, now).is_ok());
    }

    proptest! {
        #[test]
        fn no_more_are_let_in_than_a_full_bucket_and_what_flows_in(
            per_minute in 1_u32..300,
            gaps in proptest::collection::vec(0_u64..5_000, 1..200),
        ) {
            let start = Instant::now();
            let mut bucket = Bucket::full(per_minute, start);
            let (mut now, mut taken) = (start, 0_u32);
            for gap in gaps {
                now += Duration::from_millis(gap);
                taken += u32::from(bucket.take(per_minute, now).is_ok());
                let flowed = (now - start).as_secs_f64() * f64::from(per_minute) / 60.0;
                prop_assert!(f64::from(taken) <= f64::from(per_minute) + flowed + 0.001);
            }
        }
    }
}
