//! History as it is handed in: whole turns.

use std::sync::Arc;

use contexture_message::{Message, Tokens};
use serde::{Deserialize, Serialize};

/// One turn of a conversation: the user's message and all that followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The turn's id; its source is `history:<id>`.
    pub id: String,
    /// Its messages, in order.
    pub messages: Vec<Arc<Message>>,
    /// What it costs, if that is known from the time it was stored.
    pub cost: Option<TurnCost>,
}

/// What a turn costs, as counted when it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnCost {
    /// The name of the counter; another one counts again.
    pub counter: String,
    /// What it counted, framing included.
    pub tokens: Tokens,
}

impl Turn {
    /// Returns a turn whose cost is not known yet.
    pub fn new(id: impl Into<String>, messages: Vec<Message>) -> Self {
        Self { id: id.into(), messages: messages.into_iter().map(Arc::new).collect(), cost: None }
    }

    /// Whether it contributes anything.
    pub fn has_content(&self) -> bool {
        self.messages.iter().any(|it| !it.is_blank())
    }
}

/// What a prompt takes of the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// How much of it; by default all that is handed in.
    pub limit: Option<HistoryLimit>,
}

/// How much of the history goes along, counted from the newest turn back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawLimit", into = "RawLimit")]
pub enum HistoryLimit {
    /// So many turns.
    Turns(usize),
    /// Whole turns, until one does not fit.
    Tokens(Tokens),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, `{turns: N}` or `{tokens: N}`")]
enum RawLimit {
    Number(usize),
    Turns(TurnLimit),
    Tokens(TokenLimit),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnLimit {
    turns: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLimit {
    tokens: Tokens,
}

impl From<RawLimit> for HistoryLimit {
    fn from(raw: RawLimit) -> Self {
        match raw {
            RawLimit::Number(turns) | RawLimit::Turns(TurnLimit { turns }) => HistoryLimit::Turns(turns),
            RawLimit::Tokens(TokenLimit { tokens }) => HistoryLimit::Tokens(tokens),
        }
    }
}

impl From<HistoryLimit> for RawLimit {
    fn from(limit: HistoryLimit) -> Self {
        match limit {
            HistoryLimit::Turns(turns) => RawLimit::Turns(TurnLimit { turns }),
            HistoryLimit::Tokens(tokens) => RawLimit::Tokens(TokenLimit { tokens }),
        }
    }
}
