//! The state of a turn: the result of replaying its log, and of applying what happened since.
//!
//! Beginning a turn, continuing a suspended one and recovering one whose process was lost differ only in the log that
//! is replayed and in the [`Origin`]. Nothing here waits, reads a clock or writes anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_compose::StopCondition;
use contexture_history::Item;
use contexture_message::{Citation, Message, Part, Role, ToolCall, Usage};

use super::attempt::Attempt;
use super::waiting::{Verdict, Waiting};
use crate::checks::Judgement;
use crate::spec::ResumePolicy;
use crate::text::calls_of;

/// The state of a turn.
#[derive(Debug)]
pub(crate) struct TurnState {
    pub(crate) origin: Origin,
    pub(crate) limits: Limits,
    pub(crate) spent: Spent,
    /// The calls that the next model call needs results of, if there are any.
    pub(crate) round: Option<Round>,
    /// The latest answer, if it has no tool calls.
    pub(crate) answer: Option<Received>,
    /// Rejected answers and the feedback on them.
    pub(crate) attempts: Vec<Attempt>,
    /// How often this run has rejected an answer for its schema, and for its constraints.
    pub(crate) n_repairs: u32,
    pub(crate) n_retries: u32,
    pub(crate) is_cancelled: bool,
}

/// How this process came to run the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It began the turn.
    Begun,
    /// The turn was suspended, and a person decided about a call.
    Decided,
    /// The turn was suspended, and the client sent results. This counts as a new request.
    ClientReplied,
    /// An earlier run did not finish the turn.
    Recovered(ResumePolicy),
}

/// The limits of a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) stop_when: Vec<StopCondition>,
    /// The maximum number of model calls, unless `stop_when` has one.
    pub(crate) max_steps: u32,
    pub(crate) output_repairs: u32,
    pub(crate) constraint_retries: u32,
}

/// What counts toward the limits of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spent {
    /// The number of model calls.
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    /// The total cost, if all prices are known.
    pub(crate) cost: Option<f64>,
}

impl Default for Spent {
    fn default() -> Self {
        Self { steps: 0, usage: Usage::default(), cost: Some(0.0) }
    }
}

/// An answer with tool calls, which is in the log.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) message: Arc<Message>,
    pub(crate) calls: Vec<(ToolCall, CallStatus)>,
    /// Whether this run has answered any of the calls. If so, the stop conditions are checked once all are answered.
    pub(crate) is_new: bool,
}

/// What is known about a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallStatus {
    /// It was made in this run and has not been looked at.
    New,
    /// It was made in an earlier run, and it is unknown whether it ran.
    Lost,
    /// A person must approve it, and has not been asked.
    NeedsApproval,
    /// The client must run it, and has not been asked.
    NeedsClient,
    /// The turn was suspended for a person's decision about it.
    AwaitsDecision,
    /// The turn was suspended for its result from the client.
    AwaitsClient,
    /// A person approved it.
    Approved,
    /// A person denied it.
    Denied { reason: Option<String> },
    /// It has its result.
    Answered,
}

/// An answer without tool calls, which is not in the log yet.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Arc<Message>,
    /// Whether the model paused and must be called again to finish its answer.
    pub(crate) is_paused: bool,
    /// The judgement of a final answer, once it is made.
    pub(crate) judgement: Option<Judgement>,
}

impl TurnState {
    /// Returns the state of a turn with these items in its log.
    pub(crate) fn replay(items: &[Item], origin: Origin, limits: Limits) -> Self {
        let waiting = Waiting::read(items);
        let attempts = Attempt::read(items);
        let n_steps = answers(items).count() + attempts.len();
        let spent = match origin {
            Origin::Begun | Origin::ClientReplied => Spent::default(),
            Origin::Decided => {
                Spent { steps: waiting.run.steps, usage: waiting.run.usage, cost: waiting.run.cost }
            }
            Origin::Recovered(_) => {
                Spent { steps: u32::try_from(n_steps).unwrap_or(u32::MAX), ..Spent::default() }
            }
        };
        let mut round = last_round(items, &waiting);
        if let Some(round) = &mut round {
            round.is_new = origin == Origin::ClientReplied;
        }
        Self {
            origin,
            limits,
            spent,
            round,
            answer: None,
            attempts,
            n_repairs: 0,
            n_retries: 0,
            is_cancelled: false,
        }
    }

    /// Forgets what led to a model call that is now made.
    pub(crate) fn call_made(&mut self) {
        self.round = None;
        self.answer = None;
    }

    /// Takes an answer of the model. One with tool calls must be in the log already.
    pub(crate) fn receive(&mut self, message: Arc<Message>, is_paused: bool) {
        let calls: Vec<_> = calls_of(&message).map(|it| (it.clone(), CallStatus::New)).collect();
        match calls.is_empty() {
            true => self.answer = Some(Received { message, is_paused, judgement: None }),
            false => self.round = Some(Round { message, calls, is_new: false }),
        }
    }

    /// Gives the final answer the citations that its checks found.
    pub(crate) fn cited(&mut self, citations: Vec<Citation>) {
        if let Some(answer) = self.answer.as_mut().filter(|_| !citations.is_empty()) {
            Arc::make_mut(&mut answer.message).set_citations(citations);
        }
    }

    /// Takes the judgement of the final answer.
    pub(crate) fn judged(&mut self, judgement: Judgement) {
        if let Some(answer) = &mut self.answer {
            answer.judgement = Some(judgement);
        }
    }

    /// Discards the final answer after its rejection.
    pub(crate) fn rejected(&mut self, attempt: Attempt) {
        match self.answer.take().and_then(|it| it.judgement) {
            Some(Judgement::Misfit { .. }) => self.n_repairs += 1,
            Some(Judgement::Failed { .. }) => self.n_retries += 1,
            Some(Judgement::Accepted(_)) | None => {}
        }
        self.attempts.push(attempt);
    }

    /// Sets what is known about a call of the round.
    pub(crate) fn set(&mut self, call_id: &str, status: CallStatus) {
        let Some(round) = &mut self.round else { return };
        round.is_new |= status == CallStatus::Answered;
        let call = round.calls.iter_mut().find(|(it, _)| it.id == call_id);
        call.into_iter().for_each(|(_, it)| *it = status.clone());
    }
}

impl Round {
    /// Returns the calls with a status.
    pub(crate) fn with(&self, status: &CallStatus) -> Vec<ToolCall> {
        self.calls.iter().filter(|(_, it)| it == status).map(|(call, _)| call.clone()).collect()
    }
}

fn messages(items: &[Item]) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
    items.iter().filter_map(|it| it.body.as_message())
}

fn answers(items: &[Item]) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
    messages(items).filter(|it| it.role == Role::Assistant)
}

/// Returns the last answer with tool calls, and the status of each. They are read from the log because the model may
/// be shown an altered version of a call.
fn last_round(items: &[Item], waiting: &Waiting) -> Option<Round> {
    let message = answers(items).rfind(|it| calls_of(it).next().is_some())?;
    let results = messages(items).flat_map(|it| &it.content).filter_map(|it| match it {
        Part::ToolResult(result) => Some(result.call_id.as_str()),
        Part::Text { .. }
        | Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolCall(_) => None,
    });
    let results: BTreeSet<&str> = results.collect();
    let status = |call: &ToolCall| match waiting.approval(&call.id) {
        _ if results.contains(call.id.as_str()) => CallStatus::Answered,
        Some(approval) => match &approval.verdict {
            None => CallStatus::AwaitsDecision,
            Some(Verdict::Approve) => CallStatus::Approved,
            Some(Verdict::Deny { reason }) => CallStatus::Denied { reason: reason.clone() },
        },
        None if waiting.run.client_calls.contains(&call.id) => CallStatus::AwaitsClient,
        None => CallStatus::Lost,
    };
    let calls = calls_of(message).map(|it| (it.clone(), status(it))).collect();
    Some(Round { message: Arc::clone(message), calls, is_new: false })
}
