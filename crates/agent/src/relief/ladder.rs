//! The ladder: how to make room for a request that does not fit, or barely fits.
//!
//! The same ladder serves a request that is too large to send, one that the provider refused, and a requested
//! compaction. Its rungs:
//!
//! 1. Tool results are shown as previews: old ones first, then the largest, including those of the newest round. Each
//!    stays readable under its handle.
//! 2. Older rounds are summarised, as long as the turn may make another summary. The newest rounds stay, fewer each
//!    time, down to the one that the model has not read.
//! 3. The oldest turns and rounds are left out, with a reason. Their facts stay.
//! 4. The largest messages of the turn itself are cut, with a handle.
//!
//! Each rung changes only the log; then the prompt is resolved again. Content that the model has not read is never
//! removed. If no rung is left, the request fails with an error that names what can't shrink.

use std::sync::Arc;

use contexture_compose::{Edit, EditDecision, ErrorKind, Pass, forced};
use contexture_history::compaction::{
    Attempt, Caps, PlanLimits, SHORTEST_PREVIEW, Shrinkable, ShrinkableKind, Strategy, Trigger, lowered,
    shrinkable,
};
use contexture_history::{Turn, TurnStatus};
use contexture_message::tokens::request_tokens;
use contexture_message::{Part, Role, Tokens, Usage};
use contexture_model::{ModelError, ModelErrorKind};
use tokio_util::sync::CancellationToken;

use super::job::{Choice, Job, NoSummary, ShownSize, shown_turns, summarized};
use super::log_writer::LogWriter;
use crate::AgentError;
use crate::beside::event_record;
use crate::compaction::{Load, Summarized, caps};
use crate::event::{CompactionReport, Event, Remark, Sink};
use crate::hooks::run_compacting;
use crate::request::Resolver;

/// An upper bound on the steps down the ladder for one request.
pub(crate) const MAX_RUNGS: usize = 64;

/// The compactions made for a turn so far.
#[derive(Default)]
pub(crate) struct Compactions {
    /// How many summaries were requested.
    n_made: u32,
    /// The last compaction, to avoid repeating one without gain.
    last: Option<Attempt>,
    pub(crate) reports: Vec<CompactionReport>,
    /// The usage of summaries that is not yet part of the run's total.
    pub(crate) usage: Usage,
    /// Remarks that have not been sent yet.
    pub(crate) remarks: Vec<Remark>,
}

/// A request that does not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow {
    pub(crate) trigger: Trigger,
    /// How many tokens it is over the limit.
    excess: Tokens,
}

impl Overflow {
    /// Returns the overflow of a request that is `excess` tokens too large.
    pub(crate) fn of(trigger: Trigger, excess: Tokens) -> Self {
        Self { trigger, excess }
    }
}

/// Returns the overflow, if the error is that of a request that does not fit.
pub(crate) fn overflow(err: &AgentError) -> Option<Overflow> {
    let AgentError::Compose(err) = err else { return None };
    let ErrorKind::BudgetExceeded { which: "input_budget", need, limit, margin, .. } = err.kind() else {
        return None;
    };
    let usable = limit.saturating_sub(*margin);
    // A little more than required, because a cut text costs slightly more than its cap.
    let excess = need.saturating_sub(usable) + Tokens(usable.0 / 64 + 16);
    Some(Overflow { trigger: Trigger::usage(*need, *limit, 100), excess })
}

/// Makes room for a request.
pub(crate) struct Relief<'a> {
    pub(crate) resolver: &'a mut Resolver,
    pub(crate) log: LogWriter<'a>,
    /// The turn in flight, if it is not recorded yet.
    pub(crate) unrecorded: Option<Turn>,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) sink: &'a Sink,
    pub(crate) done: &'a mut Compactions,
}

impl Relief<'_> {
    /// Takes the next rung for a request that does not fit. Returns whether anything changed.
    pub(crate) async fn step(&mut self, overflow: Overflow) -> Result<bool, AgentError> {
        use ShrinkableKind::{Message, ReadResult, UnreadResult};
        if self.age("the window is full").await? {
            return Ok(true);
        }
        let preview = self.resolver.results(&self.log.snapshot()).preview_tokens;
        Ok(self.lower(&[ReadResult], overflow.excess, preview).await?
            || self.lower(&[UnreadResult], overflow.excess, preview).await?
            || self.summarise(overflow.trigger).await?
            || self.leave_out(overflow).await?
            || self.lower(&[ReadResult, UnreadResult], overflow.excess, SHORTEST_PREVIEW).await?
            || self.lower(&[Message], overflow.excess, SHORTEST_PREVIEW).await?)
    }

    /// Whether the turn may make another summary.
    pub(crate) fn may_summarise(&self) -> bool {
        let config = &self.resolver.agent.config.compaction;
        config.enabled && self.done.n_made < config.max_reactive_compactions_per_request
    }

    /// Returns the limits of summaries for a request like this pass.
    pub(crate) fn plan_limits(&self, pass: &Pass) -> PlanLimits {
        let Load { used, history, .. } = Load::of(pass);
        self.resolver.agent.config.compaction.plans(self.resolver.usable(pass), used.saturating_sub(history))
    }

    /// Marks everything as old that can be, whatever that does to the cache. Returns whether anything changed.
    pub(crate) async fn age(&mut self, why: &str) -> Result<bool, AgentError> {
        let Some(aged) = self.resolver.age(&self.log.thread(), Some(why)).await? else { return Ok(false) };
        self.log.append(vec![aged]).await?;
        Ok(true)
    }

    /// Caps the largest items of these kinds, none below `floor`. Returns whether anything got shorter.
    async fn lower(
        &mut self,
        kinds: &[ShrinkableKind],
        excess: Tokens,
        floor: Tokens,
    ) -> Result<bool, AgentError> {
        let snapshot = self.log.snapshot();
        let counter = self.log.thread().counter();
        let mut turns = shown_turns(self.resolver, &snapshot, &*counter);
        turns.extend(self.unrecorded.clone().map(|it| it.with_status(TurnStatus::InFlight)));
        let all: Vec<Shrinkable> = shrinkable(&turns, &*counter);
        let chosen = all.iter().filter(|it| kinds.contains(&it.kind));
        let before = self.resolver.caps(&snapshot);
        let lowered = lowered(chosen, excess, floor);
        let edit = edit_of(&all, &lowered);
        let Some(caps) = caps::with(&before, lowered, &turns) else { return Ok(false) };
        self.resolver.cache.edits.push(forced(&edit, "the window is full"));
        if self.log.is_turn() {
            self.log.append(vec![caps::record(&caps)]).await?;
            self.resolver.caps = None;
        } else {
            // Recorded later, with the turn that needs it.
            self.resolver.caps = Some(Arc::new(caps));
        }
        Ok(true)
    }

    /// Summarises all but the newest rounds, keeping fewer of them each time. Returns whether anything was replaced.
    pub(crate) async fn summarise(&mut self, trigger: Trigger) -> Result<bool, AgentError> {
        if !self.may_summarise() {
            return Ok(false);
        }
        let Some(bare) = self.bare().await? else { return Ok(false) };
        let mut limits = self.plan_limits(&bare);
        let fewest = self.n_unread_rounds();
        for rounds in (fewest..=limits.preserve_recent_api_rounds.max(fewest)).rev() {
            limits.preserve_recent_api_rounds = rounds;
            if self.may_summarise() && self.compact(&bare, Strategy::ReactiveFull, trigger, &limits).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Resolves the prompt without history. Returns `None` if not even that fits.
    async fn bare(&mut self) -> Result<Option<Pass>, AgentError> {
        let snapshot = self.log.snapshot();
        let resolver = &mut *self.resolver;
        match self.log.attend(self.cancel, resolver.resolve_bare(&snapshot)).await {
            Err(err) if overflow(&err).is_some() => Ok(None),
            resolved => resolved.map(Some),
        }
    }

    /// Returns how many of the newest rounds the model has not read: one if the turn in flight ends with results, else
    /// none.
    fn n_unread_rounds(&self) -> usize {
        let snapshot = self.log.snapshot();
        let last = snapshot.turns().last().filter(|it| it.status() == TurnStatus::InFlight);
        let last = last.and_then(|it| it.messages().last());
        let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
        usize::from(last.is_some_and(|it| it.role == Role::Tool || it.content.iter().any(is_result)))
    }

    /// Leaves out the oldest turns and rounds without a summary. Returns whether there were any.
    pub(crate) async fn leave_out(&mut self, overflow: Overflow) -> Result<bool, AgentError> {
        let Some(bare) = self.bare().await? else { return Ok(false) };
        let mut limits = self.plan_limits(&bare);
        limits.preserve_recent_api_rounds = self.n_unread_rounds();
        // More than required, so that not every following call breaks the provider's cache.
        let spare = Tokens(self.resolver.usable(&bare).unwrap_or_default().0 / 4);
        let choice = Choice {
            strategy: Strategy::ReactiveFull,
            trigger: overflow.trigger,
            limits: &limits,
            leave_out: Some(overflow.excess + spare),
            last: None,
        };
        let Ok(job) = Job::plan(self.resolver, self.log.thread(), &choice).await? else { return Ok(false) };
        run_compacting(&bare, &self.log.thread()).await;
        let (first, last) = job.material.plan.turns;
        let why = format!("{first} to {last} are left out: the request does not fit the model's window");
        let outcome = job.material.left_out(why.clone());
        let archive = job.archive(Err(why.clone()), outcome.facts);
        self.log.archive(&job.view, &archive).await?;
        self.done.remarks.push(Remark { source: "history".to_owned(), message: why });
        Ok(true)
    }

    /// Summarises a range. Returns whether anything was replaced.
    pub(crate) async fn compact(
        &mut self,
        pass: &Pass,
        strategy: Strategy,
        trigger: Trigger,
        limits: &PlanLimits,
    ) -> Result<bool, AgentError> {
        let last = self.done.last.as_ref();
        let choice = Choice { strategy, trigger, limits, leave_out: None, last };
        let Ok(job) = Job::plan(self.resolver, self.log.thread(), &choice).await? else { return Ok(false) };
        let report = self.commit(job, pass).await?;
        Ok(report.archive.is_some())
    }

    /// Summarises the range of a job, checks the summary, commits the replacement and reports it.
    pub(crate) async fn commit(&mut self, job: Job, pass: &Pass) -> Result<CompactionReport, AgentError> {
        run_compacting(pass, &self.log.thread()).await;
        let before = self.reading();
        let (strategy, trigger) = (job.material.plan.strategy, job.material.plan.trigger);
        if strategy == Strategy::SessionCompaction {
            let ShownSize { messages: messages_before, tokens: tokens_before } = before;
            let start = Event::ContextCompactionStart { strategy, trigger, messages_before, tokens_before };
            self.log.append(vec![event_record(&start)]).await?;
            self.sink.send(start);
        }
        let requests = job.requests(self.resolver, pass);
        let agent = Arc::clone(&self.resolver.agent);
        self.done.n_made += 1;
        let work = async move { Ok(summarized(agent, requests).await) };
        let summary = self.log.attend(self.cancel, work).await?;
        match &summary {
            Ok(Summarized { usage, .. }) => self.done.usage += *usage,
            Err(failed) => self.learn(pass, failed),
        }
        let mut outcome = job.settle(summary.map_err(|it| it.err));
        let committed = match outcome.text.take() {
            Some(text) => {
                let archive = job.archive(text, std::mem::take(&mut outcome.facts));
                self.log.archive(&job.view, &archive).await
            }
            None => Ok(()),
        };
        let after = self.reading();
        let report = job.report(committed, outcome, (before, after))?;
        if report.archive.is_some() {
            self.age("a summary has changed what precedes it").await?;
            self.resolver.cache.edits.push(decision(&report));
        }
        self.done.last = Some(job.attempt(&report));
        self.report(&report).await?;
        Ok(report)
    }

    /// Learns from a summary request that was refused as too long. Its own size counts, since it differs from the
    /// request of the pass.
    fn learn(&mut self, pass: &Pass, failed: &NoSummary) {
        let err = failed.err.downcast_ref::<ModelError>();
        let err = err.filter(|it| it.kind() == ModelErrorKind::PromptTooLong);
        let (Some(err), Some(request)) = (err, &failed.request) else { return };
        if self.resolver.agent.config.compaction.model.is_none() {
            let snapshot = self.log.snapshot();
            let (counter, _) = self.resolver.summary_room(&snapshot, pass, None);
            self.resolver.refused(&snapshot, request_tokens(&*counter, request), &err.to_string());
        }
    }

    fn reading(&self) -> ShownSize {
        let counter = self.log.thread().counter();
        ShownSize::of(self.resolver, &self.log.snapshot(), &*counter)
    }

    async fn report(&mut self, report: &CompactionReport) -> Result<(), AgentError> {
        self.done.reports.push(report.clone());
        let event = match report.strategy {
            Strategy::SessionCompaction => Event::ContextCompactionEnd(report.clone()),
            Strategy::ReactiveMicro | Strategy::ReactiveFull => Event::Compaction(report.clone()),
        };
        self.log.append(vec![event_record(&event)]).await?;
        self.sink.send(event);
        Ok(())
    }
}

/// Describes for the Explanation what is shown shorter.
fn edit_of(all: &[Shrinkable], caps: &Caps) -> Edit {
    let capped = || all.iter().filter_map(|it| Some((it.tokens, *caps.get(&it.handle)?)));
    let names: Vec<&str> = caps.keys().map(String::as_str).collect();
    Edit {
        name: format!("shown shorter: {}", names.join(", ")),
        saves: capped().map(|(tokens, cap)| tokens.saturating_sub(cap)).sum(),
        behind: capped().map(|(tokens, _)| tokens).sum(),
    }
}

/// Describes for the Explanation what a summary saves and what it breaks.
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
            format!("the history has {turns} turns, the window is full")
        }
        Trigger::PromptUsage { used, usable, .. } => format!("the request has {used} of {usable} tokens"),
        Trigger::PromptTooLong => "the provider refused the request as too long".to_owned(),
        Trigger::Asked => "it was requested".to_owned(),
    };
    forced(&edit, &format!("{}: {why}", strategy.as_str()))
}
