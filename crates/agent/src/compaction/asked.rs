//! Compaction that someone asks for, outside of any turn.

use std::sync::Arc;

use contexture_compose::{Prompt, Scope};
use contexture_history::Turn;
use contexture_history::compaction::{Strategy, Trigger};
use contexture_message::{Settings, Tokens};
use contexture_session::Thread;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{CompactionReport, Job, Made, summarized};
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
    let config = &setting.agent.config.compaction;
    let snapshot = thread.refresh().await?;
    let none = InFlight::Recorded(Turn::new("in_flight", Vec::new()));
    let pass = setting.resolve(&snapshot, none, None).await?;
    let limits = config.plans(setting.usable(&pass), Tokens(0));
    let (strategy, trigger) = (Strategy::ReactiveFull, Trigger::Asked);
    let job = match Job::plan(thread.clone(), (strategy, trigger), &limits, None).await? {
        Ok(job) => job,
        Err(nothing) => return unchanged(thread, nothing.to_string()).await,
    };
    let said = summarized(Arc::clone(&setting.agent), job.call(&pass, &config.results())).await;
    let mut outcome = job.settle(said);
    let committed = match outcome.text.take() {
        Some(text) => thread.archive_range(&job.view, &job.archive(text)).await.map(|_| ()),
        None => Ok(()),
    };
    Ok(job.report(committed, outcome).await?)
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
