//! The configuration of compaction.

use contexture_history::compaction::{PlanLimits, ResultLimits};
use contexture_message::{Settings, Tokens};
use contexture_session::Snapshot;
use contexture_wire::ModelFacts;
use serde::{Deserialize, Serialize};

use super::caps;
use super::learned::Learned;

/// The configuration of compaction. The fields are named as in `[compaction]` of a project's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// Whether to summarise at all. Large tool results become previews in any case.
    pub enabled: bool,
    /// The model that summarises, `provider/model`. The default is the conversation's, which has most of the text in
    /// its cache.
    pub model: Option<String>,
    /// The limit for older tool results; larger ones become a preview.
    pub max_tokens_per_tool_result: Tokens,
    /// How many of the newest tool results get the higher limit below.
    pub keep_recent_tool_results: usize,
    /// The limit for these newest tool results.
    pub max_tokens_per_recent_tool_result: Tokens,
    /// History larger than this is summarised at the start of a turn. By default it is as much as makes the whole
    /// request 80 % of the usable window.
    pub trigger_tokens: Option<Tokens>,
    /// The size of the history after that; by default a quarter of the trigger.
    pub target_tokens: Option<Tokens>,
    /// Histories with fewer messages are not summarised for their size at the start of a turn.
    pub min_messages: usize,
    /// At this percentage of the window, some rounds are summarised before the next call.
    pub micro_trigger_pct: u8,
    /// How many rounds such a summary covers.
    pub micro_batch_groups: usize,
    /// At this percentage of the window, everything that can be is summarised.
    pub full_trigger_pct: u8,
    /// How many of the newest rounds a summary keeps as they are; fewer, if the request would not fit otherwise.
    pub preserve_recent_api_rounds: usize,
    /// The maximum number of summaries in one turn.
    pub max_reactive_compactions_per_request: u32,
    /// The timeout of a summary, in seconds.
    pub summary_timeout_s: u32,
    /// Hidden context older than this many turns may be left out; by default it stays.
    pub hidden_context_turns: Option<usize>,
    /// How many more calls a conversation is expected to have. Used to weigh what an edit saves in each call against
    /// the cache that it breaks.
    pub expected_calls: u32,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        let results = ResultLimits::default();
        let plans = PlanLimits::for_window(Tokens(0));
        Self {
            enabled: true,
            model: None,
            max_tokens_per_tool_result: results.max_tokens_per_tool_result,
            keep_recent_tool_results: results.keep_recent_tool_results,
            max_tokens_per_recent_tool_result: results.max_tokens_per_recent_tool_result,
            trigger_tokens: None,
            target_tokens: None,
            min_messages: plans.min_messages,
            micro_trigger_pct: plans.micro_trigger_pct,
            micro_batch_groups: plans.micro_batch_groups,
            full_trigger_pct: plans.full_trigger_pct,
            preserve_recent_api_rounds: plans.preserve_recent_api_rounds,
            max_reactive_compactions_per_request: 3,
            summary_timeout_s: 120,
            hidden_context_turns: None,
            expected_calls: 4,
        }
    }
}

impl CompactionConfig {
    /// Returns the limits of the tool results that a model is shown. They depend on its known window and not on what
    /// was learned, because results must look the same in every request.
    pub fn result_limits(&self, thread: &Snapshot, facts: ModelFacts) -> ResultLimits {
        let usable = Learned::default().limits(facts).input_tokens(&Settings::default());
        ResultLimits { caps: caps::of(thread), ..self.results(usable) }
    }

    /// Returns the limits of tool results for a model with `usable` tokens, if known.
    pub(crate) fn results(&self, usable: Option<Tokens>) -> ResultLimits {
        let limits = ResultLimits {
            max_tokens_per_tool_result: self.max_tokens_per_tool_result,
            keep_recent_tool_results: self.keep_recent_tool_results,
            max_tokens_per_recent_tool_result: self.max_tokens_per_recent_tool_result,
            ..ResultLimits::default()
        };
        usable.map_or(limits.clone(), |it| limits.within(it))
    }

    /// Returns the limits of summaries for a model with `usable` tokens, if known, of which `besides` are taken by
    /// content other than the history.
    pub(crate) fn plans(&self, usable: Option<Tokens>, besides: Tokens) -> PlanLimits {
        // If the window is unknown, nothing is ever too large for it.
        let defaults = PlanLimits::for_window(usable.unwrap_or(Tokens(u32::MAX)));
        // The history must be summarised before the whole request triggers a reactive summary in every turn.
        let room = defaults.trigger_tokens.saturating_sub(besides).max(Tokens(defaults.trigger_tokens.0 / 4));
        PlanLimits {
            trigger_tokens: self.trigger_tokens.unwrap_or(room),
            target_tokens: self.target_tokens,
            min_messages: self.min_messages,
            micro_trigger_pct: self.micro_trigger_pct,
            micro_batch_groups: self.micro_batch_groups,
            full_trigger_pct: self.full_trigger_pct,
            preserve_recent_api_rounds: self.preserve_recent_api_rounds,
            ..defaults
        }
    }
}
