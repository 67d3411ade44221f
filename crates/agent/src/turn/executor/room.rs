//! Makes room in a running turn: at its start, before a call that would fill the window, and after a refused call.
//!
//! The steps are those of the ladder in [`Relief`]. After each one the prompt is resolved again.

use contexture_compose::Pass;
use contexture_history::compaction::{Strategy, Trigger, due};
use contexture_history::{Turn, TurnStatus, window};
use contexture_message::Usage;
use contexture_model::{ModelError, ModelErrorKind};

use super::{Break, Executor};
use crate::AgentError;
use crate::compaction::Load;
use crate::event::CompactionReport;
use crate::relief::{LogWriter, MAX_RUNGS, Overflow, Relief, overflow};

/// How many refusals a turn survives. Each lowers the limit: to the size that the provider named, to the largest
/// request it has answered, or to half.
const MAX_REFUSALS: u32 = 3;

impl Executor {
    fn relief(&mut self) -> Relief<'_> {
        Relief {
            resolver: &mut self.resolver,
            log: LogWriter::Turn(&mut self.turn),
            unrecorded: None,
            cancel: &self.cancel,
            sink: &self.sink,
            done: &mut self.compactions,
        }
    }

    /// Summarises the oldest turns before the first call of the turn, if the history is too long.
    pub(super) async fn compact_at_boundary(&mut self, pass: Pass) -> Result<Pass, AgentError> {
        let relief = self.relief();
        let limits = relief.plan_limits(&pass);
        if !relief.may_summarise() {
            return Ok(pass);
        }
        let load = Load::of(&pass);
        let (shown, most) = (self.n_shown_turns(), self.turn.thread().history_window());
        let trigger = if load.history > limits.trigger_tokens && load.messages >= limits.min_messages {
            Trigger::HistoryTokens { tokens: load.history, trigger: limits.trigger_tokens }
        } else if shown >= most && most > 1 {
            Trigger::HistoryTurns { turns: shown, window: most }
        } else {
            return Ok(pass);
        };
        let is_changed = self.relief().compact(&pass, Strategy::SessionCompaction, trigger, &limits).await?;
        self.account_for_relief(&pass);
        match is_changed {
            true => self.resolve_again(&pass).await,
            false => Ok(pass),
        }
    }

    /// Returns how many finished turns the prompt shows.
    fn n_shown_turns(&self) -> usize {
        let snapshot = self.turn.snapshot();
        let limit = self.resolver.prompt.definition().history.limit;
        let shown = window(snapshot.turns(), limit, &*self.turn.thread().counter());
        shown.kept().filter(|it| is_settled(it)).count()
    }

    /// Makes room as long as the next call would fill the window.
    pub(super) async fn relieved(&mut self, mut pass: Pass) -> Result<Pass, AgentError> {
        while let Some((strategy, trigger)) = self.due(&pass) {
            if !self.made_room(&pass, strategy, trigger).await? {
                break;
            }
            self.account_for_relief(&pass);
            pass = self.resolve_again(&pass).await?;
        }
        self.account_for_relief(&pass);
        Ok(pass)
    }

    /// Returns the compaction that is due, judged by the provider's reported usage and by its refusals.
    fn due(&mut self, pass: &Pass) -> Option<(Strategy, Trigger)> {
        let limits = self.relief().plan_limits(pass);
        let used = Load::of(pass).used;
        let learned = self.resolver.learned.unwrap_or_default();
        let by_report = self.resolver.window(pass).0.and_then(|it| due(learned.projected(used), it, &limits));
        let by_refusal = learned.most().and_then(|it| due(used, it, &limits));
        let is_full = |it: &Option<(Strategy, Trigger)>| matches!(it, Some((Strategy::ReactiveFull, _)));
        if is_full(&by_refusal) { by_refusal } else { by_report.or(by_refusal) }
    }

    /// Makes room in a request that would fill the window. Returns whether anything changed.
    async fn made_room(
        &mut self,
        pass: &Pass,
        strategy: Strategy,
        trigger: Trigger,
    ) -> Result<bool, AgentError> {
        // A second small summary would break the cache again for little gain.
        let is_small = |it: &CompactionReport| it.strategy == Strategy::ReactiveMicro && it.archive.is_some();
        let has_small = self.compactions.reports.iter().any(is_small);
        let strategy = if has_small { Strategy::ReactiveFull } else { strategy };
        let dropped = Load::of(pass).used.saturating_sub(pass.total_tokens());
        let mut relief = self.relief();
        // Showing results as previews comes first, since it loses nothing.
        if relief.age("the window is almost full").await? {
            return Ok(true);
        }
        let limits = relief.plan_limits(pass);
        for strategy in [strategy, Strategy::ReactiveFull] {
            if relief.may_summarise() && relief.compact(pass, strategy, trigger, &limits).await? {
                return Ok(true);
            }
        }
        // Turns that did not fit are recorded as left out, so that their facts stay.
        Ok(dropped.0 > 0 && relief.leave_out(Overflow::of(trigger, dropped)).await?)
    }

    /// Makes room after a provider refused a request as too long. The limit is remembered, so the next request is
    /// smaller.
    pub(super) async fn after_too_long(&mut self, pass: &Pass, broke: Break) -> Result<Pass, Break> {
        let Some(refusal) = too_long(&broke.err).map(ToString::to_string) else { return Err(broke) };
        if !broke.items.is_empty() || self.n_refusals >= MAX_REFUSALS {
            return Err(broke);
        }
        self.n_refusals += 1;
        let learned = self.resolver.refused(&self.turn.snapshot(), pass.total_tokens(), &refusal);
        self.turn.append(learned.into_iter().collect()).await?;
        let mut relief = self.relief();
        let limits = relief.plan_limits(pass);
        if relief.may_summarise() {
            relief.compact(pass, Strategy::ReactiveFull, Trigger::PromptTooLong, &limits).await?;
        }
        self.account_for_relief(pass);
        match self.resolve_again(pass).await {
            Ok(smaller) if smaller.total_tokens() < pass.total_tokens() => Ok(smaller),
            // The provider's error says more than our failure to shrink the request.
            Ok(_) => Err(broke),
            Err(err) if overflow(&err).is_some() => Err(broke),
            Err(err) => Err(err.into()),
        }
    }

    /// Resolves the prompt. If the required content does not fit, makes room for it.
    pub(super) async fn resolve_with_room(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        let resolved = match before {
            Some(_) => self.resolve(before).await,
            // The run begins or resumes a turn here; ageing was decided when the turn began.
            None => self.resolve_as_it_is(None).await,
        };
        self.fitted(resolved, before).await
    }

    /// Resolves the prompt for the same call after the log has changed. Nothing is evaluated a second time.
    pub(super) async fn resolve_again(&mut self, pass: &Pass) -> Result<Pass, AgentError> {
        self.resolver.repeats = Some(pass.clone());
        let resolved = self.resolve_as_it_is(None).await;
        let resolved = self.fitted(resolved, None).await;
        self.resolver.repeats = None;
        resolved
    }

    /// Makes room, rung by rung, until a pass fits or nothing can shrink further.
    async fn fitted(
        &mut self,
        mut resolved: Result<Pass, AgentError>,
        before: Option<&Pass>,
    ) -> Result<Pass, AgentError> {
        for _ in 0..MAX_RUNGS {
            let Some(overflow) = resolved.as_ref().err().and_then(overflow) else { break };
            if !self.relief().step(overflow).await? && !self.resolver.ignore_learned() {
                break;
            }
            resolved = self.resolve_as_it_is(before).await;
        }
        if let Ok(pass) = &resolved {
            self.account_for_relief(pass);
        }
        resolved
    }

    /// Adds the cost of compactions to the run and sends their remarks.
    fn account_for_relief(&mut self, pass: &Pass) {
        let usage = std::mem::take(&mut self.compactions.usage);
        if usage != Usage::default() {
            let model = self.resolver.agent.config.compaction.model.clone();
            let model = model.or_else(|| pass.request().model.clone()).unwrap_or_default();
            self.add_usage(&model, usage);
        }
        let remarks = std::mem::take(&mut self.compactions.remarks);
        self.remark(remarks);
    }
}

fn too_long(err: &AgentError) -> Option<&ModelError> {
    match err {
        AgentError::Model(err) if err.kind() == ModelErrorKind::PromptTooLong => Some(err),
        _ => None,
    }
}

fn is_settled(turn: &Turn) -> bool {
    !turn.is_summary() && !turn.is_leading() && turn.status() != TurnStatus::InFlight
}
