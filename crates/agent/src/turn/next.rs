//! Decides what a turn does next. Pure: the state goes in, the action comes out.
//!
//! The rules:
//!
//! 1. A final answer is judged. If it is accepted, the turn ends; if not, the model tries again, a bounded number of
//!    times and within the limits of the turn.
//! 2. Calls of a suspended round wait until every decision and every result of the client has arrived.
//! 3. All other calls are answered: they run, or they get a denial or an `interrupted` error. Calls of an earlier run
//!    are closed or repeated, as the [`ResumePolicy`] says.
//! 4. Calls that need approval or run on the client suspend the turn once all others are answered.
//! 5. Once all calls are answered, the turn ends if a stop condition holds. Otherwise the model is called.

use contexture_compose::StopCondition;
use contexture_message::ToolCall;

use super::state::{CallStatus, Origin, Received, Round, TurnState};
use crate::checks::Judgement;
use crate::outcome::Ended;
use crate::spec::ResumePolicy;

/// What a turn does next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Call the model.
    CallModel,
    /// Judge the final answer.
    Judge,
    /// Record the rejected answer with its feedback, so that the model tries again.
    Retry,
    /// Answer these calls.
    RunTools(Vec<(ToolCall, Treatment)>),
    /// Suspend the turn, and ask a person to approve calls and the client to run others.
    Ask { approvals: Vec<ToolCall>, client: Vec<ToolCall> },
    /// Suspend the turn again: decisions, or results of these calls, are still missing.
    Wait { for_decision: bool, client: Vec<ToolCall> },
    /// End the turn.
    End(Ending),
}

/// How a call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// It runs, unless it needs approval or belongs to the client.
    Run,
    /// It runs: a person approved it.
    RunApproved,
    /// It gets a denial.
    Deny { reason: Option<String> },
    /// It gets an `interrupted` error.
    Interrupt,
}

/// Why a turn ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It ends well.
    Ended(Ended),
    /// The final answer is rejected, and the model may not try again.
    Rejected,
    /// The run was cancelled.
    Cancelled,
}

/// Returns what a turn does next.
pub(crate) fn next(state: &TurnState) -> Action {
    match (&state.answer, &state.round) {
        (Some(answer), _) => after_answer(state, answer),
        (None, Some(round)) => in_round(state, round),
        (None, None) => Action::CallModel,
    }
}

fn after_answer(state: &TurnState, answer: &Received) -> Action {
    let limits = &state.limits;
    let may_repeat = |made: u32, most: u32| made < most && stop(state, &[]).is_none();
    match &answer.judgement {
        None if answer.is_paused => end_or_call(state, &[]),
        None => Action::Judge,
        Some(Judgement::Accepted(_)) => Action::End(Ending::Ended(Ended::Answered)),
        Some(Judgement::Misfit { .. }) if may_repeat(state.n_repairs, limits.output_repairs) => Action::Retry,
        Some(Judgement::Failed { .. }) if may_repeat(state.n_retries, limits.constraint_retries) => {
            Action::Retry
        }
        Some(Judgement::Misfit { .. } | Judgement::Failed { .. }) => Action::End(Ending::Rejected),
    }
}

fn in_round(state: &TurnState, round: &Round) -> Action {
    let has = |status: &CallStatus| round.calls.iter().any(|(_, it)| it == status);
    if has(&CallStatus::AwaitsDecision) || has(&CallStatus::AwaitsClient) {
        let for_decision = has(&CallStatus::AwaitsDecision);
        return Action::Wait { for_decision, client: round.with(&CallStatus::AwaitsClient) };
    }
    let each = round.calls.iter().filter_map(|(call, it)| Some((call.clone(), treatment(state, it)?)));
    let treatments: Vec<(ToolCall, Treatment)> = each.collect();
    if !treatments.is_empty() {
        return Action::RunTools(treatments);
    }
    if has(&CallStatus::NeedsApproval) || has(&CallStatus::NeedsClient) {
        let (approvals, client) = (CallStatus::NeedsApproval, CallStatus::NeedsClient);
        return Action::Ask { approvals: round.with(&approvals), client: round.with(&client) };
    }
    match round.is_new {
        true if state.is_cancelled => Action::End(Ending::Cancelled),
        // The whole round counts, including calls answered before the turn was suspended.
        true => end_or_call(state, &round.calls),
        false => Action::CallModel,
    }
}

/// Returns how a call is answered now, if it is.
fn treatment(state: &TurnState, status: &CallStatus) -> Option<Treatment> {
    let is_closing = state.origin == Origin::Recovered(ResumePolicy::CloseCalls);
    let repeats = state.origin == Origin::Recovered(ResumePolicy::RepeatCalls);
    match status {
        CallStatus::New => Some(Treatment::Run),
        CallStatus::Lost if repeats => Some(Treatment::Run),
        CallStatus::Lost => Some(Treatment::Interrupt),
        // It may have run before the process was lost.
        CallStatus::Approved if is_closing => Some(Treatment::Interrupt),
        CallStatus::Approved => Some(Treatment::RunApproved),
        CallStatus::Denied { reason } => Some(Treatment::Deny { reason: reason.clone() }),
        CallStatus::NeedsApproval | CallStatus::NeedsClient => {
            state.is_cancelled.then_some(Treatment::Interrupt)
        }
        CallStatus::AwaitsDecision | CallStatus::AwaitsClient | CallStatus::Answered => None,
    }
}

fn end_or_call(state: &TurnState, calls: &[(ToolCall, CallStatus)]) -> Action {
    match stop(state, calls) {
        Some(ended) => Action::End(Ending::Ended(ended)),
        None => Action::CallModel,
    }
}

/// Returns the stop condition that holds after a step with these calls, if there is one. The conditions are OR-ed.
fn stop(state: &TurnState, calls: &[(ToolCall, CallStatus)]) -> Option<Ended> {
    let (spent, limits) = (&state.spent, &state.limits);
    let holds = |it: &StopCondition| match it {
        StopCondition::MaxSteps(steps) => (spent.steps >= *steps).then_some(Ended::MaxSteps(*steps)),
        StopCondition::ToolCalled(name) => {
            let is_called = calls.iter().any(|(it, _)| it.name == *name);
            is_called.then(|| Ended::ToolCalled(name.clone()))
        }
        StopCondition::MaxTokens(tokens) => (spent.usage.total() >= *tokens).then_some(Ended::MaxTokens),
        StopCondition::MaxCost(cost) => spent.cost.is_some_and(|it| it >= *cost).then_some(Ended::MaxCost),
    };
    let has_steps = limits.stop_when.iter().any(|it| matches!(it, StopCondition::MaxSteps(_)));
    let default = !has_steps && spent.steps >= limits.max_steps;
    limits.stop_when.iter().find_map(holds).or(default.then_some(Ended::MaxSteps(limits.max_steps)))
}
