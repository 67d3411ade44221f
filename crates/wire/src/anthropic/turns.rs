//! The blocks of a request before they are written, with the messages they come from.

use serde_json::{Value, json};

/// A block and its origin.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) json: Value,
    /// The index of the message that the block comes from.
    pub(super) message: usize,
    /// For a text block, its end offset in the text of its message.
    pub(super) text_end: Option<usize>,
}

impl Block {
    /// Returns whether the block is of type `kind`.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.json.get("type").is_some_and(|it| it == kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Speaker {
    User,
    Assistant,
}

/// The blocks of consecutive messages from the same side.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) speaker: Speaker,
    pub(super) blocks: Vec<Block>,
}

impl Turn {
    pub(super) fn into_json(self) -> Value {
        let role = match self.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let content: Value = self.blocks.into_iter().map(|it| it.json).collect();
        json!({"role": role, "content": content})
    }
}

/// Returns whether the request may set a thinking budget. The API rejects it if the last turn answers calls that were
/// made without thinking, such as another provider's.
pub(super) fn may_think(turns: &[Turn]) -> bool {
    let [.., calls, results] = turns else { return true };
    let is_answered = results.blocks.iter().any(|it| it.is("tool_result"));
    let is_thought = calls.blocks.first().is_some_and(|it| it.is("thinking") || it.is("redacted_thinking"));
    !is_answered || is_thought
}
