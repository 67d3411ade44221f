//! Calls the model: collects its answer, guards it, and accounts for its cost.

use std::sync::Arc;
use std::time::Duration;

use contexture_compose::{GuardrailSide, Pass, StopCondition};
use contexture_history::Timestamp;
use contexture_message::{Answer, Delta, StopReason, Usage};
use contexture_model::{Deltas, ModelCall, ModelError, ModelErrorKind, WireRequest};
use contexture_session::NewItem;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::streaming::Streaming;
use super::{Break, Executor, NextPass, attend, guards_output};
use crate::AgentError;
use crate::beside::{Beside, call_event, citations_event};
use crate::checks::Judge;
use crate::event::{Event, Remark};
use crate::ports::{Called, Calling, Watcher};
use crate::text::{calls_of, with_text};
use crate::turn::items::{answer_items, make_calls_recordable, partial_items};

/// A call that was reported to the watcher.
struct Watched {
    began: Timestamp,
    sent: Option<WireRequest>,
}

impl Executor {
    /// Appends what is due, calls the model and takes its answer.
    pub(super) async fn call_model(&mut self) -> Result<(), Break> {
        let items = self.take_unwritten();
        if !items.is_empty() {
            self.turn.append(items).await?;
        }
        let has_results = self.state.round.as_ref().is_some_and(|it| it.is_new);
        let is_outdated = has_results || matches!(self.pass, NextPass::Outdated(_));
        self.state.call_made();
        let mut pass = self.latest_pass().await?;
        if is_outdated {
            pass = self.resolve_with_room(Some(&pass)).await?;
        }
        // Middleware that does not exist is an error before the call, not after it.
        self.layers(&pass)?;
        let mut judge = match self.judge.take() {
            Some(judge) => judge,
            None => Judge::new(Arc::clone(&self.resolver.agent.offload), &pass).await?,
        };
        let answer = loop {
            pass = self.relieved(pass).await?;
            self.passes.push(pass.clone());
            judge.follow(&pass, |id| self.resolver.agent.constraints.get(id).cloned())?;
            self.holds_back = judge.asserts() || guards_output(&pass);
            match self.call(&pass).await {
                Ok(answer) => break answer,
                Err(broke) => pass = self.after_too_long(&pass, broke).await?,
            }
        };
        self.judge = Some(judge);
        let answer = self.guarded(&pass, answer).await?;
        refused(&pass, &answer)?;
        self.pass = NextPass::Outdated(pass);
        self.receive(answer).await
    }

    /// Takes an answer. One with tool calls is appended before any of them runs.
    async fn receive(&mut self, answer: Answer) -> Result<(), Break> {
        if answer.stop == StopReason::MaxTokens {
            self.remark(vec![cut_short()]);
        }
        let message = Arc::new(answer.message);
        let (has_calls, is_paused) = (calls_of(&message).next().is_some(), answer.stop == StopReason::Paused);
        if self.holds_back && (has_calls || is_paused) {
            // Only final answers are judged, so this text can be streamed now.
            self.show(&message);
        }
        let mut beside = Beside::default();
        for call in calls_of(&message) {
            let is_of_client = self.resolver.is_of_client(&call.name);
            beside.on_client.extend(is_of_client.then(|| call.id.clone()));
            self.sink.send(call_event(call, is_of_client));
        }
        if has_calls || is_paused {
            citations_event(&message).into_iter().for_each(|it| self.sink.send(it));
        }
        if has_calls {
            let items = beside.record().into_iter().chain([NewItem::from(Arc::clone(&message))]);
            let items = self.with_events(items.collect());
            self.turn.append(items).await?;
        } else if is_paused {
            self.unwritten = answer_items(&message);
        }
        self.state.receive(message, is_paused);
        Ok(())
    }

    /// Calls the model once.
    async fn call(&mut self, pass: &Pass) -> Result<Answer, Break> {
        let mut call = ModelCall {
            request: Arc::new(pass.request().clone()),
            cache_key: Some(self.turn.thread().id().to_string()),
            encoded: None,
        };
        let watched = self.calling(pass, &mut call);
        let stream = self.resolver.agent.model.stream(call);
        let collecting = collect_answer(stream, self.streaming(), self.cancel.clone(), self.holds_back);
        let collected = self.turn.while_alive(Box::pin(collecting)).await?;
        self.called(pass, watched, &collected);
        let mut answer = collected?;
        make_calls_recordable(&mut answer.message, &self.turn.snapshot(), &pass.request().tools);
        self.remember(pass, answer.usage);
        self.account(pass, &answer);
        self.resolver.prompt.hooks().generated(&answer);
        Ok(answer)
    }

    /// Returns what tells and saves the text of an answer that begins now.
    fn streaming(&self) -> Streaming {
        let agent = &self.resolver.agent;
        let place = (self.turn.thread(), self.turn.unfinished());
        Streaming::new(place, self.sink.clone(), agent.watcher.clone(), Arc::clone(&agent.time))
    }

    /// Remembers what was sent, to forecast the cache use of the next call.
    fn remember(&mut self, pass: &Pass, usage: Usage) {
        let sent = match usage.cache_read_tokens {
            Some(_) => pass.sent(),
            None => Arc::new(pass.sent().unreported()),
        };
        self.turn.thread().remember(Arc::clone(&sent));
        self.resolver.cache.previous = Some(sent);
        self.resolver.cache.idle = None;
    }

    /// Adds up the cost of a call and sends an event with its usage.
    fn account(&mut self, pass: &Pass, answer: &Answer) {
        self.state.spent.steps += 1;
        self.add_usage(pass.request().model.as_deref().unwrap_or_default(), answer.usage);
        self.warn_of_limits(answer.usage);
        let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = answer.usage;
        self.resolver.answered(pass, input_tokens);
        let (usable, window_assumed) = self.resolver.window(pass);
        // If the provider reports no usage, our own count is the best estimate.
        let counted = || self.resolver.learned.unwrap_or_default().projected(pass.total_tokens());
        let read = if input_tokens > 0 { input_tokens as f64 } else { f64::from(counted().0) };
        let budget_used_pct = usable.map(|it| (read / f64::from(it.0) * 1000.0).round() / 10.0);
        let reconciled = pass.reconcile(answer.usage);
        self.report(Event::ContextUsage {
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
    pub(super) fn add_usage(&mut self, model: &str, usage: Usage) {
        let spent = &mut self.state.spent;
        spent.usage += usage;
        let cost = self.resolver.facts(model).price.and_then(|it| it.of(usage));
        spent.cost = spent.cost.zip(cost).map(|(sum, cost)| sum + cost);
    }

    /// Warns, once, about limits that can't be enforced because the usage or cost is unknown.
    fn warn_of_limits(&mut self, usage: Usage) {
        let conditions = &self.resolver.prompt.definition().stop_when;
        let unknown = conditions.iter().filter_map(|it| unenforced(it, usage, self.state.spent.cost));
        let new = unknown.filter(|it| !self.remarks.contains(it)).collect();
        self.remark(new);
    }

    /// Runs the output guardrails on the text of an answer.
    async fn guarded(&mut self, pass: &Pass, mut answer: Answer) -> Result<Answer, Break> {
        let text = answer.joined_text();
        let is_no_answer = answer.calls().next().is_some() || answer.stop == StopReason::Refused;
        if (text.is_empty() && is_no_answer) || !guards_output(pass) {
            return Ok(answer);
        }
        let guarding = self.resolver.guard(pass, GuardrailSide::Output, &text);
        let guarded = attend(&mut self.turn, &self.cancel, guarding).await?;
        self.remark(guarded.remarks);
        if let Some(text) = guarded.rewritten {
            answer.message = with_text(answer.message, text);
        }
        Ok(answer)
    }

    /// Reports a call to the watcher before it is made.
    fn calling(&self, pass: &Pass, call: &mut ModelCall) -> Option<Watched> {
        let watcher = self.resolver.agent.watcher.as_ref()?;
        call.encoded = self.resolver.agent.model.encode(call);
        let sent = call.encoded.clone();
        self.notify(pass, sent.as_ref(), &**watcher, |watcher, call| watcher.calling(call));
        Some(Watched { began: self.resolver.agent.time.now(), sent })
    }

    /// Reports the result of a call to the watcher.
    fn called(&self, pass: &Pass, watched: Option<Watched>, result: &Result<Answer, Break>) {
        let (Some(watched), Some(watcher)) = (watched, &self.resolver.agent.watcher) else { return };
        let took = self.resolver.agent.time.now().0.saturating_sub(watched.began.0);
        let usage = result.as_ref().map_or_else(|_| Usage::default(), |it| it.usage);
        let called = Called {
            took: Duration::from_millis(u64::try_from(took).unwrap_or(0)),
            usage,
            reconciled: result.as_ref().ok().and_then(|_| pass.reconcile(usage)),
            end: match result {
                Ok(answer) => Ok(answer.stop.clone()),
                Err(broke) => Err(broke.err.code().into()),
            },
        };
        self.notify(pass, watched.sent.as_ref(), &**watcher, |watcher, call| watcher.called(call, &called));
    }

    fn notify(
        &self,
        pass: &Pass,
        sent: Option<&WireRequest>,
        watcher: &dyn Watcher,
        notify: impl FnOnce(&dyn Watcher, &Calling<'_>),
    ) {
        let thread = self.turn.thread();
        let call = Calling {
            thread: &thread,
            turn: self.turn.turn(),
            prompt: self.resolver.prompt.id(),
            step: self.state.spent.steps + 1,
            pass,
            sent,
        };
        notify(watcher, &call);
    }
}

/// Forwards the deltas of a model and returns its whole answer. If the stream breaks off, the streamed text is kept.
/// Output that is held back is neither told nor kept.
async fn collect_answer(
    stream: Deltas,
    mut streaming: Streaming,
    cancel: CancellationToken,
    holds_back: bool,
) -> Result<Answer, Break> {
    let mut deltas = std::pin::pin!(stream.take_until(cancel.cancelled()));
    let err = loop {
        match streaming.while_saving(deltas.next()).await {
            Some(Ok(Delta::Done(answer))) => {
                // Some models send no text deltas before the complete answer.
                let text = answer.joined_text();
                if streaming.text().is_empty() && !text.is_empty() && !holds_back {
                    streaming.text_delta(text);
                }
                return Ok(*answer);
            }
            // Thinking may reveal what the answer must not. Calls are reported once they are complete.
            Some(Ok(Delta::Text(_) | Delta::Thinking(_))) if holds_back => {}
            // An empty piece only separates two parts.
            Some(Ok(Delta::Text(text))) if text.is_empty() => {}
            Some(Ok(Delta::Text(text))) => streaming.text_delta(text),
            Some(Ok(Delta::Thinking(text))) => streaming.thinking_delta(text),
            // Calls and citations are told when the answer is complete.
            Some(Ok(Delta::Citation(_) | Delta::Call { .. } | Delta::Arguments { .. })) => {}
            Some(Err(err)) => break AgentError::from(err),
            None if cancel.is_cancelled() => break AgentError::Cancelled,
            None => {
                let message = "the stream ended before the answer was whole";
                break ModelError::new(ModelErrorKind::Malformed, message).into();
            }
        }
    };
    Err(Break { err, items: partial_items(streaming.text().to_owned()) })
}

/// Returns an error for a refusal that can't count as an answer: it has no text, or structured output was requested.
fn refused(pass: &Pass, answer: &Answer) -> Result<(), ModelError> {
    let is_empty = answer.message.is_blank();
    if answer.stop != StopReason::Refused || !(is_empty || pass.request().output.is_some()) {
        return Ok(());
    }
    let reason = if is_empty { "it refused to answer".to_owned() } else { answer.joined_text() };
    let err = ModelError::new(ModelErrorKind::Refused, reason);
    Err(match pass.request().model.as_deref() {
        Some(model) => err.of_model(model),
        None => err,
    })
}

fn cut_short() -> Remark {
    let message = "the answer was cut: the most tokens it may have are reached".to_owned();
    Remark { source: "model".to_owned(), message }
}

/// Returns a warning if a limit can't be enforced because the usage it depends on is unknown.
fn unenforced(condition: &StopCondition, usage: Usage, cost: Option<f64>) -> Option<Remark> {
    let message = match condition {
        StopCondition::MaxCost(_) if cost.is_none() => {
            "the model's price is not known: the cost has no limit"
        }
        StopCondition::MaxTokens(_) if usage.total() == 0 => {
            "the provider does not tell what was used: the tokens have no limit"
        }
        StopCondition::MaxCost(_)
        | StopCondition::MaxTokens(_)
        | StopCondition::MaxSteps(_)
        | StopCondition::ToolCalled(_) => return None,
    };
    Some(Remark { source: "stop_when".to_owned(), message: message.to_owned() })
}
