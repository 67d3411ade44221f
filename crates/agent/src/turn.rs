//! How a turn begins.

use std::sync::Arc;

use contexture_compose::{GuardrailSide, Pass, Prompt};
use contexture_history::{Body, EnvelopeTag, Turn};
use contexture_message::{Message, Role, Usage};
use contexture_session::{Begun, NewItem, Snapshot, Thread, ThreadId, TurnConfig, TurnOutcome};
use tracing::Instrument;

use crate::agent::Inner;
use crate::approval::Waiting;
use crate::calm::calm;
use crate::checks::Guarded;
use crate::compaction::{CompactionReport, overflow, room};
use crate::outcome::{Ended, Outcome, Remark};
use crate::run::{RunRequest, Sink};
use crate::running::Running;
use crate::setting::{CacheState, InFlight, Setting};
use crate::words::{text_of, user_text, with_text};
use crate::{AgentError, Event, prefix, reminders};

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

/// Watches over a run.
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

/// Whoever hears of a run that fails.
pub(crate) struct Watch {
    span: tracing::Span,
    prompt: Prompt,
    sink: Sink,
}

impl Watch {
    /// Waits for a run, and tells of its failure.
    pub(crate) async fn over(
        self,
        work: impl Future<Output = Result<Outcome, AgentError>>,
    ) -> Result<Outcome, AgentError> {
        let result = calm(work).instrument(self.span.clone()).await;
        if let Err(err) = &result {
            self.span.record("error.type", err.code());
            // The prompt's own hooks were told of its own errors where they happened.
            if !matches!(err, AgentError::Compose(_)) {
                self.prompt.definition().hooks.failed(err);
            }
            self.sink.send(Event::Error { code: err.code().to_owned(), message: err.to_string() });
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
    let RunRequest {
        input,
        user,
        items,
        blocks,
        reminders,
        refresh,
        key,
        policy,
        scope,
        model,
        settings,
        client_tools,
        tools,
        instructions,
        cancel,
    } = request;
    let cache = CacheState { refresh, ..CacheState::default() };
    let mut setting = Setting {
        agent,
        prompt,
        input,
        scope,
        model,
        settings,
        client_tools,
        tools,
        instructions: instructions.map(Arc::from),
        own_words: None,
        blocks,
        cache,
    };
    let place = thread.clone().with_policy(policy);
    let opened = async {
        setting.check_client_tools(&place.get()).await?;
        open_with_room(&mut setting, &place, user, &sink).await
    };
    let opened = cancel.run_until_cancelled(opened).await;
    let Opening { before, aged, pass, user, mut remarks, compactions } =
        opened.ok_or(AgentError::Cancelled)??;

    let reminding = reminders::envelope(&reminders, &mut remarks);
    let extra = items.len() + usize::from(reminding.is_some()) + usize::from(aged.is_some());
    let envelope = pass.envelope().map(|text| NewItem::envelope(EnvelopeTag::SystemContext, text));
    let said = user.into_iter().map(NewItem::from).chain(envelope).chain(reminding).chain(items);
    let items: Vec<NewItem> = aged.into_iter().chain(said).collect();
    let n_items = items.len() as u64;
    // It may have to wait for another turn.
    let config = TurnConfig { key, policy, items, ..TurnConfig::default() };
    let begun = cancel.run_until_cancelled(thread.begin(config)).await;
    let turn = match begun.ok_or(AgentError::Cancelled)?? {
        Begun::Running(turn) | Begun::GoneOn(turn) => turn,
        Begun::Replayed(outcome) => return Ok(replayed(thread.id(), outcome)),
    };
    // The pass stands unless somebody wrote meanwhile, or hidden context came along that it does not know, or a turn
    // that was open before has ended with this one.
    let now = turn.snapshot();
    let n_ended = u64::from(before.state().open.is_some());
    let end = before.state().end.plus(n_ended + 1 + n_items);
    let is_next = turn.thread().id() == thread.id() && now.state().end == end;
    let stands = extra == 0 && n_ended == 0 && is_next;
    let pins = if is_next { setting.pins(&before, &pass) } else { Vec::new() };
    setting.cache.is_pinned = is_next;
    if !is_next {
        // Whoever wrote meanwhile may have pinned the prefix, and has read the provider's cache.
        setting.cache.idle = None;
        setting.cache.refresh = refresh || prefix::is_unpinned(&now);
    }
    let mut running = Running::new(setting, turn, sink, cancel);
    running.compactions.reports = compactions;
    running.started();
    running.remarks(remarks);
    let result = calm(async {
        running.pin(pins).await?;
        let pass = if stands { pass } else { running.resolve_with_room(None).await? };
        let pass = running.at_boundary(pass).await?;
        running.go(pass).await
    });
    let result = result.await;
    running.settle(result).await
}

/// What a turn begins with.
struct Opening {
    /// The thread as it was then.
    before: Arc<Snapshot>,
    /// The record of what has grown old.
    aged: Option<NewItem>,
    pass: Pass,
    user: Option<Message>,
    remarks: Vec<Remark>,
    /// What was summarised so that it fits at all.
    compactions: Vec<CompactionReport>,
}

/// Opens a turn; where what must be sent does not fit, room is made for it first.
async fn open_with_room(
    setting: &mut Setting,
    thread: &Thread,
    user: Option<Message>,
    sink: &Sink,
) -> Result<Opening, AgentError> {
    let before = thread.get();
    setting.look(thread, &before);
    let aged = setting.age(thread, None).await?;
    let mut opened = open(setting, &before, user.clone()).await.map(|it| Opening { aged, ..it });
    let mut compactions = Vec::new();
    let most = setting.agent.config.compaction.max_reactive_compactions_per_request as usize;
    while let Err(err) = &opened
        && let Some(overflow) = overflow(err)
        && compactions.len() < most
    {
        let (is_changed, report) = room(setting, thread, &overflow).await?;
        if !is_changed {
            break;
        }
        report.iter().cloned().for_each(|it| sink.send(Event::Compaction(it)));
        compactions.extend(report);
        opened = open(setting, &thread.get(), user.clone()).await;
    }
    Ok(Opening { compactions, ..opened? })
}

/// Resolves the prompt and guards what goes in: the user's message, and what the prompt itself says beside it. Without a
/// message the prompt's own text becomes one. Either way its text is settled for the whole turn, so that no later pass
/// brings back what a guardrail took out.
async fn open(
    setting: &mut Setting,
    before: &Arc<Snapshot>,
    user: Option<Message>,
) -> Result<Opening, AgentError> {
    // Whoever hands it in: what the user says has the user's rank.
    let user = user.map(|it| Message { role: Role::User, ..it });
    let pass = setting.resolve(before, said(user.as_ref()), None).await?;
    let own = user_text(&pass);
    let (own, mut user) = match user {
        Some(user) => (own, Some(user)),
        None => (None, own.map(Message::user)),
    };
    let mut own = own.unwrap_or_default();
    let words = user.as_ref().map(text_of).unwrap_or_default();
    let Guarded { rewritten, mut remarks } = setting.guard(&pass, GuardrailSide::Input, &words).await?;
    let mut is_rewritten = rewritten.is_some();
    if let Some(text) = rewritten {
        user = Some(with_text(user.unwrap_or_else(|| Message::user("")), text));
    }
    if !own.is_empty() {
        let guarded = setting.guard(&pass, GuardrailSide::Input, &own).await?;
        is_rewritten |= guarded.rewritten.is_some();
        own = guarded.rewritten.unwrap_or(own);
        remarks.extend(guarded.remarks);
    }
    setting.own_words = Some(own.into());
    let pass = match is_rewritten {
        true => setting.resolve(before, said(user.as_ref()), None).await?,
        false => pass,
    };
    let before = Arc::clone(before);
    Ok(Opening { before, aged: None, pass, user, remarks, compactions: Vec::new() })
}

/// Returns the turn before anything of it is on record.
fn said(user: Option<&Message>) -> InFlight {
    InFlight::Said(Turn::new("in_flight", user.into_iter().cloned().collect()))
}

/// What a run gives when the same key had its turn before.
fn replayed(thread: &ThreadId, outcome: TurnOutcome) -> Outcome {
    let assistant = outcome.items.iter().rev().find_map(|it| match &it.body {
        Body::Message(message) if message.role == Role::Assistant => Some(Arc::clone(message)),
        _ => None,
    });
    Outcome {
        thread: thread.clone(),
        turn: outcome.turn,
        status: outcome.status,
        ended: Ended::Replayed,
        message: assistant,
        output: None,
        steps: 0,
        usage: Usage::default(),
        cost: None,
        remarks: Vec::new(),
        approvals: Vec::new(),
        client_calls: Waiting::read(&outcome.items).client,
        passes: Vec::new(),
        compactions: Vec::new(),
    }
}
