//! Ensures that every tool call has one result directly after it, and every result has its call.
//!
//! Providers reject a request in which either is missing, so history is repaired when a request is built; the log does
//! not change. The rules:
//!
//! 1. A result belongs to the nearest message before it that has an unanswered call with its id. Within that message,
//!    calls are answered in order, even if several share an id.
//! 2. A result is in place if it is at the front of the message after its call, or at the front of a later message
//!    with only results in between. The results for one message may come in any order, in one message or several, and
//!    in messages of any role.
//! 3. A result anywhere else is moved behind the results that are in place. A message that consists of nothing else is
//!    moved whole.
//! 4. A call without a result gets one with the text `interrupted`, after the results in place. If the message with
//!    those results also has other parts, both are put in front of it: nothing may come between calls and results.
//! 5. A result without a call is left out, and so is a second result. A message with no parts left is removed.
//!
//! Equal messages are repaired equally, in time linear in their number. Repairing is idempotent. All parts other than
//! calls and results stay unchanged and in place.

use std::fmt;
use std::sync::Arc;

use contexture_message::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) mod mend;

use self::mend::{Group, mend};

/// Messages in which every call has its result directly after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// The messages, in order.
    pub messages: Vec<Arc<Message>>,
    /// The repairs that were made, in message order.
    pub repairs: Vec<Repair>,
}

/// One repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The id of the call or result.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The kind of repair.
    pub what: RepairKind,
}

/// The kind of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// The call had no result and got one that reports the interruption.
    Completed,
    /// The result had no call and was left out.
    LeftOut,
    /// The result was in another place and was moved to its call.
    Moved,
}

impl RepairKind {
    /// Returns the kind's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RepairKind::Completed => "completed",
            RepairKind::LeftOut => "left_out",
            RepairKind::Moved => "moved",
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repair { call_id, name, what } = self;
        match what {
            RepairKind::Completed => {
                write!(f, "call `{call_id}` of `{name}` had no result and was completed")
            }
            RepairKind::LeftOut => write!(f, "result `{call_id}` of `{name}` had no call and was left out"),
            RepairKind::Moved => {
                write!(f, "result `{call_id}` of `{name}` was moved directly after its call")
            }
        }
    }
}

/// Pairs the calls and results in a list of messages.
///
/// ```
/// use std::sync::Arc;
///
/// use contexture_history::{RepairKind, repair};
/// use contexture_message::{Message, Part, Role, ToolCall};
///
/// let call = ToolCall { id: "c1".into(), name: "find".into(), arguments: Default::default() };
/// let asked = Arc::new(Message::parts(Role::Assistant, vec![Part::ToolCall(call)]));
/// let repaired = repair(&[asked, Arc::new(Message::user("Never mind."))]);
/// assert_eq!(repaired.messages.len(), 3);
/// assert_eq!(repaired.repairs[0].what, RepairKind::Completed);
/// ```
pub fn repair(messages: &[Arc<Message>]) -> Repaired {
    let group = Group { messages, is_paired: false, is_neutral: true };
    let (mut repaired, mut repairs) = (Vec::new(), Vec::new());
    for mended in mend(&[group]) {
        repaired.extend(mended.messages);
        repairs.extend(mended.repairs);
    }
    Repaired { messages: repaired, repairs }
}
