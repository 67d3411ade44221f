//! Messages prepended to a thread's history.
//!
//! A log only grows at its end, so prepended messages are stored in a record like any other: a note with all of them,
//! newest first. The model's view starts with one turn made of them, which is outside of every window and never
//! summarised, until the history is reset.

use std::sync::Arc;

use contexture_history::{Body, Change, Cost, Turn, Visibility, item_cost};
use contexture_message::{Message, Part, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::live::closing;
use crate::session_error::SessionError;
use crate::{NewItem, Snapshot, Thread};

/// The key of the note.
pub(crate) const KEY: &str = "contexture.prepended";

/// The messages of one prepend call.
#[derive(Clone, Serialize, Deserialize)]
struct Prepended {
    key: String,
    /// The name of the counter that counted the messages.
    counter: Arc<str>,
    messages: Vec<CountedMessage>,
}

#[derive(Clone, Serialize, Deserialize)]
struct CountedMessage {
    message: Message,
    tokens: Tokens,
}

impl Thread {
    /// Prepends messages to the history, unless the key was used before; returns whether they were written now.
    ///
    /// The model reads them before any turn, however long the thread gets: they do not count towards a window and are
    /// never summarised. A later prepend goes before earlier ones. [`reset_history`](Thread::reset_history) removes
    /// all of them, but their keys stay used. The other views show them as a plain record. Tool calls and results
    /// can't be prepended. A prepend invalidates the provider's cache after the system message.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use contexture_message::{Message, Tokens};
    /// # use contexture_session::*;
    /// # #[derive(Debug)] struct Fixed;
    /// # impl Time for Fixed {
    /// #     fn now(&self) -> contexture_history::Timestamp { contexture_history::Timestamp(0) }
    /// #     fn sleep(&self, _: std::time::Duration) -> futures::future::BoxFuture<'static, ()> { Box::pin(async {}) }
    /// # }
    /// # impl Names for Fixed { fn next(&self) -> String { "s1".to_owned() } }
    /// # futures::executor::block_on(async {
    /// # let ports = Ports { time: Arc::new(Fixed), names: Arc::new(Fixed), counter: Arc::new(|_: &str| Tokens(1)) };
    /// # let sessions = Sessions::new(Arc::new(MemoryStore::new(Arc::new(Fixed))), ports, SessionConfig::default());
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
            let mut draft = closing(state, false);
            draft.push((state.turn, NewItem::note(KEY, Some(json!(all)))));
            Ok(draft)
        })
        .await
    }

    fn counted(&self, key: &str, messages: Vec<Message>) -> Prepended {
        let shared = &self.live().shared;
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
    let note = snapshot.state().prepended().and_then(|_| snapshot.note(KEY));
    note.map(|it| read(it)).unwrap_or_default()
}

/// A foreign note is ignored.
fn read(note: &Value) -> Vec<Prepended> {
    Vec::deserialize(note).unwrap_or_default()
}

/// Returns the turn made of the note, unless it is empty.
pub(crate) fn turn(note: &Value) -> Option<Arc<Turn>> {
    let messages = read(note).into_iter().flat_map(|Prepended { counter, messages, .. }| {
        let cost = move |tokens| Cost { counter: Arc::clone(&counter), tokens };
        messages.into_iter().map(move |it| (it.message, cost(it.tokens)))
    });
    let turn = Turn::leading(messages);
    (!turn.messages().is_empty()).then(|| Arc::new(turn))
}

/// Returns the key that a change takes by prepending something.
pub(crate) fn key_of(change: &Change) -> Option<&str> {
    match change {
        Change::Noted { key, value: Some(value) } if key == KEY => value.get(0)?.get("key")?.as_str(),
        _ => None,
    }
}
