//! The reader threads, each with its own connection.
//!
//! They share one queue. The idle thread that worked last takes the next query: its caches are still warm, and no
//! other thread is woken. A query is one transaction, so it sees a consistent file.
//!
//! A small question that is alone is answered in the caller's thread, see [`LatencyTracker`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use contexture_session::StoreError;
use futures::channel::oneshot;
use rusqlite::{Connection, ErrorCode};

use super::latency::LatencyTracker;
use super::open::open_reader;
use crate::failure::{Failure, StorePath};

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// The queue in front of the threads. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Arc<Queue>,
    /// For questions that are answered in the caller's thread.
    inline_conn: Mutex<Connection>,
    latency: LatencyTracker,
    place: StorePath,
}

/// How much a question reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Only a few rows.
    Small,
    /// Any number of rows.
    Large,
}

#[derive(Debug, Default)]
struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    queries: VecDeque<Query>,
    /// Threads without work, the one that worked last at the end.
    idle: Vec<Thread>,
    closed: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("questions", &self.queries.len()).finish_non_exhaustive()
    }
}

impl Readers {
    /// Starts `count` reader threads.
    pub(crate) fn start(
        place: &StorePath,
        count: usize,
    ) -> Result<(Readers, Vec<JoinHandle<()>>), StoreError> {
        let inline_conn = open_reader(place)?;
        // A query on a caller's thread never waits for other processes.
        inline_conn.busy_timeout(Duration::ZERO).map_err(|err| place.error(&err))?;
        let inline_conn = Mutex::new(inline_conn);
        let readers = Readers {
            queue: Arc::default(),
            inline_conn,
            latency: LatencyTracker::default(),
            place: place.clone(),
        };
        let start = |_| {
            let conn = open_reader(place)?;
            let queue = Arc::clone(&readers.queue);
            std::thread::Builder::new()
                .name("contexture-read".to_owned())
                .spawn(move || queue.answer_with(&conn))
                .map_err(|err| place.unavailable(err))
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
        let operation = self.latency.begin();
        // A small one takes less than the way to another thread and back.
        let can_run_inline = size == Size::Small && operation.is_quick();
        let answer = match can_run_inline.then(|| self.answer_inline(&query)).flatten() {
            Some(answer) => answer,
            None => self.queue(size, query).await?,
        };
        answer.map_err(|err| self.place.failure(err))
    }

    /// Answers on this thread; `None` if the connection or the file is busy.
    fn answer_inline<T>(
        &self,
        query: impl Fn(&Connection) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let conn = match self.inline_conn.try_lock() {
            Ok(conn) => conn,
            Err(TryLockError::Poisoned(conn)) => conn.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let since = Instant::now();
        let answer = in_transaction(&conn, query);
        self.latency.took(since.elapsed());
        (!is_busy(&answer)).then_some(answer)
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
                let answer = in_transaction(conn, query);
                let _ = reply.send((answer, since.elapsed()));
            }
        };
        self.queue.push(Box::new(query));
        let (answer, took) = answer.await.map_err(|_| self.place.gone())?;
        if size == Size::Small {
            self.latency.took(took);
        }
        Ok(answer)
    }
}

fn is_busy<T>(answer: &Result<T, Failure>) -> bool {
    let Err(Failure::Broken(err)) = answer else { return false };
    err.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change of the queue is a single step: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, query: Query) {
        let mut waiting = self.lock();
        waiting.queries.push_back(query);
        let idle = waiting.idle.pop();
        drop(waiting);
        if let Some(thread) = idle {
            thread.unpark();
        }
    }

    fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.idle.drain(..).for_each(|it| it.unpark());
    }

    /// Answers questions until the queue is closed and empty.
    fn answer_with(&self, conn: &Connection) {
        while let Some(query) = self.pop() {
            query(conn);
        }
    }

    fn pop(&self) -> Option<Query> {
        let current = std::thread::current();
        loop {
            let mut waiting = self.lock();
            // A thread that woke up spuriously is still in the list.
            waiting.idle.retain(|it| it.id() != current.id());
            if let Some(query) = waiting.queries.pop_front() {
                return Some(query);
            }
            if waiting.closed {
                return None;
            }
            waiting.idle.push(current.clone());
            drop(waiting);
            std::thread::park();
        }
    }
}

fn in_transaction<T>(
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
