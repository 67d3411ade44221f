//! The connections that are open: how many there may be, and which of them are idle.
//!
//! Connections, model calls and the store all use file descriptors, so the number of connections is limited. When the
//! limit is reached, a new connection replaces the one that has been idle the longest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::lock::lock;

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
    /// The connections, by when they were opened.
    open: BTreeMap<u64, ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    n_requests: usize,
    idle_since: u64,
    disconnect: CancellationToken,
}

/// A connection that is open, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    all: OpenConnections,
    no: u64,
    /// Cancelled when the connection must close.
    pub(super) disconnect: CancellationToken,
    _place: OwnedSemaphorePermit,
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
        let disconnect = CancellationToken::new();
        let mut state = lock(&self.0.state);
        state.now += 1;
        let no = state.now;
        let connection = ConnectionState { n_requests: 0, idle_since: no, disconnect: disconnect.clone() };
        state.open.insert(no, connection);
        Arc::new(Connection { all: self.clone(), no, disconnect, _place: place })
    }

    fn disconnect_oldest_idle(&self) {
        if let Some(oldest) = lock(&self.0.state).idle().min_by_key(|it| it.idle_since) {
            oldest.disconnect.cancel();
        }
    }

    /// Hangs up on all connections that have no request.
    pub(super) fn disconnect_idle(&self) {
        lock(&self.0.state).idle().for_each(|it| it.disconnect.cancel());
    }
}

impl State {
    /// Lists the connections that have no request and are not closing.
    fn idle(&self) -> impl Iterator<Item = &ConnectionState> {
        self.open.values().filter(|it| it.n_requests == 0 && !it.disconnect.is_cancelled())
    }
}

impl Connection {
    /// Marks the start of a request.
    pub(super) fn begin(self: &Arc<Self>) -> ActiveRequest {
        if let Some(own) = lock(&self.all.0.state).open.get_mut(&self.no) {
            own.n_requests += 1;
        }
        ActiveRequest(Arc::clone(self))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.all.0.state).open.remove(&self.no);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = lock(&self.0.all.0.state);
        state.now += 1;
        let now = state.now;
        if let Some(own) = state.open.get_mut(&self.0.no) {
            (own.n_requests, own.idle_since) = (own.n_requests - 1, now);
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
