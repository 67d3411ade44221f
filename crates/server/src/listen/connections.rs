//! The connections that are open: how many there may be, and which of them are idle.
//!
//! Connections, model calls and the store all use file descriptors, so the number of connections is limited. When the
//! limit is reached, a new connection replaces the one that has been idle the longest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many files are left for everything else, at least, where there are that many.
const MIN_RESERVE: u64 = 64;

/// Returns the maximum number of connections: the configured number, but at most three quarters of the process's file
/// descriptors, so that model calls and the store have enough.
pub(super) fn max_connections(configured: u32, files: Option<u64>) -> usize {
    let spare = files.map(|it| it - (it / 4).max(MIN_RESERVE).min(it / 2));
    let max_connections = u64::from(configured).min(spare.unwrap_or(u64::MAX)).max(1);
    usize::try_from(max_connections).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Returns the limit on open files, if the system has one.
pub(super) fn file_limit() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    return None;
}

/// All connections that are open. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct OpenConnections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A logical clock: enough to know which connection has been idle the longest.
    now: u64,
    /// Idle connections by when they became so. One that has a request is not among them.
    idle: BTreeMap<u64, CancellationToken>,
}

/// A connection that is open, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    open: OpenConnections,
    /// Cancelled when the connection must close.
    pub(super) disconnect: CancellationToken,
    /// How many requests it has, and since when it is idle if it has none.
    requests: Mutex<RequestCount>,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
struct RequestCount {
    n_requests: usize,
    idle_since: Option<u64>,
}

/// A request on a connection; dropped after the last chunk of its response.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Connection>);

impl OpenConnections {
    pub(super) fn new(max_connections: usize) -> Self {
        let permits = Arc::new(Semaphore::new(max_connections));
        Self(Arc::new(Inner { permits, state: Mutex::default() }))
    }

    /// Waits for a permit. If there is none, the connection that has been idle the longest is disconnected.
    pub(super) async fn acquire(&self) -> Arc<Connection> {
        let place = match Arc::clone(&self.0.permits).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                self.disconnect_oldest_idle();
                let place = Arc::clone(&self.0.permits).acquire_owned().await;
                place.expect("the places are never closed")
            }
        };
        let (open, disconnect) = (self.clone(), CancellationToken::new());
        let connection = Arc::new(Connection { open, disconnect, requests: Mutex::default(), _place: place });
        connection.mark_idle(&mut connection.own());
        connection
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disconnect_oldest_idle(&self) {
        if let Some((_, disconnect)) = self.state().idle.pop_first() {
            disconnect.cancel();
        }
    }

    /// Hangs up on all connections that have no request.
    pub(super) fn disconnect_idle(&self) {
        for disconnect in std::mem::take(&mut self.state().idle).into_values() {
            disconnect.cancel();
        }
    }
}

impl Connection {
    /// Marks the start of a request.
    pub(super) fn begin(self: &Arc<Self>) -> ActiveRequest {
        let mut own = self.own();
        own.n_requests += 1;
        if let Some(since) = own.idle_since.take() {
            self.open.state().idle.remove(&since);
        }
        ActiveRequest(Arc::clone(self))
    }

    /// Notes that it is idle from now on.
    fn mark_idle(&self, own: &mut RequestCount) {
        let mut state = self.open.state();
        state.now += 1;
        let now = state.now;
        state.idle.insert(now, self.disconnect.clone());
        own.idle_since = Some(now);
    }

    fn own(&self) -> MutexGuard<'_, RequestCount> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let since = self.own().idle_since;
        if let Some(since) = since {
            self.open.state().idle.remove(&since);
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut own = self.0.own();
        own.n_requests -= 1;
        if own.n_requests == 0 {
            self.0.mark_idle(&mut own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenConnections, max_connections};

    #[test]
    fn files_are_left_for_everything_else() {
        assert_eq!(max_connections(10_000, Some(1024)), 768);
        assert_eq!(max_connections(10_000, Some(256)), 192);
        assert_eq!(max_connections(10_000, Some(100)), 50);
        assert_eq!(max_connections(10_000, Some(1_000_000)), 10_000);
        assert_eq!(max_connections(10_000, None), 10_000);
        assert_eq!((max_connections(0, None), max_connections(5, Some(0))), (1, 1));
    }

    #[tokio::test]
    async fn who_has_been_idle_for_longest_goes_first() {
        let open = OpenConnections::new(3);
        let (a, b, c) = (open.acquire().await, open.acquire().await, open.acquire().await);
        let request = a.begin();
        let gone = |it: &std::sync::Arc<super::Connection>| it.disconnect.is_cancelled();
        let next = tokio::spawn({
            let open = open.clone();
            async move { open.acquire().await }
        });
        tokio::task::yield_now().await;
        assert_eq!((gone(&a), gone(&b), gone(&c)), (false, true, false));
        drop(b);
        let d = next.await.expect("there is a place");
        // `a` has become idle after `c` and `d`.
        drop(request);
        open.disconnect_oldest_idle();
        open.disconnect_oldest_idle();
        assert_eq!((gone(&a), gone(&c), gone(&d)), (false, true, true));
        open.disconnect_idle();
        assert!(gone(&a));
    }
}
