//! Token counting.
//!
//! [`counter_for`] a model returns an [`Encoding`], which is exact, or an [`Estimate`]. [`Remembered`] counts each
//! text once; [`Corrected`] applies what was learned from a provider's reports. [`message_tokens`] and related
//! functions combine counts and framing.

mod correction;
mod cost;
mod cut;
mod encoding;
mod estimate;
mod family;
mod memo;
mod scripts;

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use correction::{Corrected, Correction};
pub use cost::{message_tokens, part_tokens, request_tokens, schema_tokens, tool_tokens};
pub use encoding::Encoding;
pub use estimate::Estimate;
pub use family::{Family, counter_for};
pub use memo::{MemoStats, Remembered};

/// A number of tokens, as counted by one [`TokenCounter`].
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Tokens(pub u32);

impl Tokens {
    /// Returns the difference, or zero.
    #[must_use]
    pub fn saturating_sub(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add for Tokens {
    type Output = Tokens;

    fn add(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        *self = *self + other;
    }
}

impl Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(iter: I) -> Tokens {
        iter.fold(Tokens(0), Add::add)
    }
}

/// Counts the tokens of a text.
///
/// Implementations are deterministic and never fail: a counter that does not know a character over-counts
/// it. Any `Fn(&str) -> Tokens` is a counter, inexact and without framing.
pub trait TokenCounter: Send + Sync {
    /// Returns the cost of `text` alone, without the framing a provider adds around a message.
    fn count(&self, text: &str) -> Tokens;

    /// Returns the counter's name, exactness and framing.
    fn profile(&self) -> CounterProfile {
        CounterProfile { name: Cow::Borrowed("custom"), exact: false, framing: Framing::default() }
    }
}

impl<F: Fn(&str) -> Tokens + Send + Sync> TokenCounter for F {
    fn count(&self, text: &str) -> Tokens {
        self(text)
    }
}

/// The name of a counter and how accurate it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterProfile {
    /// The name, such as `o200k_base`.
    pub name: Cow<'static, str>,
    /// Whether the provider would count the same number for a text.
    pub exact: bool,
    /// The tokens added around texts.
    pub framing: Framing,
}

impl CounterProfile {
    /// Returns the share of a budget to keep free for the counter's error, in percent: 0 for an exact
    /// counter, 5 for an estimate.
    pub fn margin_percent(&self) -> u32 {
        if self.exact { 0 } else { 5 }
    }
}

/// The tokens that a provider adds around texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// Added once per request.
    pub request: u32,
    /// Added for each message.
    pub message: u32,
    /// Added for each tool definition.
    pub tool: u32,
    /// Added for each image. The real cost depends on its size in pixels, which is unknown here.
    pub image: u32,
}
