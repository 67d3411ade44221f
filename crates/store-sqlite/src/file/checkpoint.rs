//! Keeps the write-ahead log short without making appends wait for it.
//!
//! A separate thread copies the log into the file while the writer continues. The few pages appended in the meantime
//! are copied by the writer itself, so that the log is briefly fully copied and restarts. Only if readers prevent that
//! for long does the writer wait for them, so the log never grows without bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_session::StoreError;
use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::open::open_reader;
use crate::failure::StorePath;

/// From this length on, in bytes, the log is copied into the file.
const SOFT: u64 = 8 << 20;
/// Between two attempts of the writer to finish the copy.
const AGAIN: u64 = 1 << 20;
/// From this length on the writer waits for readers that are in the way, and again each time it grew by as much.
const HARD: u64 = 64 << 20;
/// How long it waits for them.
const PATIENCE: Duration = Duration::from_millis(250);

/// The writer's view of the log. The checkpoint thread ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    ask: SyncSender<()>,
    /// How long the log is, in pages, as SQLite said at the last commit.
    pages: Arc<AtomicU32>,
    /// The thread has finished its copy.
    copied: Arc<AtomicBool>,
    stage: Stage,
    length_when_idle: u64,
    /// From this length on readers that are in the way are waited for.
    hard: u64,
    page_bytes: u32,
    busy: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All of the log is in the file, or soon will be: there was nothing to do for a while.
    Idle,
    /// The log is short, and what is in it is not in the file.
    Short,
    /// The thread was asked to copy.
    Copying,
    /// Copied up to a few pages; the writer tries to finish when the log has this length.
    Finishing(u64),
}

impl Checkpoints {
    /// Starts the thread, and listens to the commits of `writer`.
    pub(crate) fn start(
        place: &StorePath,
        writer: &mut Connection,
    ) -> Result<(Checkpoints, JoinHandle<()>), StoreError> {
        let pages = Arc::new(AtomicU32::new(0));
        let pages_written = Arc::clone(&pages);
        let listen = move |_: &mut Wal, length: i32| {
            pages_written.store(u32::try_from(length).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        writer.wal_hook(Some(listen)).map_err(|err| place.error(&err))?;
        let page_bytes = writer.pragma_query_value(None, "page_size", |row| row.get(0));
        let page_bytes = page_bytes.map_err(|err| place.error(&err))?;
        let conn = open_reader(place)?;
        let (ask, asked) = sync_channel(1);
        let copied = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&copied);
        let copy = move |()| {
            checkpoint(&conn, "PASSIVE");
            done.store(true, Ordering::Release);
        };
        let thread = place.spawn("checkpoint", move || asked.into_iter().for_each(copy))?;
        let (stage, length_when_idle, hard, busy) = (Stage::Idle, 0, HARD, place.busy);
        Ok((Checkpoints { ask, pages, copied, stage, length_when_idle, hard, page_bytes, busy }, thread))
    }

    /// Whether [`Checkpoints::after_commit`] has something to do.
    pub(crate) fn is_due(&self) -> bool {
        let length = self.length();
        match self.stage {
            Stage::Idle => true,
            Stage::Short => length >= SOFT,
            Stage::Copying => self.copied.load(Ordering::Acquire),
            Stage::Finishing(next) => length < SOFT || length >= next,
        }
    }

    /// Whether there is something to copy once there is nothing else to do.
    pub(crate) fn is_due_when_idle(&self) -> bool {
        self.stage != Stage::Idle && self.length() > 0
    }

    /// Copies in the background if there was no commit since the last call.
    pub(crate) fn when_idle(&mut self) {
        let length = self.length();
        if std::mem::replace(&mut self.length_when_idle, length) == length {
            self.ask();
            self.stage = Stage::Idle;
        }
    }

    fn length(&self) -> u64 {
        u64::from(self.pages.load(Ordering::Relaxed)) * u64::from(self.page_bytes)
    }

    /// Looks at the length of the log after a commit of `writer`.
    pub(crate) fn after_commit(&mut self, writer: &Connection) {
        let length = self.length();
        self.stage = match self.stage {
            _ if length < SOFT => {
                self.hard = HARD;
                Stage::Short
            }
            Stage::Short | Stage::Idle => {
                self.ask();
                Stage::Copying
            }
            Stage::Copying if !self.copied.load(Ordering::Acquire) => Stage::Copying,
            Stage::Finishing(next) if length < next => Stage::Finishing(next),
            Stage::Copying | Stage::Finishing(_) => {
                self.finish(writer, length);
                Stage::Finishing(length + AGAIN)
            }
        };
    }

    /// Copies the rest. The next commit starts at the beginning of the log, unless a reader is in the way.
    fn finish(&mut self, writer: &Connection, length: u64) {
        if length < self.hard {
            return checkpoint(writer, "PASSIVE");
        }
        // A reader that does not end is not waited for each time.
        self.hard = length + HARD;
        let _ = writer.busy_timeout(PATIENCE);
        checkpoint(writer, "RESTART");
        let _ = writer.busy_timeout(self.busy);
    }

    fn ask(&self) {
        self.copied.store(false, Ordering::Release);
        // A full queue means that it is about to copy anyway.
        let _ = self.ask.try_send(());
    }
}

/// Copies as much as possible. A partial copy is not an error: the log stays, and the next attempt may succeed.
fn checkpoint(conn: &Connection, mode: &str) {
    let _ = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
}
