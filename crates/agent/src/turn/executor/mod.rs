//! Carries out the actions of a turn and appends what they bring to the log.
//!
//! The rules:
//!
//! 1. The model is called with a pass that is resolved after the latest append. Text streamed before a failure or a
//!    cancellation is kept in the log; a partial tool call never is. Output that a guardrail or an assert may still
//!    reject is held back, thinking included.
//! 2. An answer with tool calls is appended before any of them runs: after a crash, the log shows what was about to
//!    happen. Their results are appended together.
//! 3. Final answers go through the output guardrails, the output schema and the constraints. A rejected answer is
//!    retried with feedback that is sent but not kept in the history.
//! 4. The end of the turn is appended together with what belongs to it: the answer, or the last results.

mod model;
mod room;
mod streaming;
mod tools;

use std::sync::Arc;

use contexture_compose::{GuardrailSide, InFlightTurn, Pass};
use contexture_history::{Turn, TurnNo, TurnStatus};
use contexture_message::{Message, Part, Role, Thinking, ToolCall, Usage};
use contexture_session::{NewItem, RunningTurn, TurnEnd};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, with_attempts};
use super::catch_panic;
use super::items::{answer_items, own_messages};
use super::next::{Action, Ending, next};
use super::state::{Limits, Origin, TurnState};
use super::waiting::{RunRecord, suspension, suspension_reason};
use crate::AgentError;
use crate::beside::{Beside, citations_event, event_record};
use crate::checks::{Judge, Judged, Judgement};
use crate::event::{ApprovalRequest, CheckReport, Event, Remark, Sink};
use crate::hooks::{EndedTurn, run_ended};
use crate::outcome::{Ended, Outcome};
use crate::relief::Compactions;
use crate::request::{Resolver, sent_record};
use crate::text::calls_of;
use crate::tools::{Answered, result_items};

/// Runs a turn from its state to its end.
pub(crate) struct Executor {
    resolver: Resolver,
    turn: RunningTurn,
    sink: Sink,
    cancel: CancellationToken,
    state: TurnState,
    pass: NextPass,
    judge: Option<Judge>,
    /// Whether the latest answer was held back, because it could still be rejected.
    holds_back: bool,
    /// The paused answer that is not in the log yet.
    unwritten: Vec<NewItem>,
    /// Results that are not in the log yet.
    answered: Vec<Answered>,
    /// What tools remember of the thread, which goes with their results.
    noted: Vec<NewItem>,
    /// Records of events that are not in the log yet. They go with the next append.
    events: Vec<NewItem>,
    /// How many messages the turn had when it was recovered, if the last of them is incomplete.
    broken_off: Option<usize>,
    /// How often the provider has refused a request of this turn as too long.
    n_refusals: u32,
    remarks: Vec<Remark>,
    reports: Vec<CheckReport>,
    passes: Vec<Pass>,
    compactions: Compactions,
}

/// The pass of the next model call.
pub(crate) enum NextPass {
    /// Not resolved yet. `guards` says whether the prompt's own messages still have to pass the input guardrails.
    Missing { guards: bool },
    /// Resolved before the turn began.
    Opened(Box<Opened>),
    /// The log has changed since this pass was resolved.
    Outdated(Pass),
}

/// A pass that was resolved before its turn began.
pub(crate) struct Opened {
    pub(crate) pass: Pass,
    /// The records of what the pass freezes.
    pub(crate) frozen: Vec<NewItem>,
    /// What happened since.
    pub(crate) since: Since,
}

/// What happened since a pass was resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// Nothing that the pass does not include.
    Nothing,
    /// The turn was recorded with hidden context that the pass does not include.
    HiddenContext,
    /// Another writer changed the thread.
    OtherWriter,
}

/// The end of a turn, before it is written.
struct End {
    ended: Ended,
    items: Vec<NewItem>,
    message: Option<Arc<Message>>,
    output: Option<Value>,
    approvals: Vec<ApprovalRequest>,
    /// The calls that the client must run.
    client_calls: Vec<ToolCall>,
    /// The reason to record, if the turn is suspended.
    waits_for: Option<&'static str>,
}

/// The error that ends a turn, and the items to keep.
struct Break {
    err: AgentError,
    items: Vec<NewItem>,
}

impl<E: Into<AgentError>> From<E> for Break {
    fn from(err: E) -> Self {
        Self { err: err.into(), items: Vec::new() }
    }
}

impl Executor {
    /// Returns the executor of a turn in some state.
    pub(crate) fn new(
        resolver: Resolver,
        turn: RunningTurn,
        state: TurnState,
        pass: NextPass,
        (sink, cancel): (Sink, CancellationToken),
    ) -> Self {
        let mut executor = Self {
            resolver,
            turn,
            sink,
            cancel,
            state,
            pass,
            judge: None,
            holds_back: false,
            unwritten: Vec::new(),
            answered: Vec::new(),
            noted: Vec::new(),
            events: Vec::new(),
            broken_off: None,
            n_refusals: 0,
            remarks: Vec::new(),
            reports: Vec::new(),
            passes: Vec::new(),
            compactions: Compactions::default(),
        };
        if let Origin::Recovered(_) = executor.state.origin {
            executor.broken_off = executor.incomplete_at();
        }
        let (thread, turn) = (executor.turn.thread().id().to_string(), executor.turn.turn().to_string());
        executor.sink.send(Event::TurnStart { thread, turn });
        executor
    }

    /// Adds what was done and noted before the turn began. The remarks are in the log already.
    pub(crate) fn after(mut self, compactions: Compactions, remarks: Vec<Remark>) -> Self {
        self.compactions = compactions;
        self.remark(remarks);
        self.events.clear();
        self.warn_of_window();
        self
    }

    /// Runs the turn to its end.
    pub(crate) async fn run(mut self) -> Result<Outcome, AgentError> {
        let result = catch_panic(self.drive()).await;
        self.settle(result).await
    }

    async fn drive(&mut self) -> Result<End, Break> {
        loop {
            self.state.is_cancelled = self.cancel.is_cancelled();
            match next(&self.state) {
                Action::CallModel => self.call_model().await?,
                Action::Judge => self.judge().await?,
                Action::Retry => self.retry().await?,
                Action::RunTools(calls) => self.run_tools(calls).await?,
                Action::Ask { approvals, client } => return Ok(self.ask(approvals, client)),
                Action::Wait { for_decision, client } => return Ok(suspended(for_decision, client)),
                Action::End(ending) => return self.end(ending),
            }
        }
    }

    fn remark(&mut self, remarks: Vec<Remark>) {
        for remark in remarks {
            self.report(remark.event());
            self.remarks.push(remark);
        }
    }

    /// Sends an event that has no other trace in the log, and records it.
    fn report(&mut self, event: Event) {
        self.events.push(event_record(&event));
        self.sink.send(event);
    }

    /// Warns, in the first turn of a thread, that the model's context window is unknown.
    fn warn_of_window(&mut self) {
        let snapshot = self.turn.snapshot();
        let model = self.resolver.model_on(&snapshot).unwrap_or_default();
        let (facts, is_assumed) = self.resolver.facts(&model).with_window();
        if let Some(window) = facts.context_window.filter(|_| is_assumed && self.turn.turn() == TurnNo(1)) {
            let message =
                format!("the context window of `{model}` is not known: {window} tokens are assumed");
            self.remark(vec![Remark { source: "window".to_owned(), message }]);
        }
    }

    /// Returns what is recorded of the turn so far. Its envelopes come from the engine.
    fn on_record(&self) -> Turn {
        let (snapshot, open) = (self.turn.snapshot(), self.turn.turn());
        let mine = snapshot.turns().last().filter(|it| **it.id() == *open.to_string());
        mine.map_or_else(|| Turn::start(open), |it| (**it).clone())
    }

    /// Returns how many messages are on record, if the last of them is text of the model that is incomplete or was to
    /// be continued.
    fn incomplete_at(&self) -> Option<usize> {
        let turn = self.on_record();
        turn.messages().last().filter(|it| is_text_only(it)).map(|_| turn.messages().len())
    }

    /// Returns what is recorded of the turn, with rejected attempts and without an incomplete last answer.
    fn in_flight(&self) -> Turn {
        let turn = self.on_record();
        let breaks_off = self.broken_off == Some(turn.messages().len());
        if self.state.attempts.is_empty() && !breaks_off {
            return turn;
        }
        let mut messages = turn.messages().to_vec();
        if breaks_off {
            let n_whole = messages.iter().rposition(|it| !is_text_only(it)).map_or(0, |it| it + 1);
            messages.truncate(n_whole);
        }
        turn.with_messages(with_attempts(messages, &self.state.attempts))
    }

    /// Returns the latest pass, and resolves it if there is none yet.
    async fn latest_pass(&mut self) -> Result<Pass, AgentError> {
        match std::mem::replace(&mut self.pass, NextPass::Missing { guards: false }) {
            NextPass::Outdated(pass) => Ok(pass),
            NextPass::Missing { guards: false } => self.resolve_with_room(None).await,
            NextPass::Missing { guards: true } => self.guarded_pass().await,
            NextPass::Opened(opened) => {
                let Opened { pass, frozen, since } = *opened;
                self.freeze(frozen).await?;
                let pass = match since {
                    Since::Nothing => pass,
                    // The log has more than the pass knows, but the call is the same.
                    Since::HiddenContext => self.resolve_again(&pass).await?,
                    Since::OtherWriter => self.resolve_with_room(None).await?,
                };
                self.compact_at_boundary(pass).await
            }
        }
    }

    /// Resolves the prompt and guards its own messages, as at the start of a turn.
    async fn guarded_pass(&mut self) -> Result<Pass, AgentError> {
        let pass = self.resolve_with_room(None).await?;
        if self.resolver.own_messages.is_some() {
            return Ok(pass);
        }
        let mut remarks = Vec::new();
        let guarding = self.resolver.guard_messages(&pass, own_messages(&pass), &mut remarks);
        let (own, is_rewritten) = attend(&mut self.turn, &self.cancel, guarding).await?;
        self.remark(remarks);
        self.resolver.own_messages = Some(own.into());
        if is_rewritten { self.resolve_with_room(None).await } else { Ok(pass) }
    }

    /// Resolves the prompt for the current state of the turn, after deciding what has aged.
    async fn resolve(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        if let Some(aged) = self.resolver.age(&self.turn.thread(), None).await? {
            self.turn.append(vec![aged]).await?;
        }
        self.resolve_as_it_is(before).await
    }

    /// Resolves the prompt without deciding again what has aged. The Explanation has the earlier decision.
    async fn resolve_as_it_is(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        let snapshot = self.turn.snapshot();
        let in_flight = InFlightTurn::Recorded(self.in_flight());
        let resolving = self.resolver.resolve(&snapshot, in_flight, before);
        let pass = attend(&mut self.turn, &self.cancel, resolving).await?;
        let frozen = self.resolver.to_freeze(&snapshot, &pass);
        self.freeze(frozen).await?;
        self.resolver.cache.is_frozen = true;
        Ok(pass)
    }

    /// Records the frozen prefix, if it is new.
    async fn freeze(&mut self, frozen: Vec<NewItem>) -> Result<(), AgentError> {
        if !frozen.is_empty() {
            self.turn.append(frozen).await?;
        }
        Ok(())
    }

    /// Judges the final answer.
    async fn judge(&mut self) -> Result<(), Break> {
        let (Some(answer), Some(judge)) = (&self.state.answer, &self.judge) else { return Ok(()) };
        let Some(pass) = self.passes.last() else { return Ok(()) };
        let message = Arc::clone(&answer.message);
        let judging = async { Ok(judge.judge(&message, pass).await) };
        let judging = attend(&mut self.turn, &self.cancel, judging).await;
        let Judged { judgement, remarks, citations, reports } = judging.map_err(|err| {
            // Text that was already streamed is kept, as in a cancellation while the model streams.
            let keeps = err.is_cancelled() && !self.holds_back;
            Break { err, items: if keeps { answer_items(&message) } else { Vec::new() } }
        })?;
        self.remark(remarks);
        if let Judgement::Accepted(_) = judgement {
            self.state.cited(citations);
            reports.iter().for_each(|it| self.report(Event::CheckReport(it.clone())));
            self.reports = reports;
        }
        self.state.judged(judgement);
        Ok(())
    }

    /// Rejects an answer so that the model tries again. The attempt is recorded, but not part of the history.
    async fn retry(&mut self) -> Result<(), Break> {
        let Some(answer) = &self.state.answer else { return Ok(()) };
        let feedback = answer.judgement.as_ref().and_then(Judgement::feedback).unwrap_or_default();
        let message = Arc::clone(&answer.message);
        self.sink.send(Event::AttemptDiscarded { reason: feedback.clone() });
        let (place, is_shown) = (self.on_record().messages().len(), !self.holds_back);
        let attempt = Attempt { message, feedback, place, is_shown };
        let items = self.with_events(vec![attempt.item()]);
        self.turn.append(items).await?;
        self.state.rejected(attempt);
        Ok(())
    }

    /// Takes the items that must be appended before the next call, or with the end of the turn.
    fn take_unwritten(&mut self) -> Vec<NewItem> {
        let mut items = std::mem::take(&mut self.unwritten);
        items.append(&mut self.noted);
        items.extend(result_items(std::mem::take(&mut self.answered)));
        items
    }

    /// Adds the records of events to items that are appended.
    fn with_events(&mut self, mut items: Vec<NewItem>) -> Vec<NewItem> {
        items.append(&mut self.events);
        items
    }

    /// Suspends the turn, with everything another process needs to continue it.
    fn ask(&mut self, approvals: Vec<ToolCall>, client: Vec<ToolCall>) -> End {
        let approvals = self.approval_requests(approvals);
        let mut items = self.take_unwritten();
        items.extend(suspension(&self.record(&client), &approvals));
        let message = self.state.round.as_ref().map(|it| Arc::clone(&it.message));
        let end = suspended(!approvals.is_empty(), client);
        End { items, message, approvals, ..end }
    }

    /// Returns what another process needs to continue the turn.
    fn record(&self, client_calls: &[ToolCall]) -> RunRecord {
        let (resolver, spent) = (&self.resolver, self.state.spent);
        RunRecord {
            prompt: resolver.prompt.id().to_owned(),
            spec: resolver.spec.clone(),
            own_messages: resolver.own_messages.clone(),
            client_calls: client_calls.iter().map(|it| it.id.clone()).collect(),
            steps: spent.steps,
            usage: spent.usage,
            cost: spent.cost,
        }
    }

    /// Returns the end of the turn, or the error that ends it.
    fn end(&mut self, ending: Ending) -> Result<End, Break> {
        let mut items = self.take_unwritten();
        let ended = match ending {
            Ending::Cancelled => return Err(Break { err: AgentError::Cancelled, items }),
            Ending::Rejected => return Err(self.rejection().into()),
            Ending::Ended(ended) => ended,
        };
        let round = self.state.round.as_ref().map(|it| Arc::clone(&it.message));
        let (message, output) = match self.state.answer.take() {
            None => (round, None),
            Some(answer) => match answer.judgement {
                Some(Judgement::Accepted(output)) => {
                    if self.holds_back {
                        self.show(&answer.message);
                    }
                    citations_event(&answer.message).into_iter().for_each(|it| self.sink.send(it));
                    items.extend(answer_items(&answer.message));
                    (Some(answer.message), output)
                }
                Some(_) | None => (Some(answer.message), None),
            },
        };
        let (approvals, client_calls) = (Vec::new(), Vec::new());
        Ok(End { ended, items, message, output, approvals, client_calls, waits_for: None })
    }

    /// Returns the error of a rejected answer.
    fn rejection(&mut self) -> AgentError {
        let (repairs, retries) = (self.state.n_repairs + 1, self.state.n_retries + 1);
        let answer = self.state.answer.take();
        let output = answer.as_ref().map(|it| it.message.joined_text()).unwrap_or_default();
        match answer.and_then(|it| it.judgement) {
            Some(Judgement::Failed { failures, .. }) => {
                AgentError::Constraints { failures, attempts: retries, output }
            }
            Some(Judgement::Misfit { faults, .. }) => {
                AgentError::OutputInvalid { faults, attempts: repairs, output }
            }
            Some(Judgement::Accepted(_)) | None => AgentError::NoAnswer { ended: "rejected" },
        }
    }

    /// Streams an answer that was held back.
    fn show(&self, message: &Message) {
        for part in &message.content {
            match part {
                Part::Text { text, .. } if !text.is_empty() => {
                    self.sink.send(Event::TextDelta { text: text.clone() });
                }
                Part::Thinking(Thinking { text, .. }) if !text.is_empty() => {
                    self.sink.send(Event::ThinkingDelta { text: text.clone() });
                }
                Part::Text { .. } | Part::Thinking(_) => {}
                Part::Image(_)
                | Part::File(_)
                | Part::Evidence(_)
                | Part::ToolCall(_)
                | Part::ToolResult(_) => {}
            }
        }
    }

    /// Writes the end of the turn and returns its outcome.
    async fn settle(mut self, result: Result<End, Break>) -> Result<Outcome, AgentError> {
        let result = match result {
            // The turn has not ended: the next writer closes it, or resumes it when the run is repeated.
            Err(Break { err: AgentError::Session(err) | AgentError::Entries(err), .. })
                if err.is_outage() =>
            {
                return Err(AgentError::Unrecorded(err));
            }
            other => other,
        };
        let (end, items) = match &result {
            Ok(end) => (end_of(end), end.items.clone()),
            Err(broke) => (failure_of(&broke.err), broke.items.clone()),
        };
        let spent = self.state.spent;
        let end = TurnEnd { usage: Some(spent.usage).filter(|it| *it != Usage::default()), ..end };
        let (status, reason) = (end.status, end.reason.clone());
        let items = self.last_items(items, result.as_ref().ok());
        let (log, turn) = (self.turn.thread(), self.turn.turn());
        let thread = log.id().clone();
        // The log decides: if the end is not written there, no other report of it is true.
        self.turn.end(end, items).await.map_err(AgentError::Unrecorded)?;
        let End { ended, message, output, approvals, client_calls, .. } = result.map_err(|it| it.err)?;
        if let (TurnStatus::Completed, Some(pass)) = (status, self.passes.last()) {
            run_ended(&EndedTurn { thread: &log, turn, pass, answer: message.as_deref() }).await;
        }
        // Approvals can be decided only now that the suspension is on record.
        for approval in approvals.iter().cloned() {
            self.sink.send(Event::ApprovalRequired { approval });
        }
        let usage = spent.usage;
        self.sink.send(Event::TurnEnd { status, reason, usage, client_calls: client_calls.clone() });
        Ok(Outcome {
            thread,
            turn,
            status,
            ended,
            citations: message.as_deref().map(Message::citations).unwrap_or_default(),
            reports: self.reports,
            message,
            output,
            steps: spent.steps,
            usage,
            cost: spent.cost,
            remarks: self.remarks,
            approvals,
            client_calls,
            passes: self.passes,
            compactions: self.compactions.reports,
        })
    }

    /// Returns the items that go with the end of the turn; `end` is none if the turn failed.
    fn last_items(&mut self, items: Vec<NewItem>, end: Option<&End>) -> Vec<NewItem> {
        let mut items = self.with_events(items);
        let Some(end) = end else { return items };
        let snapshot = self.turn.snapshot();
        let called = self.passes.last().and(self.resolver.cache.previous.as_ref());
        items.extend(called.and_then(|it| sent_record(&snapshot, it)));
        items.extend(self.resolver.learned_record(&snapshot, self.passes.last()));
        let client_calls = end.client_calls.clone();
        items.extend(Beside { client_calls, ..Beside::default() }.record());
        items
    }
}

/// Returns how a turn ends that did not fail.
fn end_of(end: &End) -> TurnEnd {
    let reason = end.waits_for.map(str::to_owned).or_else(|| reason_of(&end.ended));
    let status = if end.waits_for.is_some() { TurnStatus::Suspended } else { TurnStatus::Completed };
    TurnEnd { reason, ..TurnEnd::new(status, None) }
}

/// Returns how a turn ends that failed or was cancelled.
fn failure_of(err: &AgentError) -> TurnEnd {
    let end = match err.is_cancelled() {
        true => TurnEnd::new(TurnStatus::Interrupted, Some("cancelled")),
        false => TurnEnd::new(TurnStatus::Failed, Some(&err.to_string())),
    };
    TurnEnd { code: Some(err.code().into()), ..end }
}

/// Returns the end of a turn that waits for replies.
fn suspended(for_decision: bool, client_calls: Vec<ToolCall>) -> End {
    let ended = if client_calls.is_empty() { Ended::Suspended } else { Ended::ClientTools };
    let waits_for = Some(suspension_reason(for_decision, !client_calls.is_empty()));
    let (items, message, output, approvals) = (Vec::new(), None, None, Vec::new());
    End { ended, items, message, output, approvals, client_calls, waits_for }
}

/// Returns the limits of a run.
pub(crate) fn limits_of(resolver: &Resolver) -> Limits {
    let config = &resolver.agent.config;
    Limits {
        stop_when: resolver.prompt.definition().stop_when.clone(),
        max_steps: config.max_steps,
        output_repairs: config.output_repairs,
        constraint_retries: config.constraint_retries,
    }
}

/// Waits for work between two appends. The turn renews its lease meanwhile; cancelling the run ends the wait.
async fn attend<T>(
    turn: &mut RunningTurn,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, AgentError>> + Send,
) -> Result<T, AgentError> {
    let work = Box::pin(cancel.run_until_cancelled(work));
    turn.while_alive(work).await?.unwrap_or(Err(AgentError::Cancelled))
}

fn is_text_only(message: &Message) -> bool {
    message.role == Role::Assistant && calls_of(message).next().is_none()
}

fn guards_output(pass: &Pass) -> bool {
    pass.extras().guardrails.iter().any(|it| it.on == GuardrailSide::Output)
}

fn reason_of(ended: &Ended) -> Option<String> {
    match ended {
        Ended::Answered | Ended::Replayed | Ended::Suspended | Ended::ClientTools => None,
        Ended::MaxSteps(steps) => Some(format!("stopped after {steps} steps")),
        Ended::ToolCalled(tool) => Some(format!("stopped after tool `{tool}`")),
        Ended::MaxTokens => Some("stopped at the token limit".to_owned()),
        Ended::MaxCost => Some("stopped at the cost limit".to_owned()),
    }
}
