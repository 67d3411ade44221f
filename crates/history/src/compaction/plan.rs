//! Plans for summaries, and what triggers them.
//!
//! A [`Plan`] names the range of items that becomes a summary; [`Nothing`] gives the reason if there is none. A
//! [`Layout`](super::Layout) chooses the range, [`due`] decides when, and [`unless_repeated`] stops plans that gain
//! nothing.

use std::ops::Range;

use contexture_message::Tokens;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Seq, Strategy, TurnNo};

/// When and how much to summarise. Field names match the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// A larger history is summarised at the start of a turn, see [`PlanLimits::for_window`].
    pub trigger_tokens: Tokens,
    /// The size to reduce the history to; `None` means a quarter of the trigger.
    pub target_tokens: Option<Tokens>,
    /// A history with fewer messages is never summarised at the start of a turn.
    pub min_messages: usize,
    /// At this percentage of the window or more, some rounds are summarised before the next call.
    pub micro_trigger_pct: u8,
    /// The number of rounds summarised then.
    pub micro_batch_groups: usize,
    /// At this percentage of the window or more, everything possible is summarised.
    pub full_trigger_pct: u8,
    /// The number of newest rounds that are left alone.
    pub preserve_recent_api_rounds: usize,
    /// A smaller range is not worth a summary.
    pub min_range_tokens: Tokens,
}

impl PlanLimits {
    /// Returns the defaults for a model with `usable` tokens.
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

    /// Returns the target size of the history at the start of a turn.
    pub(super) fn target(&self) -> Tokens {
        self.target_tokens.unwrap_or(Tokens(self.trigger_tokens.0 / 4))
    }
}

/// Returns a percentage of a number of tokens.
pub(crate) fn share(tokens: Tokens, percent: u8) -> Tokens {
    let share = u64::from(tokens.0) * u64::from(percent) / 100;
    Tokens(u32::try_from(share).unwrap_or(u32::MAX))
}

/// What triggered a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CompactionTrigger")]
pub enum Trigger {
    /// The history was larger than the trigger.
    HistoryTokens {
        /// The cost of the history.
        tokens: Tokens,
        /// The configured trigger.
        trigger: Tokens,
    },
    /// The history had as many turns as are kept loaded.
    HistoryTurns {
        /// The number of turns it had.
        turns: usize,
        /// The number of turns kept loaded.
        window: usize,
    },
    /// The prompt filled the window past a threshold.
    PromptUsage {
        /// The cost of the prompt.
        used: Tokens,
        /// The usable size of the window.
        usable: Tokens,
        /// The share of the window used, in percent.
        percent: u32,
        /// The percentage that was crossed.
        threshold: u8,
    },
    /// The provider reported that the prompt is too long.
    PromptTooLong,
    /// The caller requested it.
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
/// `first` and `last` bound what the new summary covers, including what summaries in the range cover. The record of
/// another summary can have a position between them without being covered: a summary takes the position of the items
/// that it covers, not the one it was appended at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// How the range was chosen.
    pub strategy: Strategy,
    /// What triggered the plan.
    pub trigger: Trigger,
    /// The range in the list that was passed in.
    pub span: Range<usize>,
    /// The first log position that the summary will cover.
    pub first: Seq,
    /// The last log position that the summary will cover.
    pub last: Seq,
    /// The turns of the first and of the last item in the range.
    pub turns: (TurnNo, TurnNo),
    /// The number of items in the range.
    pub n_items: usize,
    /// The number of those items that the model reads as messages.
    pub n_messages: usize,
    /// The number of rounds in the range.
    pub n_rounds: usize,
    /// The cost of the range.
    pub before: Tokens,
}

impl Plan {
    /// Whether both plans summarise the same range.
    pub fn is_same_range(&self, other: &Plan) -> bool {
        (self.first, self.last, self.n_items) == (other.first, other.last, other.n_items)
    }
}

/// Why there is nothing to summarise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nothing {
    /// The history is small enough.
    BelowTrigger {
        /// The cost of the history.
        tokens: Tokens,
        /// The configured trigger.
        trigger: Tokens,
    },
    /// The conversation is too short.
    TooFewMessages {
        /// The number of messages found.
        found: usize,
        /// The minimum number of messages.
        needed: usize,
    },
    /// All items are recent, in flight or waiting for a result.
    AllPinned,
    /// The candidate range is too small, or is already a summary.
    NoGain {
        /// The cost of that range.
        tokens: Tokens,
    },
    /// The same range was tried before without effect.
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

/// Returns the reactive compaction that is due before the next call, if any.
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

/// A plan and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The plan that was tried.
    pub plan: Plan,
    /// The cost of what replaces the range now; `None` if nothing was committed.
    pub after: Option<Tokens>,
}

/// Rejects a plan that repeats the last one, if that gained nothing.
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
