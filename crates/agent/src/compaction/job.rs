//! One compaction, from what the model reads to the report.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::{BoxError, ErrorKind, Pass, Transforms};
use contexture_history::compaction::{
    Attempt, Frontier, Layout, Nothing, Plan, PlanLimits, ResultLimits, Strategy, Trigger, shorten_turns,
    unless_repeated,
};
use contexture_history::{Item, Turn, turns, window};
use contexture_message::{TokenCounter, Tokens};
use contexture_session::{NewArchive, SessionError, Thread, View};
use futures::FutureExt;
use futures::future::{Either, select};

use super::{
    CompactionReport, Made, Material, ModelSummarizer, Outcome, Start, Summarized, Summarizer, SummaryCall,
    settle, summary_call,
};
use crate::AgentError;
use crate::agent::Inner;

/// A range that is going to be summarised.
pub(crate) struct Job {
    thread: Thread,
    pub(crate) view: View,
    material: Material,
    counter: Arc<dyn TokenCounter>,
}

impl Job {
    /// Reads a thread and chooses a range, or says why there is none.
    pub(crate) async fn plan(
        thread: Thread,
        (strategy, trigger): (Strategy, Trigger),
        limits: &PlanLimits,
        last: Option<&Attempt>,
        transforms: &Transforms,
    ) -> Result<Result<Job, Nothing>, AgentError> {
        let (view, counter) = (thread.view().await?, thread.counter());
        let layout = Layout::new(&view.items, view.open(), &*counter);
        let plan = match trigger {
            Trigger::HistoryTurns { window, .. } => layout.oldest_turns(window / 2, trigger, limits),
            Trigger::HistoryTokens { tokens, .. } => {
                layout.plan(strategy, trigger, &scaled(limits, tokens, weight(&view.items)))
            }
            _ => layout.plan(strategy, trigger, limits),
        };
        let plan = match plan.and_then(|it| unless_repeated(it, last)) {
            Ok(plan) => plan,
            Err(nothing) => return Ok(Err(nothing)),
        };
        // What transforms take out of a request gets into no summary either.
        let turns = transformed(transforms, turns(&view.items[plan.span.clone()]))?;
        let material = Material::new(plan, turns, &*counter);
        Ok(Ok(Job { thread, view, material, counter }))
    }

    /// Returns what the model reads costs before.
    pub(crate) fn before(&self) -> Tokens {
        weight(&self.view.items)
    }

    /// Returns what a summariser gets. The messages are as they were sent, with previews of large results.
    pub(crate) fn call(&self, pass: &Pass, results: &ResultLimits) -> SummaryCall {
        let span = &self.material.plan.span;
        let start = if span.start == 0 { Start::Beginning } else { Start::Middle };
        let old = self.thread.get().n_old_results();
        let frontier = Frontier(old.saturating_sub(n_results(&self.view.items[..span.start])));
        let turns = shorten_turns(self.material.turns.clone(), frontier, results, &*self.counter).0;
        let messages = window(&turns, None, &*self.counter).messages().messages;
        let (prompt, reason) = (self.material.prompt(), self.material.plan.strategy);
        let thread = self.thread.id().to_string();
        summary_call(pass, &start, turns.clone(), messages, prompt, reason, thread)
    }

    /// Decides what becomes of the range.
    pub(crate) fn settle(&self, said: Result<Summarized, BoxError>) -> Outcome {
        settle(&self.material, said, &*self.counter)
    }

    /// Returns what is committed.
    pub(crate) fn archive(&self, text: Result<String, String>) -> NewArchive {
        self.view.archive(&self.material.plan, text)
    }

    /// Takes in what became of the commit, and reports. Nothing committed means that nothing has changed.
    pub(crate) async fn report(
        &self,
        committed: Result<(), SessionError>,
        outcome: Outcome,
    ) -> Result<CompactionReport, SessionError> {
        let Outcome { mut made, mut reason, .. } = outcome;
        match committed {
            Err(err @ SessionError::ViewChanged { .. }) => {
                (made, reason) = (Made::Unchanged, Some(err.to_string()));
            }
            other => other?,
        }
        let after = self.thread.view().await?;
        let is_changed = made != Made::Unchanged;
        let number = self.thread.get().state().n_archives;
        let Plan { strategy, trigger, .. } = self.material.plan;
        Ok(CompactionReport {
            strategy,
            trigger,
            items_before: self.view.items.len(),
            items_after: after.items.len(),
            tokens_before: self.before(),
            tokens_after: weight(&after.items),
            archive: is_changed.then(|| format!("a{number}")),
            accepted: made == Made::Summary,
            reason,
            made,
        })
    }

    /// Returns what came of it, to recognise one that gains nothing.
    pub(crate) fn attempt(self, report: &CompactionReport) -> Attempt {
        let gain = report.tokens_before.saturating_sub(report.tokens_after);
        let plan = self.material.plan;
        let after = report.archive.is_some().then(|| plan.before.saturating_sub(gain));
        Attempt { plan, after }
    }
}

fn transformed(transforms: &Transforms, turns: Vec<Turn>) -> Result<Vec<Turn>, AgentError> {
    if transforms.is_empty() {
        return Ok(turns);
    }
    let done = transforms.try_run(turns);
    Ok(done.map_err(|it| contexture_compose::Error::from(ErrorKind::Transform(it)))?.turns)
}

/// Returns limits in the measure of the thread's counter: `tokens` of the model's are `counted` of the thread's.
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

/// Has a range summarised, within the time that there is. A summariser that panics has failed.
pub(crate) async fn summarized(agent: Arc<Inner>, call: SummaryCall) -> Result<Summarized, BoxError> {
    let own = || -> Arc<dyn Summarizer> { Arc::new(ModelSummarizer(Arc::clone(&agent.model))) };
    let summarizer = agent.summarizer.clone().unwrap_or_else(own);
    let limit = Duration::from_secs(u64::from(agent.config.compaction.summary_timeout_s.max(1)));
    let work = AssertUnwindSafe(async move { summarizer.summarize(call).await }).catch_unwind();
    match select(std::pin::pin!(work), agent.time.sleep(limit)).await {
        Either::Left((Ok(said), _)) => said,
        Either::Left((Err(_), _)) => Err("it panicked".into()),
        Either::Right(_) => Err(format!("it took longer than {} s", limit.as_secs()).into()),
    }
}

fn weight(items: &[Item]) -> Tokens {
    items.iter().filter(|it| it.visibility.history).map(|it| it.cost.tokens).sum()
}

fn n_results(items: &[Item]) -> usize {
    items.iter().filter_map(|it| it.body.as_message()).map(|it| it.n_tool_results()).sum()
}
