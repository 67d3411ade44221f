//! Rejected answers: recorded, and sent to the model with the feedback on them, but not part of the history.

use std::sync::Arc;

use contexture_history::{Application, Body, Item, Visibility};
use contexture_message::{Message, Role};
use contexture_session::NewItem;
use serde::{Deserialize, Serialize};
use serde_json::json;

const KIND: &str = "contexture.attempt";

/// A rejected answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) message: Arc<Message>,
    /// The feedback that the model got.
    pub(crate) feedback: String,
    /// How many messages the turn had before the attempt.
    #[serde(default)]
    pub(crate) place: usize,
    /// Whether its text was streamed before it was rejected.
    #[serde(default)]
    pub(crate) is_shown: bool,
}

impl Attempt {
    /// Returns the item that records the attempt.
    pub(crate) fn item(&self) -> NewItem {
        NewItem::application(KIND, json!(self)).visibility(Visibility::NONE)
    }

    /// Reads the attempts of a turn from its items.
    pub(crate) fn read(items: &[Item]) -> Vec<Attempt> {
        items.iter().filter_map(|it| Attempt::of(&it.body)).collect()
    }

    pub(crate) fn of(body: &Body) -> Option<Attempt> {
        match body {
            Body::Application(Application { kind, value }) if kind == KIND => {
                Attempt::deserialize(value).ok()
            }
            Body::Application(_)
            | Body::Message(_)
            | Body::SystemEvent(_)
            | Body::Envelope(_)
            | Body::Summary(_)
            | Body::Change(_) => None,
        }
    }
}

/// Returns the model's answer that an item of the log holds, including rejected answers, which are not part of the
/// history.
///
/// ```
/// use contexture_agent::answer_in;
/// use contexture_history::Body;
/// use contexture_message::Message;
///
/// let body = Body::Message(Message::assistant("Hi.").into());
/// assert_eq!(answer_in(&body).as_deref(), Some(&Message::assistant("Hi.")));
/// assert_eq!(answer_in(&Body::Message(Message::user("Hi.").into())), None);
/// ```
pub fn answer_in(body: &Body) -> Option<Arc<Message>> {
    match body {
        Body::Message(message) => (message.role == Role::Assistant).then(|| Arc::clone(message)),
        other => Attempt::of(other).map(|it| it.message),
    }
}

/// Inserts attempts and their feedback among the messages of a turn, where they were made, so that a new message never
/// changes what precedes it.
pub(crate) fn with_attempts(mut messages: Vec<Arc<Message>>, attempts: &[Attempt]) -> Vec<Arc<Message>> {
    // From the last to the first, so that an insertion does not shift the places still to come.
    for Attempt { message, feedback, place, .. } in attempts.iter().rev() {
        let place = (*place).min(messages.len());
        messages.splice(place..place, [Arc::clone(message), Arc::new(Message::user(feedback.as_str()))]);
    }
    messages
}
