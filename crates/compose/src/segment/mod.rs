//! Segments, which the stages pass to each other.

mod envelope;
mod priority;
mod shared;
mod source;

use std::fmt;
use std::sync::{Arc, LazyLock};

use contexture_message::tokens::{message_tokens, part_tokens};
use contexture_message::{Message, TokenCounter, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::envelope::{envelope, envelope_text, is_engines, is_of_the_user};
pub use self::priority::{Priority, PriorityOutOfRange};
pub(crate) use self::shared::AnyEq;
pub use self::shared::{Counted, Runner, SharedText, SharedTool};
pub use self::source::{EntryKind, Source};

/// The separator between the pieces of the system message.
pub(crate) const SEPARATOR: &str = "\n\n";

/// One contribution on its way into a request. No stage removes a Segment: one that is not sent keeps its position,
/// with a [`Fate`] that says why.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The contributor that it comes from.
    pub source: Source,
    /// Its place in the request.
    pub slot: Slot,
    /// Its content.
    pub body: Body,
    /// Its priority under a budget: the lowest is dropped first.
    pub priority: Priority,
    /// Whether it is exempt from being shortened or dropped.
    pub pinned: bool,
    /// Whether the author declared it stable, which moves it to the front of the system message.
    pub cached: bool,
    /// What the thread keeps of it. If set, it belongs to the frozen prefix, right after the prompt's own text.
    pub frozen: Option<FrozenBody>,
    /// How often its bytes change.
    pub volatility: Volatility,
    /// Where its content comes from, for policies.
    pub trust: Trust,
    /// The position of its entry in resolved order; everything that is not an entry comes after.
    pub order: usize,
    /// The number of tokens in its current form.
    pub tokens: Tokens,
    /// Shorter forms that may replace it.
    pub offers: Arc<Offers>,
    /// Whether it is sent, and if not, why.
    pub fate: Fate,
    /// What its contributor tells about it, for the Explanation.
    pub detail: Option<Arc<Value>>,
}

/// What a thread keeps of its frozen prefix: a block, or the messages of a context provider.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FrozenBody {
    /// The block's name, as written in its tag, or `provider:<name>`.
    pub name: Arc<str>,
    /// The rendered body without the tag; empty if the block was empty. For a provider: its messages, as JSON.
    pub body: Arc<str>,
}

/// What a Segment can be reduced to before it is dropped.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// Shorter versions, longest first.
    pub shorter: Vec<SharedText>,
    /// Cut to this many tokens, at a line or sentence, with a marker.
    pub max_tokens: Option<Tokens>,
}

impl Offers {
    /// Returns no offers. Most Segments have none and share this value.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Offers>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }
}

/// The place of a Segment in the request, in request order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Slot {
    /// A tool definition.
    Tools,
    /// A piece of the composed system message.
    System,
    /// A share of the tag block at the end of the composed system message.
    Tags,
    /// The prompt's own section, which replaces the tag block.
    Section,
    /// The first system message of the prompt's own list, which ends the composed system message.
    SystemEnd,
    /// Content that changes each turn and therefore comes last in the composed system message.
    SystemLast,
    /// A message of the prompt's own list, or of the context slot in array form.
    Context,
    /// Messages of a context provider.
    Provider,
    /// A turn of the history.
    History,
    /// This turn's user message.
    User,
    /// A piece of the hidden envelope of this turn's user message.
    Envelope,
    /// A reminder behind this turn's user message, in an envelope of its own.
    Reminders,
    /// The messages of this turn so far.
    InFlight,
}

impl Slot {
    /// Returns whether it belongs to the composed system message.
    pub fn is_system(self) -> bool {
        matches!(self, Slot::System | Slot::Tags | Slot::Section | Slot::SystemEnd | Slot::SystemLast)
    }

    /// Returns whether it belongs to a hidden envelope of this turn's user message.
    pub(crate) fn is_enclosed(self) -> bool {
        matches!(self, Slot::Envelope | Slot::Reminders)
    }

    /// Returns the name used in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Slot::Tools => "tools",
            Slot::System | Slot::Section | Slot::SystemEnd | Slot::SystemLast => "system",
            Slot::Tags => "tags",
            Slot::Context => "context",
            Slot::Provider => "provider",
            Slot::History => "history",
            Slot::User => "user",
            Slot::Envelope => "envelope",
            Slot::Reminders => "reminders",
            Slot::InFlight => "in_flight",
        }
    }
}

/// The content of a Segment.
#[derive(Clone, Debug)]
pub enum Body {
    /// No content, because the entry was excluded and never ran.
    Nothing,
    /// A shared text.
    Text(SharedText),
    /// The share of one entry in the tag tree, by the entry's position there.
    Tags(usize),
    /// Whole messages.
    Messages(Vec<Arc<Message>>),
    /// A tool definition.
    Tool(SharedTool),
}

impl Body {
    /// Returns how many messages it consists of.
    pub(crate) fn n_messages(&self) -> usize {
        self.messages().len()
    }

    /// Returns the messages it consists of.
    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        match self {
            Body::Messages(messages) => messages,
            Body::Nothing | Body::Text(_) | Body::Tags(_) | Body::Tool(_) => &[],
        }
    }
}

impl From<SharedText> for Body {
    fn from(text: SharedText) -> Self {
        Body::Text(text)
    }
}

/// How often the bytes of a Segment change.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Volatility {
    /// The same in every thread.
    #[default]
    Static,
    /// The same throughout a thread.
    Conversation,
    /// Different each turn.
    Turn,
}

/// Where content comes from, for policies.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Written by the developer.
    #[default]
    Developer,
    /// Written by a user.
    User,
    /// Retrieved from an external source.
    External,
}

/// Whether a Segment is sent, and if not, why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It is sent whole.
    Kept,
    /// It is sent in a shorter form.
    Shortened {
        /// Why it was shortened.
        reason: String,
        /// The number of tokens before it was shortened.
        from: Tokens,
    },
    /// It did not fit the budget.
    Dropped {
        /// Why it was dropped.
        reason: String,
    },
    /// It was not included.
    Excluded {
        /// Why it was excluded.
        reason: Reason,
    },
    /// It has no content.
    Empty,
}

/// Why something was excluded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    /// The rule that excluded it.
    pub rule: String,
    /// The condition and the values that it read, if it is a Liquid expression and not a function.
    pub seen: Option<String>,
}

impl<T: Into<String>> From<T> for Reason {
    fn from(rule: T) -> Self {
        Self { rule: rule.into(), seen: None }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)?;
        self.seen.as_ref().map_or(Ok(()), |it| write!(f, ": {it}"))
    }
}

impl Fate {
    /// Returns the state's name in explanations.
    pub fn state(&self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Shortened { .. } => "shortened",
            Fate::Dropped { .. } => "dropped",
            Fate::Excluded { .. } => "excluded",
            Fate::Empty => "empty",
        }
    }

    /// Returns why it is not sent whole.
    pub fn reason(&self) -> Option<String> {
        match self {
            Fate::Shortened { reason, .. } | Fate::Dropped { reason } => Some(reason.clone()),
            Fate::Excluded { reason } => Some(reason.to_string()),
            Fate::Kept | Fate::Empty => None,
        }
    }

    /// Returns whether it is in the request.
    pub fn is_sent(&self) -> bool {
        matches!(self, Fate::Kept | Fate::Shortened { .. })
    }
}

impl Segment {
    /// Returns a kept Segment with defaults for everything else.
    pub fn new(source: Source, slot: Slot, body: impl Into<Body>) -> Self {
        Self {
            source,
            slot,
            body: body.into(),
            priority: Priority::DEFAULT,
            pinned: false,
            cached: false,
            frozen: None,
            volatility: Volatility::Turn,
            trust: Trust::Developer,
            order: usize::MAX,
            tokens: Tokens(0),
            offers: Offers::none(),
            fate: Fate::Kept,
            detail: None,
        }
    }

    /// Returns the Segment of something that was excluded.
    pub fn excluded(source: Source, reason: impl Into<Reason>) -> Self {
        let fate = Fate::Excluded { reason: reason.into() };
        Self { fate, ..Self::new(source, Slot::System, Body::Nothing) }
    }

    /// Counts the body. The stage that owns the tag tree counts its shares.
    pub(crate) fn body_tokens(&self, counter: &Arc<dyn TokenCounter>) -> Tokens {
        match &self.body {
            Body::Nothing | Body::Tags(_) => Tokens(0),
            Body::Text(text) => text.tokens(counter),
            Body::Tool(tool) => tool.tokens(counter),
            // The envelope is part of a message, whose framing is counted elsewhere.
            Body::Messages(messages) if self.slot == Slot::Envelope => {
                messages.iter().flat_map(|it| &it.content).map(|it| part_tokens(&**counter, it)).sum()
            }
            Body::Messages(messages) => messages_tokens(&**counter, messages),
        }
    }

    /// Returns the text, if the body is a text.
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            Body::Nothing | Body::Tags(_) | Body::Messages(_) | Body::Tool(_) => None,
        }
    }
}

/// Counts the tokens of a list of messages.
pub(crate) fn messages_tokens(counter: &dyn TokenCounter, messages: &[Arc<Message>]) -> Tokens {
    messages.iter().map(|it| message_tokens(counter, it)).sum()
}
