//! The agent loop: one turn from start to end.
//!
//! The rules:
//!
//! 1. The prompt is resolved and the input guarded before anything is written: a request that can't be sent leaves no
//!    trace.
//! 2. The turn begins with the user's message: the first sync.
//! 3. The model is called. Text streamed before a failure or a cancellation is kept in the log; a partial tool call
//!    never is. Output that a guardrail or an assert may still reject is held back, thinking included.
//! 4. An answer with tool calls is appended, its calls are run and their results appended; the loop continues unless a
//!    stop condition holds. Calls that need approval or run on the client suspend the turn once all others are
//!    answered.
//! 5. A final answer goes through the output guardrails, the output schema and the constraints. A rejected answer is
//!    retried with feedback that is sent but not kept in the history.
//! 6. The turn ends with the answer: the second sync, if no tool was called.

mod answering;
mod compacting;
mod taking_up;
mod watching;

use std::sync::Arc;

use contexture_compose::{GuardrailSide, InFlightTurn, Pass};
use contexture_history::{Turn, TurnNo, TurnStatus};
use contexture_message::{Answer, Message, Part, StopReason, Thinking, ToolCall, Usage};
use contexture_model::{ModelCall, ModelError, ModelErrorKind};
use contexture_session::{NewItem, RunningTurn};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::taking_up::without_broken_off;
use crate::approval::ApprovalRequest;
use crate::attempt::{Attempt, woven};
use crate::collect::collect_answer;
use crate::compaction::Compactions;
use crate::judge::{Judge, Judged};
use crate::middleware::{Layer, layer};
use crate::outcome::{Ended, Outcome, Remark};
use crate::run::Sink;
use crate::setting::Setting;
use crate::stop::{Progress, stop, unkept};
use crate::words::{make_calls_recordable, said, with_text};
use crate::{AgentError, Event, sent};

/// Returns the reason recorded for a suspended turn.
pub(crate) fn waits(for_approval: bool, for_client: bool) -> &'static str {
    match (for_approval, for_client) {
        (true, true) => "it waits for approval and for tools of the client",
        (false, true) => "it waits for tools of the client",
        (true, false) | (false, false) => "it waits for approval",
    }
}

/// A running turn.
pub(crate) struct Running {
    setting: Setting,
    turn: RunningTurn,
    sink: Sink,
    cancel: CancellationToken,
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<f64>,
    all_remarks: Vec<Remark>,
    passes: Vec<Pass>,
    /// Rejected answers and the feedback on them.
    pub(crate) attempts: Vec<Attempt>,
    /// How many messages the turn had when it was resumed, if the last of them is incomplete.
    broken_off: Option<usize>,
    approvals: Vec<ApprovalRequest>,
    /// The calls that the client must run.
    client_calls: Vec<ToolCall>,
    /// The reason to record if the turn is suspended.
    waits: &'static str,
    pub(crate) compactions: Compactions,
    /// How often the provider has refused a request of this turn as too long.
    n_refusals: u32,
}

/// The end of a turn, before it is written.
pub(crate) struct End {
    ended: Ended,
    items: Vec<NewItem>,
    message: Option<Arc<Message>>,
    output: Option<Value>,
}

/// The error that ends a turn, and the items to keep.
pub(crate) struct Break {
    pub(crate) err: AgentError,
    pub(crate) items: Vec<NewItem>,
}

impl<E: Into<AgentError>> From<E> for Break {
    fn from(err: E) -> Self {
        Self { err: err.into(), items: Vec::new() }
    }
}

impl Running {
    pub(crate) fn new(setting: Setting, turn: RunningTurn, sink: Sink, cancel: CancellationToken) -> Self {
        Self {
            setting,
            turn,
            sink,
            cancel,
            steps: 0,
            usage: Usage::default(),
            cost: Some(0.0),
            all_remarks: Vec::new(),
            passes: Vec::new(),
            attempts: Vec::new(),
            broken_off: None,
            approvals: Vec::new(),
            client_calls: Vec::new(),
            waits: waits(true, false),
            compactions: Compactions::default(),
            n_refusals: 0,
        }
    }

    pub(crate) fn started(&self) {
        let (thread, turn) = (self.turn.thread().id().to_string(), self.turn.turn().to_string());
        self.sink.send(Event::TurnStart { thread, turn });
    }

    pub(crate) fn remarks(&mut self, remarks: Vec<Remark>) {
        for remark in remarks {
            let Remark { source, message } = remark.clone();
            self.sink.send(Event::Warning { source, message });
            self.all_remarks.push(remark);
        }
    }

    /// Warns, in the first turn of a thread, that the model's context window is unknown.
    pub(crate) fn warn_of_window(&mut self) {
        let snapshot = self.turn.snapshot();
        let model = self.setting.model_on(&snapshot).unwrap_or_default();
        let (facts, is_assumed) = self.setting.facts(&model).with_window();
        if let Some(window) = facts.context_window.filter(|_| is_assumed && self.turn.turn() == TurnNo(1)) {
            let message =
                format!("the context window of `{model}` is not known: {window} tokens are assumed");
            self.remarks(vec![Remark { source: "window".to_owned(), message }]);
        }
    }

    /// Resolves the prompt for the current state of the turn, after deciding what has aged.
    pub(crate) async fn resolve(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        if let Some(aged) = self.setting.age(&self.turn.thread(), None).await? {
            self.turn.append(vec![aged]).await?;
        }
        self.resolve_as_it_is(before).await
    }

    /// Resolves the prompt without deciding again what has aged. The Explanation has the earlier decision.
    pub(crate) async fn resolve_as_it_is(&mut self, before: Option<&Pass>) -> Result<Pass, AgentError> {
        let snapshot = self.turn.snapshot();
        let in_flight = InFlightTurn::Recorded(self.in_flight());
        let resolving = self.setting.resolve(&snapshot, in_flight, before);
        let pass = attend(&mut self.turn, &self.cancel, resolving).await?;
        let pins = self.setting.pins(&snapshot, &pass);
        self.pin(pins).await?;
        self.setting.cache.is_pinned = true;
        Ok(pass)
    }

    /// Records the pinned prefix, if it is new.
    pub(crate) async fn pin(&mut self, pins: Vec<NewItem>) -> Result<(), AgentError> {
        if !pins.is_empty() {
            self.turn.append(pins).await?;
        }
        Ok(())
    }

    /// Returns what is recorded of the turn so far. Its envelopes come from the engine.
    fn on_record(&self) -> Turn {
        let (snapshot, open) = (self.turn.snapshot(), self.turn.turn());
        let mine = snapshot.turns().last().filter(|it| **it.id() == *open.to_string());
        mine.map_or_else(|| Turn::start(open), |it| (**it).clone())
    }

    /// Returns what is recorded of the turn, with rejected attempts and without an incomplete last answer.
    fn in_flight(&self) -> Turn {
        let turn = self.on_record();
        let breaks_off = self.broken_off == Some(turn.messages().len());
        if self.attempts.is_empty() && !breaks_off {
            return turn;
        }
        let messages = match breaks_off {
            true => without_broken_off(turn.messages()),
            false => turn.messages().to_vec(),
        };
        turn.with_messages(woven(messages, &self.attempts))
    }

    /// Calls the model until it gives a final answer or the loop stops.
    pub(crate) async fn go(&mut self, mut pass: Pass) -> Result<End, Break> {
        let layers = self.layers(&pass)?;
        let mut judge = Judge::new(&self.setting.agent, &pass).await?;
        loop {
            pass = self.relieved(pass).await?;
            self.passes.push(pass.clone());
            judge.follow(&self.setting.agent, &pass)?;
            let holds_back = judge.asserts() || guards_output(&pass);
            let answer = match self.call(&pass, holds_back).await {
                Ok(answer) => answer,
                Err(broke) => {
                    pass = self.after_too_long(&pass, broke).await?;
                    continue;
                }
            };
            let answer = self.guarded(&pass, answer).await?;
            refused(&pass, &answer)?;
            let calls: Vec<ToolCall> = answer.calls().cloned().collect();
            if answer.stop == StopReason::MaxTokens {
                self.remarks(vec![cut_short()]);
            }
            let message = Arc::new(answer.message.clone());
            let is_final = calls.is_empty() && answer.stop != StopReason::Paused;
            if holds_back && !is_final {
                // Only final answers are judged, so this text can be streamed now.
                self.show(&message);
            }
            if !calls.is_empty() {
                if let Some(end) = self.round(&pass, &layers, message, calls).await? {
                    return Ok(end);
                }
            } else if !is_final {
                let items = said(&message);
                if let Some(ended) = self.stop(&[]) {
                    return Ok(End { ended, items, message: Some(message), output: None });
                }
                self.turn.append(items).await?;
            } else {
                let may_repeat = self.stop(&[]).is_none();
                let judging = judge.judge(&answer, may_repeat);
                let judging = attend(&mut self.turn, &self.cancel, judging).await;
                let (judged, remarks) = judging.map_err(|err| {
                    // Text that was already streamed is kept, as in a cancellation while the model streams.
                    let keeps = err.is_cancelled() && !holds_back;
                    Break { err, items: if keeps { said(&message) } else { Vec::new() } }
                })?;
                self.remarks(remarks);
                match judged {
                    Judged::Stands(output) => {
                        if holds_back {
                            self.show(&message);
                        }
                        let items = said(&message);
                        return Ok(End { ended: Ended::Answered, items, message: Some(message), output });
                    }
                    Judged::Again(feedback) => self.again(message, feedback).await?,
                }
            }
            pass = self.resolve_with_room(Some(&pass)).await?;
        }
    }

    fn layers(&self, pass: &Pass) -> Result<Vec<Layer>, AgentError> {
        let known = |id: &str| self.setting.agent.middleware.get(id).cloned();
        let named = pass.extras().tool_middleware.iter().map(|it| layer(it, known));
        let own = self.setting.agent.layers.iter().cloned().map(Ok);
        own.chain(named).collect()
    }

    /// Calls the model once.
    async fn call(&mut self, pass: &Pass, holds_back: bool) -> Result<Answer, Break> {
        let call = ModelCall {
            request: Arc::new(pass.request().clone()),
            cache_key: Some(self.turn.thread().id().to_string()),
        };
        let watched = self.calling(pass, &call);
        let stream = self.setting.agent.model.stream(call);
        let heard = collect_answer(stream, self.sink.clone(), self.cancel.clone(), holds_back);
        let heard = self.turn.while_alive(Box::pin(heard)).await?;
        self.called(pass, watched, &heard);
        let mut answer = heard?;
        make_calls_recordable(&mut answer.message, &self.turn.snapshot(), &pass.request().tools);
        self.remember(pass, answer.usage);
        self.account(pass, &answer);
        self.setting.prompt.hooks().generated(&answer);
        Ok(answer)
    }

    /// Remembers what was sent, to forecast the cache use of the next call.
    fn remember(&mut self, pass: &Pass, usage: Usage) {
        let sent = match usage.cache_read_tokens {
            Some(_) => pass.sent(),
            None => Arc::new(pass.sent().unreported()),
        };
        self.turn.thread().remember(Arc::clone(&sent));
        self.setting.cache.previous = Some(sent);
        self.setting.cache.idle = None;
    }

    /// Adds up the cost of a call and sends an event with its usage.
    fn account(&mut self, pass: &Pass, answer: &Answer) {
        self.steps += 1;
        self.add_usage(pass.request().model.as_deref().unwrap_or_default(), answer.usage);
        self.warn_of_limits(answer.usage);
        let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = answer.usage;
        self.setting.answered(pass, input_tokens);
        let (usable, window_assumed) = self.setting.window(pass);
        // If the provider reports no usage, our own count is the best estimate.
        let counted = || self.setting.learned.unwrap_or_default().projected(pass.total_tokens());
        let read = if input_tokens > 0 { input_tokens as f64 } else { f64::from(counted().0) };
        let budget_used_pct = usable.map(|it| (read / f64::from(it.0) * 1000.0).round() / 10.0);
        let reconciled = pass.reconcile(answer.usage);
        self.sink.send(Event::ContextUsage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_break: reconciled.as_ref().and(pass.forecast()).and_then(|it| it.changed.clone()),
            cache_forecast_tokens: reconciled.map(|it| u64::from(it.expected.0)),
            budget_used_pct,
            window_assumed,
        });
    }

    /// Adds usage and its cost to the totals of the run.
    fn add_usage(&mut self, model: &str, usage: Usage) {
        self.usage += usage;
        let cost = self.setting.facts(model).price.and_then(|it| it.of(usage));
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
    }

    /// Warns, once, about limits that can't be enforced because the usage or cost is unknown.
    fn warn_of_limits(&mut self, usage: Usage) {
        let conditions = &self.setting.prompt.definition().stop_when;
        let unknown = conditions.iter().filter_map(|it| unkept(it, usage, self.cost));
        let new = unknown.filter(|it| !self.all_remarks.contains(it)).collect();
        self.remarks(new);
    }

    /// Runs the output guardrails on the text of an answer.
    async fn guarded(&mut self, pass: &Pass, mut answer: Answer) -> Result<Answer, Break> {
        let text = answer.joined_text();
        let is_no_answer = answer.calls().next().is_some() || answer.stop == StopReason::Refused;
        if (text.is_empty() && is_no_answer) || !guards_output(pass) {
            return Ok(answer);
        }
        let guarding = self.setting.guard(pass, GuardrailSide::Output, &text);
        let guarded = attend(&mut self.turn, &self.cancel, guarding).await?;
        self.remarks(guarded.remarks);
        if let Some(text) = guarded.rewritten {
            answer.message = with_text(answer.message, text);
        }
        Ok(answer)
    }

    /// Streams an answer that was held back.
    fn show(&self, message: &Message) {
        for part in &message.content {
            match part {
                Part::Text { text } if !text.is_empty() => {
                    self.sink.send(Event::TextDelta { text: text.clone() });
                }
                Part::Thinking(Thinking { text, .. }) if !text.is_empty() => {
                    self.sink.send(Event::ThinkingDelta { text: text.clone() });
                }
                Part::Text { .. } | Part::Thinking(_) => {}
                Part::Image(_) | Part::File(_) | Part::ToolCall(_) | Part::ToolResult(_) => {}
            }
        }
    }

    /// Returns the reason to stop after this step, if there is one.
    fn stop(&self, calls: &[ToolCall]) -> Option<Ended> {
        let progress = Progress { steps: self.steps, tokens: self.usage.total(), cost: self.cost, calls };
        let max_steps = self.setting.agent.config.max_steps;
        stop(&self.setting.prompt.definition().stop_when, max_steps, progress)
    }

    /// Rejects an answer so that the model tries again. The attempt is recorded, but not part of the history.
    async fn again(&mut self, message: Arc<Message>, feedback: String) -> Result<(), Break> {
        self.sink.send(Event::AttemptDiscarded { reason: feedback.clone() });
        let attempt = Attempt { message, feedback, place: self.on_record().messages().len() };
        self.turn.append(vec![attempt.item()]).await?;
        self.attempts.push(attempt);
        Ok(())
    }

    /// Writes the end of the turn and returns its outcome.
    pub(crate) async fn settle(self, result: Result<End, Break>) -> Result<Outcome, AgentError> {
        let (thread, turn_no) = (self.turn.thread().id().clone(), self.turn.turn());
        let snapshot = self.turn.snapshot();
        let called = self.passes.last().and(self.setting.cache.previous.as_ref());
        let sent = called.and_then(|it| sent::record(&snapshot, it));
        let learned = self.setting.learned_record(&snapshot, self.passes.last());
        let with_sent = |items: Vec<NewItem>| items.into_iter().chain(sent).chain(learned).collect();
        let (status, reason, written, result) = match result {
            Ok(End { ended: ended @ (Ended::Suspended | Ended::ClientTools), items, message, output }) => {
                let written = self.turn.suspend(self.waits, with_sent(items)).await;
                (TurnStatus::Suspended, Some(self.waits.to_owned()), written, Ok((ended, message, output)))
            }
            Ok(End { ended, items, message, output }) => {
                let reason = reason_of(&ended);
                let written = match &reason {
                    Some(reason) => self.turn.stop(reason, with_sent(items)).await,
                    None => self.turn.complete(with_sent(items)).await,
                };
                (TurnStatus::Completed, reason, written, Ok((ended, message, output)))
            }
            Err(Break { err, items }) => {
                let reason = err.to_string();
                let (status, written) = match err.is_cancelled() {
                    true => (TurnStatus::Interrupted, self.turn.interrupt("cancelled", items).await),
                    false => (TurnStatus::Failed, self.turn.fail(&reason, items).await),
                };
                (status, Some(reason), written, Err(err))
            }
        };
        // The log decides: if the end is not written there, no other report of it is true.
        written.map_err(AgentError::Unrecorded)?;
        let (ended, message, output) = result?;
        // Approvals can be decided only now that the suspension is on record.
        for approval in self.approvals.iter().cloned() {
            self.sink.send(Event::ApprovalRequired { approval });
        }
        let client_calls = self.client_calls.clone();
        self.sink.send(Event::TurnEnd { status, reason, usage: self.usage, client_calls });
        Ok(Outcome {
            thread,
            turn: turn_no,
            status,
            ended,
            message,
            output,
            steps: self.steps,
            usage: self.usage,
            cost: self.cost,
            remarks: self.all_remarks,
            approvals: self.approvals,
            client_calls: self.client_calls,
            passes: self.passes,
            compactions: self.compactions.reports,
        })
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

/// Returns an error for a refusal that can't count as an answer: it has no text, or structured output was requested.
fn refused(pass: &Pass, answer: &Answer) -> Result<(), ModelError> {
    let is_empty = answer.message.is_blank();
    if answer.stop != StopReason::Refused || !(is_empty || pass.request().output.is_some()) {
        return Ok(());
    }
    let words = if is_empty { "it refused to answer".to_owned() } else { answer.joined_text() };
    let err = ModelError::new(ModelErrorKind::Refused, words);
    Err(match pass.request().model.as_deref() {
        Some(model) => err.of_model(model),
        None => err,
    })
}

fn cut_short() -> Remark {
    let message = "the answer was cut: the most tokens it may have are reached".to_owned();
    Remark { source: "model".to_owned(), message }
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
