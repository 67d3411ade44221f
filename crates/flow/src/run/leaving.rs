//! How a driver leaves a run: it is over, or everything in it waits for somebody.

use super::book::marks;
use super::driver::{Driver, Ending, Left, Outputs};
use super::error::RunError;
use super::event::{RunEvent, RunStatus};
use super::state::{Phase, State};
use super::task::cancelled;
use crate::node::NodeError;

impl Driver {
    /// Puts the run's end on record.
    pub(super) async fn end(mut self) -> Result<Left, RunError> {
        let stalled = |state: &State| {
            let (node, message) = state.stalled(&self.flow)?;
            Some(Ending::Failed { node, error: NodeError::new("flow_stalled", message) })
        };
        let ending = self.ending.take().or_else(|| stalled(&self.state));
        let (status, node, error) = match ending {
            None => (RunStatus::Completed, None, None),
            Some(Ending::Cancelled) => (RunStatus::Cancelled, None, None),
            Some(Ending::Failed { node, error }) => (RunStatus::Failed, Some(node), Some(error)),
        };
        for idx in self.state.active.clone() {
            if let Some(Phase::Waiting { wait, .. }) = self.phase(idx) {
                let wait = self.pen.keys.wait(wait);
                self.batch.deletes.push(wait);
            }
            self.end_node(idx, Outputs::new(), Some(cancelled()));
        }
        let outputs = self.state.results();
        self.book.outputs.clone_from(&outputs);
        (self.book.status, self.book.node, self.book.error) = (status, node.clone(), error.clone());
        self.note(RunEvent::RunEnd { status, outputs, node, error });
        let marks = marks(&*self.pen.records, &self.pen.keys).await?;
        self.batch.deletes.extend(marks);
        self.batch.deletes.push(self.pen.keys.fence(self.pen.epoch));
        self.leave(State::default()).await?;
        Ok(Left::Over)
    }

    /// Leaves the run until somebody answers.
    pub(super) async fn release(mut self) -> Result<Left, RunError> {
        let waiting = self.state.active.iter().filter_map(|idx| match self.phase(*idx) {
            Some(Phase::Waiting { wait, .. }) => Some(wait.clone()),
            _ => None,
        });
        let waits: Vec<String> = waiting.collect();
        if waits.is_empty() {
            // Nodes ask for inputs that nobody can give.
            return self.end_stalled().await;
        }
        self.note(RunEvent::RunWait { waits });
        self.book.status = RunStatus::Waiting;
        self.book.outputs = self.state.results();
        let state = std::mem::take(&mut self.state);
        let taken = self.book.taken;
        self.leave(state).await?;
        Ok(Left::Waiting { taken })
    }

    pub(super) async fn end_stalled(mut self) -> Result<Left, RunError> {
        let blocked = || self.state.blocked(&self.flow, &self.given);
        let (node, message) = self.state.stalled(&self.flow).or_else(blocked).unwrap_or_default();
        let error = NodeError::new("flow_stalled", message);
        self.ending = Some(Ending::Failed { node, error });
        self.end().await
    }

    pub(super) async fn leave(mut self, state: State) -> Result<(), RunError> {
        let mut batch = self.take_batch();
        // Nobody else writes to the log, so the numbers are known before it is written.
        self.book.upto += u64::try_from(batch.events.len()).unwrap_or(u64::MAX);
        self.book.is_driven = false;
        self.book.state = state;
        batch.puts.push(self.book.document(&self.pen.keys, self.pen.time.now()));
        batch.deletes.push(self.pen.keys.due());
        self.write(batch).await.map(|_| ())
    }
}
