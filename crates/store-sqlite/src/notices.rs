//! Tells waiting readers that a session has grown.
//!
//! Commits of this process wake waiters immediately. Commits of other processes are detected by a thread that polls
//! several times a second, and only while there are waiters.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_session::StoreError;
use rusqlite::Connection;

use crate::failure::StorePath;
use crate::feed::feed_state;
use crate::file::open::open_reader;
use crate::waiters::Waiters;

/// Starts the thread that watches other processes.
pub(crate) fn watch(
    place: &StorePath,
    pause: Duration,
    waiters: &Arc<Waiters>,
) -> Result<JoinHandle<()>, StoreError> {
    let conn = open_reader(place)?;
    let waiters = Arc::clone(waiters);
    let run = move || {
        let mut seen = None;
        while waiters.has_waiters() {
            // A waiter reads the log next, and gets the error there.
            if look(&conn, &waiters, &mut seen).is_err() {
                waiters.wake_all();
            }
            waiters.pause(pause);
        }
    };
    let thread = std::thread::Builder::new().name("contexture-watch".to_owned());
    thread.spawn(run).map_err(|err| place.unavailable(err))
}

/// Polls once, and wakes the waiters of sessions that have changed or were deleted.
fn look(conn: &Connection, waiters: &Waiters, seen: &mut Option<i64>) -> rusqlite::Result<()> {
    // The version is read first: what is committed from here on changes it again.
    let version = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    let is_same = seen.replace(version) == Some(version);
    for session in waiters.sessions().into_iter().filter(|_| !is_same) {
        waiters.wake_behind(&session, feed_state(conn, &session)?);
    }
    Ok(())
}
