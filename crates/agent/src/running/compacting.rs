//! How a running turn makes room: at its start, before a call that would fill the window, and after one that was too long.
//!
//! Each compaction reads the view, plans a range, has it summarised without holding anything up, tests the summary and
//! commits what stands in its place, if nobody changed the archives meanwhile. Then the prompt is resolved anew. What
//! can't be made smaller is sent as it fits: the pass says which turns it dropped.

use std::sync::Arc;

use contexture_compose::{Edit, EditDecision, Pass, forced};
use contexture_history::compaction::{Attempt, PlanLimits, Strategy, Trigger, due};
use contexture_history::{Turn, TurnStatus};
use contexture_model::ModelErrorKind;

use super::{Break, Running, attend};
use crate::compaction::{CompactionReport, Job, Load, Summarized, overflow, summarized};
use crate::{AgentError, Event};

/// What compactions of a run have in common.
#[derive(Default)]
pub(crate) struct Compactions {
    /// How many there were since the last answer: the request that they are for is the same.
    n_reactive: u32,
    /// What the last one was about.
    last: Option<Attempt>,
    pub(crate) reports: Vec<CompactionReport>,
}

impl Compactions {
    /// What follows is another request.
    pub(super) fn answered(&mut self) {
        self.n_reactive = 0;
    }
}

impl Running {
    /// Summarises the oldest turns if the history is too long, before the first call of the turn.
    pub(crate) async fn at_boundary(&mut self, pass: Pass) -> Result<Pass, AgentError> {
        let config = self.setting.agent.config.compaction;
        let limits = self.plan_limits(&pass);
        let load = Load::of(&pass);
        let settled = self.turn.snapshot().turns().iter().filter(|it| is_settled(it)).count();
        let window = self.turn.thread().history_window();
        let trigger = if load.history > limits.trigger_tokens && load.messages >= limits.min_messages {
            Trigger::HistoryTokens { tokens: load.history, trigger: limits.trigger_tokens }
        } else if settled >= window && window > 1 {
            Trigger::HistoryTurns { turns: settled, window }
        } else {
            return Ok(pass);
        };
        if !config.enabled {
            return Ok(pass);
        }
        let is_changed = self.compact(&pass, Strategy::SessionCompaction, trigger, &limits).await?;
        if is_changed { self.resolve_as_it_is(None).await } else { Ok(pass) }
    }

    /// Summarises rounds while the next call would fill the window.
    pub(super) async fn relieved(&mut self, mut pass: Pass) -> Result<Pass, AgentError> {
        loop {
            let limits = self.plan_limits(&pass);
            let usable = self.setting.usable(&pass);
            let due = usable.and_then(|usable| due(Load::of(&pass).used, usable, &limits));
            let Some((strategy, trigger)) = due.filter(|_| self.may_react()) else { return Ok(pass) };
            // What is only shown shorter loses nothing.
            if self.age("the window is almost full").await? {
                pass = self.resolve_as_it_is(Some(&pass)).await?;
                continue;
            }
            // A second small summary would break the cache a second time, for little.
            let small =
                |it: &CompactionReport| it.strategy == Strategy::ReactiveMicro && it.archive.is_some();
            let is_first = !self.compactions.reports.iter().any(small);
            let strategy = if is_first { strategy } else { Strategy::ReactiveFull };
            self.compactions.n_reactive += 1;
            if !self.compact(&pass, strategy, trigger, &limits).await? {
                // Nothing small helps: what can be is summarised, or it is sent as it fits.
                let is_last = strategy == Strategy::ReactiveFull
                    || !self.compact(&pass, Strategy::ReactiveFull, trigger, &limits).await?;
                if is_last {
                    return Ok(pass);
                }
            }
            pass = self.resolve_as_it_is(Some(&pass)).await?;
        }
    }

    /// Makes room after a provider said that the prompt is too long; nothing if there is none to make.
    pub(super) async fn after_too_long(&mut self, pass: &Pass, broke: Break) -> Result<Pass, Break> {
        let is_too_long =
            matches!(&broke.err, AgentError::Model(err) if err.kind() == ModelErrorKind::PromptTooLong);
        if !is_too_long || !broke.items.is_empty() || !self.may_react() {
            return Err(broke);
        }
        self.compactions.n_reactive += 1;
        let limits = self.plan_limits(pass);
        match self.compact(pass, Strategy::ReactiveFull, Trigger::PromptTooLong, &limits).await {
            Ok(true) => Ok(self.resolve_as_it_is(Some(pass)).await?),
            // What can't be summarised may still be shown shorter.
            Ok(false) if self.age("the prompt is too long").await? => {
                Ok(self.resolve_as_it_is(Some(pass)).await?)
            }
            Ok(false) => Err(broke),
            Err(err) => Err(err.into()),
        }
    }

    /// Resolves the prompt; where what must be sent does not fit, room is made for it.
    pub(crate) async fn resolve_with_room(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        let mut resolved = match before {
            Some(_) => self.resolve(before).await,
            // The turn has just begun: what has grown old was asked then.
            None => self.resolve_as_it_is(None).await,
        };
        while let Err(err) = &resolved
            && let Some(overflow) = overflow(err)
            && self.may_react()
            && self.made_room(overflow.trigger).await?
        {
            resolved = self.resolve_as_it_is(before).await;
        }
        resolved
    }

    /// Makes room for what can't be dropped. The newest rounds stay as long as something else can go.
    async fn made_room(&mut self, trigger: Trigger) -> Result<bool, AgentError> {
        if self.age("the window is full").await? {
            return Ok(true);
        }
        self.compactions.n_reactive += 1;
        let snapshot = self.turn.snapshot();
        let resolving = self.setting.resolve_bare(&snapshot);
        let bare = attend(&mut self.turn, &self.cancel, resolving).await?;
        let mut limits = self.plan_limits(&bare);
        for rounds in (0..=limits.preserve_recent_api_rounds).rev() {
            limits.preserve_recent_api_rounds = rounds;
            if self.compact(&bare, Strategy::ReactiveFull, trigger, &limits).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn may_react(&self) -> bool {
        let config = &self.setting.agent.config.compaction;
        config.enabled && self.compactions.n_reactive < config.max_reactive_compactions_per_request
    }

    fn plan_limits(&self, pass: &Pass) -> PlanLimits {
        let Load { used, history, .. } = Load::of(pass);
        self.setting.agent.config.compaction.plans(self.setting.usable(pass), used.saturating_sub(history))
    }

    /// Summarises a range. Says whether what the model reads has changed.
    async fn compact(
        &mut self,
        pass: &Pass,
        strategy: Strategy,
        trigger: Trigger,
        limits: &PlanLimits,
    ) -> Result<bool, AgentError> {
        let last = self.compactions.last.as_ref();
        let transforms = &self.setting.prompt.definition().transforms;
        let planned = Job::plan(self.turn.thread(), (strategy, trigger), limits, last, transforms).await?;
        let Ok(job) = planned else { return Ok(false) };
        if strategy == Strategy::SessionCompaction {
            let (items_before, tokens_before) = (job.view.items.len(), job.before());
            self.sink.send(Event::ContextCompactionStart { strategy, trigger, items_before, tokens_before });
        }
        let call = job.call(pass, &self.setting.agent.config.compaction.results());
        let agent = Arc::clone(&self.setting.agent);
        let work = async move { Ok(summarized(agent, call).await) };
        let said = attend(&mut self.turn, &self.cancel, work).await?;
        if let Ok(Summarized { usage, .. }) = &said {
            self.add_usage(pass, *usage);
        }
        let mut outcome = job.settle(said);
        let committed = match outcome.text.take() {
            Some(text) => self.turn.archive(&job.view, &job.archive(text)).await,
            None => Ok(()),
        };
        let is_committed = committed.is_ok();
        let report = job.report(committed, outcome).await?;
        if is_committed && report.archive.is_some() {
            self.age("a summary has changed what stands before it").await?;
            self.setting.cache.edits.push(decision(&report));
        }
        self.compactions.last = Some(job.attempt(&report));
        Ok(self.reported(report))
    }

    /// Lets everything grow old that may, whatever it costs. Says whether anything did.
    async fn age(&mut self, why: &str) -> Result<bool, AgentError> {
        let Some(aged) = self.setting.age(&self.turn.thread(), Some(why)).await? else { return Ok(false) };
        self.turn.append(vec![aged]).await?;
        Ok(true)
    }

    fn reported(&mut self, report: CompactionReport) -> bool {
        let is_changed = report.archive.is_some();
        self.compactions.reports.push(report.clone());
        self.sink.send(match report.strategy {
            Strategy::SessionCompaction => Event::ContextCompactionEnd(report),
            Strategy::ReactiveMicro | Strategy::ReactiveFull => Event::Compaction(report),
        });
        is_changed
    }
}

/// Says in the Explanation what a summary saves and breaks.
fn decision(report: &CompactionReport) -> EditDecision {
    let CompactionReport { strategy, trigger, tokens_before, tokens_after, archive, .. } = report;
    let edit = Edit {
        name: format!("summary {}", archive.as_deref().unwrap_or_default()),
        saves: tokens_before.saturating_sub(*tokens_after),
        behind: *tokens_before,
    };
    let why = match trigger {
        Trigger::HistoryTokens { tokens, trigger } => {
            format!("the history has {tokens} tokens, {trigger} may stay")
        }
        Trigger::HistoryTurns { turns, .. } => {
            format!("the history has {turns} turns, no more are kept at hand")
        }
        Trigger::PromptUsage { used, usable, .. } => format!("the request has {used} of {usable} tokens"),
        Trigger::PromptTooLong => "the provider says that the request is too long".to_owned(),
        Trigger::Asked => "someone asked for it".to_owned(),
    };
    forced(&edit, &format!("{}: {why}", strategy.as_str()))
}

fn is_settled(turn: &Turn) -> bool {
    !turn.is_summary() && !turn.is_leading() && turn.status() != TurnStatus::InFlight
}
