//! Turns whose writer was lost.

use std::sync::Arc;

use contexture_history::{TurnNo, TurnStatus};

use crate::live::{LOST, Live};
use crate::session_error::SessionError;
use crate::store::Guard;
use crate::turn::{RunningTurn, acquire, running_as};
use crate::{State, StoreError};

/// Takes over the turn in flight, if its writer was lost. From then on that writer is fenced out.
pub(crate) async fn take_over(live: &Arc<Live>) -> Result<Option<RunningTurn>, SessionError> {
    // The holder of the pen is alive, in this process; its lease says the same to others.
    let Some(mut pen) = live.free_pen() else { return Ok(None) };
    live.refresh(&pen).await?;
    if in_flight(live.snapshot().state()).is_none() {
        return Ok(None);
    }
    let store = &live.shared.store;
    pen.fence = match store.lease(live.key.clone(), acquire(live)).await {
        Err(StoreError::Held { .. }) => return Ok(None),
        taken => taken?,
    };
    // Only now does no one else write: another writer may have closed the turn in between.
    live.refresh(&pen).await?;
    match (in_flight(live.snapshot().state()), pen.fence) {
        (Some(turn), Some(_)) => running_as(live, pen, turn).map(Some),
        (None, Some(fence)) => {
            store.lease(live.key.clone(), Guard::Release { fence }).await?;
            pen.fence = None;
            Ok(None)
        }
        (_, None) => Ok(None),
    }
}

/// Puts on record that the turn in flight was interrupted, as the next writer would, if its writer was lost.
pub(crate) async fn close_lost(live: &Arc<Live>) -> Result<Option<TurnNo>, SessionError> {
    let Some(running) = take_over(live).await? else { return Ok(None) };
    let turn = running.turn();
    match running.interrupt(LOST, Vec::new()).await {
        // Held up for longer than a lease, and taken over itself.
        Err(SessionError::Store(StoreError::Fenced { .. })) => Ok(None),
        closed => closed.map(|_| Some(turn)),
    }
}

fn in_flight(state: &State) -> Option<TurnNo> {
    state.open.filter(|it| it.status == TurnStatus::InFlight).map(|it| it.turn)
}
