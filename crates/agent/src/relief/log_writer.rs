//! Where a conversation is compacted: in a running turn, or on a thread before a turn begins.

use std::sync::Arc;

use contexture_session::{NewArchive, NewItem, RunningTurn, SessionError, Snapshot, Thread, View};
use tokio_util::sync::CancellationToken;

use crate::AgentError;

/// Where a conversation is compacted. All writes go through the thread's single writer.
pub(crate) enum LogWriter<'a> {
    /// In a running turn.
    Turn(&'a mut RunningTurn),
    /// On a thread, outside of any turn.
    Thread(&'a Thread),
}

impl LogWriter<'_> {
    pub(crate) fn thread(&self) -> Thread {
        match self {
            LogWriter::Turn(turn) => turn.thread(),
            LogWriter::Thread(thread) => (*thread).clone(),
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        match self {
            LogWriter::Turn(turn) => turn.snapshot(),
            LogWriter::Thread(thread) => thread.get(),
        }
    }

    pub(crate) fn is_turn(&self) -> bool {
        matches!(self, LogWriter::Turn(_))
    }

    pub(crate) async fn append(&mut self, items: Vec<NewItem>) -> Result<(), SessionError> {
        match self {
            LogWriter::Turn(turn) => turn.append(items).await.map(drop),
            LogWriter::Thread(thread) => thread.add(items).await.map(drop),
        }
    }

    pub(crate) async fn archive(&mut self, view: &View, new: &NewArchive) -> Result<(), SessionError> {
        match self {
            LogWriter::Turn(turn) => turn.archive(view, new).await,
            LogWriter::Thread(thread) => thread.archive_range(view, new).await.map(drop),
        }
    }

    /// Waits for work between two appends: a turn renews its lease meanwhile, and cancelling the run ends the wait.
    pub(crate) async fn attend<T>(
        &mut self,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, AgentError>> + Send,
    ) -> Result<T, AgentError> {
        let work = Box::pin(cancel.run_until_cancelled(work));
        let done = match self {
            LogWriter::Turn(turn) => turn.while_alive(work).await?,
            LogWriter::Thread(_) => work.await,
        };
        done.unwrap_or(Err(AgentError::Cancelled))
    }
}
