//! The connections that are open: how many there may be, and which of them are idle.
//!
//! Every connection takes a file, and so do calls of models and the store. So there are never so many connections that none
//! are left for those; and when all places are taken, who comes takes the place of the one that has been idle for longest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many files are left for everything else, at least, where there are that many.
const MIN_RESERVE: u64 = 64;

/// Returns how many connections there may be: as many as are configured, and no more than leave a quarter of the files that
/// the process may open for model calls and the store.
pub(super) fn most(configured: u32, files: Option<u64>) -> usize {
    let spare = files.map(|it| it - (it / 4).max(MIN_RESERVE).min(it / 2));
    let most = u64::from(configured).min(spare.unwrap_or(u64::MAX)).max(1);
    usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Returns how many files the process may open, where the system says so.
pub(super) fn file_limit() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    return None;
}

/// All connections that are open. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Open(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts what happens, which is all the time that is needed to know who has been idle for longest.
    now: u64,
    /// Idle connections by when they became so. One that has a request is not among them.
    idle: BTreeMap<u64, CancellationToken>,
}

/// A connection that is open, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    open: Open,
    /// Says that it has to end.
    pub(super) hang_up: CancellationToken,
    /// How many requests it has, and since when it is idle if it has none.
    use_: Mutex<Use>,
    _place: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
struct Use {
    n_requests: usize,
    idle_since: Option<u64>,
}

/// A request that a connection has, until it is dropped: with the last piece of its answer.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

impl Open {
    pub(super) fn new(most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self(Arc::new(Inner { places, state: Mutex::default() }))
    }

    /// Waits for a place. If there is none, the connection that has been idle for longest is hung up on.
    pub(super) async fn enter(&self) -> Arc<Connection> {
        let place = match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                self.hang_up_one();
                let place = Arc::clone(&self.0.places).acquire_owned().await;
                place.expect("the places are never closed")
            }
        };
        let (open, hang_up) = (self.clone(), CancellationToken::new());
        let connection = Arc::new(Connection { open, hang_up, use_: Mutex::default(), _place: place });
        connection.rest(&mut connection.own());
        connection
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hang_up_one(&self) {
        if let Some((_, hang_up)) = self.state().idle.pop_first() {
            hang_up.cancel();
        }
    }

    /// Hangs up on all connections that have no request.
    pub(super) fn hang_up_idle(&self) {
        for hang_up in std::mem::take(&mut self.state().idle).into_values() {
            hang_up.cancel();
        }
    }
}

impl Connection {
    /// Notes that a request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        let mut own = self.own();
        own.n_requests += 1;
        if let Some(since) = own.idle_since.take() {
            self.open.state().idle.remove(&since);
        }
        Busy(Arc::clone(self))
    }

    /// Notes that it is idle from now on.
    fn rest(&self, own: &mut Use) {
        let mut state = self.open.state();
        state.now += 1;
        let now = state.now;
        state.idle.insert(now, self.hang_up.clone());
        own.idle_since = Some(now);
    }

    fn own(&self) -> MutexGuard<'_, Use> {
        self.use_.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Drop for Busy {
    fn drop(&mut self) {
        let mut own = self.0.own();
        own.n_requests -= 1;
        if own.n_requests == 0 {
            self.0.rest(&mut own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Open, most};

    #[test]
    fn files_are_left_for_everything_else() {
        assert_eq!(most(10_000, Some(1024)), 768);
        assert_eq!(most(10_000, Some(256)), 192);
        assert_eq!(most(10_000, Some(100)), 50);
        assert_eq!(most(10_000, Some(1_000_000)), 10_000);
        assert_eq!(most(10_000, None), 10_000);
        assert_eq!((most(0, None), most(5, Some(0))), (1, 1));
    }

    #[tokio::test]
    async fn who_has_been_idle_for_longest_goes_first() {
        let open = Open::new(3);
        let (a, b, c) = (open.enter().await, open.enter().await, open.enter().await);
        let request = a.begin();
        let gone = |it: &std::sync::Arc<super::Connection>| it.hang_up.is_cancelled();
        let next = tokio::spawn({
            let open = open.clone();
            async move { open.enter().await }
        });
        tokio::task::yield_now().await;
        assert_eq!((gone(&a), gone(&b), gone(&c)), (false, true, false));
        drop(b);
        let d = next.await.expect("there is a place");
        // `a` has become idle after `c` and `d`.
        drop(request);
        open.hang_up_one();
        open.hang_up_one();
        assert_eq!((gone(&a), gone(&c), gone(&d)), (false, true, true));
        open.hang_up_idle();
        assert!(gone(&a));
    }
}
