//! Tells waiting readers that a thread has grown.
//!
//! Commits of this process wake them at once. Those of other processes are seen by a thread that looks, several times a
//! second and only while somebody waits, whether anyone else has committed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_history::Seq;
use contexture_session::{StoreError, ThreadKey};
use futures::channel::oneshot;
use rusqlite::Connection;

use crate::failure::Place;
use crate::open::open_reader;
use crate::read::end_of;

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Mutex<Waiting>,
    /// Somebody began to wait, or the store is closed.
    news: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    threads: HashMap<ThreadKey, Vec<Waiter>>,
    next: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiter {
    no: u64,
    after: Seq,
    /// Not looked at yet by the thread that watches other processes.
    is_new: bool,
    tell: oneshot::Sender<()>,
}

/// A place in the list of those who wait. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Wait {
    notices: Arc<Notices>,
    key: ThreadKey,
    no: u64,
    told: oneshot::Receiver<()>,
}

impl Wait {
    /// Waits for the next notice.
    pub(crate) async fn told(mut self) {
        // A sender that was dropped is a notice too: waiters may be woken early.
        let _ = (&mut self.told).await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.notices.lock();
        if let Some(waiters) = waiting.threads.get_mut(&self.key) {
            waiters.retain(|it| it.no != self.no);
            if waiters.is_empty() {
                waiting.threads.remove(&self.key);
            }
        }
    }
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change of the list is a single step: a panic elsewhere leaves nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait. Look at the log only after this: what is appended in between is then not missed.
    pub(crate) fn wait(self: &Arc<Self>, key: ThreadKey, after: Seq) -> Wait {
        let (tell, told) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.next += 1;
        let no = waiting.next;
        waiting.threads.entry(key.clone()).or_default().push(Waiter { no, after, is_new: true, tell });
        drop(waiting);
        self.news.notify_all();
        Wait { notices: Arc::clone(self), key, no, told }
    }

    /// Wakes those who wait for a thread.
    pub(crate) fn wake(&self, key: &ThreadKey) {
        let mut waiting = self.lock();
        // Most of the time nobody waits for anything.
        let waiters = if waiting.threads.is_empty() { None } else { waiting.threads.remove(key) };
        drop(waiting);
        tell(waiters.into_iter().flatten());
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        let threads = std::mem::take(&mut self.lock().threads);
        tell(threads.into_values().flatten());
    }

    /// Ends the thread that watches other processes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_all();
    }

    /// Sleeps until somebody waits; false once the store is closed.
    fn somebody_waits(&self) -> bool {
        let idle = |it: &mut Waiting| it.threads.is_empty() && !it.closed;
        let waiting = self.news.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        !waiting.closed
    }

    /// Sleeps for a while, or until the store is closed.
    fn pause(&self, pause: Duration) {
        let _ = self.news.wait_timeout_while(self.lock(), pause, |it| !it.closed);
    }

    /// Returns those to look at, each with the least that it waits for.
    fn to_look_at(&self, everybody: bool) -> Vec<(ThreadKey, Seq)> {
        let mut waiting = self.lock();
        let wanted = waiting.threads.iter_mut().filter_map(|(key, waiters)| {
            let is_wanted = everybody || waiters.iter().any(|it| it.is_new);
            waiters.iter_mut().for_each(|it| it.is_new = false);
            let after = waiters.iter().map(|it| it.after).min()?;
            is_wanted.then(|| (key.clone(), after))
        });
        wanted.collect()
    }
}

/// Outside of the lock: whoever is told may run right here.
fn tell(waiters: impl Iterator<Item = Waiter>) {
    for waiter in waiters {
        let _ = waiter.tell.send(());
    }
}

/// Starts the thread that watches other processes.
pub(crate) fn watch(
    path: &Path,
    place: &Place,
    busy: Duration,
    pause: Duration,
    notices: &Arc<Notices>,
) -> Result<JoinHandle<()>, StoreError> {
    let conn = open_reader(path, place, busy)?;
    let notices = Arc::clone(notices);
    let run = move || {
        let mut seen = None;
        while notices.somebody_waits() {
            // Whoever waits reads the log next, and meets the trouble there.
            if look(&conn, &notices, &mut seen).is_err() {
                notices.wake_all();
            }
            notices.pause(pause);
        }
    };
    let thread = std::thread::Builder::new().name("contexture-watch".to_owned());
    thread.spawn(run).map_err(|err| place.unavailable(err))
}

/// Looks once, and wakes those whose thread has grown or is gone.
fn look(conn: &Connection, notices: &Notices, seen: &mut Option<i64>) -> rusqlite::Result<()> {
    // The version is read first: what is committed from here on changes it again.
    let version = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    let everybody = seen.replace(version) != Some(version);
    for (key, after) in notices.to_look_at(everybody) {
        if end_of(conn, &key)?.is_none_or(|(_, end)| end > after) {
            notices.wake(&key);
        }
    }
    Ok(())
}
