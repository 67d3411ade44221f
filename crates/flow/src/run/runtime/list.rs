//! Lists runs: those of a tenant, and those that need a driver.

use contexture_session::{DueKind, LogHead, LogKind, LogList, SessionId, Tenant, ThreadKey, pages};
use futures::TryStreamExt as _;

use super::Runtime;
use crate::keys::is_firing_key;
use crate::run::record::StoredRun;
use crate::{DamagedRun, NodeError, RunError, RunId, RunList, RunPage, RunStatus};

impl Runtime {
    /// Lists runs, without their waits. A run whose record can't be read does not hide others: it is listed as damaged
    /// whatever flow and status are asked for, since its own are unknown.
    pub async fn list(&self, list: &RunList) -> Result<RunPage, RunError> {
        let mut page = RunPage::default();
        let all = LogList {
            kind: LogKind::Run,
            tenant: Some(self.tenant.clone()),
            session: list.session.clone(),
            after: list.after.as_ref().map(|it| it.log(&self.tenant)),
            max: 0,
        };
        let mut heads = pages::logs(self.store(), all);
        while page.len() < list.max {
            let Some(head) = heads.try_next().await? else { break };
            page.add(head, list);
        }
        Ok(page)
    }

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

impl RunPage {
    fn add(&mut self, head: LogHead, list: &RunList) {
        let run = RunId::of_log(&head.info.thread);
        match StoredRun::read(head) {
            Ok(stored) if is_wanted(&stored, list) => {
                let mut info = stored.info();
                info.waits.clear();
                self.runs.push(info);
            }
            Ok(_) => return,
            Err(err) => {
                let error = NodeError::new(err.code(), err.to_string());
                self.damaged.push(DamagedRun { run: run.clone(), error });
            }
        }
        self.after = (self.len() == list.max).then_some(run);
    }

    fn len(&self) -> usize {
        self.runs.len() + self.damaged.len()
    }
}

fn is_wanted(stored: &StoredRun, list: &RunList) -> bool {
    list.flow.as_ref().is_none_or(|it| *it == stored.record.flow)
        && list.status.is_none_or(|it| it == stored.status())
}
