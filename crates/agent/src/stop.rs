//! Stop conditions: when the loop ends although the model would continue.
//!
//! Takes the conditions of a prompt and the usage of the run so far, and returns the first condition that holds. The
//! conditions are OR-ed. A prompt without a step limit gets the agent's default.

use contexture_compose::StopCondition;
use contexture_message::{ToolCall, Usage};

use crate::{Ended, Remark};

/// The usage of a run after a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress<'a> {
    pub(crate) steps: u32,
    pub(crate) tokens: u64,
    pub(crate) cost: Option<f64>,
    /// The calls of the latest step.
    pub(crate) calls: &'a [ToolCall],
}

/// Returns the reason to stop now, if there is one.
pub(crate) fn stop(conditions: &[StopCondition], max_steps: u32, progress: Progress<'_>) -> Option<Ended> {
    let own = conditions.iter().any(|it| matches!(it, StopCondition::MaxSteps(_)));
    let default = (!own && progress.steps >= max_steps).then_some(Ended::MaxSteps(max_steps));
    conditions.iter().find_map(|it| holds(it, progress)).or(default)
}

fn holds(condition: &StopCondition, progress: Progress<'_>) -> Option<Ended> {
    match condition {
        StopCondition::MaxSteps(steps) => (progress.steps >= *steps).then_some(Ended::MaxSteps(*steps)),
        StopCondition::ToolCalled(name) => {
            let called = progress.calls.iter().any(|it| it.name == *name);
            called.then(|| Ended::ToolCalled(name.clone()))
        }
        StopCondition::MaxTokens(tokens) => (progress.tokens >= *tokens).then_some(Ended::MaxTokens),
        StopCondition::MaxCost(cost) => progress.cost.is_some_and(|it| it >= *cost).then_some(Ended::MaxCost),
    }
}

/// Returns a warning if a limit can't be enforced because the usage it depends on is unknown.
pub(crate) fn unkept(condition: &StopCondition, usage: Usage, cost: Option<f64>) -> Option<Remark> {
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
