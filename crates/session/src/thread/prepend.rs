//! Messages prepended to a thread's history.
//!
//! A log only grows at its end, so prepended messages are stored in a record like any other: a note with all of them,
//! newest first. The model's view starts with one turn made of them, which is outside of every window and never
//! summarised, until the history is reset.

use std::sync::Arc;

use contexture_history::{Body, Visibility, item_cost};
use contexture_message::{Message, Part};
use serde_json::json;

use super::Thread;
use crate::log::notes::{CountedMessage, PREPENDED, Prepended, read_prepended};
use crate::{NewItem, SessionError, Snapshot};

impl Thread {
    /// Prepends messages to the history, unless the key was used before; returns whether they were written now.
    ///
    /// The model reads them before any turn, however long the thread gets: they do not count towards a window and are
    /// never summarised. A later prepend goes before earlier ones. [`reset_history`](Thread::reset_history) removes
    /// all of them, but their keys stay used. The other views show them as a plain record. Tool calls and results
    /// can't be prepended. A prepend invalidates the provider's cache after the system message.
    ///
    /// ```
    /// # use contexture_message::Message;
    /// # use contexture_session::{SessionError, SessionStart, conformance};
    /// # futures::executor::block_on(async {
    /// # let sessions = conformance::sessions_in_memory();
    /// # let session = sessions.create(SessionStart::default()).await?;
    /// let thread = session.main();
    /// thread.add_message(Message::user("Where is it?")).await?;
    /// assert!(thread.prepend_once("profile", vec![Message::user("I am Ada.")]).await?);
    /// assert_eq!(thread.get().turns()[0].messages()[0].as_text(), Some("I am Ada."));
    /// # Ok::<(), SessionError>(()) }).unwrap();
    /// ```
    pub async fn prepend_once(&self, key: &str, messages: Vec<Message>) -> Result<bool, SessionError> {
        if let Some(idx) = messages.iter().position(|it| it.content.iter().any(is_of_a_tool)) {
            let thread = self.id().to_string();
            return Err(SessionError::NotPrependable { thread, number: idx + 1 });
        }
        let new = self.counted(key, messages);
        self.once(key, |state| {
            // The caller holds the writer lock, so the snapshot matches `state`.
            let all: Vec<Prepended> = [new.clone()].into_iter().chain(before(&self.get())).collect();
            Ok(vec![(state.turn, NewItem::note(PREPENDED, Some(json!(all))))])
        })
        .await
    }

    fn counted(&self, key: &str, messages: Vec<Message>) -> Prepended {
        let shared = &self.live.shared;
        let counted = |message: Message| {
            let body = Body::Message(Arc::new(message.clone()));
            CountedMessage { message, tokens: item_cost(&*shared.ports.counter, &body, Visibility::HISTORY) }
        };
        let messages = messages.into_iter().map(counted).collect();
        Prepended { key: key.to_owned(), counter: Arc::clone(&shared.counter), messages }
    }
}

fn is_of_a_tool(part: &Part) -> bool {
    matches!(part, Part::ToolCall(_) | Part::ToolResult(_))
}

/// Returns the messages that are prepended now.
fn before(snapshot: &Snapshot) -> Vec<Prepended> {
    let note = snapshot.state().prepended().and_then(|_| snapshot.note(PREPENDED));
    note.map(|it| read_prepended(it)).unwrap_or_default()
}
