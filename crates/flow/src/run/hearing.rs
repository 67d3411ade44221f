//! What a driver hears of, and what it does about it: nodes that are done, what they tell, letters, and the time.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_compose::BoxFuture;
use contexture_history::Timestamp;
use contexture_session::StoreError;
use futures::{FutureExt, StreamExt};

use super::book::parsed;
use super::driver::{Driver, Ending, Left};
use super::error::RunError;
use super::event::RunEvent;
use super::inbox::{CANCEL, Letter};
use super::state::Phase;
use crate::node::{NodeError, Step, Telling};

/// The code of a [`StoreError::Unavailable`].
const AWAY: &str = "store_unavailable";

/// What a driver heard of.
pub(super) enum Heard {
    Done(usize, Result<Step, NodeError>),
    Told(Telling),
    Letters,
    Beat,
    Tell,
    Grace,
    Stop,
}

/// What a driver listens to besides its nodes.
pub(super) struct Ears {
    letters: BoxFuture<'static, ()>,
    beat: BoxFuture<'static, ()>,
    stop: BoxFuture<'static, ()>,
    grace: Option<BoxFuture<'static, ()>>,
}

impl Driver {
    pub(super) fn ears(&self, stop: CancellationToken) -> Ears {
        let stop = Box::pin(stop.cancelled_owned());
        Ears { letters: self.letters_come(), beat: self.next_beat(), stop, grace: None }
    }

    pub(super) fn letters_come(&self) -> BoxFuture<'static, ()> {
        let (records, inbox, taken) = (Arc::clone(&self.pen.records), self.pen.keys.inbox(), self.book.taken);
        let time = Arc::clone(&self.pen.time);
        Box::pin(async move {
            if records.grown(inbox, taken).await.is_err() {
                // The store is away: asking at once again would only keep it busy.
                time.sleep(Duration::from_secs(1)).await;
            }
        })
    }

    pub(super) fn next_beat(&self) -> BoxFuture<'static, ()> {
        self.pen.time.sleep(self.config.lease / 3)
    }

    pub(super) async fn listen(&mut self, ears: &mut Ears) -> Heard {
        let mut tell = self.tellings.due(&self.pen.time);
        std::future::poll_fn(|cx| {
            use std::task::Poll::{Pending, Ready};
            // Nodes come last: quick ones are always ready, and would let nobody else be heard.
            if ears.letters.poll_unpin(cx).is_ready() {
                return Ready(Heard::Letters);
            }
            if ears.beat.poll_unpin(cx).is_ready() {
                return Ready(Heard::Beat);
            }
            if ears.stop.poll_unpin(cx).is_ready() {
                return Ready(Heard::Stop);
            }
            if let Ready(Some((idx, done))) = self.tasks.poll_next_unpin(cx) {
                return Ready(Heard::Done(idx, done));
            }
            if let Ready(Some(told)) = self.told.poll_next_unpin(cx) {
                return Ready(Heard::Told(told));
            }
            if let Some(tell) = tell.as_mut()
                && tell.poll_unpin(cx).is_ready()
            {
                return Ready(Heard::Tell);
            }
            match ears.grace.as_mut().map(|it| it.poll_unpin(cx).is_ready()) {
                Some(true) => Ready(Heard::Grace),
                _ => Pending,
            }
        })
        .await
    }

    pub(super) async fn react(&mut self, heard: Heard, ears: &mut Ears) -> Result<Option<Left>, RunError> {
        match heard {
            Heard::Done(_, Err(error)) if error.code == AWAY => return Err(away(error)),
            Heard::Done(idx, done) => self.done(idx, done),
            Heard::Told(told) => self.tellings.add(told),
            Heard::Letters => {
                self.take_letters().await?;
                ears.letters = self.letters_come();
            }
            Heard::Beat => {
                self.pen.beat(self.pen.time.now()).await?;
                ears.beat = self.next_beat();
            }
            Heard::Tell => self.tellings.is_due = true,
            Heard::Grace => self.tasks.clear(),
            Heard::Stop => {
                self.tellings.is_due = true;
                self.flush().await?;
                // Nobody needs to wait for the lease: it is given up.
                self.pen.beat(Timestamp(0)).await?;
                return Ok(Some(Left::Stopped));
            }
        }
        if self.ending.is_some() && ears.grace.is_none() {
            ears.grace = Some(self.pen.time.sleep(self.config.grace));
        }
        Ok(None)
    }

    /// Takes what has come to the run from outside.
    pub(super) async fn take_letters(&mut self) -> Result<(), RunError> {
        const PAGE: usize = 64;
        loop {
            let page = self.pen.records.read(self.pen.keys.inbox(), self.book.taken, PAGE).await?;
            let is_last = page.len() < PAGE;
            for record in page {
                self.book.taken = record.number;
                self.take_letter(parsed(&self.pen.keys, &record.data)?);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    pub(super) fn take_letter(&mut self, letter: Letter) {
        let (wait, value) = match letter {
            Letter::Answer { wait, value } => (wait, value),
            Letter::Cancel => {
                self.batch.deletes.push(self.pen.keys.mark(CANCEL));
                return self.stop_with(Ending::Cancelled);
            }
        };
        self.batch.deletes.push(self.pen.keys.mark(&wait));
        let waits = |idx: &&usize| matches!(self.phase(**idx), Some(Phase::Waiting { wait: own, .. }) if *own == wait);
        // What was taken before the driver was lost is in the log already, and waits no more.
        let Some(idx) = self.state.active.iter().find(waits).copied() else { return };
        let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { return };
        let firing = self.state.nodes[idx].fired;
        self.note(RunEvent::NodeAnswer { node, firing, wait, value });
    }
}

/// A node that could not reach the store has not failed: the driver leaves the run as it would if it could not write itself, and whoever
/// takes it up repeats the node.
fn away(error: NodeError) -> RunError {
    RunError::Store(StoreError::Unavailable {
        place: "the store of the run".to_owned(),
        detail: error.message,
    })
}
