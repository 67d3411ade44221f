//! Whether the calls and results of a list of messages are paired, known after each message.
//!
//! A message with calls is answered by the messages directly after it: results at the front of a message count, a
//! message of nothing but results lets the next one go on, everything else ends the answers. The messages are
//! paired if each call has one result there and no result stands anywhere else. This is exactly when
//! [`repair`](crate::repair()) finds nothing to do.

use std::collections::BTreeMap;

use contexture_message::{Message, Part};

/// What is known about the messages so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pairing {
    /// The calls of the last message that asked which have no result yet: how many by id.
    open: BTreeMap<String, usize>,
    /// Whether something stands where nothing that follows can mend it.
    broken: bool,
}

impl Pairing {
    /// Takes in the next message. Costs what the message costs, not what came before.
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

    /// Whether every call has its result directly after it, and every result its call.
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

    /// Something else begins: what has no result by now gets none directly after it.
    fn close(&mut self) {
        self.broken |= !self.open.is_empty();
        self.open.clear();
    }
}
