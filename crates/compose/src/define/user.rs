//! The user slot, which is resolved to this turn's user message for each call.

use contexture_message::Part;

use super::Text;

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
