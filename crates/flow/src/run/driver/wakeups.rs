//! What wakes a driver, and how it reacts: finished nodes, emitted events, inbox messages and timers.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::{StoreError, pages};
use futures::{FutureExt, StreamExt, TryStreamExt as _};

use super::{DriveOutcome, Driver, Ending};
use crate::keys::CANCEL;
use crate::node::EmittedEvent;
use crate::run::record::inbox::InboxMessage;
use crate::run::record::parsed;
use crate::run::state::Phase;
use crate::{NodeError, RunError, RunEvent, Step};

/// The code of a [`StoreError::Unavailable`].
const STORE_UNAVAILABLE: &str = "store_unavailable";

/// The reason why a driver woke up.
pub(super) enum Wakeup {
    Done(usize, Result<Step, NodeError>),
    Emitted(EmittedEvent),
    Messages,
    Beat,
    FlushEmitted,
    Grace,
    Stop,
}

/// The futures that wake a driver, besides its tasks.
pub(super) struct WakeSources {
    messages: BoxFuture<'static, ()>,
    beat: BoxFuture<'static, ()>,
    stop: BoxFuture<'static, ()>,
    grace: Option<BoxFuture<'static, ()>>,
}

impl Driver {
    pub(super) fn wake_sources(&self, stop: CancellationToken) -> WakeSources {
        let stop = Box::pin(stop.cancelled_owned());
        WakeSources { messages: self.next_message(), beat: self.next_beat(), stop, grace: None }
    }

    pub(super) fn next_message(&self) -> BoxFuture<'static, ()> {
        let (records, inbox, taken) =
            (Arc::clone(&self.guard.records), self.guard.keys.inbox(), self.run_record.taken);
        let time = Arc::clone(&self.guard.time);
        Box::pin(async move {
            if records.grown(inbox, taken).await.is_err() {
                // The store can't be reached: retrying immediately would only add load.
                time.sleep(Duration::from_secs(1)).await;
            }
        })
    }

    pub(super) fn next_beat(&self) -> BoxFuture<'static, ()> {
        self.guard.time.sleep(self.config.lease / 3)
    }

    pub(super) async fn next_wakeup(&mut self, sources: &mut WakeSources) -> Wakeup {
        let mut flush_timer = self.emitted.due(&self.guard.time);
        std::future::poll_fn(|cx| {
            use std::task::Poll::{Pending, Ready};
            // Tasks come last: fast ones are always ready and would starve the other sources.
            if sources.messages.poll_unpin(cx).is_ready() {
                return Ready(Wakeup::Messages);
            }
            if sources.beat.poll_unpin(cx).is_ready() {
                return Ready(Wakeup::Beat);
            }
            if sources.stop.poll_unpin(cx).is_ready() {
                return Ready(Wakeup::Stop);
            }
            if let Ready(Some((idx, done))) = self.tasks.poll_next_unpin(cx) {
                return Ready(Wakeup::Done(idx, done));
            }
            if let Ready(Some(event)) = self.event_receiver.poll_next_unpin(cx) {
                return Ready(Wakeup::Emitted(event));
            }
            if let Some(timer) = flush_timer.as_mut()
                && timer.poll_unpin(cx).is_ready()
            {
                return Ready(Wakeup::FlushEmitted);
            }
            match sources.grace.as_mut().map(|it| it.poll_unpin(cx).is_ready()) {
                Some(true) => Ready(Wakeup::Grace),
                _ => Pending,
            }
        })
        .await
    }

    pub(super) async fn handle_wakeup(
        &mut self,
        wakeup: Wakeup,
        sources: &mut WakeSources,
    ) -> Result<Option<DriveOutcome>, RunError> {
        match wakeup {
            Wakeup::Done(_, Err(error)) if error.code == STORE_UNAVAILABLE => {
                return Err(store_unavailable(error));
            }
            Wakeup::Done(idx, done) => self.done(idx, done),
            Wakeup::Emitted(event) => self.emitted.add(event),
            Wakeup::Messages => {
                self.take_messages().await?;
                sources.messages = self.next_message();
            }
            Wakeup::Beat => {
                self.guard.beat(self.guard.time.now()).await?;
                sources.beat = self.next_beat();
            }
            Wakeup::FlushEmitted => self.emitted.is_due = true,
            Wakeup::Grace => self.tasks.clear(),
            Wakeup::Stop => {
                self.emitted.is_due = true;
                self.flush().await?;
                // Releases the lease, so the next driver need not wait for it to expire.
                self.guard.beat(Timestamp(0)).await?;
                return Ok(Some(DriveOutcome::Stopped));
            }
        }
        if self.ending.is_some() && sources.grace.is_none() {
            sources.grace = Some(self.guard.time.sleep(self.config.grace));
        }
        Ok(None)
    }

    /// Takes messages from the inbox.
    pub(super) async fn take_messages(&mut self) -> Result<(), RunError> {
        let records = Arc::clone(&self.guard.records);
        let mut inbox = pages::records_after(&*records, self.guard.keys.inbox(), self.run_record.taken);
        while let Some(record) = inbox.try_next().await? {
            self.run_record.taken = record.number;
            self.take_message(parsed(&self.guard.keys, &record.data)?);
        }
        Ok(())
    }

    pub(super) fn take_message(&mut self, message: InboxMessage) {
        let (wait, value) = match message {
            InboxMessage::Answer { wait, value } => (wait, value),
            InboxMessage::Cancel => {
                self.batch.deletes.push(self.guard.keys.mark(CANCEL));
                return self.stop_with(Ending::Cancelled);
            }
        };
        self.batch.deletes.push(self.guard.keys.mark(&wait));
        let waits = |idx: &&usize| matches!(self.phase(**idx), Some(Phase::Waiting { wait: own, .. }) if *own == wait);
        // A wait answered before the driver was lost is already in the log, and is not open any more.
        let Some(idx) = self.state.active.iter().find(waits).copied() else { return };
        let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { return };
        let firing = self.state.nodes[idx].fired;
        self.record_event(RunEvent::NodeAnswer { node, firing, wait, value });
    }
}

/// A node that could not reach the store has not failed: the driver leaves the run, as it does when its own writes
/// fail, and the next driver repeats the node.
fn store_unavailable(error: NodeError) -> RunError {
    RunError::Store(StoreError::Unavailable {
        place: "the store of the run".to_owned(),
        detail: error.message,
    })
}
