//! Corrects estimates by the usage that a provider reports.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CounterProfile, TokenCounter, Tokens};

/// The factor by which a provider's counts differ from ours, learned from its reports. Plain data: store it
/// with the model it was learned from.
///
/// ```
/// use contexture_message::tokens::{Correction, Tokens};
///
/// let mut correction = Correction::default();
/// correction.observe(Tokens(1_000), Tokens(1_200));
/// assert_eq!(correction.apply(Tokens(500)), Tokens(600));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// The factor in millionths; 1,000,000 changes nothing.
    pub millionths: u32,
    /// How many reports it was learned from.
    pub reports: u32,
}

const ONE: u64 = 1_000_000;
/// A lower ratio means that the report covers something else, such as only the uncached part of a request.
const LEAST: u64 = ONE / 2;
/// A higher ratio is lowered to this.
const MOST: u64 = ONE * 2;
/// A new report weighs at least an eighth, so that the factor follows changes of the provider.
const SLOWEST: u64 = 8;

impl Default for Correction {
    fn default() -> Self {
        Self { millionths: ONE as u32, reports: 0 }
    }
}

impl Correction {
    /// Learns from one request with our estimate and the provider's report. A report of less than half is ignored.
    pub fn observe(&mut self, estimated: Tokens, reported: Tokens) {
        if estimated.0 == 0 {
            return;
        }
        let seen = (u64::from(reported.0) * ONE / u64::from(estimated.0)).min(MOST);
        if seen < LEAST {
            return;
        }
        self.reports = self.reports.saturating_add(1);
        // The plain average at first, then a moving one.
        let weight = u64::from(self.reports).min(SLOWEST);
        let average = (self.factor() * (weight - 1) + seen + weight / 2) / weight;
        self.millionths = u32::try_from(average.clamp(LEAST, MOST)).unwrap_or(ONE as u32);
    }

    /// Returns what the provider would report for an estimate, rounded up.
    pub fn apply(&self, estimated: Tokens) -> Tokens {
        let corrected = (u64::from(estimated.0) * self.factor()).div_ceil(ONE);
        Tokens(u32::try_from(corrected).unwrap_or(u32::MAX))
    }

    /// Returns our estimate for what the provider reports, rounded down: the inverse of [`apply`](Self::apply).
    pub fn undo(&self, reported: Tokens) -> Tokens {
        let estimated = u64::from(reported.0) * ONE / self.factor();
        Tokens(u32::try_from(estimated).unwrap_or(u32::MAX))
    }

    /// Returns the correction for an exact counter: it may count too little, such as the framing of tools, but never
    /// too much.
    #[must_use]
    pub fn at_least_one(self) -> Self {
        Self { millionths: self.millionths.max(ONE as u32), ..self }
    }

    /// Fields are public and may hold any value, so the range is enforced here too.
    fn factor(&self) -> u64 {
        u64::from(self.millionths).clamp(LEAST, MOST)
    }
}

/// Written like `1.043`.
impl fmt::Display for Correction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = (self.factor() + 500) / 1_000;
        write!(f, "{}.{:03}", thousandths / 1_000, thousandths % 1_000)
    }
}

/// An estimate with a fixed correction. An exact counter is not corrected.
#[derive(Clone)]
pub struct Corrected {
    counter: Arc<dyn TokenCounter>,
    correction: Option<Correction>,
}

impl Corrected {
    /// Returns `counter` with `correction` applied to each count, unless it is exact.
    pub fn new(counter: Arc<dyn TokenCounter>, correction: Correction) -> Self {
        let correction = (!counter.profile().exact).then_some(correction);
        Self { counter, correction }
    }
}

impl TokenCounter for Corrected {
    fn count(&self, text: &str) -> Tokens {
        let count = self.counter.count(text);
        self.correction.map_or(count, |it| it.apply(count))
    }

    fn profile(&self) -> CounterProfile {
        let mut profile = self.counter.profile();
        if let Some(correction) = self.correction {
            profile.name = Cow::Owned(format!("{}, corrected by {correction}", profile.name));
        }
        profile
    }
}

impl fmt::Debug for Corrected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Corrected").field(&self.profile().name).finish()
    }
}
