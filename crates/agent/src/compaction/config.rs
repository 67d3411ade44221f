//! When and how a conversation is compacted.

use contexture_history::compaction::{PlanLimits, ResultLimits};
use contexture_message::{Settings, Tokens};
use contexture_session::Snapshot;
use contexture_wire::ModelFacts;
use serde::{Deserialize, Serialize};

use super::{Learned, caps};

/// When and how a conversation is compacted. The names are those of `[compaction]` in a project's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionConfig {
    /// Whether anything is summarised. Large tool results become previews in any case.
    pub enabled: bool,
    /// The model that summarises, `provider/model`; by default that of the conversation, which has read most of it before.
    pub model: Option<String>,
    /// Larger tool results become a preview.
    pub max_tokens_per_tool_result: Tokens,
    /// So many of the newest tool results may be larger.
    pub keep_recent_tool_results: usize,
    /// How large these may be.
    pub max_tokens_per_recent_tool_result: Tokens,
    /// History larger than this is summarised at the start of a turn; by default so much that
    /// the whole request has 80 % of the usable window.
    pub trigger_tokens: Option<Tokens>,
    /// What is left of it then; by default a quarter of the trigger.
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
    /// The most summaries within one turn.
    pub max_reactive_compactions_per_request: u32,
    /// How long a summary may take, in seconds.
    pub summary_timeout_s: u32,
    /// Hidden context older than so many turns may be left out; by default it stays.
    pub hidden_context_turns: Option<usize>,
    /// How many more calls a conversation is expected to have, when what an edit saves in each of them is weighed against
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
    /// Returns how large the tool results of a thread are shown to a model: within its window as it is known, not as it was
    /// learned, because what was sent once must look the same in the next request.
    pub fn result_limits(&self, thread: &Snapshot, facts: ModelFacts) -> ResultLimits {
        let usable = Learned::default().limits(facts).input_tokens(&Settings::default());
        ResultLimits { caps: caps::of(thread), ..self.results(usable) }
    }

    /// Returns the limits of tool results for a model of which so many tokens can be used, if that is known.
    pub(crate) fn results(&self, usable: Option<Tokens>) -> ResultLimits {
        let limits = ResultLimits {
            max_tokens_per_tool_result: self.max_tokens_per_tool_result,
            keep_recent_tool_results: self.keep_recent_tool_results,
            max_tokens_per_recent_tool_result: self.max_tokens_per_recent_tool_result,
            ..ResultLimits::default()
        };
        usable.map_or(limits.clone(), |it| limits.within(it))
    }

    /// Returns the limits of summaries for a model of which so many tokens can be used, if that is known, `besides` of them
    /// by what is not history.
    pub(crate) fn plans(&self, usable: Option<Tokens>, besides: Tokens) -> PlanLimits {
        // Without a window nothing is ever too large for it.
        let defaults = PlanLimits::for_window(usable.unwrap_or(Tokens(u32::MAX)));
        // The history must be summarised before the whole request sets off a reactive summary in every turn.
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
