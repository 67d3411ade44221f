//! Turns whose writer was lost.

use contexture_history::{TurnNo, TurnStatus};

use crate::live::{Live, closing};
use crate::session_error::SessionError;
use crate::store::Guard;
use crate::{State, StoreError};

impl Live {
    /// Says that the turn in flight was interrupted, as the next writer would, if nobody runs it.
    pub(crate) async fn close_lost(&self) -> Result<Option<TurnNo>, SessionError> {
        // Who holds the pen is alive, in this process; its lease says the same to others.
        let Some(mut pen) = self.free_pen() else { return Ok(None) };
        loop {
            self.refresh(&pen).await?;
            let Some(turn) = in_flight(self.snapshot().state()) else { return Ok(None) };
            let guard = pen.fence.map_or(Guard::Free, |fence| Guard::Release { fence });
            match self.try_append(&mut pen, guard, |state| Ok(closing(state, false))).await {
                Ok(()) => return Ok(Some(turn)),
                Err(SessionError::Store(StoreError::Held { .. })) => return Ok(None),
                // Somebody else has written meanwhile: what is known is too old.
                Err(SessionError::Store(StoreError::Conflict { .. })) => {}
                Err(SessionError::Store(StoreError::Fenced { .. })) => pen.fence = None,
                Err(other) => return Err(other),
            }
        }
    }
}

fn in_flight(state: &State) -> Option<TurnNo> {
    state.open.filter(|it| it.status == TurnStatus::InFlight).map(|it| it.turn)
}
