//! Starts a turn and runs it to its end.

use std::sync::Arc;

use contexture_compose::{InFlightTurn, Pass, Prompt};
use contexture_history::{EnvelopeTag, Turn};
use contexture_message::{Message, Role};
use contexture_session::{Begun, NewItem, Snapshot, Thread, ThreadId, TurnConfig};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::agent::Inner;
use crate::catch_panic::catch_panic;
use crate::compaction::{Compactions, MAX_RUNGS, Place, Relief, caps, overflow};
use crate::earlier::{Resumption, is_known, replayed, take_up};
use crate::outcome::{Outcome, Remark};
use crate::run::{RunRequest, Sink};
use crate::running::Running;
use crate::setting::{CacheState, Setting};
use crate::words::own_messages;
use crate::{AgentError, Event, ResumePolicy, prefix, reminders};

/// Runs a turn to its end.
pub(crate) async fn run(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    request: RunRequest,
    sink: Sink,
) -> Result<Outcome, AgentError> {
    let watch = watch(&prompt, thread.id(), &sink);
    watch.over(begin(agent, prompt, thread, request, sink)).await
}

/// Returns the span and the sinks that report the failure of a run.
pub(crate) fn watch(prompt: &Prompt, thread: &ThreadId, sink: &Sink) -> Watch {
    Watch { span: run_span(prompt, thread), prompt: prompt.clone(), sink: sink.clone() }
}

fn run_span(prompt: &Prompt, thread: &ThreadId) -> tracing::Span {
    tracing::info_span!(
        "invoke_agent",
        otel.name = format!("invoke_agent {}", prompt.id()),
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = prompt.id(),
        gen_ai.conversation.id = %thread,
        error.type = tracing::field::Empty,
    )
}

/// Reports the failure of a run to its span, the prompt's hooks and the event sink.
pub(crate) struct Watch {
    span: tracing::Span,
    prompt: Prompt,
    sink: Sink,
}

impl Watch {
    /// Awaits a run and reports its error, if it fails.
    pub(crate) async fn over(
        self,
        work: impl Future<Output = Result<Outcome, AgentError>>,
    ) -> Result<Outcome, AgentError> {
        let result = catch_panic(work).instrument(self.span.clone()).await;
        if let Err(err) = &result {
            self.span.record("error.type", err.code().as_str());
            // The hooks of the prompt have already seen its composition errors.
            if !matches!(err, AgentError::Compose(_)) {
                self.prompt.hooks().failed(err);
            }
            self.sink.send(Event::Error { code: err.code().into(), message: err.to_string() });
        }
        result
    }
}

async fn begin(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    request: RunRequest,
    sink: Sink,
) -> Result<Outcome, AgentError> {
    let RunRequest { spec, user, items, blocks, reminders, refresh, key, resume, policy, cancel } = request;
    // User input always gets the user role, whatever role the caller set. A blank message counts as none.
    let user = user.filter(|it| !it.is_blank()).map(|it| Message { role: Role::User, ..it });
    let cache = CacheState { refresh, ..CacheState::default() };
    let mut setting = Setting { blocks, cache, ..Setting::new(agent, prompt, spec) };
    let place = thread.clone().with_policy(policy);
    let taken_up = resume.map(|how| Resumption { how, has_user: user.is_some() });
    if is_known(&place, key.as_deref(), &cancel).await? {
        // The log already has the input of this turn, so it is not resolved or guarded as if it were new.
        if taken_up.is_some() {
            setting.named_tools()?;
            setting.check_client_tools(&place.get()).await?;
            setting.look(&place, &*place.refresh().await?);
        }
        let config = TurnConfig { key, resume: taken_up.is_some(), policy, items: Vec::new() };
        let taken_up =
            taken_up.unwrap_or(Resumption { how: ResumePolicy::CloseCalls, has_user: user.is_some() });
        return match begun(&thread, config, &cancel).await? {
            Begun::Replayed(outcome) => Ok(replayed(thread.id(), &setting.prompt, outcome)),
            // Keys are never forgotten, so this cannot be a new turn.
            Begun::Resumed(turn) | Begun::Running(turn) => {
                take_up(setting, turn, taken_up, sink, cancel).await
            }
        };
    }
    let opened = async {
        setting.check_client_tools(&place.get()).await?;
        open_with_room(&mut setting, &place, user, &sink, &cancel).await
    };
    let opened = cancel.run_until_cancelled(opened).await;
    let (Opening { before, aged, pass, user, mut remarks }, compactions) =
        opened.ok_or(AgentError::Cancelled)??;

    let reminding = reminders::envelope(&reminders, &mut remarks);
    let extra = items.len() + usize::from(reminding.is_some()) + usize::from(aged.is_some());
    let envelope = pass.envelope().map(|text| NewItem::envelope(EnvelopeTag::SystemContext, text));
    let said = words(user, envelope.into_iter().chain(reminding)).chain(items);
    // The shortened views of this pass are recorded with the turn that needs them.
    let shorter = setting.caps.take().map(|it| caps::record(&it));
    let items: Vec<NewItem> = aged.into_iter().chain(shorter).chain(said).collect();
    let n_items = items.len() as u64;
    let config = TurnConfig { key, resume: resume.is_some(), policy, items };
    let turn = match (begun(&thread, config, &cancel).await?, taken_up) {
        // Another process began the turn in the meantime and was lost.
        (Begun::Resumed(turn), Some(taken_up)) => {
            return take_up(setting, turn, taken_up, sink, cancel).await;
        }
        (Begun::Running(turn) | Begun::Resumed(turn), _) => turn,
        (Begun::Replayed(outcome), _) => return Ok(replayed(thread.id(), &setting.prompt, outcome)),
    };
    // The pass is still valid unless another writer appended something, the turn adds hidden context that the pass
    // does not include, or beginning this turn ended one that was open.
    let now = turn.snapshot();
    let n_ended = u64::from(before.state().open.is_some());
    let end = before.state().end.plus(n_ended + 1 + n_items);
    let is_next = turn.thread().id() == thread.id() && now.state().end == end;
    let is_same = n_ended == 0 && is_next;
    let stands = extra == 0 && is_same;
    let pins = if is_next { setting.pins(&before, &pass) } else { Vec::new() };
    setting.cache.is_pinned = is_next;
    if !is_next {
        // The other writer may have pinned the prefix and refreshed the provider's cache.
        setting.cache.idle = None;
        setting.cache.refresh = refresh || prefix::is_unpinned(&now);
    }
    let mut running = Running::new(setting, turn, sink, cancel);
    running.compactions = compactions;
    running.started();
    running.remarks(remarks);
    running.warn_of_window();
    let result = catch_panic(async {
        running.pin(pins).await?;
        let pass = match stands {
            true => pass,
            // The log has more than the pass knows, but the call is the same: nothing is evaluated a second time.
            false if is_same => running.resolve_again(&pass).await?,
            false => running.resolve_with_room(None).await?,
        };
        let pass = running.at_boundary(pass).await?;
        running.go(pass).await
    });
    let result = result.await;
    running.settle(result).await
}

/// Begins a turn, after any other turn that runs on the thread.
async fn begun(thread: &Thread, config: TurnConfig, cancel: &CancellationToken) -> Result<Begun, AgentError> {
    let begun = cancel.run_until_cancelled(thread.begin(config)).await;
    Ok(begun.ok_or(AgentError::Cancelled)??)
}

/// The input of a turn, resolved and guarded.
pub(crate) struct Opening {
    /// The thread before the turn.
    before: Arc<Snapshot>,
    /// The record of items that count as old from now on.
    aged: Option<NewItem>,
    pub(crate) pass: Pass,
    pub(crate) user: Vec<Message>,
    remarks: Vec<Remark>,
}

/// Opens a turn. If the required content does not fit, makes room for it first.
async fn open_with_room(
    setting: &mut Setting,
    thread: &Thread,
    user: Option<Message>,
    sink: &Sink,
    cancel: &CancellationToken,
) -> Result<(Opening, Compactions), AgentError> {
    let before = thread.get();
    setting.look(thread, &before);
    let aged = setting.age(thread, None).await?;
    let mut opened = open(setting, &before, user.clone()).await.map(|it| Opening { aged, ..it });
    let mut done = Compactions::default();
    for _ in 0..MAX_RUNGS {
        let Some(overflow) = opened.as_ref().err().and_then(overflow) else { break };
        let said = user.as_ref().map(|it| said(&thread.get(), std::slice::from_ref(it)));
        let place = Place::Thread(thread);
        let mut relief = Relief { setting, place, said, cancel, sink, done: &mut done };
        if !relief.step(overflow).await? && !setting.dare() {
            break;
        }
        opened = open(setting, &thread.get(), user.clone()).await;
    }
    Ok((opened?, done))
}

/// Resolves the prompt and guards the input: the user's message and the prompt's own messages. Without a user message,
/// the prompt's own messages take its place. Both are fixed for the whole turn, so that no later pass brings back what
/// a guardrail removed.
pub(crate) async fn open(
    setting: &mut Setting,
    before: &Arc<Snapshot>,
    user: Option<Message>,
) -> Result<Opening, AgentError> {
    let given: Vec<Message> = user.into_iter().collect();
    let pass = setting.resolve(before, InFlightTurn::New(said(before, &given)), None).await?;
    setting.check_tools(&pass)?;
    let own = own_messages(&pass);
    let (mut user, own) = if given.is_empty() { (own, Vec::new()) } else { (given, own) };
    let mut remarks = Vec::new();
    if user.is_empty() {
        // Guardrails also run for a turn without any input.
        user.push(Message::parts(Role::User, Vec::new()));
    }
    let (mut user, is_rewritten) = setting.guard_words(&pass, user, &mut remarks).await?;
    user.retain(|it| !it.is_blank());
    let (own, is_own_rewritten) = setting.guard_words(&pass, own, &mut remarks).await?;
    setting.own_words = Some(own.into());
    let pass = match is_rewritten || is_own_rewritten {
        true => setting.resolve(before, InFlightTurn::New(said(before, &user)), None).await?,
        false => pass,
    };
    let before = Arc::clone(before);
    Ok(Opening { before, aged: None, pass, user, remarks })
}

/// Returns the turn before any of it is recorded, under its future id.
fn said(before: &Snapshot, user: &[Message]) -> Turn {
    Turn::new(before.turn().next().to_string(), user.to_vec())
}

/// Returns the items that open a turn. The hidden envelopes follow the first message.
fn words(user: Vec<Message>, envelopes: impl Iterator<Item = NewItem>) -> impl Iterator<Item = NewItem> {
    let mut user = user.into_iter().map(NewItem::from);
    user.next().into_iter().chain(envelopes).chain(user)
}
