//! Compaction that someone asks for, outside of any turn.

use std::sync::Arc;

use contexture_compose::{Pass, Prompt, Scope};
use contexture_history::Turn;
use contexture_history::compaction::{Nothing, PlanLimits, Strategy, Trigger};
use contexture_message::{Settings, Tokens};
use contexture_session::Thread;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{CompactionReport, Job, Made, overflow, summarized};
use crate::setting::{CacheState, InFlight, Setting};
use crate::{Agent, AgentError, prefix};

/// What is known of a conversation that someone wants compacted.
#[derive(Clone, Debug, Default)]
pub struct CompactRequest {
    /// The prompt's input, a JSON object.
    pub input: Value,
    /// Who it is for.
    pub scope: Scope,
    /// The model, `provider/model`; wins over the thread's and the prompt's.
    pub model: Option<String>,
    /// Settings that win over the prompt's.
    pub settings: Settings,
    /// Stops waiting for the summary when it is cancelled; then nothing is changed.
    pub cancel: CancellationToken,
}

impl Agent {
    /// Summarises all of a thread but the newest rounds, whatever it costs. Turns that are appended meanwhile stay. The
    /// report says what came of it; where nothing is worth a summary, it says why.
    pub async fn compact(
        &self,
        prompt: &Prompt,
        thread: &Thread,
        request: CompactRequest,
    ) -> Result<CompactionReport, AgentError> {
        let CompactRequest { input, scope, model, settings, cancel } = request;
        let setting = Setting {
            agent: Arc::clone(&self.0),
            prompt: prompt.clone(),
            input,
            scope,
            model,
            settings,
            client_tools: Vec::new(),
            tools: Vec::new(),
            instructions: None,
            own_words: Some("".into()),
            blocks: Vec::new(),
            cache: CacheState::default(),
        };
        let work = asked(&setting, thread);
        cancel.run_until_cancelled(work).await.unwrap_or(Err(AgentError::Cancelled))
    }

    /// Has the frozen prefix of a thread evaluated anew at its next turn, although it is pinned.
    pub async fn refresh(&self, thread: &Thread) -> Result<(), AgentError> {
        thread.add(vec![prefix::unpinned()]).await?;
        Ok(())
    }
}

async fn asked(setting: &Setting, thread: &Thread) -> Result<CompactionReport, AgentError> {
    let snapshot = thread.refresh().await?;
    let none = InFlight::Recorded(Turn::new("in_flight", Vec::new()));
    let pass = match setting.resolve(&snapshot, none, None).await {
        Err(err) if overflow(&err).is_some() => setting.resolve_bare(&snapshot).await?,
        resolved => resolved?,
    };
    let limits = setting.agent.config.compaction.plans(setting.usable(&pass), Tokens(0));
    match compacted(setting, thread, &pass, Trigger::Asked, &limits).await? {
        Ok(report) => Ok(report),
        Err(nothing) => unchanged(thread, nothing.to_string()).await,
    }
}

/// Summarises all of a thread but the newest rounds that the limits name, or says why there is nothing to summarise.
pub(crate) async fn compacted(
    setting: &Setting,
    thread: &Thread,
    pass: &Pass,
    trigger: Trigger,
    limits: &PlanLimits,
) -> Result<Result<CompactionReport, Nothing>, AgentError> {
    let plan = (Strategy::ReactiveFull, trigger);
    let job =
        match Job::plan(thread.clone(), plan, limits, None, &setting.prompt.definition().transforms).await? {
            Ok(job) => job,
            Err(nothing) => return Ok(Err(nothing)),
        };
    let results = setting.agent.config.compaction.results();
    let said = summarized(Arc::clone(&setting.agent), job.call(pass, &results)).await;
    let mut outcome = job.settle(said);
    let committed = match outcome.text.take() {
        Some(text) => thread.archive_range(&job.view, &job.archive(text)).await.map(|_| ()),
        None => Ok(()),
    };
    Ok(Ok(job.report(committed, outcome).await?))
}

async fn unchanged(thread: &Thread, reason: String) -> Result<CompactionReport, AgentError> {
    let view = thread.view().await?;
    let tokens = view.items.iter().filter(|it| it.visibility.history).map(|it| it.cost.tokens).sum();
    Ok(CompactionReport {
        strategy: Strategy::ReactiveFull,
        trigger: Trigger::Asked,
        items_before: view.items.len(),
        items_after: view.items.len(),
        tokens_before: tokens,
        tokens_after: tokens,
        archive: None,
        accepted: false,
        reason: Some(reason),
        made: Made::Unchanged,
    })
}
