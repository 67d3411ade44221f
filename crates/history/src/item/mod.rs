//! The items of a thread's log.
//!
//! An [`Item`] is one entry of the log: a message, a fact, or a change of the thread. Items are immutable once they
//! are appended; a change (a reset, another model, the end of a turn) is recorded as a separate item.

mod calendar;
pub(crate) mod cost;
pub(crate) mod event;
pub(crate) mod fact;
pub(crate) mod wording;

use std::fmt;
use std::sync::Arc;

use contexture_message::{Evidence, Message, Role, Tokens, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::event::SystemEvent;
use self::fact::{Fact, read_facts};

/// A position in a thread's log. The first item is at 1; 0 is the end of an empty log.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the position after this one.
    #[must_use]
    pub fn next(self) -> Seq {
        self.plus(1)
    }

    /// Returns the position `count` after this one.
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

/// The number of a turn in its thread, starting at 1. Items before the first turn have 0. Shown as `t7`.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct TurnNo(pub u64);

impl TurnNo {
    /// Returns the number after this one.
    #[must_use]
    pub fn next(self) -> TurnNo {
        TurnNo(self.0.saturating_add(1))
    }

    /// Parses a turn number as it is shown, such as `t7`.
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

/// A point in time: milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// Which views include an item.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Visibility {
    /// Whether the client's view includes it: what a user interface shows.
    #[serde(default = "included")]
    pub client: bool,
    /// Whether the history includes it: what the model sees.
    #[serde(default = "included")]
    pub history: bool,
}

fn included() -> bool {
    true
}

impl Visibility {
    /// Visible to the client and to the model.
    pub const BOTH: Visibility = Visibility { client: true, history: true };
    /// Visible to the client only.
    pub const CLIENT: Visibility = Visibility { client: true, history: false };
    /// Visible to the model only.
    pub const HISTORY: Visibility = Visibility { client: false, history: true };
    /// Visible in the log only.
    pub const NONE: Visibility = Visibility { client: false, history: false };

    /// Returns the views that both include.
    #[must_use]
    pub fn and(self, other: Visibility) -> Visibility {
        Visibility { client: self.client && other.client, history: self.history && other.history }
    }
}

/// One entry of a thread's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its position; together with the thread's id it identifies the item.
    pub seq: Seq,
    /// The turn it belongs to.
    pub turn: TurnNo,
    /// Which views include it.
    pub visibility: Visibility,
    /// Its cost to the model, counted once when it was appended.
    pub cost: Cost,
    /// The author, if the application provides one.
    pub author: Option<String>,
    /// When it was appended.
    pub at: Timestamp,
    /// The content.
    pub body: Body,
}

impl Item {
    /// Whether a turn of the history can start with it. Except for the start of a turn, changes of the thread do not
    /// start one: instructions set before the first message are not a turn.
    pub fn starts_turn(&self) -> bool {
        !matches!(&self.body, Body::Change(change) if !matches!(change, Change::TurnBegan { .. }))
    }

    /// Returns the item as a JSON document, for inspecting a log.
    pub fn document(&self, thread: &str) -> Value {
        json!(ItemDocument {
            id: format!("{thread}:{}", self.seq),
            seq: self.seq,
            turn: self.turn.to_string(),
            kind: self.body.kind(),
            at: self.at.to_millis(),
            tokens: self.cost.tokens,
            counter: &self.cost.counter,
            visibility: self.visibility,
            author: self.author.as_deref(),
            body: &self.body,
        })
    }
}

/// An [`Item`] as [`Item::document`] writes it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Item")]
pub struct ItemDocument<'a> {
    /// The thread, a colon and the position.
    id: String,
    /// The position in the log.
    seq: Seq,
    /// The turn it belongs to, such as `t7`.
    turn: String,
    /// `user`, `assistant`, `tool`, `system_event`, `envelope`, `summary`, `application`, `turn_began`, `turn_ended`,
    /// …
    kind: &'static str,
    /// When it was appended.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Its cost to the model, counted once when it was appended.
    tokens: Tokens,
    /// The counter that counted it.
    counter: &'a str,
    /// Which views include it.
    visibility: Visibility,
    /// The author, if the application provides one.
    author: Option<&'a str>,
    /// The content.
    body: &'a Body,
}

/// A cost and the counter that counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The name of the counter; a different counter has to count again.
    pub counter: Arc<str>,
    /// The number of tokens, framing included.
    pub tokens: Tokens,
}

/// The content of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ItemBody")]
pub enum Body {
    /// A message of the user, the assistant or a tool.
    Message(Arc<Message>),
    /// A durable fact between messages, replayed at its position as a user message.
    SystemEvent(SystemEvent),
    /// Hidden text that accompanies the user message before it.
    Envelope(Envelope),
    /// A summary of older turns.
    Summary(Summary),
    /// Data that the application keeps in the log. The model never sees it.
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

    /// Returns the message, if the body is one.
    pub fn as_message(&self) -> Option<&Arc<Message>> {
        match self {
            Body::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Returns the visibility of such an item unless the writer sets another one.
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

/// Hidden content that accompanies a user message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The tag around it.
    pub tag: EnvelopeTag,
    /// The text that the model reads, without the tag; may be empty if there is evidence.
    pub text: String,
    /// Search results that the model may cite. They stand before the text, outside of the tag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

impl Envelope {
    /// Returns an envelope of a text alone.
    pub fn text(tag: EnvelopeTag, text: impl Into<String>) -> Self {
        Self { tag, text: text.into(), evidence: Vec::new() }
    }
}

/// The two kinds of envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeTag {
    /// Resolved references, retrieved snippets, attachments, page state, inline blocks.
    SystemContext,
    /// Memory recall and bounded reminders.
    SystemReminders,
}

/// A summary of older turns. The items it covers stay in the log as an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The text that the model reads in their place; empty if they are left out.
    pub text: String,
    /// Facts that the model also reads, kept word for word however often the range is summarised again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// The first item it covers.
    pub first: Seq,
    /// The last item it covers.
    pub last: Seq,
    /// The number of the archive in its thread, starting at 1.
    #[serde(default)]
    pub number: u64,
    /// The first and the last turn that it covers, fully or in part.
    #[serde(default)]
    pub turns: (TurnNo, TurnNo),
    /// How the range was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The cost of the range before.
    #[serde(default)]
    pub before: Tokens,
    /// The archives in the range that it replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<Archived>,
    /// Why the range is left out without a summary, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// The event that tells the model what the summary covers. It is part of the summary, so it goes with it when the
    /// archive is undone or replaced. Summaries of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<SystemEvent>>,
}

impl Summary {
    /// Whether the model reads any of it.
    pub fn is_shown(&self) -> bool {
        !self.text.trim().is_empty() || !self.facts.is_empty()
    }

    /// Returns the facts that a summary replacing it carries over. Older summaries have them in their text.
    pub fn carried_facts(&self) -> Vec<Fact> {
        if self.facts.is_empty() { read_facts(&self.text).1 } else { self.facts.clone() }
    }
}

/// A range of a log that the model no longer reads because a summary replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ArchivedRange")]
pub struct Archived {
    /// The number of the archive in its thread, starting at 1. Shown as `a3`.
    pub number: u64,
    /// The position of its [`Summary`] in the log.
    pub record: Seq,
    /// The first item it covers.
    pub first: Seq,
    /// The last item it covers.
    pub last: Seq,
    /// The first and the last turn that it covers, fully or in part.
    pub turns: (TurnNo, TurnNo),
}

impl Archived {
    /// Returns the archive made by a summary at a position.
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

/// An item defined by the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApplicationItem")]
pub struct Application {
    /// The kind, as named by the application.
    pub kind: String,
    /// Its data.
    #[serde(default)]
    pub value: Value,
}

/// A change of the thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ThreadChange")]
pub enum Change {
    /// A turn began.
    TurnBegan {
        /// The key by which a repeated request finds this turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Which views include what the turn says, where it is not the default. A turn that is not part of the history
        /// is read by the model while it is open, and not after it has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        visibility: Option<Visibility>,
    },
    /// A suspended or unfinished turn resumed.
    TurnResumed,
    /// The turn ended or was suspended.
    TurnEnded {
        /// The final status; never [`TurnStatus::InFlight`].
        status: TurnStatus,
        /// The reason, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The stable code of the error that ended it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The usage of its model calls since it began or was resumed, if they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// The history restarts after this item.
    HistoryReset,
    /// The instructions changed.
    Instructions {
        /// The new instructions; `None` removes them.
        text: Option<String>,
    },
    /// The model changed.
    Model {
        /// The provider's name in the configuration.
        provider: String,
        /// The model's name as the provider spells it.
        model: String,
    },
    /// An archive was undone: the model reads its items again, and the archives that it had replaced.
    ArchiveUndone {
        /// The number of the archive.
        number: u64,
        /// The archives that it had replaced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        restores: Vec<Archived>,
    },
    /// Older items are now shown in a shorter form or left out.
    Aged {
        /// Tool results up to this position are old.
        results: Seq,
        /// Hidden envelopes up to this position are left out.
        hidden: Seq,
    },
    /// A note of the engine about the thread; the newest note for a key is in effect.
    Noted {
        /// The key of the note.
        key: String,
        /// The note; `None` removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
}

impl Change {
    /// Returns the beginning of a turn with the default visibility.
    pub fn began(key: Option<String>) -> Self {
        Change::TurnBegan { key, visibility: None }
    }

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

/// The status of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// The turn is running, or its writer died.
    InFlight,
    /// The turn finished.
    #[default]
    Completed,
    /// The turn failed with an error.
    Failed,
    /// The turn was stopped, or its writer died.
    Interrupted,
    /// The turn waits for an answer from outside.
    Suspended,
}

impl TurnStatus {
    /// Returns the name of the status in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnStatus::InFlight => "in_flight",
            TurnStatus::Completed => "completed",
            TurnStatus::Failed => "failed",
            TurnStatus::Interrupted => "interrupted",
            TurnStatus::Suspended => "suspended",
        }
    }

    /// Whether the turn has ended: it is neither in flight nor suspended.
    pub fn is_over(self) -> bool {
        !matches!(self, TurnStatus::InFlight | TurnStatus::Suspended)
    }
}

/// How a range is chosen. The names are used in events and as the summariser's `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CompactionStrategy")]
pub enum Strategy {
    /// Takes the oldest turns, at the start of a turn.
    SessionCompaction,
    /// Takes some rounds, between two calls.
    ReactiveMicro,
    /// Takes everything possible, between two calls.
    ReactiveFull,
}

impl Strategy {
    /// Returns the name, such as `reactive_micro`.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::SessionCompaction => "session_compaction",
            Strategy::ReactiveMicro => "reactive_micro",
            Strategy::ReactiveFull => "reactive_full",
        }
    }
}
