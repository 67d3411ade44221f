//! An outcome as a chat completion.

use contexture_agent::{Ended, Event, Outcome, waiting_calls};
use contexture_history::{Body, Change, Item, TurnNo, TurnStatus};
use contexture_message::{Answer, ErrorCode, Message, Part, Role, StopReason, Thinking, ToolCall, Usage};
use contexture_session::{SessionError, Thread};
use contexture_wire::{Dialect, Target, encode_answer};
use serde_json::{Value, json};

use super::locate::recent;
use crate::Problem;

/// The metadata common to all documents of one completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompletionMeta {
    pub(crate) id: String,
    /// The creation time, in seconds since 1970.
    pub(crate) created: i64,
    /// The model as the client named it.
    pub(crate) model: String,
}

impl CompletionMeta {
    pub(crate) fn target(&self) -> Target {
        Target { stream: true, ..Target::new(Dialect::Openai, "contexture", &self.model) }
    }

    /// Adds the metadata to a document.
    pub(crate) fn put(&self, document: &mut Value) {
        document["id"] = json!(self.id);
        document["created"] = json!(self.created);
        document["model"] = json!(self.model);
    }
}

/// The text of a turn so far, over all its steps: that is what a client keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamedText {
    pub(crate) text: String,
    pub(crate) thinking: String,
    /// The offset of the newest step.
    step: usize,
}

impl StreamedText {
    pub(crate) fn add_event(&mut self, event: &Event) {
        match event {
            Event::TextDelta { text } => self.text.push_str(text),
            Event::ThinkingDelta { text } => self.thinking.push_str(text),
            Event::AttemptDiscarded { .. } => self.text.truncate(self.step),
            // Behind the calls of an answer another step begins.
            Event::ToolCall { .. } => self.step = self.text.len(),
            _ => {}
        }
    }
}

/// The final result for a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompletionResult {
    pub(crate) streamed: StreamedText,
    /// The calls that it must run.
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    /// Calls that wait for an approval; OpenAI's format has no field for them.
    pub(crate) approvals: Vec<Value>,
}

impl CompletionResult {
    pub(crate) fn of(outcome: &Outcome, streamed: StreamedText) -> Self {
        Self {
            streamed,
            calls: outcome.client_calls.clone(),
            stop: stop(outcome),
            usage: outcome.usage,
            approvals: outcome.approvals.iter().map(|it| json!(it)).collect(),
        }
    }

    /// Returns the answer as a message.
    pub(crate) fn answer(&self, meta: &CompletionMeta) -> Answer {
        let StreamedText { text, thinking, .. } = &self.streamed;
        let thinking = (!thinking.is_empty()).then(|| {
            let provider = Some("contexture".to_owned());
            Part::Thinking(Thinking { text: thinking.clone(), provider, ..Thinking::default() })
        });
        let text = (!text.is_empty() || self.calls.is_empty()).then(|| Part::text(text));
        let calls = self.calls.iter().cloned().map(Part::ToolCall);
        Answer {
            message: Message::parts(Role::Assistant, thinking.into_iter().chain(text).chain(calls).collect()),
            stop: self.stop.clone(),
            usage: self.usage,
            model: Some(meta.model.clone()),
            id: Some(meta.id.clone()),
        }
    }

    /// Returns the completion as a document.
    pub(crate) fn document(&self, meta: &CompletionMeta) -> Value {
        let mut document = encode_answer(&meta.target(), &self.answer(meta)).body;
        meta.put(&mut document);
        self.add_approvals(&mut document);
        document
    }

    /// Adds what waits for a person.
    pub(crate) fn add_approvals(&self, document: &mut Value) {
        if !self.approvals.is_empty() {
            document["contexture"] = json!({"approvals": self.approvals});
        }
    }
}

fn stop(outcome: &Outcome) -> StopReason {
    let is_cut = match outcome.ended {
        Ended::MaxSteps(_) | Ended::MaxTokens | Ended::MaxCost => true,
        // An answer that the model cut off has a remark about it.
        Ended::Answered | Ended::ToolCalled(_) | Ended::Suspended | Ended::ClientTools | Ended::Replayed => {
            outcome.remarks.iter().any(|it| it.source == "model")
        }
    };
    match (outcome.client_calls.is_empty(), is_cut) {
        (false, _) => StopReason::ToolCalls,
        (true, true) => StopReason::MaxTokens,
        (true, false) => StopReason::End,
    }
}

/// Returns the answer to a request of a turn, once that part of the turn is over: to the one that brought the last
/// results, or to the one that began it. One that failed has no answer.
pub(crate) async fn replayed(
    thread: &Thread,
    turn: TurnNo,
    has_results: bool,
) -> Result<CompletionResult, Problem> {
    let mut items = items_of(thread, turn).await?;
    if items.is_empty() {
        return Err(Problem::not_found("turn", &turn.to_string()));
    }
    let mut begins_at = 0;
    if has_results {
        let is_resumed = |it: &Item| matches!(&it.body, Body::Change(Change::TurnResumed));
        begins_at = items.iter().rposition(is_resumed).unwrap_or(0);
    } else {
        let is_end = |it: &Item| matches!(&it.body, Body::Change(Change::TurnEnded { .. }));
        items.truncate(items.iter().position(is_end).map_or(items.len(), |it| it + 1));
    }
    items.iter().rev().find_map(|it| has_answer(&it.body)).transpose()?;
    let messages = items[begins_at..].iter().filter_map(|it| it.body.as_message());
    let text = messages.filter(|it| it.role == Role::Assistant).map(|it| it.joined_text()).collect();
    let streamed = StreamedText { text, ..StreamedText::default() };
    let calls = waiting_calls(&items);
    let stop = if calls.is_empty() { StopReason::End } else { StopReason::ToolCalls };
    Ok(CompletionResult { streamed, calls, stop, usage: Usage::default(), approvals: Vec::new() })
}

/// Returns the items of a turn, however far back they are.
async fn items_of(thread: &Thread, turn: TurnNo) -> Result<Vec<Item>, SessionError> {
    let mut items = recent(thread).await?;
    if items.first().is_some_and(|it| it.turn >= turn) {
        items = thread.all(None).await?;
    }
    items.retain(|it| it.turn == turn);
    Ok(items)
}

/// Returns whether a turn has an answer, or why not, as far as an item says it.
fn has_answer(body: &Body) -> Option<Result<(), Problem>> {
    match body {
        Body::Change(Change::TurnEnded {
            status: TurnStatus::Failed | TurnStatus::Interrupted,
            reason,
            code,
            ..
        }) => {
            let code = code.as_deref().and_then(ErrorCode::recorded).unwrap_or(ErrorCode::Interrupted);
            let reason = reason.as_deref().unwrap_or("it was interrupted");
            Some(Err(Problem::new(code, format!("the first of these requests failed: {reason}"))))
        }
        Body::Change(Change::TurnEnded { .. }) => Some(Ok(())),
        Body::Change(Change::TurnBegan { .. } | Change::TurnResumed) => {
            Some(Err(Problem::new(ErrorCode::TurnInProgress, "the first of these requests still runs")))
        }
        _ => None,
    }
}
