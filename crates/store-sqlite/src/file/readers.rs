//! The reader threads, each with its own connection.
//!
//! They share one queue. A query is one transaction, so it sees a consistent file.
//!
//! A small question is answered in the caller's thread, see [`LatencyTracker`]: by the connection that writes if that one
//! is free, since it has the pages in memory that were written last, and the others have to read them again.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contexture_session::StoreError;
use futures::channel::oneshot;
use rusqlite::{Connection, ErrorCode};

use super::commit::in_transaction;
use super::latency::LatencyTracker;
use super::open::open_reader;
use super::writer::WriterShared;
use crate::failure::{Failure, StorePath};

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// The queue in front of the threads. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Sender<Query>,
    /// For questions that are answered in the caller's thread.
    file: Arc<WriterShared>,
    /// The same, while the file is being written.
    inline_conn: Mutex<Connection>,
    latency: LatencyTracker,
    place: StorePath,
}

/// How much a question reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few rows, with one statement: it needs no transaction to see a consistent file.
    Single,
    /// Only a few rows.
    Small,
    /// Any number of rows.
    Large,
}

impl Readers {
    /// Starts `count` reader threads.
    pub(crate) fn start(
        place: &StorePath,
        count: usize,
        file: Arc<WriterShared>,
    ) -> Result<(Readers, Vec<JoinHandle<()>>), StoreError> {
        let inline_conn = open_reader(place)?;
        // A query on a caller's thread never waits for other processes.
        inline_conn.busy_timeout(Duration::ZERO).map_err(|err| place.error(&err))?;
        let inline_conn = Mutex::new(inline_conn);
        let (queue, queries) = channel::<Query>();
        let queries = Arc::new(Mutex::new(queries));
        let (latency, place_of_file) = (LatencyTracker::default(), place.clone());
        let readers = Readers { queue, file, inline_conn, latency, place: place_of_file };
        let start = |_| {
            let (conn, queries) = (open_reader(place)?, Arc::clone(&queries));
            // One thread waits for the next question, the others for their turn to wait.
            let next = move || queries.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let answer = move || std::iter::from_fn(|| next().ok()).for_each(|query| query(&conn));
            place.spawn("read", answer)
        };
        let threads = (0..count.max(1)).map(start).collect::<Result<_, _>>()?;
        Ok((readers, threads))
    }

    /// Asks a question and waits for its answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        size: Size,
        query: impl Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _operation = self.latency.begin();
        // A small one takes less than the way to another thread and back.
        let can_run_inline = size != Size::Large && self.latency.is_quick();
        let answer = match can_run_inline.then(|| self.answer_inline(size, &query)).flatten() {
            Some(answer) => answer,
            None => self.queue(size, query).await?,
        };
        answer.map_err(|err| self.place.failure(err))
    }

    /// Answers on this thread; `None` if the connection or the file is busy.
    fn answer_inline<T>(
        &self,
        size: Size,
        query: impl Fn(&Connection) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let since = Instant::now();
        let answer = match self.file.try_lock() {
            Some(file) => file.without_waiting(|| consistently(&file.conn, size, query)),
            None => match self.inline_conn.try_lock() {
                Ok(conn) => consistently(&conn, size, query),
                Err(TryLockError::Poisoned(conn)) => consistently(&conn.into_inner(), size, query),
                Err(TryLockError::WouldBlock) => return None,
            },
        };
        self.latency.took(since.elapsed());
        let busy = Some(ErrorCode::DatabaseBusy);
        let is_busy = matches!(&answer, Err(Failure::Broken(err)) if err.sqlite_error_code() == busy);
        (!is_busy).then_some(answer)
    }

    /// Has one of the threads answer.
    async fn queue<T: Send + 'static>(
        &self,
        size: Size,
        query: impl Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Result<T, Failure>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let query = move |conn: &Connection| {
            if !reply.is_canceled() {
                let since = Instant::now();
                let _ = reply.send((consistently(conn, size, query), since.elapsed()));
            }
        };
        self.queue.send(Box::new(query)).map_err(|_| self.place.gone())?;
        let (answer, took) = answer.await.map_err(|_| self.place.gone())?;
        if size != Size::Large {
            self.latency.took(took);
        }
        Ok(answer)
    }
}

/// Answers a question so that it sees a consistent file.
fn consistently<T>(
    conn: &Connection,
    size: Size,
    query: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // A transaction that a panic left open is ended first.
    if size == Size::Single && conn.is_autocommit() { query(conn) } else { in_transaction(conn, query) }
}
