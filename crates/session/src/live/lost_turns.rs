//! Turns whose writer was lost.
//!
//! The next writer takes over the lease, which fences out the lost writer: nothing of it can be appended or saved any
//! more. Then it records the turn as interrupted, with the text that the lost writer had saved.

use std::sync::Arc;

use contexture_history::{TurnNo, TurnStatus};
use contexture_message::Message;
use futures::TryStreamExt as _;

use super::{LiveThread, WriteGuard};
use crate::log::draft::{Draft, ended};
use crate::log::notes::is_stop_request;
use crate::store::{Fence, Guard, pages};
use crate::{NewItem, SessionError, State, StoreError};

/// The recorded reason for such a turn.
const LOST: &str = "its writer was lost";

impl LiveThread {
    /// Records the in-flight turn as interrupted if its writer was lost, as the next writer would.
    pub(crate) async fn close_lost(&self) -> Result<Option<TurnNo>, SessionError> {
        // The holder of the writer lock is alive, in this process; its lease tells other processes.
        let Some(mut writer) = self.try_lock_writer() else { return Ok(None) };
        self.refresh(&writer).await?;
        let closed = match self.end_lost_turn(&mut writer, |fence| Guard::Release { fence }).await {
            // In the second case this process was stalled for longer than a lease, and its own lease was taken over.
            Err(SessionError::Store(StoreError::Held { .. } | StoreError::Fenced { .. })) => return Ok(None),
            closed => closed?,
        };
        self.release_lease(&mut writer).await?;
        Ok(closed.and_then(|it| it.turn))
    }

    /// Gives the lease back, if this process holds one.
    pub(crate) async fn release_lease(&self, writer: &mut WriteGuard) -> Result<(), StoreError> {
        if let Some(fence) = writer.fence.take() {
            self.shared.store.lease(self.key.clone(), Guard::Release { fence }).await?;
        }
        Ok(())
    }

    /// Returns the guard for a new write after the in-flight turn of a lost writer has been ended.
    pub(crate) async fn guard_after_lost(
        &self,
        writer: &mut WriteGuard,
        guard: Guard,
    ) -> Result<Guard, SessionError> {
        self.refresh_if_stale(writer).await?;
        let ttl = self.shared.config.lease;
        Ok(match (self.end_lost_turn(writer, |fence| Guard::Hold { fence, ttl }).await?, guard) {
            (Some(TakenLease { fence, .. }), Guard::Free | Guard::Release { .. }) => Guard::Release { fence },
            (_, guard) => guard,
        })
    }

    /// Takes over the lease from a lost writer and ends its turn, with a write that has this guard. Returns `None` if
    /// there is no turn in flight.
    async fn end_lost_turn(
        &self,
        writer: &mut WriteGuard,
        guard: impl Fn(Fence) -> Guard,
    ) -> Result<Option<TakenLease>, SessionError> {
        if in_flight(self.snapshot().state()).is_none() {
            return Ok(None);
        }
        let (owner, ttl) = (Arc::clone(&self.shared.owner), self.shared.config.lease);
        let taken = self.shared.store.lease(self.key.clone(), Guard::Acquire { owner, ttl }).await?;
        writer.fence = taken;
        let Some(fence) = taken else { return Ok(None) };
        // From here on no other writer is active.
        self.refresh(writer).await?;
        let Some(turn) = in_flight(self.snapshot().state()) else {
            return Ok(Some(TakenLease { turn: None, fence }));
        };
        let said = self.saved_text(turn).await?;
        let said = self.shared.counted(said.into_iter().collect()).into_iter();
        let items = said.chain([ended(TurnStatus::Interrupted, Some(LOST))]);
        let draft: Draft = items.map(|it| (turn, it)).collect();
        self.try_append(writer, guard(fence), |_| Ok(draft.clone())).await?;
        Ok(Some(TakenLease { turn: Some(turn), fence }))
    }

    /// Returns the text that a lost writer saved of an answer that the log does not have.
    async fn saved_text(&self, turn: TurnNo) -> Result<Option<NewItem>, StoreError> {
        let store = &self.shared.store;
        let saved = store.saved(self.key.session()).await?;
        let saved = saved.into_iter().find(|(thread, text)| *thread == self.key.thread && text.turn == turn);
        let Some((_, saved)) = saved.filter(|(_, it)| !it.text.trim().is_empty()) else { return Ok(None) };
        let mut since = pages::items_after(&**store, self.key.clone(), saved.end);
        while let Some(item) = since.try_next().await? {
            // A request to stop may come from anyone; everything else comes from the writer, after its answer.
            if !is_stop_request(&item.body) {
                return Ok(None);
            }
        }
        Ok(Some(NewItem::from(Message::assistant(saved.text))))
    }
}

/// A lease that was taken over from a lost writer.
struct TakenLease {
    /// The turn that was ended with it; `None` if another writer ended it first.
    turn: Option<TurnNo>,
    fence: Fence,
}

fn in_flight(state: &State) -> Option<TurnNo> {
    state.open.filter(|it| it.status == TurnStatus::InFlight).map(|it| it.turn)
}
