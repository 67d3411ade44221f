//! How a suspended turn goes on: a decision or results come from outside, in any process.
//!
//! What comes is checked against the log twice: before the turn is taken up again, so that a wrong reply writes nothing,
//! and after, because somebody else may have replied meanwhile.

use std::sync::Arc;

use contexture_compose::Prompt;
use contexture_history::{Item, Seq, TurnStatus};
use contexture_session::{NewItem, SessionError, Thread};
use tokio_util::sync::CancellationToken;

use crate::agent::Inner;
use crate::approval::{self, Ruling, RunRecord, Waiting};
use crate::attempt::Attempt;
use crate::catch_panic::catch_panic;
use crate::client_tool::{self, AnswerRequest};
use crate::outcome::Outcome;
use crate::round::Answered;
use crate::run::Sink;
use crate::running::{Running, waits};
use crate::setting::Setting;
use crate::turn::watch;
use crate::words::result_items;
use crate::{AgentError, ApprovalError, ClientToolError, Event};

/// What comes from outside to a turn that waits.
pub(crate) enum Reply {
    /// Somebody decided about a call.
    Decision(Ruling),
    /// The client ran calls.
    Results(AnswerRequest),
}

impl Reply {
    /// Says why the reply changes nothing, if so.
    fn admit(&self, waiting: &Waiting, thread: &str, prompt: &str) -> Result<(), AgentError> {
        match self {
            Reply::Decision(ruling) => waiting.admit(ruling, thread)?,
            Reply::Results(request) => client_tool::admit(waiting, &request.results, thread)?,
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

    /// Returns what the reply puts on record, and the events that tell of it.
    fn items(&self, waiting: &Waiting, max_bytes: usize) -> (Vec<NewItem>, Vec<Event>) {
        match self {
            Reply::Decision(ruling) => (vec![approval::decided(ruling)], Vec::new()),
            Reply::Results(request) => {
                let answered = in_call_order(waiting, request, max_bytes);
                let events = answered.iter().map(|it| it.event(None)).collect();
                (result_items(answered), events)
            }
        }
    }
}

/// Returns the results in the order of their calls, whatever order they came in.
fn in_call_order(waiting: &Waiting, request: &AnswerRequest, max_bytes: usize) -> Vec<Answered> {
    let each = waiting.client.iter().filter_map(|call| {
        let (_, output) = request.results.iter().find(|(id, _)| *id == call.id)?;
        Some(Answered::from_outside(call, output.clone(), max_bytes))
    });
    each.collect()
}

/// Takes a reply, and runs the turn to its end once nothing is missing.
pub(crate) async fn go_on(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    reply: Reply,
    cancel: CancellationToken,
    sink: Sink,
) -> Result<Outcome, AgentError> {
    let watch = watch(&prompt, thread.id(), &sink);
    watch.over(resume(agent, prompt, thread, reply, cancel, sink)).await
}

async fn resume(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    reply: Reply,
    cancel: CancellationToken,
    sink: Sink,
) -> Result<Outcome, AgentError> {
    let name = thread.id().to_string();
    let snapshot = thread.refresh().await?;
    let open = snapshot.state().open.filter(|it| it.status == TurnStatus::Suspended);
    let open = open.ok_or_else(|| reply.not_waiting(&name))?;
    let waiting = Waiting::read(&items_since(&thread, open.began).await?);
    reply.admit(&waiting, &name, prompt.id())?;
    let mut setting = setting_of(agent, prompt, &waiting.run, &reply);
    // Another process may have another agent, without a tool that the run was begun with.
    setting.named_tools()?;
    if matches!(reply, Reply::Results(AnswerRequest { client_tools: Some(_), .. })) {
        setting.check_client_tools(&snapshot).await?;
    }
    let resumed = cancel.run_until_cancelled(thread.resume(open.turn)).await;
    let mut turn = match resumed.ok_or(AgentError::Cancelled)? {
        Err(SessionError::NotSuspended { .. }) => return Err(reply.not_waiting(&name)),
        turn => turn?,
    };
    // Somebody else may have replied while this one waited for its turn.
    let admitted = match items_since(&thread, open.began).await.map(|it| Waiting::read(&it)) {
        _ if cancel.is_cancelled() => Err((AgentError::Cancelled, waiting)),
        Ok(now) => match reply.admit(&now, &name, setting.prompt.id()) {
            Ok(()) => Ok(now),
            Err(err) => Err((err, now)),
        },
        Err(err) => Err((err, waiting)),
    };
    let waiting = match admitted {
        Ok(waiting) => waiting,
        Err((err, waiting)) => {
            turn.suspend(waits(!waiting.is_decided(), !waiting.client.is_empty()), Vec::new()).await?;
            return Err(err);
        }
    };
    let (items, events) = reply.items(&waiting, setting.agent.config.max_result_bytes);
    turn.append(items).await?;
    let items = items_since(&thread, open.began).await?;
    let waiting = Waiting::read(&items);
    setting.look(&thread, &snapshot);
    let mut running = Running::new(setting, turn, sink.clone(), cancel);
    if let Reply::Decision(_) = reply {
        let RunRecord { steps, usage, cost, .. } = waiting.run;
        (running.steps, running.usage, running.cost) = (steps, usage, cost);
    }
    running.attempts = Attempt::read(&items);
    running.started();
    events.into_iter().for_each(|it| sink.send(it));
    let result = catch_panic(running.go_on(waiting)).await;
    running.settle(result).await
}

/// Returns what the rest of the turn has in common with what was before, and what the reply changes of it.
fn setting_of(agent: Arc<Inner>, prompt: Prompt, run: &RunRecord, reply: &Reply) -> Setting {
    let RunRecord { spec, own_words, .. } = run.clone();
    let mut setting = Setting { own_words, ..Setting::new(agent, prompt, spec) };
    if let Reply::Results(request) = reply {
        let spec = &mut setting.spec;
        spec.model = request.model.clone().or(spec.model.take());
        spec.settings = request.settings.clone().unwrap_or(std::mem::take(&mut spec.settings));
        spec.client_tools = request.client_tools.clone().unwrap_or(std::mem::take(&mut spec.client_tools));
    }
    setting
}

pub(crate) async fn items_since(thread: &Thread, began: Seq) -> Result<Vec<Item>, AgentError> {
    const PAGE: usize = 256;
    let mut seq = Seq(began.0.saturating_sub(1));
    let mut items = Vec::new();
    loop {
        let page = thread.after(seq, PAGE).await?;
        let is_last = page.len() < PAGE;
        seq = page.last().map_or(seq, |it| it.seq);
        items.extend(page);
        if is_last {
            return Ok(items);
        }
    }
}
