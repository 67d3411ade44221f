//! Turns that an earlier run began with the same key: a finished one is replayed, an unfinished one may be recovered.
//!
//! The rules for a turn that failed, was interrupted or lost its process:
//!
//! 1. The log is kept: the user's message and its envelopes are not appended again, and a call with a result never
//!    runs again.
//! 2. Unanswered calls of the last answer are closed or repeated, as [`ResumePolicy`] says. Calls that wait for a
//!    person or for the client keep waiting.
//! 3. An incomplete answer is generated again from the start. The partial text stays in the log, but is not sent while
//!    it is the last message: a model would take it for the beginning of its answer.
//! 4. Earlier steps count toward the limits; tokens and cost start from zero.
//!
//! Complete and suspended turns are never recovered here.

use std::sync::Arc;

use contexture_compose::{Prompt, SchemaValidator};
use contexture_history::{Body, Item, Seq, TurnStatus};
use contexture_message::{Message, Role, Usage};
use contexture_session::{RunningTurn, Thread, TurnOutcome};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::executor::{Executor, NextPass, limits_of};
use super::state::{Origin, TurnState};
use super::waiting::Waiting;
use super::{Entered, items_since};
use crate::AgentError;
use crate::beside::recorded_event;
use crate::checks;
use crate::event::{CheckReport, Event, Sink};
use crate::outcome::{Ended, Outcome};
use crate::request::Resolver;
use crate::spec::ResumePolicy;
use crate::text::calls_of;

/// How to recover a turn.
#[derive(Clone, Copy)]
pub(super) struct Recovery {
    pub(super) policy: ResumePolicy,
    /// Whether the request has a user message. If not, the log has the prompt's own messages in its place.
    pub(super) has_user: bool,
}

/// Returns whether the key has already begun a turn on the thread.
pub(super) async fn is_known(
    thread: &Thread,
    key: Option<&str>,
    cancel: &CancellationToken,
) -> Result<bool, AgentError> {
    let Some(key) = key else { return Ok(false) };
    let looked_up = cancel.run_until_cancelled(thread.outcome(key)).await;
    Ok(looked_up.ok_or(AgentError::Cancelled)??.is_some())
}

/// Recovers a turn from its log.
pub(super) async fn recover(
    mut resolver: Resolver,
    turn: RunningTurn,
    recovery: Recovery,
    (sink, cancel): (Sink, CancellationToken),
) -> Result<Entered, AgentError> {
    let began = turn.snapshot().state().open.map_or(Seq(0), |it| it.began);
    let items = items_since(&turn.thread(), began).await?;
    if !recovery.has_user {
        resolver.own_messages.get_or_insert_default();
    }
    let state = TurnState::replay(&items, Origin::Recovered(recovery.policy), limits_of(&resolver));
    let pass = NextPass::Missing { guards: true };
    Ok(Entered::Running(Box::new(Executor::new(resolver, turn, state, pass, (sink, cancel)))))
}

/// Returns the outcome of a run whose turn had already finished under the same key.
pub(super) fn replayed(prompt: &Prompt, outcome: TurnOutcome) -> Outcome {
    let message = outcome.items.iter().rev().find_map(|it| match &it.body {
        Body::Message(message) if message.role == Role::Assistant => Some(Arc::clone(message)),
        _ => None,
    });
    let is_complete = outcome.status == TurnStatus::Completed;
    let output = message.as_deref().filter(|_| is_complete).and_then(|it| value_of(prompt, it));
    Outcome {
        thread: outcome.thread,
        turn: outcome.turn,
        status: outcome.status,
        ended: Ended::Replayed,
        citations: message.as_deref().map(Message::citations).unwrap_or_default(),
        reports: outcome.items.iter().filter_map(reported).collect(),
        message,
        output,
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

/// Returns the report of a check that an item records.
fn reported(item: &Item) -> Option<CheckReport> {
    match recorded_event(item)? {
        Event::CheckReport(report) => Some(report),
        _ => None,
    }
}

/// Parses the value of a replayed answer. A value that no longer matches belongs to an older schema.
fn value_of(prompt: &Prompt, answer: &Message) -> Option<Value> {
    let schema = prompt.definition().output.as_ref().filter(|_| calls_of(answer).next().is_none())?;
    let validator = SchemaValidator::new(schema.value()).ok()?;
    let value = checks::json(&answer.joined_text()).ok()?;
    validator.is_valid(&value).then_some(value)
}
