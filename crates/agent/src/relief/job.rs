//! One compaction: choosing the range, summarising it, and reporting what the model reads before and after.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::{BoxError, ErrorKind, Transforms};
use contexture_history::compaction::{
    Attempt, Frontier, Layout, Nothing, Plan, PlanLimits, Strategy, Trigger, preview_turns, shorten_turns,
    shown_costs, unless_repeated,
};
use contexture_history::{Body, Fact, Item, Seq, Turn, TurnNo, turns, window};
use contexture_message::{Request, TokenCounter, Tokens, Usage};
use contexture_session::{NewArchive, SessionError, Snapshot, Thread, View};
use futures::FutureExt;
use futures::future::{Either, select};

use crate::AgentError;
use crate::agent::Inner;
use crate::compaction::{
    Material, ModelSummarizer, Replacement, Summarized, Summarizer, SummaryCall, SummaryInput,
    SummaryRequests,
};
use crate::event::{CompactionReport, Made};
use crate::request::Resolver;

/// A range that will be summarised.
pub(crate) struct Job {
    thread: Thread,
    pub(crate) view: View,
    pub(crate) material: Material,
    counter: Arc<dyn TokenCounter>,
}

/// How to choose a range.
pub(crate) struct Choice<'a> {
    pub(crate) strategy: Strategy,
    pub(crate) trigger: Trigger,
    pub(crate) limits: &'a PlanLimits,
    /// The tokens to save by leaving the range out without a summary, if that is the purpose.
    pub(crate) leave_out: Option<Tokens>,
    /// The last compaction of the turn.
    pub(crate) last: Option<&'a Attempt>,
}

impl Job {
    /// Reads a thread and chooses a range, or returns why there is none. Items that the prompt would not show are
    /// never part of a range.
    pub(crate) async fn plan(
        resolver: &Resolver,
        thread: Thread,
        choice: &Choice<'_>,
    ) -> Result<Result<Job, Nothing>, AgentError> {
        let (view, counter) = (thread.view().await?, thread.counter());
        let first = first_shown(resolver, &thread, &view);
        let snapshot = thread.get();
        let frontier = Frontier(snapshot.n_old_results());
        let costs = shown_costs(&view.items, frontier, &resolver.results(&snapshot), &*counter);
        let costs: HashMap<Seq, Tokens> = view.items.iter().map(|it| it.seq).zip(costs).collect();
        let cost = |it: &Item| costs.get(&it.seq).copied().unwrap_or_default();
        let layout = Layout::weighed(&view.items[first..], view.open(), cost);
        let shown = view.items[first..].iter().filter(|it| it.visibility.history).map(cost).sum();
        let plan = choice.plan(&layout, shown).map(|it| shifted(it, first));
        let plan = match plan.and_then(|it| unless_repeated(it, choice.last)) {
            Ok(plan) => plan,
            Err(nothing) => return Ok(Err(nothing)),
        };
        let covered = &view.items[plan.span.clone()];
        // Text that transforms remove from requests must not reach a summary either.
        let turns = transformed(&resolver.prompt.definition().transforms, turns(covered))?;
        let usable = resolver.usable_on(&thread.get()).unwrap_or(Tokens(u32::MAX));
        let material = Material::new(plan, turns, &carried(covered), usable, &*counter);
        Ok(Ok(Job { thread, view, material, counter }))
    }

    /// Returns the requests for the summarizer. Their messages look as they were sent, with previews of large results.
    pub(crate) fn requests(&self, resolver: &Resolver, pass: &contexture_compose::Pass) -> SummaryRequests {
        let span = &self.material.plan.span;
        let snapshot = self.thread.get();
        let old = snapshot.n_old_results();
        let frontier = Frontier(old.saturating_sub(n_results(&self.view.items[..span.start])));
        let results = resolver.results(&snapshot);
        let turns = shorten_turns(self.material.turns.clone(), frontier, &results, &*self.counter).0;
        let messages = window(&turns, None, &*self.counter).messages().messages;
        let model = resolver.agent.config.compaction.model.as_deref();
        let (counter, room) = resolver.summary_room(&snapshot, pass, model);
        let inquiry = SummaryInput {
            pass,
            model,
            is_beginning: span.start == 0,
            turns,
            messages,
            prompt: self.material.prompt(room),
            reason: self.material.plan.strategy,
            thread: self.thread.id().to_string(),
            room,
            counter,
        };
        inquiry.requests()
    }

    /// Decides what replaces the range.
    pub(crate) fn settle(&self, summary: Result<Summarized, BoxError>) -> Replacement {
        self.material.settle(summary, &*self.counter)
    }

    /// Returns the archive to commit.
    pub(crate) fn archive(&self, text: Result<String, String>, facts: Vec<Fact>) -> NewArchive {
        self.view.archive(&self.material.plan, text, facts)
    }

    /// Returns the report. If the view changed before the commit, it says that nothing was changed.
    pub(crate) fn report(
        &self,
        committed: Result<(), SessionError>,
        outcome: Replacement,
        (before, after): (ShownSize, ShownSize),
    ) -> Result<CompactionReport, SessionError> {
        let Replacement { mut made, mut reason, .. } = outcome;
        match committed {
            Err(err @ SessionError::ViewChanged { .. }) => {
                (made, reason) = (Made::Unchanged, Some(err.to_string()));
            }
            other => other?,
        }
        let is_changed = made != Made::Unchanged;
        let number = self.thread.get().state().n_archives;
        let Plan { strategy, trigger, .. } = self.material.plan;
        Ok(CompactionReport {
            strategy,
            trigger,
            messages_before: before.messages,
            messages_after: after.messages,
            tokens_before: before.tokens,
            tokens_after: after.tokens,
            archive: is_changed.then(|| format!("a{number}")),
            accepted: made == Made::Summary,
            reason,
            made,
        })
    }

    /// Returns the attempt, used to avoid repeating a compaction without gain.
    pub(crate) fn attempt(self, report: &CompactionReport) -> Attempt {
        let gain = report.tokens_before.saturating_sub(report.tokens_after);
        let plan = self.material.plan;
        let after = report.archive.is_some().then(|| plan.before.saturating_sub(gain));
        Attempt { plan, after }
    }
}

impl Choice<'_> {
    /// Chooses a range of a history that costs `shown` tokens.
    fn plan(&self, layout: &Layout, shown: Tokens) -> Result<Plan, Nothing> {
        let Choice { strategy, trigger, limits, .. } = *self;
        match (self.leave_out, trigger) {
            (Some(excess), _) => layout.left_out(excess, trigger, limits),
            (None, Trigger::HistoryTurns { window, .. }) => layout.oldest_turns(window / 2, trigger, limits),
            (None, Trigger::HistoryTokens { tokens, .. }) => {
                let plan = layout.plan(strategy, trigger, &scaled(limits, tokens, shown))?;
                // The report names the trigger as it was, in the model's tokens.
                Ok(Plan { trigger, ..plan })
            }
            (None, _) => layout.plan(strategy, trigger, limits),
        }
    }
}

/// Returns the index of the first item that the prompt would show.
fn first_shown(resolver: &Resolver, thread: &Thread, view: &View) -> usize {
    let Some(limit) = resolver.prompt.definition().history.limit else { return 0 };
    let snapshot = thread.get();
    let shown = window(snapshot.turns(), Some(limit), &*thread.counter());
    let kept = shown.kept().find(|it| !it.is_leading()).map(|it| Arc::clone(it.id()));
    let is_first = |it: &Item| match (&it.body, &kept) {
        (_, None) => false,
        (Body::Summary(summary), Some(kept)) => **kept == format!("a{}", summary.number),
        (_, Some(kept)) => TurnNo::parse(kept) == Some(it.turn),
    };
    view.items.iter().position(is_first).unwrap_or(view.items.len())
}

fn shifted(plan: Plan, by: usize) -> Plan {
    let span = plan.span.start + by..plan.span.end + by;
    Plan { span, ..plan }
}

/// Returns the facts of the summaries among items, oldest first.
fn carried(items: &[Item]) -> Vec<Fact> {
    let summaries = items.iter().filter_map(|it| match &it.body {
        Body::Summary(summary) => Some(summary.carried_facts()),
        _ => None,
    });
    summaries.flatten().collect()
}

fn transformed(transforms: &Transforms, turns: Vec<Turn>) -> Result<Vec<Turn>, AgentError> {
    if transforms.is_empty() {
        return Ok(turns);
    }
    let done = transforms.try_run(turns);
    Ok(done.map_err(|it| contexture_compose::Error::from(ErrorKind::Transform(it)))?.turns)
}

/// Converts limits from the model's tokens to the thread's: `tokens` of the model are `counted` of the thread.
fn scaled(limits: &PlanLimits, tokens: Tokens, counted: Tokens) -> PlanLimits {
    let scale = |it: Tokens| {
        let scaled = u64::from(it.0) * u64::from(counted.0) / u64::from(tokens.0.max(1));
        Tokens(u32::try_from(scaled).unwrap_or(u32::MAX))
    };
    PlanLimits {
        trigger_tokens: scale(limits.trigger_tokens),
        target_tokens: limits.target_tokens.map(scale),
        ..limits.clone()
    }
}

/// The reason why there is no summary.
pub(crate) struct NoSummary {
    pub(crate) err: BoxError,
    /// The request that failed, if one was made.
    pub(crate) request: Option<Arc<Request>>,
}

impl<E: Into<BoxError>> From<E> for NoSummary {
    fn from(err: E) -> Self {
        Self { err: err.into(), request: None }
    }
}

/// Summarises a range within the configured timeout. A panic in the summarizer counts as a failure.
pub(crate) async fn summarized(
    agent: Arc<Inner>,
    requests: SummaryRequests,
) -> Result<Summarized, NoSummary> {
    let own = || -> Arc<dyn Summarizer> { Arc::new(ModelSummarizer(Arc::clone(&agent.model))) };
    let summarizer = agent.summarizer.clone().unwrap_or_else(own);
    let limit = Duration::from_secs(u64::from(agent.config.compaction.summary_timeout_s.max(1)));
    let work = AssertUnwindSafe(ask(summarizer, requests)).catch_unwind();
    match select(std::pin::pin!(work), agent.time.sleep(limit)).await {
        Either::Left((Ok(summary), _)) => summary,
        Either::Left((Err(_), _)) => Err("it panicked".into()),
        Either::Right(_) => Err(format!("it took longer than {} s", limit.as_secs()).into()),
    }
}

async fn ask(summarizer: Arc<dyn Summarizer>, requests: SummaryRequests) -> Result<Summarized, NoSummary> {
    let summary_of = async |call: SummaryCall| {
        let request = Arc::clone(&call.request);
        let summary = summarizer.summarize(call).await;
        summary.map_err(|err| NoSummary { err, request: Some(request) })
    };
    match requests {
        SummaryRequests::NoRoom => Err("its window has no room for a summary".into()),
        SummaryRequests::Whole(call) => summary_of(call).await,
        SummaryRequests::Parts(texts, part_call) => {
            let mut usage = Usage::default();
            let mut so_far: Option<String> = None;
            for text in texts {
                let part = summary_of(part_call.of(so_far.as_deref(), &text)).await?;
                usage += part.usage;
                so_far = Some(part.text);
            }
            Ok(Summarized { text: so_far.unwrap_or_default(), usage })
        }
    }
}

fn n_results(items: &[Item]) -> usize {
    items.iter().filter_map(|it| it.body.as_message()).map(|it| it.n_tool_results()).sum()
}

/// The size of what the model reads of a conversation: within the prompt's own window, with previews as shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownSize {
    pub(crate) messages: usize,
    pub(crate) tokens: Tokens,
}

impl ShownSize {
    pub(crate) fn of(resolver: &Resolver, snapshot: &Snapshot, counter: &dyn TokenCounter) -> Self {
        let turns = shown_turns(resolver, snapshot, counter);
        let shown = window(&turns, resolver.prompt.definition().history.limit, counter);
        Self { messages: shown.kept().map(|it| it.messages().len()).sum(), tokens: shown.tokens() }
    }
}

/// Returns the loaded turns as shown, with previews.
pub(crate) fn shown_turns(resolver: &Resolver, snapshot: &Snapshot, counter: &dyn TokenCounter) -> Vec<Turn> {
    let turns = snapshot.turns().iter().map(Arc::as_ref);
    let frontier = Frontier(snapshot.n_old_results());
    let shown = preview_turns(turns, frontier, &resolver.results(snapshot), counter).turns;
    snapshot.turns().iter().zip(shown).map(|(turn, new)| new.unwrap_or_else(|| (**turn).clone())).collect()
}
