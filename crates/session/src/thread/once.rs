//! Idempotent appends: a key tells whether the items are already in the thread.
//!
//! A key is stored in the same commit as its items, and looked up first while holding the writer lock. If another
//! process used the key in between, the log has grown, the append is refused, and the key is looked up again. So the
//! items are written once, even if two processes race or the reply to a successful write is lost.

use contexture_history::{Body, Change, TurnStatus};

use super::Thread;
use crate::log::draft::{Draft, begins, closing, draft_items, ended};
use crate::log::notes::taken;
use crate::{NewItem, SessionError, State, ids};

impl Thread {
    /// Appends items as one commit, unless the key was used before; returns whether they were written now.
    ///
    /// They form a separate, completed turn. A suspended turn is not ended by that unless one of the items is a user
    /// message: otherwise the items join the suspended turn, as with [`add`](Thread::add). Keys are shared with
    /// [`begin`](Thread::begin): a key that began a turn, whatever its outcome, adds nothing.
    ///
    /// ```
    /// # use contexture_message::Message;
    /// # use contexture_session::{SessionError, SessionStart, conformance};
    /// # futures::executor::block_on(async {
    /// # let sessions = conformance::sessions_in_memory();
    /// # let session = sessions.create(SessionStart::default()).await?;
    /// let thread = session.main();
    /// let note = || vec![Message::assistant("The order was shipped.").into()];
    /// assert!(thread.add_once("order-17/shipped", note()).await?);
    /// assert!(!thread.add_once("order-17/shipped", note()).await?);
    /// assert_eq!(thread.get().turns().len(), 1);
    /// # Ok::<(), SessionError>(()) }).unwrap();
    /// ```
    pub async fn add_once(&self, key: &str, items: Vec<NewItem>) -> Result<bool, SessionError> {
        let items = self.live.shared.counted(items);
        self.once(key, |state| Ok(add_draft(state, key, &items))).await
    }

    /// Appends items as [`add`](Thread::add) does, unless the key was used before; returns whether they were written
    /// now. Unlike [`add_once`](Thread::add_once), items without a user message join the newest turn, and a key that
    /// began a turn is [`SessionError::KeyUsed`].
    pub async fn add_items_once(&self, key: &str, items: Vec<NewItem>) -> Result<bool, SessionError> {
        let items = self.live.shared.counted(items);
        let drafted = |state: &State| {
            let mut draft = draft_items(state, &items);
            let turn = draft.last().map_or(state.turn, |(turn, _)| *turn);
            draft.push((turn, taken(key)));
            Ok(draft)
        };
        if self.once(key, drafted).await? {
            return Ok(true);
        }
        match self.outcome(key).await {
            Ok(Some(turn)) => {
                Err(SessionError::KeyUsed { thread: turn.thread.to_string(), key: key.to_owned() })
            }
            _ => Ok(false),
        }
    }

    /// Appends the items that `draft` makes from the newest state, together with the key, unless the key was used
    /// before.
    pub(crate) async fn once(
        &self,
        key: &str,
        draft: impl Fn(&State) -> Result<Draft, SessionError>,
    ) -> Result<bool, SessionError> {
        ids::check("idempotency key", key)?;
        let mut writer = self.live.lock_writer(self.policy).await?;
        self.live.write(&mut writer, self.policy, Some(key), draft).await
    }
}

fn add_draft(state: &State, key: &str, items: &[NewItem]) -> Draft {
    let waits = state.open.filter(|it| it.status == TurnStatus::Suspended);
    let waits = waits.filter(|_| !items.iter().any(begins));
    let items = items.iter().cloned();
    if let Some(open) = waits {
        return [taken(key)].into_iter().chain(items).map(|it| (open.turn, it)).collect();
    }
    let began = NewItem::of(Body::Change(Change::began(Some(key.to_owned()))));
    let own = [began].into_iter().chain(items).chain([ended(TurnStatus::Completed, None)]);
    closing(state).into_iter().chain(own.map(|it| (state.turn.next(), it))).collect()
}
