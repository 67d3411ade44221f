//! The threads that read, each with a connection of its own.
//!
//! They share one queue; whoever is free takes the next question. A question is one transaction, so it sees the file as
//! it was at one moment.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use contexture_session::StoreError;
use futures::channel::oneshot;
use rusqlite::Connection;

use crate::failure::{Failure, Place};
use crate::open::open_reader;

type Question = Box<dyn FnOnce(&Connection) + Send>;
type Questions = Arc<Mutex<Receiver<Question>>>;

/// The queue in front of the threads. They end when it is gone.
#[derive(Debug)]
pub(crate) struct Readers {
    questions: Sender<Question>,
    place: Place,
}

impl Readers {
    /// Starts `count` threads.
    pub(crate) fn start(
        path: &Path,
        place: &Place,
        busy: Duration,
        count: usize,
    ) -> Result<(Readers, Vec<JoinHandle<()>>), StoreError> {
        let (questions, queue) = channel();
        let queue: Questions = Arc::new(Mutex::new(queue));
        let start = |_| {
            let conn = open_reader(path, place, busy)?;
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name("contexture-read".to_owned())
                .spawn(move || answer(&conn, &queue))
                .map_err(|err| place.unavailable(err))
        };
        let threads = (0..count.max(1)).map(start).collect::<Result<_, _>>()?;
        Ok((Readers { questions, place: place.clone() }, threads))
    }

    /// Queues a question and waits for its answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let question = move |conn: &Connection| {
            if !reply.is_canceled() {
                let _ = reply.send(in_transaction(conn, question));
            }
        };
        self.questions.send(Box::new(question)).map_err(|_| self.place.gone())?;
        let answer = answer.await.map_err(|_| self.place.gone())?;
        answer.map_err(|err| self.place.failure(err))
    }
}

fn answer(conn: &Connection, queue: &Questions) {
    loop {
        // The lock is held while waiting, and released before the question is answered.
        let question = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match question {
            Ok(question) => question(conn),
            Err(_) => return,
        }
    }
}

fn in_transaction<T>(
    conn: &Connection,
    question: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let answer = question(conn);
    // Nothing was written: it only has to end.
    let end = conn.prepare_cached("COMMIT").and_then(|mut it| it.execute([]));
    if end.is_err() && !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    answer
}
