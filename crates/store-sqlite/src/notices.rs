//! Tells waiting readers that a session has grown.
//!
//! Commits of this process wake waiters immediately. Commits of other processes are detected by a thread that polls
//! several times a second, and only while there are waiters. It asks the connection that writes: the version that one
//! sees changes with the commits of others only.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_session::StoreError;
use rusqlite::Connection;

use crate::failure::StorePath;
use crate::feed::feed_state;
use crate::file::open::open_reader;
use crate::file::writer::Writer;
use crate::waiters::Waiters;

/// Starts the thread that watches other processes.
pub(crate) fn watch(
    place: &StorePath,
    pause: Duration,
    waiters: &Arc<Waiters>,
    writer: &Writer,
) -> Result<JoinHandle<()>, StoreError> {
    let conn = open_reader(place)?;
    let (waiters, file) = (Arc::clone(waiters), writer.file());
    let run = move || {
        let mut seen = None;
        while waiters.has_waiters() {
            // A waiter reads the log next, and gets the error there.
            let version = file.lock().data_version();
            if version.and_then(|it| look(&conn, &waiters, seen.replace(it) == Some(it))).is_err() {
                waiters.wake_all();
            }
            waiters.pause(pause);
        }
    };
    place.spawn("watch", run)
}

/// Polls once, and wakes the waiters of sessions that have changed or were deleted. The version was read before: what
/// is committed from here on changes it again.
fn look(conn: &Connection, waiters: &Waiters, is_same: bool) -> rusqlite::Result<()> {
    for session in waiters.sessions().into_iter().filter(|_| !is_same) {
        waiters.wake_behind(&session, feed_state(conn, &session)?);
    }
    Ok(())
}
