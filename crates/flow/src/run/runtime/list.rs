//! Lists runs.

use contexture_session::{LogHead, LogKind, LogList, pages};
use futures::TryStreamExt as _;

use super::Runtime;
use crate::run::record::StoredRun;
use crate::{DamagedRun, NodeError, RunError, RunId, RunList, RunPage};

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
