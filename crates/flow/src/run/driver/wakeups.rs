//! What wakes a driver, and how it reacts: finished nodes, emitted events, what others append, and timers.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_history::Seq;
use contexture_session::{Guard, StoreError};
use futures::{FutureExt, StreamExt};

use super::{Driver, Ending};
use crate::node::EmittedEvent;
use crate::run::record::log::Entry;
use crate::{NodeError, RunError, RunEvent, Step};

/// The code of a [`StoreError::Unavailable`].
const STORE_UNAVAILABLE: &str = "store_unavailable";

/// The reason why a driver woke up.
pub(super) enum Wakeup {
    Done(usize, Result<Step, NodeError>),
    Emitted(EmittedEvent),
    Changed,
    Beat,
    Grace,
    Stop,
}

/// The futures that wake a driver, besides its tasks.
pub(super) struct WakeSources {
    /// The log has grown beyond this position.
    changed: (Seq, BoxFuture<'static, ()>),
    beat: BoxFuture<'static, ()>,
    stop: BoxFuture<'static, ()>,
    grace: Option<BoxFuture<'static, ()>>,
}

impl Driver {
    pub(super) fn wake_sources(&self, stop: CancellationToken) -> WakeSources {
        let stop = Box::pin(stop.cancelled_owned());
        WakeSources { changed: self.next_change(), beat: self.next_beat(), stop, grace: None }
    }

    fn next_change(&self) -> (Seq, BoxFuture<'static, ()>) {
        let (log, end) = (self.log.clone(), self.end);
        let changed = async move {
            if log.store.changed(log.key, end).await.is_err() {
                // The store can't be reached: retrying immediately would only add load.
                log.time.sleep(Duration::from_secs(1)).await;
            }
        };
        (end, Box::pin(changed))
    }

    pub(super) fn next_beat(&self) -> BoxFuture<'static, ()> {
        self.log.time.sleep(self.config.lease / 3)
    }

    pub(super) async fn next_wakeup(&mut self, sources: &mut WakeSources) -> Wakeup {
        let WakeSources { changed: (_, changed), beat, stop, grace } = sources;
        let grace = async {
            match grace {
                Some(grace) => grace.await,
                None => pending().await,
            }
        };
        let mut grace = pin!(grace.fuse());
        // Tasks come last: fast ones are always ready and would starve the other sources.
        futures::select_biased! {
            () = changed.fuse() => Wakeup::Changed,
            () = beat.fuse() => Wakeup::Beat,
            () = stop.fuse() => Wakeup::Stop,
            (idx, done) = self.tasks.select_next_some() => Wakeup::Done(idx, done),
            event = self.event_receiver.select_next_some() => Wakeup::Emitted(event),
            () = grace => Wakeup::Grace,
        }
    }

    /// Returns whether the run is left.
    pub(super) async fn handle_wakeup(
        &mut self,
        wakeup: Wakeup,
        sources: &mut WakeSources,
    ) -> Result<bool, RunError> {
        match wakeup {
            Wakeup::Done(_, Err(error)) if error.code == STORE_UNAVAILABLE => {
                return Err(store_unavailable(error));
            }
            Wakeup::Done(idx, done) => self.done(idx, done),
            Wakeup::Emitted(event) => self.hear(event),
            Wakeup::Changed => {
                // What the driver has appended itself since it began to wait is no news.
                if sources.changed.0 == self.end {
                    self.take_entries().await?;
                }
                sources.changed = self.next_change();
            }
            Wakeup::Beat => {
                self.renew(Guard::Hold { fence: self.fence, ttl: self.config.lease }).await?;
                sources.beat = self.next_beat();
            }
            Wakeup::Grace => self.tasks.clear(),
            Wakeup::Stop => {
                // The next driver need not wait for the lease to expire.
                self.renew(Guard::Release { fence: self.fence }).await?;
                return Ok(true);
            }
        }
        if self.ending.is_some() && sources.grace.is_none() {
            sources.grace = Some(self.log.time.sleep(self.config.grace));
        }
        Ok(false)
    }

    /// Extends or releases the lease. A brief outage of the store is no reason to stop working.
    async fn renew(&mut self, guard: Guard) -> Result<(), RunError> {
        match self.log.lease(guard).await {
            Err(RunError::Store(StoreError::Unavailable { .. })) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Takes in what others have appended: answers and a cancellation.
    pub(super) async fn take_entries(&mut self) -> Result<(), RunError> {
        for (seq, entry) in self.log.entries(self.end).await? {
            match entry {
                None => {}
                Some(Entry::Cancel) => {
                    self.state.cancelled = true;
                    self.stop_with(Ending::Cancelled);
                }
                Some(Entry::Event(event @ RunEvent::NodeAnswer { .. })) => {
                    self.state.apply(&self.flow, &event);
                    // In the log it stands before the starts that are not recorded yet.
                    let n_started = self.batch.iter().filter(|it| matches!(it, RunEvent::NodeStart { .. }));
                    self.state.steps =
                        self.state.steps.max(u32::try_from(n_started.count()).unwrap_or(u32::MAX));
                    self.tell(Some(seq.0), &event);
                }
                // The run was taken over.
                Some(Entry::Event(_)) => return Err(RunError::Driven { run: self.log.run.to_string() }),
            }
            self.end = seq;
        }
        Ok(())
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
