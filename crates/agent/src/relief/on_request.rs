//! Compaction on request, outside of any turn.

use std::sync::Arc;

use contexture_compose::{InFlightTurn, Prompt};
use contexture_history::Turn;
use contexture_history::compaction::{Nothing, Strategy, Trigger};
use contexture_message::Tokens;
use contexture_session::Thread;
use tokio_util::sync::CancellationToken;

use super::job::{Choice, Job, ShownSize};
use super::ladder::{Compactions, Relief, overflow};
use super::log_writer::LogWriter;
use crate::event::{CompactionReport, Made, Sink};
use crate::request::{Resolver, thawed};
use crate::spec::RunSpec;
use crate::{Agent, AgentError};

/// The parameters of a requested compaction.
#[derive(Clone, Debug, Default)]
pub struct CompactRequest {
    /// The parameters of a run on this conversation.
    pub spec: RunSpec,
    /// Stops the compaction when cancelled; then nothing changes.
    pub cancel: CancellationToken,
}

impl Agent {
    /// Summarises all of a thread except the newest rounds, whatever that does to the cache. If that leaves nothing to
    /// summarise, fewer rounds are kept, down to none. Turns appended in the meantime are not touched. The report
    /// describes the result, or why nothing was summarised.
    pub async fn compact<In, Out>(
        &self,
        prompt: &Prompt<In, Out>,
        thread: &Thread,
        request: CompactRequest,
    ) -> Result<CompactionReport, AgentError> {
        let CompactRequest { spec, cancel } = request;
        let mut resolver = Resolver {
            own_messages: Some(Arc::default()),
            ..Resolver::new(Arc::clone(&self.0), prompt.untyped(), spec)
        };
        let work = compact(&mut resolver, thread, &cancel);
        cancel.run_until_cancelled(work).await.unwrap_or(Err(AgentError::Cancelled))
    }

    /// Makes the next turn of a thread evaluate its frozen prefix again.
    pub async fn refresh(&self, thread: &Thread) -> Result<(), AgentError> {
        thread.add(vec![thawed()]).await?;
        Ok(())
    }
}

async fn compact(
    resolver: &mut Resolver,
    thread: &Thread,
    cancel: &CancellationToken,
) -> Result<CompactionReport, AgentError> {
    let snapshot = thread.refresh().await?;
    resolver.recall_limits(&snapshot);
    let none = InFlightTurn::Recorded(Turn::new("in_flight", Vec::new()));
    let pass = match resolver.resolve(&snapshot, none, None).await {
        Err(err) if overflow(&err).is_some() => resolver.resolve_bare(&snapshot).await?,
        resolved => resolved?,
    };
    let sink = Sink::dropping();
    let mut done = Compactions::default();
    let mut limits = resolver.agent.config.compaction.plans(resolver.usable(&pass), Tokens(0));
    let log = LogWriter::Thread(thread);
    let mut relief = Relief { resolver, log, unrecorded: None, cancel, sink: &sink, done: &mut done };
    let mut nothing = Nothing::AllPinned;
    for rounds in (0..=limits.preserve_recent_api_rounds).rev() {
        limits.preserve_recent_api_rounds = rounds;
        let (strategy, trigger) = (Strategy::ReactiveFull, Trigger::Asked);
        let choice = Choice { strategy, trigger, limits: &limits, leave_out: None, last: None };
        match Job::plan(relief.resolver, thread.clone(), &choice).await? {
            Ok(job) => return relief.commit(job, &pass).await,
            Err(why) => nothing = why,
        }
    }
    Ok(unchanged(resolver, thread, nothing.to_string()))
}

fn unchanged(resolver: &Resolver, thread: &Thread, reason: String) -> CompactionReport {
    let ShownSize { messages, tokens } = ShownSize::of(resolver, &thread.get(), &*thread.counter());
    CompactionReport {
        strategy: Strategy::ReactiveFull,
        trigger: Trigger::Asked,
        messages_before: messages,
        messages_after: messages,
        tokens_before: tokens,
        tokens_after: tokens,
        archive: None,
        accepted: false,
        reason: Some(reason),
        made: Made::Unchanged,
    }
}
