//! What a plan for a summary says, and what sets one off.
//!
//! A [`Plan`] names the range of items that becomes a summary, or [`Nothing`] says why there is none. The range is
//! chosen by a [`Layout`](super::Layout); [`due`] says when, and [`unless_repeated`] stops what gains nothing.

use std::ops::Range;

use contexture_message::Tokens;
use serde::{Deserialize, Serialize};

use crate::{Seq, TurnNo};

/// When and how much is summarised. The names are those of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// History larger than this is summarised at the start of a turn, see [`PlanLimits::for_window`].
    pub trigger_tokens: Tokens,
    /// What is left of it then; nothing means a quarter of the trigger.
    pub target_tokens: Option<Tokens>,
    /// Shorter histories are never summarised at the start of a turn.
    pub min_messages: usize,
    /// From this percentage of the window on, some rounds are summarised before the next call.
    pub micro_trigger_pct: u8,
    /// How many rounds these are.
    pub micro_batch_groups: usize,
    /// From this percentage of the window on, all that can be is summarised.
    pub full_trigger_pct: u8,
    /// The newest rounds that stay as they are.
    pub preserve_recent_api_rounds: usize,
    /// Less than this is not worth a summary.
    pub min_range_tokens: Tokens,
}

impl PlanLimits {
    /// Returns the defaults for a model of which so many tokens can be used.
    ///
    /// ```
    /// use contexture_history::compaction::PlanLimits;
    /// use contexture_message::Tokens;
    ///
    /// assert_eq!(PlanLimits::for_window(Tokens(100_000)).trigger_tokens, Tokens(80_000));
    /// ```
    pub fn for_window(usable: Tokens) -> Self {
        Self {
            trigger_tokens: share(usable, 80),
            target_tokens: None,
            min_messages: 20,
            micro_trigger_pct: 85,
            micro_batch_groups: 2,
            full_trigger_pct: 92,
            preserve_recent_api_rounds: 2,
            min_range_tokens: Tokens(256),
        }
    }

    /// Returns what may be left of the history at the start of a turn.
    pub(super) fn target(&self) -> Tokens {
        self.target_tokens.unwrap_or(Tokens(self.trigger_tokens.0 / 4))
    }
}

/// Returns so many percent of a number of tokens.
pub(crate) fn share(tokens: Tokens, percent: u8) -> Tokens {
    let share = u64::from(tokens.0) * u64::from(percent) / 100;
    Tokens(u32::try_from(share).unwrap_or(u32::MAX))
}

/// How a range is chosen. The names are those of events and of the summariser's `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The oldest turns, at the start of a turn.
    SessionCompaction,
    /// Some rounds, between two calls.
    ReactiveMicro,
    /// All that can be, between two calls.
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

/// What set a compaction off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The history was larger than allowed.
    HistoryTokens {
        /// What it cost.
        tokens: Tokens,
        /// What was allowed.
        trigger: Tokens,
    },
    /// The history had as many turns as are kept at hand.
    HistoryTurns {
        /// How many it had.
        turns: usize,
        /// How many are kept at hand.
        window: usize,
    },
    /// The prompt filled the window.
    PromptUsage {
        /// What the prompt cost.
        used: Tokens,
        /// What the window holds.
        usable: Tokens,
        /// How full that is, in percent.
        percent: u32,
        /// The percentage that was crossed.
        threshold: u8,
    },
    /// The provider said that the prompt is too long.
    PromptTooLong,
    /// Someone asked for it.
    Asked,
}

impl Trigger {
    /// Returns the trigger of a prompt that has crossed a threshold.
    pub fn usage(used: Tokens, usable: Tokens, threshold: u8) -> Self {
        let percent = u64::from(used.0) * 100 / u64::from(usable.0.max(1));
        let percent = u32::try_from(percent).unwrap_or(u32::MAX);
        Trigger::PromptUsage { used, usable, percent, threshold }
    }
}

/// A range that is worth a summary.
///
/// `first` and `last` are what the new summary covers, including what summaries in the range cover. The record of
/// another summary can have a position between them without being covered: a summary stands where the items stand
/// that it covers, not where it was appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// How the range was chosen.
    pub strategy: Strategy,
    /// Why there is a plan at all.
    pub trigger: Trigger,
    /// The range in the list that was handed in.
    pub span: Range<usize>,
    /// The first position of the log that the summary will cover.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// The turns of the first and of the last item in the range.
    pub turns: (TurnNo, TurnNo),
    /// How many items of the list it takes.
    pub n_items: usize,
    /// How many of them the model reads as messages.
    pub n_messages: usize,
    /// How many rounds these are.
    pub n_rounds: usize,
    /// What they cost.
    pub before: Tokens,
}

impl Plan {
    /// Whether both would summarise the same.
    pub fn is_same_range(&self, other: &Plan) -> bool {
        (self.first, self.last, self.n_items) == (other.first, other.last, other.n_items)
    }
}

/// Why there is nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nothing {
    /// The history is small enough.
    BelowTrigger {
        /// What it costs.
        tokens: Tokens,
        /// What is allowed.
        trigger: Tokens,
    },
    /// The conversation is too short.
    TooFewMessages {
        /// How many messages there are.
        found: usize,
        /// How many there must be.
        needed: usize,
    },
    /// All of it is recent, in flight or waits for a result.
    AllPinned,
    /// What could be summarised is too small, or is a summary already.
    NoGain {
        /// What it costs.
        tokens: Tokens,
    },
    /// The same was tried before and changed nothing.
    Repeated,
}

impl std::fmt::Display for Nothing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Nothing::BelowTrigger { tokens, trigger } => {
                write!(f, "the history has {tokens} tokens, summaries begin above {trigger}")
            }
            Nothing::TooFewMessages { found, needed } => {
                write!(f, "the history has {found} messages, summaries need {needed}")
            }
            Nothing::AllPinned => f.write_str("everything is recent, in flight or waits for a result"),
            Nothing::NoGain { tokens } => write!(f, "a summary of {tokens} tokens would gain nothing"),
            Nothing::Repeated => f.write_str("the same range was tried before without gain"),
        }
    }
}

/// Says which reactive compaction is due before the next call, if any.
///
/// ```
/// use contexture_history::compaction::{PlanLimits, Strategy, due};
/// use contexture_message::Tokens;
///
/// let limits = PlanLimits::for_window(Tokens(1000));
/// let strategy = |used| due(Tokens(used), Tokens(1000), &limits).map(|(strategy, _)| strategy);
/// assert_eq!(strategy(849), None);
/// assert_eq!(strategy(850), Some(Strategy::ReactiveMicro));
/// assert_eq!(strategy(920), Some(Strategy::ReactiveFull));
/// ```
pub fn due(used: Tokens, usable: Tokens, limits: &PlanLimits) -> Option<(Strategy, Trigger)> {
    let is_reached = |percent: u8| u64::from(used.0) * 100 >= u64::from(usable.0) * u64::from(percent);
    let steps = [
        (Strategy::ReactiveFull, limits.full_trigger_pct),
        (Strategy::ReactiveMicro, limits.micro_trigger_pct),
    ];
    let (strategy, threshold) = steps.into_iter().find(|(_, percent)| is_reached(*percent))?;
    Some((strategy, Trigger::usage(used, usable, threshold)))
}

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The plan.
    pub plan: Plan,
    /// What stands in the place of the range now costs this; nothing if nothing was committed.
    pub after: Option<Tokens>,
}

/// Refuses a plan that was the last one too and gained nothing then.
///
/// ```
/// use contexture_history::compaction::{Attempt, Layout, Nothing, PlanLimits, Trigger, unless_repeated};
/// use contexture_message::{Encoding, Tokens};
///
/// let layout = Layout::new::<contexture_history::Item>(&[], None, &Encoding::O200kBase);
/// let plan = layout.full(Trigger::Asked, &PlanLimits::for_window(Tokens(1000)));
/// assert_eq!(plan, Err(Nothing::AllPinned));
/// let last: Option<Attempt> = None;
/// assert_eq!(plan.and_then(|it| unless_repeated(it, last.as_ref())), Err(Nothing::AllPinned));
/// ```
pub fn unless_repeated(plan: Plan, last: Option<&Attempt>) -> Result<Plan, Nothing> {
    let gained = |it: &Attempt| it.after.is_some_and(|after| after < it.plan.before);
    match last {
        Some(last) if last.plan.is_same_range(&plan) && !gained(last) => Err(Nothing::Repeated),
        _ => Ok(plan),
    }
}
