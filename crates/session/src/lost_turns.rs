//! Turns whose writer was lost.
//!
//! Whoever comes next takes the lease over, which fences the lost writer out, and records that the turn was interrupted. An
//! application that knows more of the turn than its log says ([`LostTurnRecovery`]) is asked in between, when nothing can be added to
//! the turn any more.

use std::sync::Arc;

use contexture_history::{TurnNo, TurnStatus};
use futures::future::BoxFuture;

use crate::live::{Draft, LOST, LiveThread, WriteGuard, ended};
use crate::session_error::SessionError;
use crate::store::{Fence, Guard};
use crate::{NewItem, Snapshot, State, StoreError, ThreadKey};

/// Knows what a lost turn said that is not in its log, such as text that clients were told while the answer grew.
pub trait LostTurnRecovery: std::fmt::Debug + Send + Sync {
    /// Returns what the turn in flight of a thread ends with. Its writer is fenced out, `snapshot` is the thread as it stands,
    /// and the lease is held meanwhile, so this must not wait for long. It may be asked more than once about a turn.
    fn items_for<'a>(
        &'a self,
        thread: &'a ThreadKey,
        turn: TurnNo,
        snapshot: &'a Snapshot,
    ) -> BoxFuture<'a, Result<Vec<NewItem>, StoreError>>;
}

impl LiveThread {
    /// Puts on record that the turn in flight was interrupted, as the next writer would, if its writer was lost.
    pub(crate) async fn close_lost(&self) -> Result<Option<TurnNo>, SessionError> {
        // The holder of the writer is alive, in this process; its lease says the same to others.
        let Some(mut writer) = self.try_lock_writer() else { return Ok(None) };
        self.refresh(&writer).await?;
        let closed = match self.end_lost_turn(&mut writer, |fence| Guard::Release { fence }).await {
            // In the second case this process was held up for longer than a lease, and taken over itself.
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

    /// Returns what a new write has to show, after a turn in flight whose writer was lost has come to its end. Without
    /// [`LostTurnRecovery`] that end is part of the write itself.
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

    /// Takes the lease over from a lost writer and ends its turn, with a write that has this guard. Nothing if there is no turn
    /// in flight.
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
        // Only now does no one else write.
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
    /// The turn that was ended with it; none if another writer did that meanwhile.
    turn: Option<TurnNo>,
    fence: Fence,
}

fn in_flight(state: &State) -> Option<TurnNo> {
    state.open.filter(|it| it.status == TurnStatus::InFlight).map(|it| it.turn)
}
