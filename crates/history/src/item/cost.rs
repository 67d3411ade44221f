//! The token cost of an item.

use contexture_message::{TokenCounter, Tokens, message_tokens, part_tokens};

use super::wording::{envelope_parts, event_message, summary_message};
use super::{Body, Visibility};
use crate::neutral::neutral_message;

/// Returns the cost of an item, counted once when it is appended: the cost of what
/// [`Turn::apply`](crate::Turn::apply) makes of it. Items not visible to the history cost nothing.
///
/// ```
/// use contexture_history::{Body, SystemEvent, Visibility, item_cost};
/// use contexture_message::{Encoding, Tokens};
///
/// let event = Body::SystemEvent(SystemEvent::new("deploy", "It is live."));
/// assert!(item_cost(&Encoding::O200kBase, &event, Visibility::HISTORY) > Tokens(0));
/// assert_eq!(item_cost(&Encoding::O200kBase, &event, Visibility::CLIENT), Tokens(0));
/// ```
pub fn item_cost(counter: &dyn TokenCounter, body: &Body, visibility: Visibility) -> Tokens {
    if !visibility.history {
        return Tokens(0);
    }
    match body {
        Body::Message(message) => message_tokens(counter, &neutral_message(message)),
        Body::SystemEvent(event) => message_tokens(counter, &event_message(event)),
        Body::Summary(summary) => message_tokens(counter, &summary_message(summary)),
        Body::Envelope(envelope) => envelope_parts(envelope).iter().map(|it| part_tokens(counter, it)).sum(),
        Body::Application(_) | Body::Change(_) => Tokens(0),
    }
}
