//! When a running turn makes room: at its start, before a call that would fill the window, and after one that was refused.
//!
//! How room is made is the ladder in [`Relief`]. After each rung the prompt is resolved again.

use contexture_compose::Pass;
use contexture_history::compaction::{Strategy, Trigger, due};
use contexture_history::{Turn, TurnStatus, window};
use contexture_message::Usage;
use contexture_model::{ModelError, ModelErrorKind};

use super::{Break, Running};
use crate::AgentError;
use crate::compaction::{CompactionReport, Load, MAX_RUNGS, Overflow, Place, Relief, overflow};

/// How often a turn may be refused: each time the next request is at most half as large, or what is known to fit.
const MAX_REFUSALS: u32 = 3;

impl Running {
    fn relief(&mut self) -> Relief<'_> {
        Relief {
            setting: &mut self.setting,
            place: Place::Turn(&mut self.turn),
            said: None,
            cancel: &self.cancel,
            sink: &self.sink,
            done: &mut self.compactions,
        }
    }

    /// Summarises the oldest turns if the history is too long, before the first call of the turn.
    pub(crate) async fn at_boundary(&mut self, pass: Pass) -> Result<Pass, AgentError> {
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
        let limit = self.setting.prompt.definition().history.limit;
        let shown = window(snapshot.turns(), limit, &*self.turn.thread().counter());
        shown.kept().filter(|it| is_settled(it)).count()
    }

    /// Makes room while the next call would fill the window.
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

    /// Says which compaction is due: by what the provider reports, or by what it has refused.
    fn due(&mut self, pass: &Pass) -> Option<(Strategy, Trigger)> {
        let limits = self.relief().plan_limits(pass);
        let used = Load::of(pass).used;
        let learned = self.setting.learned.unwrap_or_default();
        let by_report = self.setting.window(pass).0.and_then(|it| due(learned.projected(used), it, &limits));
        let by_refusal = learned.most().and_then(|it| due(used, it, &limits));
        let is_full = |it: &Option<(Strategy, Trigger)>| matches!(it, Some((Strategy::ReactiveFull, _)));
        if is_full(&by_refusal) { by_refusal } else { by_report.or(by_refusal) }
    }

    /// Makes room in a request that would fill the window. Says whether anything changed.
    async fn made_room(
        &mut self,
        pass: &Pass,
        strategy: Strategy,
        trigger: Trigger,
    ) -> Result<bool, AgentError> {
        // A second small summary would break the cache a second time, for little.
        let is_small = |it: &CompactionReport| it.strategy == Strategy::ReactiveMicro && it.archive.is_some();
        let has_small = self.compactions.reports.iter().any(is_small);
        let strategy = if has_small { Strategy::ReactiveFull } else { strategy };
        let dropped = Load::of(pass).used.saturating_sub(pass.total_tokens());
        let mut relief = self.relief();
        // What is only shown shorter loses nothing.
        if relief.age("the window is almost full").await? {
            return Ok(true);
        }
        let limits = relief.plan_limits(pass);
        for strategy in [strategy, Strategy::ReactiveFull] {
            if relief.may_summarise() && relief.compact(pass, strategy, trigger, &limits).await? {
                return Ok(true);
            }
        }
        // Turns that did not fit are left out on record, so that their facts stay.
        Ok(dropped.0 > 0 && relief.leave_out(Overflow::of(trigger, dropped)).await?)
    }

    /// Makes room after a provider refused a request as too long. The limit is learned, so the next one is smaller.
    pub(super) async fn after_too_long(&mut self, pass: &Pass, broke: Break) -> Result<Pass, Break> {
        let Some(refusal) = too_long(&broke.err).map(ToString::to_string) else { return Err(broke) };
        if !broke.items.is_empty() || self.n_refusals >= MAX_REFUSALS {
            return Err(broke);
        }
        self.n_refusals += 1;
        let learned = self.setting.refused(&self.turn.snapshot(), pass.total_tokens(), &refusal);
        self.turn.append(learned.into_iter().collect()).await?;
        let mut relief = self.relief();
        let limits = relief.plan_limits(pass);
        if relief.may_summarise() {
            relief.compact(pass, Strategy::ReactiveFull, Trigger::PromptTooLong, &limits).await?;
        }
        self.account_for_relief(pass);
        match self.resolve_again(pass).await {
            Ok(smaller) if smaller.total_tokens() < pass.total_tokens() => Ok(smaller),
            // What the provider says is closer to the truth than what we could not make fit.
            Ok(_) => Err(broke),
            Err(err) if overflow(&err).is_some() => Err(broke),
            Err(err) => Err(err.into()),
        }
    }

    /// Resolves the prompt; where what must be sent does not fit, room is made for it.
    pub(crate) async fn resolve_with_room(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        let resolved = match before {
            Some(_) => self.resolve(before).await,
            // The turn has just begun: what has grown old was asked then.
            None => self.resolve_as_it_is(None).await,
        };
        self.fitted(resolved, before).await
    }

    /// Resolves the prompt for the same call after the record has changed. What was evaluated for it stands.
    pub(crate) async fn resolve_again(&mut self, pass: &Pass) -> Result<Pass, AgentError> {
        self.setting.repeats = Some(pass.clone());
        let resolved = self.resolve_as_it_is(None).await;
        let resolved = self.fitted(resolved, None).await;
        self.setting.repeats = None;
        resolved
    }

    /// Makes room, rung by rung, until a pass fits or nothing is left to be made smaller.
    async fn fitted(
        &mut self,
        mut resolved: Result<Pass, AgentError>,
        before: Option<&Pass>,
    ) -> Result<Pass, AgentError> {
        for _ in 0..MAX_RUNGS {
            let Some(overflow) = resolved.as_ref().err().and_then(overflow) else { break };
            if !self.relief().step(overflow).await? && !self.setting.dare() {
                break;
            }
            resolved = self.resolve_as_it_is(before).await;
        }
        if let Ok(pass) = &resolved {
            self.account_for_relief(pass);
        }
        resolved
    }

    /// Accounts for what compactions cost, and tells what there is to say about them.
    fn account_for_relief(&mut self, pass: &Pass) {
        let usage = std::mem::take(&mut self.compactions.usage);
        if usage != Usage::default() {
            let model = self.setting.agent.config.compaction.model.clone();
            let model = model.or_else(|| pass.request().model.clone()).unwrap_or_default();
            self.add_usage(&model, usage);
        }
        let remarks = std::mem::take(&mut self.compactions.remarks);
        self.remarks(remarks);
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
