//! Digests of messages, remembered from one pass to the next.
//!
//! Consecutive requests of a thread share most of their messages in memory. A message that the previous request had is
//! not read again, so a digest costs what is new in the request, not what the window holds.

use std::collections::HashMap;
use std::sync::Arc;

use contexture_message::Message;
use xxhash_rust::xxh3::xxh3_128;

/// The digests of a request's messages. It holds the messages, so that their addresses stay theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digests(HashMap<usize, (Arc<Message>, u128)>);

impl Digests {
    /// Digests messages; `before` has those of the previous request.
    pub(crate) fn new(messages: &[Arc<Message>], before: Option<&Digests>) -> Self {
        let digest = |it: &Arc<Message>| before.map_or_else(|| digest(it), |before| before.of(it));
        Self(messages.iter().map(|it| (address(it), (Arc::clone(it), digest(it)))).collect())
    }

    /// Returns the digest of a message, which is read only if it is not one of the request's own.
    pub(crate) fn of(&self, message: &Arc<Message>) -> u128 {
        self.0.get(&address(message)).map_or_else(|| digest(message), |(_, digest)| *digest)
    }
}

fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

fn digest(message: &Message) -> u128 {
    // Plain data with string keys always serializes.
    xxh3_128(&serde_json::to_vec(message).unwrap_or_default())
}
