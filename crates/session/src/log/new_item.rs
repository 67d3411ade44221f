//! Items to append.

use std::sync::Arc;

use contexture_history::{Application, Body, Change, Envelope, EnvelopeTag, Seq, SystemEvent, Visibility};
use contexture_message::{Message, Tokens};
use serde_json::Value;

/// An item to append. Position, turn, time and cost are given to it by the thread.
///
/// ```
/// use contexture_message::{Message, Tokens};
/// use contexture_session::NewItem;
///
/// let item = NewItem::from(Message::user("hi")).author("ada");
/// assert_eq!(item.body().kind(), "user");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewItem {
    /// The content; never a change that only the thread itself makes.
    pub(crate) body: Body,
    /// Who can see it; each kind has a default.
    pub(crate) visibility: Option<Visibility>,
    /// The author of the item.
    pub(crate) author: Option<String>,
    /// The cost, once it was counted.
    pub(crate) tokens: Option<Tokens>,
}

impl NewItem {
    pub(crate) fn of(body: Body) -> Self {
        Self { body, visibility: None, author: None, tokens: None }
    }

    /// Returns a durable fact, which the model sees at its position.
    pub fn event(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::from(SystemEvent::new(name, text))
    }

    /// Returns hidden text that goes along with the user's message before it.
    pub fn envelope(tag: EnvelopeTag, text: impl Into<String>) -> Self {
        Self::of(Body::Envelope(Envelope::text(tag, text)))
    }

    /// Returns an item of the application's own, which the model never sees.
    pub fn application(kind: impl Into<String>, value: Value) -> Self {
        Self::of(Body::Application(Application { kind: kind.into(), value }))
    }

    /// Returns something that the engine remembers of the thread; nothing takes the note of that key away.
    pub fn note(key: impl Into<String>, value: Option<Value>) -> Self {
        Self::of(Body::Change(Change::Noted { key: key.into(), value }))
    }

    /// Returns the record that tool results up to a position are old, and that hidden envelopes up to another one are
    /// left out from now on.
    pub fn aged(results: Seq, hidden: Seq) -> Self {
        Self::of(Body::Change(Change::Aged { results, hidden }))
    }

    /// Sets who can see it.
    #[must_use]
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Sets the author of the item.
    #[must_use]
    pub fn author(mut self, author: impl Into<String>) -> Self {
        self.author = Some(author.into());
        self
    }

    /// Hides it from views that a turn is hidden from, unless its writer decided about it. What is not said in the
    /// conversation, such as a summary of older turns, stays as it is.
    pub(crate) fn within(self, turn: Option<Visibility>) -> Self {
        let is_said = matches!(self.body, Body::Message(_) | Body::Envelope(_));
        match turn.filter(|_| is_said && self.visibility.is_none()) {
            Some(turn) => Self { visibility: Some(self.seen_by().and(turn)), ..self },
            None => self,
        }
    }

    /// Returns who can see it.
    pub(crate) fn seen_by(&self) -> Visibility {
        self.visibility.unwrap_or_else(|| self.body.default_visibility())
    }

    /// Whether the model reads it.
    pub fn is_shown_to_model(&self) -> bool {
        self.seen_by().history
    }

    /// Returns the content.
    pub fn body(&self) -> &Body {
        &self.body
    }
}

impl From<SystemEvent> for NewItem {
    fn from(event: SystemEvent) -> Self {
        Self::of(Body::SystemEvent(event))
    }
}

impl From<Envelope> for NewItem {
    fn from(envelope: Envelope) -> Self {
        Self::of(Body::Envelope(envelope))
    }
}

impl From<Message> for NewItem {
    fn from(message: Message) -> Self {
        Self::from(Arc::new(message))
    }
}

impl From<Arc<Message>> for NewItem {
    fn from(message: Arc<Message>) -> Self {
        Self::of(Body::Message(message))
    }
}
