//! The outcome of a turn, read from the log.

use contexture_history::{Body, Change, Item, Seq, TurnNo, TurnStatus};
use futures::TryStreamExt as _;

use crate::live::LiveThread;
use crate::store::pages;
use crate::{SessionError, ThreadId};

/// The outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The thread of the turn: with [`Policy::Fork`](crate::Policy::Fork) it may be a copy of the one that was asked.
    pub thread: ThreadId,
    /// The number of the turn.
    pub turn: TurnNo,
    /// How the turn ended, or that it is still open.
    pub status: TurnStatus,
    /// The reason for that status, if there is one.
    pub reason: Option<String>,
    /// All items of the turn.
    pub items: Vec<Item>,
}

/// Reads the outcome of the turn that began with an idempotency key, if there is one. A key that added items without
/// beginning a turn has no outcome, and can't begin one: [`SessionError::KeyUsed`].
pub(crate) async fn of_key(live: &LiveThread, key: &str) -> Result<Option<TurnOutcome>, SessionError> {
    let Some(keyed) = live.shared.store.turn_with_key(live.key.clone(), key.to_owned()).await? else {
        return Ok(None);
    };
    let mut outcome = TurnOutcome {
        thread: live.key.thread.clone(),
        turn: keyed.turn,
        status: TurnStatus::Completed,
        reason: None,
        items: Vec::new(),
    };
    let before = Seq(keyed.began.0.saturating_sub(1));
    let mut items = pages::items_after(&*live.shared.store, live.key.clone(), before);
    while let Some(item) = items.try_next().await?.filter(|it| it.turn == keyed.turn) {
        outcome.add(item);
    }
    match outcome.began_with(key) {
        true => Ok(Some(outcome)),
        false => Err(SessionError::KeyUsed { thread: live.key.thread.to_string(), key: key.to_owned() }),
    }
}

impl TurnOutcome {
    /// Whether the outcome can no longer change, except by resuming a suspended turn. With `resume` a failed or
    /// interrupted turn is not final.
    pub(crate) fn is_final(&self, resume: bool) -> bool {
        match self.status {
            TurnStatus::InFlight => false,
            TurnStatus::Failed | TurnStatus::Interrupted => !resume,
            TurnStatus::Completed | TurnStatus::Suspended => true,
        }
    }

    fn began_with(&self, key: &str) -> bool {
        let is_began = |it: &Item| matches!(&it.body, Body::Change(Change::TurnBegan { key: Some(it), .. }) if it == key);
        self.items.iter().any(is_began)
    }

    fn add(&mut self, item: Item) {
        match &item.body {
            Body::Change(Change::TurnBegan { .. } | Change::TurnResumed) => {
                (self.status, self.reason) = (TurnStatus::InFlight, None);
            }
            Body::Change(Change::TurnEnded { status, reason, .. }) => {
                self.status = *status;
                self.reason.clone_from(reason);
            }
            _ => {}
        }
        self.items.push(item);
    }
}
