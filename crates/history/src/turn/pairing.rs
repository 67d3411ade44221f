//! Tracks, message by message, whether the calls and results of a list are paired.
//!
//! A message with calls is answered by the messages directly after it. Results at the front of a message count; if a
//! message holds only results, the next one may continue them; anything else ends them. The messages are paired if
//! each call has one result there and no result is anywhere else. In exactly that case [`repair`](crate::repair())
//! finds nothing to do.

use std::collections::BTreeMap;

use contexture_message::{Message, Part};

/// The pairing state after the messages so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pairing {
    /// The unanswered calls of the last message with calls: the number of calls by id.
    open: BTreeMap<String, usize>,
    /// Whether the messages are unpaired in a way that no later message can fix.
    broken: bool,
}

impl Pairing {
    /// Adds the next message. The work depends on that message only, not on earlier ones.
    pub(crate) fn push(&mut self, message: &Message) {
        if self.broken {
            return;
        }
        if message.content.is_empty() {
            self.close();
        }
        let mut is_leading = true;
        for part in &message.content {
            match part {
                Part::ToolResult(result) if is_leading => self.answer(&result.call_id),
                Part::ToolResult(_) => self.broken = true,
                _ if is_leading => {
                    is_leading = false;
                    self.close();
                }
                _ => {}
            }
            if let Part::ToolCall(call) = part {
                *self.open.entry(call.id.clone()).or_default() += 1;
            }
        }
    }

    /// Whether every call has its result directly after it, and every result has its call.
    pub(crate) fn is_paired(&self) -> bool {
        !self.broken && self.open.is_empty()
    }

    fn answer(&mut self, id: &str) {
        match self.open.get_mut(id) {
            None => self.broken = true,
            Some(1) => {
                self.open.remove(id);
            }
            Some(count) => *count -= 1,
        }
    }

    /// Ends the results: a call that is unanswered by now will get no result directly after it.
    fn close(&mut self) {
        self.broken |= !self.open.is_empty();
        self.open.clear();
    }
}
