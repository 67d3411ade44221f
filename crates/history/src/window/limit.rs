//! Limits on how much of a view is returned.

use contexture_message::Tokens;
use serde::{Deserialize, Serialize};

/// A limit counted from the newest backward. Written as a number, `{"turns": N}` or `{"tokens": N}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawLimit", into = "RawLimit")]
pub enum Limit {
    /// At most this many turns of the history, or this many items of another view.
    Turns(usize),
    /// Whole turns, until one does not fit.
    Tokens(Tokens),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, `{turns: N}` or `{tokens: N}`")]
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

impl From<RawLimit> for Limit {
    fn from(raw: RawLimit) -> Self {
        match raw {
            RawLimit::Number(turns) | RawLimit::Turns(TurnLimit { turns }) => Limit::Turns(turns),
            RawLimit::Tokens(TokenLimit { tokens }) => Limit::Tokens(tokens),
        }
    }
}

impl From<Limit> for RawLimit {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Turns(turns) => RawLimit::Turns(TurnLimit { turns }),
            Limit::Tokens(tokens) => RawLimit::Tokens(TokenLimit { tokens }),
        }
    }
}
