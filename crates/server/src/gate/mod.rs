//! The gate: authentication and rate limits.
//!
//! Once a store has a key, every request needs one: `Authorization: Bearer KEY`, or `x-api-key: KEY`. That holds for
//! as long as the server runs: deleted or unreadable keys open nothing. If there never was a key, every caller who can
//! reach the socket is the default tenant. That is why the socket is then bound to this machine only (see
//! [`Listener`](crate::Listener)), and why web pages are checked (`origin.rs`). Whatever is wrong with a key, the
//! response is the same and reveals nothing.

mod key;
mod keys;
mod limits;
mod origin;

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Uri, header};
use contexture_project::ServerConfig;
use contexture_session::{StoreError, Tenant, Time};
use tokio::time::Instant;

use crate::{Caller, Problem};

pub use key::{Key, NewKey, Token};
use keys::KeyCache;
pub use keys::Keys;
use limits::{Limits, RunningRequest};

/// How often the key of an open stream is checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Authenticates and limits requests.
#[derive(Debug)]
pub(crate) struct Gate {
    key_cache: KeyCache,
    limits: Limits,
    time: Arc<dyn Time>,
    /// Web pages that may call.
    origins: Vec<String>,
}

impl Gate {
    pub(crate) fn new(keys: Keys, time: Arc<dyn Time>, config: &ServerConfig) -> Self {
        Self {
            key_cache: KeyCache::new(keys),
            limits: Limits::new(config.requests_per_minute, config.concurrent_requests),
            time,
            origins: config.cors_origins.clone(),
        }
    }

    /// Whether there is a key, be it revoked or not.
    pub(crate) async fn has_keys(&self) -> Result<bool, StoreError> {
        Ok(!self.key_cache.fresh(self.time.now()).await?.is_empty())
    }

    /// Requires a key from now on.
    pub(crate) fn require_keys(&self) {
        self.key_cache.require();
    }

    /// Returns the caller of a request, or why it is refused.
    pub(crate) async fn admit(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(Caller, Option<RunningRequest>), Problem> {
        match self.key_cache.check(presented_key(headers), self.time.now()).await? {
            None => {
                origin::check(uri, headers, &self.origins)?;
                Ok((Caller { tenant: Tenant::default(), key: None, admin: true }, None))
            }
            Some(key) => {
                let running = self.limits.begin(&key, Instant::now())?;
                let caller = Caller { tenant: key.tenant, key: Some(key.id), admin: key.admin };
                Ok((caller, Some(running)))
            }
        }
    }

    /// Waits until a key is no longer valid. While the store is away, it counts as valid.
    pub(crate) async fn invalidated(&self, id: &str) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let now = self.time.now();
            match self.key_cache.fresh(now).await {
                Ok(keys) if keys.get(id).is_some_and(|it| it.is_valid(now)) => {}
                Err(StoreError::Unavailable { .. }) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// Returns the key that a request presents.
fn presented_key(headers: &HeaderMap) -> Option<&str> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|it| {
        let (scheme, key) = it.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| text(header::HeaderName::from_static("x-api-key")).map(str::trim))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::presented_key;

    fn key(headers: &[(&'static str, &'static str)]) -> String {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        presented_key(&pairs.collect::<HeaderMap>()).unwrap_or("none").to_owned()
    }

    #[test]
    fn a_key_comes_in_one_of_two_headers() {
        assert_eq!(key(&[]), "none");
        assert_eq!(key(&[("authorization", "Bearer k1")]), "k1");
        assert_eq!(key(&[("authorization", "bearer  k1 ")]), "k1");
        assert_eq!(key(&[("x-api-key", "k2")]), "k2");
        assert_eq!(key(&[("authorization", "Bearer k1"), ("x-api-key", "k2")]), "k1");
        assert_eq!(key(&[("authorization", "Basic bWU6eA=="), ("x-api-key", "k2")]), "k2");
        assert_eq!(key(&[("authorization", "k1")]), "none");
    }
}
