//! Room for a request that does not fit: what can't be dropped is larger than the window, so there is no pass to go by.

use contexture_compose::ErrorKind;
use contexture_history::compaction::Trigger;
use contexture_message::Tokens;
use contexture_session::Thread;

use super::CompactionReport;
use super::asked::compacted;
use crate::AgentError;
use crate::setting::Setting;

/// A request that does not fit.
pub(crate) struct Overflow {
    pub(crate) trigger: Trigger,
    /// What it would need without the largest turns of the history.
    rest: Tokens,
    limit: Tokens,
}

/// Says whether an error is that of a request that does not fit.
pub(crate) fn overflow(err: &AgentError) -> Option<Overflow> {
    let AgentError::Compose(err) = err else { return None };
    let ErrorKind::BudgetExceeded { which: "input_budget", need, limit, largest, .. } = err.kind() else {
        return None;
    };
    let history = largest.iter().filter(|(source, _)| source.as_str().starts_with("history:"));
    let rest = need.saturating_sub(history.map(|(_, tokens)| *tokens).sum());
    let trigger = Trigger::PromptUsage { used: *need, usable: *limit, percent: 100 };
    Some(Overflow { trigger, rest, limit: *limit })
}

/// Makes room in a thread before a turn begins. Says whether anything changed, and what was summarised.
///
/// The newest rounds stay as long as something else can go. Where even an empty history would leave no room for what the
/// user says, nothing is touched.
pub(crate) async fn room(
    setting: &mut Setting,
    thread: &Thread,
    overflow: &Overflow,
) -> Result<(bool, Option<CompactionReport>), AgentError> {
    if !setting.agent.config.compaction.enabled || overflow.rest > overflow.limit {
        return Ok((false, None));
    }
    if let Some(aged) = setting.age(thread, Some("the window is full")).await? {
        thread.add(vec![aged]).await?;
        return Ok((true, None));
    }
    let snapshot = thread.refresh().await?;
    let pass = setting.resolve_bare(&snapshot).await?;
    let mut limits = setting.agent.config.compaction.plans(setting.usable(&pass), Tokens(0));
    for rounds in (0..=limits.preserve_recent_api_rounds).rev() {
        limits.preserve_recent_api_rounds = rounds;
        let report = compacted(setting, thread, &pass, overflow.trigger, &limits).await?;
        if let Some(report) = report.ok().filter(|it| it.archive.is_some()) {
            return Ok((true, Some(report)));
        }
    }
    Ok((false, None))
}
