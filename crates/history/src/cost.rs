//! What an item costs the model.

use contexture_message::{TokenCounter, Tokens, message_tokens, part_tokens};

use crate::neutral::neutral_message;
use crate::wording::{envelope_part, event_message, summary_message};
use crate::{Body, Visibility};

/// Returns what an item costs, to be counted once when it is appended: what [`Turn::apply`](crate::Turn::apply) will
/// make of it. What the history does not see costs nothing.
///
/// ```
/// use contexture_history::{Body, SystemEvent, Visibility, item_cost};
/// use contexture_message::{Encoding, Tokens};
///
/// let event = Body::SystemEvent(SystemEvent { name: "deploy".into(), text: "It is live.".into() });
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
        Body::Envelope(envelope) => part_tokens(counter, &envelope_part(envelope)),
        Body::Application(_) | Body::Change(_) => Tokens(0),
    }
}
