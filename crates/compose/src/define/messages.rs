//! The prompt's own messages: a list, fixed or computed from the input, and the user slot, which is resolved to this
//! turn's user message for each call.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use contexture_message::{Message, Part, Role};
use serde::de::DeserializeOwned;

use super::{Call, Text};
use crate::BoxError;

/// One message in a prompt's own list.
#[derive(Clone, Debug)]
pub struct MessageText {
    /// The role of the message.
    pub role: Role,
    /// The content of the message.
    pub text: Text,
}

impl MessageText {
    /// Converts a message. The list holds texts only: images and files belong in the user slot.
    fn of(message: &Message) -> Result<Self, BoxError> {
        let text = |it: &Part| match it {
            Part::Text { text, .. } => Ok(text.clone()),
            _ => Err(BoxError::from(
                "a message of the list holds more than text: images and files belong into `user`",
            )),
        };
        let texts: Vec<String> = message.content.iter().map(text).collect::<Result<_, _>>()?;
        Ok(Self { role: message.role, text: Text::literal(texts.join("\n")) })
    }
}

type MessagesFn = dyn Fn(&Call) -> Result<Vec<MessageText>, BoxError> + Send + Sync;

/// The prompt's own list of messages.
#[derive(Clone)]
pub enum Messages {
    /// A fixed list.
    List(Vec<MessageText>),
    /// A list computed for each call.
    Function(MessagesFunction),
}

/// A function that returns the list of messages.
#[derive(Clone)]
pub struct MessagesFunction(Arc<MessagesFn>);

impl Messages {
    /// Returns a list computed from the typed input.
    pub fn of<In, L>(messages: impl Fn(&In) -> L + Send + Sync + 'static) -> Self
    where
        In: DeserializeOwned + Send + Sync + 'static,
        L: IntoIterator<Item = Message>,
    {
        Self::Function(MessagesFunction(Arc::new(move |call| {
            let input = call.input.get::<In>()?;
            messages(&input).into_iter().map(|it| MessageText::of(&it)).collect()
        })))
    }

    /// Returns whether the list is known to be empty. A function may still return no messages.
    pub fn is_empty(&self) -> bool {
        matches!(self, Messages::List(list) if list.is_empty())
    }

    /// Adds a message to the list. Replaces a function.
    pub(crate) fn push(&mut self, message: MessageText) {
        match self {
            Messages::List(list) => list.push(message),
            Messages::Function(_) => *self = Messages::List(vec![message]),
        }
    }

    /// Returns the list for a call.
    pub(crate) fn list(&self, call: &Call) -> Result<Cow<'_, [MessageText]>, BoxError> {
        match self {
            Messages::List(list) => Ok(Cow::Borrowed(list)),
            Messages::Function(function) => (function.0)(call).map(Cow::Owned),
        }
    }
}

impl Default for Messages {
    fn default() -> Self {
        Messages::List(Vec::new())
    }
}

impl From<Vec<MessageText>> for Messages {
    fn from(list: Vec<MessageText>) -> Self {
        Messages::List(list)
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Messages::List(list) => list.fmt(f),
            Messages::Function(_) => f.write_str("Function"),
        }
    }
}

/// One message of the user slot: texts that are resolved for each call, and media.
///
/// ```
/// use contexture_compose::{Prompt, Text, UserMessage};
/// use contexture_message::{Image, MediaSource, Part};
///
/// let image = Image { source: MediaSource::Url("https://example.com/map.png".to_owned()), media_type: None };
/// let prompt = Prompt::builder("p")
///     .user_message(UserMessage::text(Text::template("{{ input.question }}")?).part(Part::Image(image)))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct UserMessage {
    /// The parts of the message, in order.
    pub content: Vec<UserPart>,
}

/// One part of a message of the user slot.
#[derive(Clone, Debug)]
pub enum UserPart {
    /// A text, resolved for each call.
    Text(Text),
    /// An image or a file, sent unchanged.
    Media(Part),
}

impl UserMessage {
    /// Returns a message with one text.
    pub fn text(text: impl Into<Text>) -> Self {
        Self { content: vec![UserPart::Text(text.into())] }
    }

    /// Adds an image or a file.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.content.push(UserPart::Media(part));
        self
    }
}
