//! One transaction for many changes.
//!
//! Each change is checked separately inside the transaction; a refused one has written nothing. If SQLite fails at one
//! of them, the transaction is rolled back and each is tried alone, so that one failing change does not affect the
//! others.
//!
//! A transaction is made only in a file that this program understands and that is still at its path: a newer program
//! may have changed the schema, and writes to a removed file are lost.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use contexture_session::{StoreError, ThreadKey};
use futures::channel::oneshot;
use rusqlite::{Connection, ErrorCode};

use super::checkpoint::Checkpoints;
use super::identity::Identity;
use crate::failure::{Failure, StorePath};
use crate::migrate::VERSION;
use crate::waiters::NewItems;

/// A change of the file.
pub(crate) struct Change<F> {
    pub(crate) make: F,
    /// Whether it is small enough to be made in the caller's thread.
    pub(crate) is_small: bool,
    /// Whether its caller does not wait for the disk.
    pub(crate) is_lazy: bool,
    /// Whether it waits a moment for a change whose transaction it can share. Only for lazy ones that nothing waits for.
    pub(crate) is_held: bool,
    /// The log whose session's waiters must look again once it is made.
    pub(crate) touched: Option<ThreadKey>,
    /// Returns what it has appended, for these waiters.
    pub(crate) appended: Option<Box<dyn Fn() -> Option<NewItems> + Send>>,
}

impl<T, F: Fn(&Connection) -> Result<T, Failure>> Change<F> {
    /// Returns a change that `make` makes, inside a transaction. A refusal must come before the first write. It is
    /// called once more if the transaction it was part of did not go through.
    pub(crate) fn new(make: F) -> Self {
        Self { make, is_small: false, is_lazy: false, is_held: false, touched: None, appended: None }
    }
}

/// A queued change with its reply channel.
struct QueuedChange<T, F> {
    change: Change<F>,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// A change of any kind.
pub(crate) trait Pending: Send {
    /// Makes the change and notes its outcome. An error means that the transaction must go.
    fn make(&mut self, conn: &Connection) -> Result<(), Failure>;
    /// Whether its caller does not wait for the disk.
    fn is_lazy(&self) -> bool;
    /// Returns the log whose session's waiters must look again, if the change was made.
    fn touched(&self) -> Option<&ThreadKey>;
    /// Returns the numbered items that it has appended.
    fn appended(&self) -> Option<NewItems>;
    /// Notes that it was not made.
    fn fail(&mut self, err: StoreError);
    /// Tells the outcome, after the commit.
    fn answer(self: Box<Self>, place: &StorePath);
}

impl std::fmt::Debug for dyn Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("is_lazy", &self.is_lazy()).finish_non_exhaustive()
    }
}

/// Changes that share a transaction.
pub(crate) type Batch = Vec<Box<dyn Pending>>;

/// The future result of a change.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// Returns a change to queue, and the answer that it is going to get.
pub(crate) fn pending<T, F>(change: Change<F>) -> (Box<dyn Pending>, Answer<T>)
where
    T: Send + 'static,
    F: Fn(&Connection) -> Result<T, Failure> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(QueuedChange { change, outcome: None, reply }), answer)
}

impl<T: Send, F: Fn(&Connection) -> Result<T, Failure> + Send> Pending for QueuedChange<T, F> {
    fn make(&mut self, conn: &Connection) -> Result<(), Failure> {
        self.outcome = Some(match (self.change.make)(conn) {
            Err(Failure::Refused(err)) => Err(err),
            output => Ok(output?),
        });
        Ok(())
    }

    fn is_lazy(&self) -> bool {
        self.change.is_lazy
    }

    fn touched(&self) -> Option<&ThreadKey> {
        self.change.touched.as_ref().filter(|_| matches!(self.outcome, Some(Ok(_))))
    }

    fn appended(&self) -> Option<NewItems> {
        self.change.appended.as_ref().and_then(|it| it())
    }

    fn fail(&mut self, err: StoreError) {
        self.outcome = Some(Err(err));
    }

    fn answer(self: Box<Self>, place: &StorePath) {
        let outcome = self.outcome.unwrap_or_else(|| Err(place.gone()));
        // The caller may be gone; the change stands.
        let _ = self.reply.send(outcome);
    }
}

/// The file, as its one writer has it.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) conn: Connection,
    pub(crate) place: StorePath,
    pub(crate) identity: Arc<Identity>,
    pub(crate) checkpoints: Checkpoints,
    /// Whether a commit waits for the disk.
    pub(crate) is_synced: Cell<bool>,
}

impl File {
    /// Makes the changes of `batch`, and those that come `next`, in one transaction. Each knows its outcome then. If
    /// all of `batch` is lazy, so must be what comes next.
    pub(crate) fn write(&self, batch: &mut Batch, next: impl FnMut(usize) -> Option<Box<dyn Pending>>) {
        if let Err(err) = self.try_write(batch, next) {
            batch.iter_mut().for_each(|it| it.fail(self.place.error(&err)));
        }
    }

    /// Makes changes in one transaction, without waiting for another process. False if one is writing.
    pub(crate) fn write_unless_busy(&self, batch: &mut Batch) -> bool {
        match self.without_waiting(|| self.try_write(batch, |_| None)) {
            Ok(()) => true,
            Err(err) if err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => false,
            Err(err) => {
                batch.iter_mut().for_each(|it| it.fail(self.place.error(&err)));
                true
            }
        }
    }

    /// The same; an error means that the transaction was not begun, and that no change knows an outcome.
    fn try_write(
        &self,
        batch: &mut Batch,
        mut next: impl FnMut(usize) -> Option<Box<dyn Pending>>,
    ) -> rusqlite::Result<()> {
        let is_lazy = batch.iter().all(|it| it.is_lazy());
        // Without a transaction each change would wait for the other process again.
        let written = self.transaction(is_lazy, |conn| {
            batch.iter_mut().try_for_each(|it| it.make(conn))?;
            while let Some(mut change) = next(batch.len()) {
                let made = change.make(conn);
                batch.push(change);
                made?;
            }
            Ok(())
        })?;
        let Err(failure) = written else { return Ok(()) };
        match &mut batch[..] {
            [single] => single.fail(self.place.failure(failure)),
            all => all.iter_mut().for_each(|it| {
                let written = self.transaction(it.is_lazy(), |conn| it.make(conn));
                let written = written.unwrap_or_else(|err| Err(err.into()));
                written.unwrap_or_else(|failure| it.fail(self.place.failure(failure)));
            }),
        }
        Ok(())
    }

    /// Does something without waiting for another process.
    pub(crate) fn without_waiting<T>(&self, work: impl FnOnce() -> T) -> T {
        // Setting this number never fails.
        let _ = self.conn.busy_timeout(Duration::ZERO);
        let done = work();
        let _ = self.conn.busy_timeout(self.place.busy);
        done
    }

    /// Returns a number that changes with the commits of other processes.
    pub(crate) fn data_version(&self) -> rusqlite::Result<i64> {
        self.undo();
        self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
    }

    /// Makes a transaction. A lazy one is not synced: the next one that is not syncs both. An SQLite error means that it was
    /// not begun, and that no change is at fault.
    fn transaction(
        &self,
        is_lazy: bool,
        make: impl FnOnce(&Connection) -> Result<(), Failure>,
    ) -> rusqlite::Result<Result<(), Failure>> {
        self.undo();
        self.set_synced(!is_lazy)?;
        // IMMEDIATE: what a change reads can't be outdated by another process when it writes.
        self.step("BEGIN IMMEDIATE")?;
        let made = self.check_version().and_then(|()| {
            make(&self.conn)?;
            // As late as possible: what is acknowledged was in this file.
            self.check_identity()?;
            Ok(self.step("COMMIT")?)
        });
        Ok(made.inspect_err(|_| self.undo()))
    }

    /// Sets whether a commit waits for the disk. It can't be changed within a transaction.
    fn set_synced(&self, is_synced: bool) -> rusqlite::Result<()> {
        if self.is_synced.replace(is_synced) != is_synced {
            let level = if is_synced { "FULL" } else { "NORMAL" };
            self.conn
                .pragma_update(None, "synchronous", level)
                .inspect_err(|_| self.is_synced.set(!is_synced))?;
        }
        Ok(())
    }

    /// Returns why the file can't be written.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.check_version().and_then(|()| self.check_identity()).map_err(|err| self.place.failure(err))
    }

    fn check_identity(&self) -> Result<(), Failure> {
        self.identity.missing().map_or(Ok(()), |it| Err(self.place.missing(it).into()))
    }

    /// Refuses to write to a file whose schema was changed by a newer program.
    fn check_version(&self) -> Result<(), Failure> {
        match self.conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))? {
            newer if newer > VERSION => Err(self.place.newer(newer, VERSION).into()),
            _ => Ok(()),
        }
    }

    /// Ends a transaction that is still open. Some errors end it by themselves.
    fn undo(&self) {
        if !self.conn.is_autocommit() {
            let _ = self.step("ROLLBACK");
        }
    }

    fn step(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Looks after the write-ahead log.
    pub(crate) fn tidy(&mut self) {
        self.checkpoints.after_commit(&self.conn);
    }
}

/// Answers a question in a transaction of its own, so that it sees a consistent file.
pub(crate) fn in_transaction<T>(
    conn: &Connection,
    query: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?; // A panic left it open.
    }
    conn.prepare_cached("BEGIN")?.execute([])?;
    let answer = query(conn);
    // Nothing was written: it only has to end.
    let end = conn.prepare_cached("COMMIT").and_then(|mut it| it.execute([]));
    if end.is_err() && !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    answer
}
