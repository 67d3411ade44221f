//! Runs that need a driver.

use contexture_session::{DueKind, SessionId, Tenant, ThreadKey};

use super::Runtime;
use crate::keys::is_firing_key;
use crate::{RunError, RunId, RunList, RunStatus};

impl Runtime {
    /// Lists runs of all tenants that need a driver: they have none, or their driver has been silent for too long.
    ///
    /// The list is circular: runs after `after` come first, `after` itself last. A caller that can't drive all of them
    /// continues after the last one it took, so every run gets its turn even if earlier ones keep becoming due.
    pub async fn due(
        &self,
        after: Option<&(Tenant, RunId)>,
        max: usize,
    ) -> Result<Vec<(Tenant, RunId)>, RunError> {
        let after = after.map(|(tenant, run)| run.log(tenant));
        let mut due = self.store().due(DueKind::Runs, after.clone(), max).await?;
        let rest = max.saturating_sub(due.len());
        if let (Some(after), true) = (after, rest > 0) {
            let first = self.store().due(DueKind::Runs, None, rest).await?;
            due.extend(first.into_iter().take_while(|it| *it <= after));
        }
        let named = |it: ThreadKey| (it.tenant, RunId::of_log(&it.thread));
        Ok(due.into_iter().map(named).collect())
    }

    /// Returns whether a run that is in progress may continue a turn of its session that has this idempotency key. Its
    /// driver takes over such a turn as it is: no other process should end it.
    pub async fn may_continue_turn(&self, session: &SessionId, key: &str) -> Result<bool, RunError> {
        if !is_firing_key(key) {
            return Ok(false);
        }
        let (session, status) = (Some(session.clone()), Some(RunStatus::Running));
        let page = self.list(&RunList { session, status, max: 1, ..RunList::default() }).await?;
        Ok(!page.runs.is_empty())
    }
}
