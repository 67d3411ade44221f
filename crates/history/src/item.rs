//! What a thread's log is made of.
//!
//! An [`Item`] is one entry of the log: something that was said, a fact, or a change of the thread. Items are
//! never changed once they are appended; whatever looks like a change (a reset, another model, the end of a
//! turn) is an item of its own.

use std::fmt;
use std::sync::Arc;

use contexture_message::{Message, Role, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compaction::Strategy;
use crate::fact::{Fact, read_facts};

/// A position in a thread's log. The first item has 1; 0 is the end of an empty log.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the position after this one.
    #[must_use]
    pub fn next(self) -> Seq {
        self.plus(1)
    }

    /// Returns the position `count` further on.
    #[must_use]
    pub fn plus(self, count: u64) -> Seq {
        Seq(self.0.saturating_add(count))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a turn in its thread, from 1 on. 0 holds what was appended before the first turn. Shown as `t7`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnNo(pub u64);

impl TurnNo {
    /// Returns the number after this one.
    #[must_use]
    pub fn next(self) -> TurnNo {
        TurnNo(self.0.saturating_add(1))
    }

    /// Returns the number that is shown as `text`, such as `t7`.
    pub fn parse(text: &str) -> Option<TurnNo> {
        let digits = text.strip_prefix('t').filter(|it| it.bytes().all(|it| it.is_ascii_digit()))?;
        digits.parse().ok().map(TurnNo)
    }
}

impl fmt::Display for TurnNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// A moment: milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// Who gets to see an item.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visibility {
    /// In the client's view: what a user interface shows.
    pub client: bool,
    /// In the history: what the model sees.
    pub history: bool,
}

impl Visibility {
    /// Seen by the client and by the model.
    pub const BOTH: Visibility = Visibility { client: true, history: true };
    /// Seen by the client alone.
    pub const CLIENT: Visibility = Visibility { client: true, history: false };
    /// Seen by the model alone.
    pub const HISTORY: Visibility = Visibility { client: false, history: true };
    /// In the log alone.
    pub const NONE: Visibility = Visibility { client: false, history: false };
}

/// One entry of a thread's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its position; together with the thread's id it is the item's id.
    pub seq: Seq,
    /// The turn it belongs to.
    pub turn: TurnNo,
    /// Who gets to see it.
    pub visibility: Visibility,
    /// What it costs the model, counted once when it was appended.
    pub cost: Cost,
    /// Who wrote it, where the application says so.
    pub author: Option<String>,
    /// When it was appended.
    pub at: Timestamp,
    /// What it says.
    pub body: Body,
}

impl Item {
    /// Whether a turn of the history can start with it. Changes of the thread, besides the beginning of a turn, take
    /// no turn's place: instructions that are set before anything is said are no turn.
    pub fn starts_turn(&self) -> bool {
        !matches!(&self.body, Body::Change(change) if !matches!(change, Change::TurnBegan { .. }))
    }

    /// Returns the item as a document, for whoever looks at a log.
    pub fn document(&self, thread: &str) -> Value {
        json!({
            "id": format!("{thread}:{}", self.seq), "seq": self.seq, "turn": self.turn.to_string(),
            "kind": self.body.kind(), "at": self.at.to_millis(), "tokens": self.cost.tokens,
            "counter": &*self.cost.counter, "visibility": self.visibility, "author": self.author, "body": self.body,
        })
    }
}

/// What something costs, and who counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The name of the counter; another one counts again.
    pub counter: Arc<str>,
    /// What it counted, framing included.
    pub tokens: Tokens,
}

/// What an item says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// A message of the user, the assistant or a tool.
    Message(Arc<Message>),
    /// A durable fact between messages, replayed at its position as a user message.
    SystemEvent(SystemEvent),
    /// Hidden text that goes along with the user's message before it.
    Envelope(Envelope),
    /// What older turns came to.
    Summary(Summary),
    /// Whatever the application keeps in the log. The model never sees it.
    Application(Application),
    /// A change of the thread itself.
    Change(Change),
}

impl Body {
    /// Returns the name of the kind: `user`, `assistant`, `tool`, `system`, `system_event`, `envelope`, `summary`,
    /// `application`, `turn_began`, `turn_ended`, …
    pub fn kind(&self) -> &'static str {
        match self {
            Body::Message(message) => message.role.as_str(),
            Body::SystemEvent(_) => "system_event",
            Body::Envelope(_) => "envelope",
            Body::Summary(_) => "summary",
            Body::Application(_) => "application",
            Body::Change(change) => change.kind(),
        }
    }

    /// Returns the message, if it is one.
    pub fn as_message(&self) -> Option<&Arc<Message>> {
        match self {
            Body::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Returns who sees such an item unless the writer says otherwise.
    pub fn default_visibility(&self) -> Visibility {
        match self {
            Body::Message(message) if message.role == Role::System => Visibility::HISTORY,
            Body::Message(_) => Visibility::BOTH,
            Body::SystemEvent(_) | Body::Envelope(_) | Body::Summary(_) => Visibility::HISTORY,
            Body::Application(_) => Visibility::CLIENT,
            Body::Change(_) => Visibility::NONE,
        }
    }
}

/// A durable fact between messages, such as a deployment that finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemEvent {
    /// Its name, an attribute of the tag around it.
    pub name: String,
    /// What happened.
    pub text: String,
}

/// Hidden text that goes along with a user's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The tag around it.
    pub tag: EnvelopeTag,
    /// What the model reads, without the tag.
    pub text: String,
}

/// The two kinds of envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeTag {
    /// Resolved references, retrieved snippets, attachments, page state, inline blocks.
    SystemContext,
    /// Memory recall and bounded reminders.
    SystemReminders,
}

/// What older turns came to. The items it covers stay in the log: they are an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// What the model reads in their place; nothing if they are left out.
    pub text: String,
    /// What the model reads besides, word for word, however often this is summarised again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// The first item it covers.
    pub first: Seq,
    /// The last item it covers.
    pub last: Seq,
    /// The number of the archive in its thread, from 1 on.
    #[serde(default)]
    pub number: u64,
    /// The first and the last turn that it covers, or covers a part of.
    #[serde(default)]
    pub turns: (TurnNo, TurnNo),
    /// What made it necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// What the range cost before.
    #[serde(default)]
    pub before: Tokens,
    /// The archives in the range that it takes the place of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<Archived>,
    /// Why the range is left out without a summary, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl Summary {
    /// Whether the model reads anything of it.
    pub fn is_shown(&self) -> bool {
        !self.text.trim().is_empty() || !self.facts.is_empty()
    }

    /// Returns the facts that a summary in its place takes over. Summaries had them in their text once.
    pub fn carried_facts(&self) -> Vec<Fact> {
        if self.facts.is_empty() { read_facts(&self.text).1 } else { self.facts.clone() }
    }
}

/// A range of a log that the model does not read any more: something else stands in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archived {
    /// The number of the archive in its thread, from 1 on. Shown as `a3`.
    pub number: u64,
    /// Where its [`Summary`] stands in the log.
    pub record: Seq,
    /// The first item it covers.
    pub first: Seq,
    /// The last item it covers.
    pub last: Seq,
    /// The first and the last turn that it covers, or covers a part of.
    pub turns: (TurnNo, TurnNo),
}

impl Archived {
    /// Returns the archive that a summary at a position makes.
    pub fn of(summary: &Summary, record: Seq) -> Self {
        let Summary { first, last, number, turns, .. } = *summary;
        Self { number, record, first, last, turns }
    }

    /// Whether it covers a position.
    pub fn covers(&self, seq: Seq) -> bool {
        (self.first..=self.last).contains(&seq)
    }

    /// Returns its name, such as `a3`.
    pub fn name(&self) -> String {
        format!("a{}", self.number)
    }
}

/// An item of the application's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// What it is, in the application's words.
    pub kind: String,
    /// Its data.
    #[serde(default)]
    pub value: Value,
}

/// A change of the thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A turn began.
    TurnBegan {
        /// The key under which the same request finds this turn again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A suspended turn goes on, or one that did not come to its end.
    TurnResumed,
    /// The turn ended, or waits.
    TurnEnded {
        /// What became of it; never [`TurnStatus::InFlight`].
        status: TurnStatus,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The history starts anew after this item.
    HistoryReset,
    /// Other instructions.
    Instructions {
        /// The text; nothing takes them away.
        text: Option<String>,
    },
    /// Another model.
    Model {
        /// The provider's name in the configuration.
        provider: String,
        /// The provider's name of the model.
        model: String,
    },
    /// What a summary covers is read again, and what the summary took the place of.
    ArchiveUndone {
        /// The number of the archive.
        number: u64,
        /// The archives that it had replaced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        restores: Vec<Archived>,
    },
    /// What is old now: read in a shorter form, or not at all.
    Aged {
        /// Tool results up to here are old.
        results: Seq,
        /// Hidden envelopes up to here are left out.
        hidden: Seq,
    },
    /// Something that the engine remembers of the thread; the newest note of a key counts.
    Noted {
        /// What it is about.
        key: String,
        /// The note; nothing takes it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
}

impl Change {
    fn kind(&self) -> &'static str {
        match self {
            Change::TurnBegan { .. } => "turn_began",
            Change::TurnResumed => "turn_resumed",
            Change::TurnEnded { .. } => "turn_ended",
            Change::HistoryReset => "history_reset",
            Change::Instructions { .. } => "instructions",
            Change::Model { .. } => "model",
            Change::ArchiveUndone { .. } => "archive_undone",
            Change::Aged { .. } => "aged",
            Change::Noted { .. } => "noted",
        }
    }
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It runs, or its writer died.
    InFlight,
    /// It came to its end.
    #[default]
    Completed,
    /// Something broke.
    Failed,
    /// Someone stopped it, or its writer died.
    Interrupted,
    /// It waits for an answer from outside.
    Suspended,
}

impl TurnStatus {
    /// Returns the status in words of the log.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnStatus::InFlight => "in_flight",
            TurnStatus::Completed => "completed",
            TurnStatus::Failed => "failed",
            TurnStatus::Interrupted => "interrupted",
            TurnStatus::Suspended => "suspended",
        }
    }

    /// Whether nothing more can come.
    pub fn is_over(self) -> bool {
        !matches!(self, TurnStatus::InFlight | TurnStatus::Suspended)
    }
}
