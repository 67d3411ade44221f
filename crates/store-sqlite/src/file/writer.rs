//! Writing: one connection, one transaction at a time.
//!
//! The writer thread takes all queued changes into one transaction, commits once, and then replies to all: a commit
//! costs one disk sync, however many changes share it.
//!
//! A small change that is alone is made in the caller's thread, see [`LatencyTracker`].
//!
//! A change that nothing waits for is held for a moment: the next one takes it into its transaction.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contexture_session::StoreError;
use futures::channel::oneshot;
use rusqlite::Connection;

use super::checkpoint::Checkpoints;
use super::commit::{Batch, Change, File, Pending, pending};
use super::identity::Identity;
use super::latency::{LatencyTracker, spin_until};
use crate::failure::{Failure, StorePath};
use crate::waiters::Waiters;

/// The most changes in one transaction, so that the first of them does not wait too long.
const MAX_BATCH: usize = 512;
/// How long to wait for a change that is about to be queued.
const GATHER: Duration = Duration::from_micros(100);
/// How long a transaction takes in changes.
const MAX_GATHER: Duration = Duration::from_millis(5);
/// After so long without work the write-ahead log is copied into the file.
const IDLE: Duration = Duration::from_millis(200);
/// How long a change is held that nothing waits for.
const HOLD: Duration = Duration::from_millis(5);
/// Unfinished texts of turns that are over.
const REMOVE_OUTDATED: &str =
    "DELETE FROM unfinished WHERE log IN (SELECT no FROM logs WHERE needs_writer = 0)";

/// The handle of the writer thread. The thread ends after finishing its queue when the handle is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    commands: Sender<Command>,
    shared: Arc<WriterShared>,
}

/// State shared by the writer thread and its callers.
#[derive(Debug)]
pub(crate) struct WriterShared {
    file: Mutex<File>,
    held: Mutex<HeldChanges>,
    latency: LatencyTracker,
    place: StorePath,
    waiters: Arc<Waiters>,
}

/// Changes that wait for one to share its transaction.
#[derive(Debug, Default)]
struct HeldChanges {
    changes: Batch,
    /// When the first of them came.
    since: Option<Instant>,
    /// Whether the thread watches them. Waking it for each costs more than the change.
    is_watched: bool,
}

enum Command {
    Change(Box<dyn Pending>),
    /// There are held changes that the thread does not watch.
    Held,
    /// Write the held changes.
    WriteHeld,
    Vacuum(oneshot::Sender<Result<(), StoreError>>),
    /// Look after the write-ahead log.
    Tidy,
}

impl Writer {
    /// Starts the writer thread.
    pub(crate) fn start(
        conn: Connection,
        identity: Arc<Identity>,
        place: StorePath,
        waiters: Arc<Waiters>,
        checkpoints: Checkpoints,
    ) -> Result<(Writer, JoinHandle<()>), StoreError> {
        let (commands, queue) = channel();
        let is_synced = Cell::new(true);
        let file = Mutex::new(File { conn, place: place.clone(), identity, checkpoints, is_synced });
        let (held, latency) = (Mutex::default(), LatencyTracker::default());
        let shared = Arc::new(WriterShared { file, held, latency, place: place.clone(), waiters });
        let work = WriterThread { queue, shared: Arc::clone(&shared), next: None, held_until: None };
        let thread = place.spawn("write", || work.run())?;
        Ok((Writer { commands, shared }, thread))
    }

    /// Returns the file that it writes.
    pub(crate) fn file(&self) -> Arc<WriterShared> {
        Arc::clone(&self.shared)
    }

    /// Makes a change and waits until it is durable or refused. `prepare` is the part that needs no connection; of
    /// many changes, one is prepared while another is made.
    pub(crate) async fn make<T, F>(
        &self,
        prepare: impl FnOnce() -> Result<Change<F>, StoreError>,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let operation = self.shared.latency.begin();
        let can_run_inline = operation.can_run_inline().await;
        let change = prepare()?;
        let (can_run_inline, is_held) = (can_run_inline && change.is_small, change.is_held);
        let (pending, answer) = pending(change);
        if is_held {
            // While it is held, it is nothing that others should wait for.
            drop(operation);
            self.hold(pending)?;
            return answer.await.map_err(|_| self.shared.place.gone())?;
        }
        let rest = if can_run_inline { self.make_inline(pending) } else { Some(pending) };
        if let Some(pending) = rest {
            self.send(Command::Change(pending))?;
        }
        answer.await.map_err(|_| self.shared.place.gone())?
    }

    fn hold(&self, pending: Box<dyn Pending>) -> Result<(), StoreError> {
        let mut held = self.shared.held();
        held.changes.push(pending);
        held.since.get_or_insert_with(Instant::now);
        let is_watched = std::mem::replace(&mut held.is_watched, true);
        drop(held);
        if is_watched { Ok(()) } else { self.send(Command::Held) }
    }

    /// Makes a change on this thread, with those that are held, and replies. Returns it if another thread is writing.
    fn make_inline(&self, pending: Box<dyn Pending>) -> Option<Box<dyn Pending>> {
        let Some(file) = self.shared.try_lock() else { return Some(pending) };
        let since = Instant::now();
        let mut batch = self.shared.take_held();
        batch.push(pending);
        let is_made = file.write_unless_busy(&mut batch);
        self.shared.latency.took(since.elapsed());
        let is_due = file.checkpoints.is_due();
        if !is_made {
            let pending = batch.pop();
            // In front: they came first, and have waited already. With the file locked, so that the transaction that
            // takes this change takes them too.
            self.shared.held().changes.splice(..0, batch);
            return pending;
        }
        drop(file);
        batch.into_iter().for_each(|it| self.shared.answer(it));
        if is_due {
            // If the thread has ended, the next change reports it.
            let _ = self.send(Command::Tidy);
        }
        None
    }

    /// Gives free space back to the file system.
    pub(crate) async fn vacuum(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Vacuum(reply))?;
        answer.await.map_err(|_| self.shared.place.gone())?
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        self.commands.send(command).map_err(|_| self.shared.place.gone())
    }
}

impl WriterShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, File> {
        // A transaction that a panic left open is undone before the next one begins.
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file unless it is being written.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, File>> {
        self.file.try_lock().ok()
    }

    fn held(&self) -> MutexGuard<'_, HeldChanges> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is held, for a transaction that begins now. The file is locked, so that their order is kept.
    fn take_held(&self) -> Batch {
        let mut held = self.held();
        held.since = None;
        std::mem::take(&mut held.changes)
    }

    /// Returns until when held changes may wait. If there are none, the thread no longer watches them.
    fn held_until(&self) -> Option<Instant> {
        let mut held = self.held();
        held.is_watched = !held.changes.is_empty();
        held.is_watched.then(|| held.since.map_or_else(Instant::now, |it| it + HOLD))
    }

    /// Sends the outcome of a change to its waiters. Never with the lock held: they may write next.
    fn answer(&self, change: Box<dyn Pending>) {
        if let Some(log) = change.touched() {
            self.waiters.wake(log, || change.appended());
        }
        change.answer(&self.place);
    }
}

/// The thread that writes.
struct WriterThread {
    queue: Receiver<Command>,
    shared: Arc<WriterShared>,
    /// An order that came while a batch was gathered and can't be part of one.
    next: Option<Command>,
    /// When held changes are written at the latest.
    held_until: Option<Instant>,
}

impl Drop for WriterThread {
    /// After a panic nothing is written any more: callers are told instead of waiting for it.
    fn drop(&mut self) {
        let mut held = self.shared.held();
        held.is_watched = false;
        let lost = std::mem::take(&mut held.changes);
        drop((held, lost));
    }
}

impl WriterThread {
    fn run(mut self) {
        while let Some(command) = self.next_command() {
            match command {
                Command::Change(first) => {
                    self.write(Some(first));
                    self.shared.lock().tidy();
                }
                Command::WriteHeld => {
                    self.write(None);
                    self.held_until = self.shared.held_until();
                    self.shared.lock().tidy();
                }
                Command::Held => self.held_until = self.shared.held_until(),
                Command::Vacuum(reply) => {
                    let _ = reply.send(self.vacuum());
                }
                Command::Tidy => self.shared.lock().tidy(),
            }
        }
        self.write(None);
    }

    fn vacuum(&self) -> Result<(), StoreError> {
        let file = self.shared.lock();
        file.check()?;
        vacuum(&file.conn).map_err(|err| self.shared.place.error(&err))
    }

    /// Writes a change together with those that are held, those in the queue and those about to be queued.
    fn write(&mut self, first: Option<Box<dyn Pending>>) {
        let shared = Arc::clone(&self.shared);
        let file = shared.lock();
        let since = Instant::now();
        let mut batch = shared.take_held();
        let n_held = batch.len();
        batch.extend(first);
        let Some(last) = batch.last() else { return };
        let is_lazy = last.is_lazy();
        file.write(&mut batch, |count| self.next_change(count - n_held, since, is_lazy));
        // Only the duration of a single change tells whether it could run inline. Lazy ones say nothing about the disk.
        if batch.len() == 1 && !is_lazy {
            shared.latency.took(since.elapsed());
        }
        drop(file);
        batch.into_iter().for_each(|it| shared.answer(it));
    }

    /// Returns one more change for a batch of `count`, which is being made already. What waits for the disk can't
    /// join a lazy batch.
    fn next_change(&mut self, count: usize, since: Instant, is_lazy: bool) -> Option<Box<dyn Pending>> {
        if count >= MAX_BATCH || since.elapsed() > MAX_GATHER {
            return None;
        }
        let mut change = None;
        spin_until(GATHER, || {
            match self.next.is_none().then(|| self.queue.try_recv()) {
                Some(Ok(Command::Change(next))) if next.is_lazy() || !is_lazy => change = Some(next),
                Some(Ok(Command::Held)) => self.held_until = self.shared.held_until(),
                Some(Ok(Command::Tidy)) | None => {}
                Some(Ok(other)) => self.next = Some(other),
                Some(Err(_)) => {}
            }
            // All pending changes are in the batch.
            change.is_some() || self.next.is_some() || count >= self.shared.latency.open()
        });
        change
    }

    fn next_command(&mut self) -> Option<Command> {
        if let Some(command) = self.next.take() {
            return Some(command);
        }
        loop {
            let until_idle = self.shared.lock().checkpoints.is_due_when_idle().then_some(IDLE);
            let until_held = self.held_until.map(|it| it.saturating_duration_since(Instant::now()));
            let Some(timeout) = until_held.into_iter().chain(until_idle).min() else {
                return self.queue.recv().ok();
            };
            match self.queue.recv_timeout(timeout) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if is_past(self.held_until) => {
                    // Others may have written them since, and more may have come.
                    self.held_until = self.shared.held_until();
                    if is_past(self.held_until) {
                        return Some(Command::WriteHeld);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.shared.lock().checkpoints.when_idle(),
            }
        }
    }
}

fn is_past(time: Option<Instant>) -> bool {
    time.is_some_and(|it| it <= Instant::now())
}

fn vacuum(conn: &Connection) -> rusqlite::Result<()> {
    // Words of what was deleted stay in the index until its parts are merged.
    conn.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
    conn.execute("INSERT INTO chunk_words (chunk_words) VALUES ('optimize')", [])?;
    conn.execute(REMOVE_OUTDATED, [])?;
    conn.execute_batch("VACUUM")?;
    // Best effort: readers of older pages keep the log, and the next checkpoint cuts it.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::future::join_all;

    use super::{
        Arc, Change, Checkpoints, Connection, Duration, Failure, Identity, StoreError, StorePath, Writer,
    };
    use crate::file::open::open_writer;

    /// Adds a session and a number of blobs of 100 KB, or fails after the session.
    struct Add {
        name: String,
        blobs: usize,
        fails: bool,
    }

    impl Add {
        fn make(&self, conn: &Connection) -> Result<(), Failure> {
            let sql = "INSERT INTO sessions (tenant, name, created) VALUES ('default', ?1, 0)";
            conn.execute(sql, [&self.name])?;
            for no in 0..self.blobs {
                let sql = "INSERT INTO blobs (tenant, hash, bytes, body) VALUES (?1, ?2, 0, ?3)";
                conn.execute(sql, rusqlite::params![self.name, no.to_string(), "x".repeat(100_000)])?;
            }
            if self.fails {
                conn.execute("INSERT INTO nowhere VALUES (1)", [])?;
            }
            Ok(())
        }
    }

    /// Makes concurrent changes in a file of at most `pages` pages. Returns the outcomes, and the names in the file.
    fn made(pages: u32, changes: Vec<Add>) -> (Vec<Result<(), StoreError>>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("contexture.db");
        let place = StorePath::new(&path, Duration::from_secs(1));
        let mut conn = open_writer(&place).expect("a file");
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).expect("a limit");
        let (checkpoints, copying) = Checkpoints::start(&place, &mut conn).expect("a thread");
        let (writer, writing) =
            Writer::start(conn, Arc::new(Identity::of(&path)), place, Arc::default(), checkpoints)
                .expect("a thread");
        let outcomes = block_on(join_all(
            changes.into_iter().map(|add| writer.make(move || Ok(Change::new(move |conn| add.make(conn))))),
        ));
        drop(writer);
        writing.join().expect("an end");
        copying.join().expect("an end");
        let conn = Connection::open(&path).expect("a file");
        let mut names = conn.prepare("SELECT name FROM sessions ORDER BY name").expect("a query");
        let names = names.query_map([], |row| row.get(0)).expect("names").map(|it| it.expect("a name"));
        (outcomes, names.collect())
    }

    fn add(name: &str, blobs: usize, fails: bool) -> Add {
        Add { name: name.to_owned(), blobs, fails }
    }

    #[test]
    fn a_failing_change_does_not_affect_others() {
        let changes = vec![add("a", 0, false), add("b", 0, true), add("c", 0, false)];
        let (outcomes, names) = made(1_000, changes);
        assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn a_full_disk_is_said_and_leaves_nothing_behind() {
        let (outcomes, names) = made(50, vec![add("a", 0, false), add("b", 10, false), add("c", 0, false)]);
        let err = outcomes[1].as_ref().expect_err("it does not fit");
        assert!(err.to_string().ends_with("is not available: database or disk is full"), "{err}");
        assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
        assert_eq!(names, ["a", "c"]);
    }
}
