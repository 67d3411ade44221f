//! Answers that were not good enough: on record and sent with what was said about them, but not part of the history.

use std::sync::Arc;

use contexture_history::{Application, Body, Item, Visibility};
use contexture_message::{Message, Role};
use contexture_session::NewItem;
use serde::{Deserialize, Serialize};
use serde_json::json;

const KIND: &str = "contexture.attempt";

/// An answer that was not good enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) message: Arc<Message>,
    /// What the model was told about it.
    pub(crate) feedback: String,
    /// How many messages the turn had before it.
    #[serde(default)]
    pub(crate) place: usize,
}

impl Attempt {
    /// Returns the attempt as it is appended.
    pub(crate) fn item(&self) -> NewItem {
        NewItem::application(KIND, json!(self)).visibility(Visibility::NONE)
    }

    /// Reads the attempts of a turn from its items.
    pub(crate) fn read(items: &[Item]) -> Vec<Attempt> {
        items.iter().filter_map(|it| Attempt::of(&it.body)).collect()
    }

    fn of(body: &Body) -> Option<Attempt> {
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

/// Returns what a model answered, as an item of a turn's log holds it: also an answer that was not good enough and is no
/// part of the history.
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

/// Puts attempts and their feedback where they were made among the messages of a turn, so that a new message never
/// changes what stands before it.
pub(crate) fn woven(mut messages: Vec<Arc<Message>>, attempts: &[Attempt]) -> Vec<Arc<Message>> {
    // From the last one: what is put in does not move the places before it.
    for Attempt { message, feedback, place } in attempts.iter().rev() {
        let place = (*place).min(messages.len());
        messages.splice(place..place, [Arc::clone(message), Arc::new(Message::user(feedback.as_str()))]);
    }
    messages
}
