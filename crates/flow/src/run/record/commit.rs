//! What a driver writes: each commit requires the driver's fence, so a driver that was taken over can't write.

use std::sync::Arc;

use contexture_history::Timestamp;
use contexture_session::{Document, DocumentKey, NewRecord, Records, StoreError, Time, Writes};

use super::written;
use crate::keys::Keys;
use crate::{RunError, RunEvent};

/// A driver's right to write.
#[derive(Clone, Debug)]
pub(crate) struct WriteGuard {
    pub(crate) keys: Keys,
    pub(crate) epoch: u64,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) time: Arc<dyn Time>,
}

/// The content of one commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<RunEvent>,
    pub(crate) puts: Vec<Document>,
    pub(crate) deletes: Vec<DocumentKey>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.puts.is_empty() && self.deletes.is_empty()
    }
}

impl WriteGuard {
    /// Writes a batch and its extra records as one commit, and returns the number of the batch's last event, if there
    /// is one. If the outcome of the commit is unknown, the driver gives up; the next driver learns it from the log.
    pub(crate) async fn write(
        &self,
        batch: Batch,
        extra_records: Vec<NewRecord>,
    ) -> Result<Option<u64>, RunError> {
        if batch.is_empty() {
            return Ok(None);
        }
        let at = self.time.now();
        let stream = self.keys.log();
        let record = |event: &RunEvent| NewRecord { stream: stream.clone(), at, data: written(event) };
        let writes = Writes {
            records: batch.events.iter().map(record).chain(extra_records).collect(),
            puts: batch.puts,
            deletes: batch.deletes,
            requires: vec![self.keys.fence(self.epoch)],
            ..Writes::default()
        };
        match self.records.write(writes).await {
            Ok(numbers) => Ok(numbers.into_iter().take(batch.events.len()).next_back()),
            Err(StoreError::NotFound { .. }) => Err(RunError::Driven { run: self.keys.run.to_string() }),
            Err(err) => Err(err.into()),
        }
    }

    /// Renews the lease. A brief outage of the store is no reason to stop working.
    pub(crate) async fn beat(&self, at: Timestamp) -> Result<(), RunError> {
        let due = Document { key: self.keys.due(), at, data: self.epoch.to_string() };
        match self.write(Batch { puts: vec![due], ..Batch::default() }, Vec::new()).await {
            Err(RunError::Store(StoreError::Unavailable { .. })) => Ok(()),
            done => done.map(|_| ()),
        }
    }
}
