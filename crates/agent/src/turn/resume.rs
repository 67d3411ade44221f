//! Continues a suspended turn with a decision or results from outside, in any process.
//!
//! The reply is checked against the log twice: before the turn is resumed, so that an invalid reply writes nothing,
//! and after, because another process may have replied in the meantime.

use std::sync::Arc;

use contexture_compose::Prompt;
use contexture_history::TurnStatus;
use contexture_session::{NewItem, SessionError, Thread};
use tokio_util::sync::CancellationToken;

use super::executor::{Executor, NextPass, limits_of};
use super::state::{Origin, TurnState};
use super::waiting::{Ruling, RunRecord, Waiting, admit_results, decided, suspension_reason};
use super::{Entered, items_since};
use crate::agent::Inner;
use crate::beside::Beside;
use crate::error::{AgentError, ApprovalError, ClientToolError};
use crate::event::{Event, Sink};
use crate::request::Resolver;
use crate::spec::AnswerRequest;
use crate::tools::{Answered, result_items};

/// A reply to a suspended turn.
pub(crate) enum Reply {
    /// A person's decision about a call.
    Decision(Ruling),
    /// The results of calls that the client ran.
    Results(AnswerRequest),
}

impl Reply {
    /// Returns an error if the turn does not accept the reply.
    fn admit(&self, waiting: &Waiting, thread: &str, prompt: &str) -> Result<(), AgentError> {
        match self {
            Reply::Decision(ruling) => waiting.admit(ruling, thread)?,
            Reply::Results(request) => admit_results(waiting, &request.results, thread)?,
        }
        if waiting.run.prompt == prompt {
            return Ok(());
        }
        let (theirs, ours) = (waiting.run.prompt.clone(), prompt.to_owned());
        Err(match self {
            Reply::Decision(_) => ApprovalError::OtherPrompt { theirs, ours }.into(),
            Reply::Results(_) => ClientToolError::OtherPrompt { theirs, ours }.into(),
        })
    }

    fn not_waiting(&self, thread: &str) -> AgentError {
        let thread = thread.to_owned();
        match self {
            Reply::Decision(it) => ApprovalError::NotWaiting { approval: it.approval.clone(), thread }.into(),
            Reply::Results(it) => match it.results.first() {
                Some((call, _)) => ClientToolError::Unexpected { call: call.clone(), thread }.into(),
                None => ClientToolError::NotWaiting { thread }.into(),
            },
        }
    }

    /// Returns the items that record the reply, and the events that announce it.
    fn items(&self, waiting: &Waiting, max_bytes: usize) -> (Vec<NewItem>, Vec<Event>) {
        match self {
            Reply::Decision(ruling) => (vec![decided(ruling)], Vec::new()),
            Reply::Results(request) => {
                let answered = in_call_order(waiting, request, max_bytes);
                let events = answered.iter().map(|it| it.event()).collect();
                (result_items(answered), events)
            }
        }
    }
}

/// Returns the results in the order of their calls, whatever order they arrived in.
fn in_call_order(waiting: &Waiting, request: &AnswerRequest, max_bytes: usize) -> Vec<Answered> {
    let each = waiting.client.iter().filter_map(|call| {
        let (_, output) = request.results.iter().find(|(id, _)| *id == call.id)?;
        Some(Answered::from_outside(call, output.clone(), max_bytes))
    });
    each.collect()
}

/// Records a reply to a suspended turn, and continues it.
pub(super) async fn resume(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    reply: Reply,
    cancel: CancellationToken,
    sink: Sink,
) -> Result<Entered, AgentError> {
    let name = thread.id().to_string();
    let snapshot = thread.refresh().await?;
    let open = snapshot.state().open.filter(|it| it.status == TurnStatus::Suspended);
    let open = open.ok_or_else(|| reply.not_waiting(&name))?;
    let waiting = Waiting::read(&items_since(&thread, open.began).await?);
    reply.admit(&waiting, &name, prompt.id())?;
    let mut resolver = resolver_of(agent, prompt, &waiting.run, &reply);
    // The agent in this process may lack a tool that the run began with.
    resolver.named_tools()?;
    if matches!(reply, Reply::Results(AnswerRequest { client_tools: Some(_), .. })) {
        resolver.check_client_tools(&snapshot).await?;
    }
    let resumed = cancel.run_until_cancelled(thread.resume(open.turn)).await;
    let mut turn = match resumed.ok_or(AgentError::Cancelled)? {
        Err(SessionError::NotSuspended { .. }) => return Err(reply.not_waiting(&name)),
        turn => turn?,
    };
    // Another process may have replied while this one waited for the turn.
    let admitted = match items_since(&thread, open.began).await.map(|it| Waiting::read(&it)) {
        _ if cancel.is_cancelled() => Err((AgentError::Cancelled, waiting)),
        Ok(now) => match reply.admit(&now, &name, resolver.prompt.id()) {
            Ok(()) => Ok(now),
            Err(err) => Err((err, now)),
        },
        Err(err) => Err((err, waiting)),
    };
    let waiting = match admitted {
        Ok(waiting) => waiting,
        Err((err, waiting)) => {
            let reason = suspension_reason(!waiting.is_decided(), !waiting.client.is_empty());
            let beside = Beside { client_calls: waiting.client, ..Beside::default() };
            turn.suspend(reason, beside.record().into_iter().collect()).await?;
            return Err(err);
        }
    };
    let (items, events) = reply.items(&waiting, resolver.agent.config.max_result_bytes);
    turn.append(items).await?;
    let items = items_since(&thread, open.began).await?;
    resolver.read_state(&thread, &snapshot);
    let origin = match reply {
        Reply::Decision(_) => Origin::Decided,
        Reply::Results(_) => Origin::ClientReplied,
    };
    let state = TurnState::replay(&items, origin, limits_of(&resolver));
    let pass = NextPass::Missing { guards: false };
    let executor = Executor::new(resolver, turn, state, pass, (sink.clone(), cancel));
    events.into_iter().for_each(|it| sink.send(it));
    Ok(Entered::Running(Box::new(executor)))
}

/// Returns a resolver with the parameters of the suspended run, changed by what the reply overrides.
fn resolver_of(agent: Arc<Inner>, prompt: Prompt, run: &RunRecord, reply: &Reply) -> Resolver {
    let RunRecord { spec, own_messages, .. } = run.clone();
    let mut resolver = Resolver { own_messages, ..Resolver::new(agent, prompt, spec) };
    if let Reply::Results(request) = reply {
        let spec = &mut resolver.spec;
        spec.model = request.model.clone().or(spec.model.take());
        spec.settings = request.settings.clone().unwrap_or(std::mem::take(&mut spec.settings));
        spec.client_tools = request.client_tools.clone().unwrap_or(std::mem::take(&mut spec.client_tools));
    }
    resolver
}
