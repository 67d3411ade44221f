//! The one thread that writes.
//!
//! It takes everything that is queued into one transaction, commits once, and then answers all: a commit costs one
//! disk sync, however many changes share it. Each change is checked on its own inside the transaction; a refused one
//! has written nothing. If SQLite fails at one of them, the transaction is undone and each is tried alone, so that
//! nobody pays for another's trouble.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_session::{StoreError, ThreadKey};
use futures::channel::oneshot;
use rusqlite::Connection;

use crate::checkpoint::Checkpoints;
use crate::failure::{Failure, Place};
use crate::notice::Notices;

/// The most changes of one transaction, so that the first of them need not wait for ever.
const MAX_BATCH: usize = 512;
/// After so long without work the write-ahead log is copied into the file.
const IDLE: Duration = Duration::from_millis(200);

/// A change of the file. It is called once more if the transaction it was part of did not go through.
pub(crate) trait Change: Send + 'static {
    /// What it gives.
    type Output: Send + 'static;

    /// Makes the change, inside a transaction. A refusal must come before the first write.
    fn make(&self, conn: &Connection) -> Result<Self::Output, Failure>;

    /// Who must hear of it once it is durable.
    fn touched(&self) -> Touched<'_> {
        Touched::Nothing
    }
}

/// Whose waiting readers must look again.
pub(crate) enum Touched<'a> {
    Nothing,
    Thread(&'a ThreadKey),
    Everything,
}

/// The queue in front of the thread. The thread ends when the queue is gone, after the work in it.
#[derive(Debug)]
pub(crate) struct Writer {
    orders: Sender<Order>,
    place: Place,
}

enum Order {
    Change(Box<dyn Pending>),
    Vacuum(oneshot::Sender<Result<(), StoreError>>),
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(
        conn: Connection,
        place: Place,
        notices: Arc<Notices>,
        checkpoints: Checkpoints,
    ) -> std::io::Result<(Writer, JoinHandle<()>)> {
        let (orders, queue) = channel();
        let work = Work { conn, queue, place: place.clone(), notices, checkpoints, next: None };
        let thread = std::thread::Builder::new().name("contexture-write".to_owned()).spawn(|| work.run())?;
        Ok((Writer { orders, place }, thread))
    }

    /// Queues a change and waits until it is durable or refused.
    pub(crate) async fn make<C: Change>(&self, change: C) -> Result<C::Output, StoreError> {
        let (reply, answer) = oneshot::channel();
        let pending = Box::new(Asked { change, outcome: None, reply });
        self.orders.send(Order::Change(pending)).map_err(|_| self.place.gone())?;
        answer.await.map_err(|_| self.place.gone())?
    }

    /// Gives free space back to the file system.
    pub(crate) async fn vacuum(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Vacuum(reply)).map_err(|_| self.place.gone())?;
        answer.await.map_err(|_| self.place.gone())?
    }
}

/// A change with the one who asked for it.
struct Asked<C: Change> {
    change: C,
    outcome: Option<Result<C::Output, StoreError>>,
    reply: oneshot::Sender<Result<C::Output, StoreError>>,
}

trait Pending: Send {
    fn make(&mut self, conn: &Connection) -> rusqlite::Result<()>;
    fn touched(&self) -> Touched<'_>;
    /// Tells the outcome, after the commit.
    fn answer(self: Box<Self>, place: &Place);
    fn fail(self: Box<Self>, err: StoreError);
}

impl<C: Change> Pending for Asked<C> {
    fn make(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.outcome = Some(match self.change.make(conn) {
            Ok(output) => Ok(output),
            Err(Failure::Refused(err)) => Err(err),
            Err(Failure::Broken(err)) => return Err(err),
        });
        Ok(())
    }

    fn touched(&self) -> Touched<'_> {
        match self.outcome {
            Some(Ok(_)) => self.change.touched(),
            _ => Touched::Nothing,
        }
    }

    fn answer(self: Box<Self>, place: &Place) {
        let outcome = self.outcome.unwrap_or_else(|| Err(place.gone()));
        // Whoever asked may have left; the change stands.
        let _ = self.reply.send(outcome);
    }

    fn fail(self: Box<Self>, err: StoreError) {
        let _ = self.reply.send(Err(err));
    }
}

struct Work {
    conn: Connection,
    queue: Receiver<Order>,
    place: Place,
    notices: Arc<Notices>,
    checkpoints: Checkpoints,
    /// An order that came while a batch was gathered and can't be part of one.
    next: Option<Order>,
}

impl Work {
    fn run(mut self) {
        while let Some(order) = self.next_order() {
            match order {
                Order::Change(first) => {
                    let batch = self.gather(first);
                    self.write(batch);
                    self.checkpoints.after_commit(&self.conn);
                }
                Order::Vacuum(reply) => {
                    let _ = reply.send(vacuum(&self.conn).map_err(|err| self.place.error(&err)));
                }
            }
        }
    }

    fn next_order(&mut self) -> Option<Order> {
        if let Some(order) = self.next.take() {
            return Some(order);
        }
        if self.checkpoints.is_due_when_idle() {
            match self.queue.recv_timeout(IDLE) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.checkpoints.when_idle(),
            }
        }
        self.queue.recv().ok()
    }

    /// Takes along what is queued behind the first.
    fn gather(&mut self, first: Box<dyn Pending>) -> Vec<Box<dyn Pending>> {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH {
            match self.queue.try_recv() {
                Ok(Order::Change(change)) => batch.push(change),
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        batch
    }

    fn write(&self, mut batch: Vec<Box<dyn Pending>>) {
        match self.attempt(&mut batch) {
            Ok(()) => self.answer(batch),
            Err(Undone::InBatch(_)) if batch.len() > 1 => {
                for change in batch {
                    self.write(vec![change]);
                }
            }
            Err(Undone::InBatch(err) | Undone::NotBegun(err)) => {
                batch.into_iter().for_each(|it| it.fail(self.place.error(&err)));
            }
        }
    }

    fn attempt(&self, batch: &mut [Box<dyn Pending>]) -> Result<(), Undone> {
        // IMMEDIATE: what a change reads can't be outdated by another process when it writes.
        self.step("BEGIN IMMEDIATE").map_err(Undone::NotBegun)?;
        let made = batch.iter_mut().try_for_each(|it| it.make(&self.conn)).and_then(|()| self.step("COMMIT"));
        made.map_err(|err| {
            // Some errors end the transaction by themselves.
            if !self.conn.is_autocommit() {
                let _ = self.step("ROLLBACK");
            }
            Undone::InBatch(err)
        })
    }

    fn step(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    fn answer(&self, batch: Vec<Box<dyn Pending>>) {
        for change in batch {
            match change.touched() {
                Touched::Nothing => {}
                Touched::Thread(key) => self.notices.wake(key),
                Touched::Everything => self.notices.wake_all(),
            }
            change.answer(&self.place);
        }
    }
}

enum Undone {
    NotBegun(rusqlite::Error),
    InBatch(rusqlite::Error),
}

fn vacuum(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("VACUUM")?;
    // Best effort: readers of older pages keep the log, and the next checkpoint cuts it.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
