//! The threads that read, each with a connection of its own.
//!
//! They share one queue. Of those that are idle the one that worked last takes the next question: its memory is still
//! warm, and nobody else is woken. A question is one transaction, so it sees the file as it was at one moment.
//!
//! A small question that is alone is answered in the caller's thread, see [`Pace`].

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use contexture_session::StoreError;
use futures::channel::oneshot;
use rusqlite::{Connection, ErrorCode};

use crate::failure::{Failure, Place};
use crate::open::open_reader;
use crate::pace::Pace;

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The queue in front of the threads. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Arc<Queue>,
    /// For questions that are answered in the caller's thread.
    here: Mutex<Connection>,
    pace: Pace,
    place: Place,
}

/// How much a question reads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few rows.
    Small,
    /// Any number of rows.
    Large,
}

#[derive(Debug, Default)]
struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Question>,
    /// Threads without work, the one that worked last at the end.
    idle: Vec<Thread>,
    closed: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("questions", &self.questions.len()).finish_non_exhaustive()
    }
}

impl Readers {
    /// Starts `count` threads.
    pub(crate) fn start(
        path: &Path,
        place: &Place,
        busy: Duration,
        count: usize,
    ) -> Result<(Readers, Vec<JoinHandle<()>>), StoreError> {
        let here = open_reader(path, place, busy)?;
        // Nobody waits for other processes in a caller's thread.
        here.busy_timeout(Duration::ZERO).map_err(|err| place.error(&err))?;
        let here = Mutex::new(here);
        let readers = Readers { queue: Arc::default(), here, pace: Pace::default(), place: place.clone() };
        let start = |_| {
            let conn = open_reader(path, place, busy)?;
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
        question: impl Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let operation = self.pace.begin();
        let is_for_here = size == Size::Small && operation.is_for_here().await;
        let answer = match is_for_here.then(|| self.answer_here(&question)).flatten() {
            Some(answer) => answer,
            None => self.queue(size, question).await?,
        };
        answer.map_err(|err| self.place.failure(err))
    }

    /// Answers in this thread; nothing if somebody else has the connection or the file.
    fn answer_here<T>(
        &self,
        question: impl Fn(&Connection) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let conn = match self.here.try_lock() {
            Ok(conn) => conn,
            Err(TryLockError::Poisoned(conn)) => conn.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let since = Instant::now();
        let answer = in_transaction(&conn, question);
        self.pace.took(since.elapsed());
        (!is_busy(&answer)).then_some(answer)
    }

    /// Has one of the threads answer.
    async fn queue<T: Send + 'static>(
        &self,
        size: Size,
        question: impl Fn(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Result<T, Failure>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let question = move |conn: &Connection| {
            if !reply.is_canceled() {
                let since = Instant::now();
                let answer = in_transaction(conn, question);
                let _ = reply.send((answer, since.elapsed()));
            }
        };
        self.queue.push(Box::new(question));
        let (answer, took) = answer.await.map_err(|_| self.place.gone())?;
        if size == Size::Small {
            self.pace.took(took);
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

    fn push(&self, question: Question) {
        let mut waiting = self.lock();
        waiting.questions.push_back(question);
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
        while let Some(question) = self.pop() {
            question(conn);
        }
    }

    fn pop(&self) -> Option<Question> {
        let current = std::thread::current();
        loop {
            let mut waiting = self.lock();
            // Whoever was woken without a reason is still in the list.
            waiting.idle.retain(|it| it.id() != current.id());
            if let Some(question) = waiting.questions.pop_front() {
                return Some(question);
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
    question: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?; // A panic left it open.
    }
    conn.prepare_cached("BEGIN")?.execute([])?;
    let answer = question(conn);
    // Nothing was written: it only has to end.
    let end = conn.prepare_cached("COMMIT").and_then(|mut it| it.execute([]));
    if end.is_err() && !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    answer
}
