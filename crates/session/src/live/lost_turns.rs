//! Turns whose writer was lost.
//!
//! The next writer takes over the lease, which fences out the lost writer, and records the turn as interrupted. Before
//! that, once nothing can be appended to the turn any more, it asks [`LostTurnRecovery`] for what the application
//! knows beyond the log.

use std::sync::Arc;

use contexture_history::{TurnNo, TurnStatus};
use futures::future::BoxFuture;

use super::{LiveThread, WriteGuard};
use crate::log::draft::{Draft, LOST, ended};
use crate::store::{Fence, Guard};
use crate::{NewItem, SessionError, Snapshot, State, StoreError, ThreadKey};

/// Supplies output of a lost turn that is not in its log, such as text that was already streamed to clients.
pub trait LostTurnRecovery: std::fmt::Debug + Send + Sync {
    /// Returns the items that end the in-flight turn of a thread. The lost writer is fenced out, `snapshot` is the
    /// current thread, and the lease is held during the call, so it must be quick. It may be called more than once for
    /// the same turn.
    fn items_for<'a>(
        &'a self,
        thread: &'a ThreadKey,
        turn: TurnNo,
        snapshot: &'a Snapshot,
    ) -> BoxFuture<'a, Result<Vec<NewItem>, StoreError>>;
}

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

    /// Returns the guard for a new write after the in-flight turn of a lost writer has been ended. Without a
    /// [`LostTurnRecovery`] that ending is part of the write itself.
    pub(crate) async fn guard_after_lost(
        &self,
        writer: &mut WriteGuard,
        guard: Guard,
    ) -> Result<Guard, SessionError> {
        self.refresh_if_stale(writer).await?;
        if self.shared.lost_turn_recovery.get().is_none() {
            return Ok(guard);
        }
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
        let snapshot = self.snapshot();
        let Some(turn) = in_flight(snapshot.state()) else {
            return Ok(Some(TakenLease { turn: None, fence }));
        };
        let said = match self.shared.lost_turn_recovery.get() {
            Some(recovery) => recovery.items_for(&self.key, turn, &snapshot).await?,
            None => Vec::new(),
        };
        let said = self.shared.counted(said).into_iter().chain([ended(TurnStatus::Interrupted, Some(LOST))]);
        let draft: Draft = said.map(|it| (turn, it)).collect();
        self.try_append(writer, guard(fence), |_| Ok(draft.clone())).await?;
        Ok(Some(TakenLease { turn: Some(turn), fence }))
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
