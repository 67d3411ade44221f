//! Every tool call has one result directly after it, and every result its call.
//!
//! Providers refuse a request in which one is missing, so history is repaired on its way out; the log stays as it is.
//! The rule, in full:
//!
//! 1. A result belongs to the nearest message before it that has an unanswered call with its id; within that message
//!    calls are answered in order, also where several have one id.
//! 2. A result stands directly after its call if it is at the front of the next message, or of a later one with
//!    nothing but results in between. Results of one message may come in any order, in one message or several, and in
//!    messages of any role.
//! 3. A result that stands elsewhere is moved behind the results that are there. If a message consists of nothing
//!    else, it is moved whole.
//! 4. A call without a result gets one that says `interrupted`, behind those. Where the message with the other results
//!    also says something else, both go in front of it: nothing may stand between calls and results.
//! 5. A result without a call is left out, and so is a second result. A message without parts left disappears.
//!
//! Equal messages are repaired equally, in time that grows with their number alone. What was repaired once needs no
//! repair again. Everything but calls and results stays as and where it is.

use std::fmt;
use std::sync::Arc;

use contexture_message::Message;
use serde::{Deserialize, Serialize};

use crate::mend::{Group, mend};

/// Messages of which every call has its result directly after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// The messages, in order.
    pub messages: Vec<Arc<Message>>,
    /// What had to be done, in the order of the messages.
    pub repairs: Vec<Repair>,
}

/// One repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The id of the call or of the result.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What was done.
    pub what: RepairKind,
}

/// What a repair did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// The call had no result and got one that says so.
    Completed,
    /// The result had no call.
    LeftOut,
    /// The result stood elsewhere.
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

/// Pairs the calls and results of a list of messages.
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
