//! Runs that need a driver.

use contexture_session::{Document, DocumentList, Tenant, pages};
use futures::TryStreamExt as _;

use super::Runtime;
use crate::keys::{self, Keys};
use crate::{RunError, RunId};

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
        let Some(after) = after else { return self.due_behind(None, max).await };
        let mut due = self.due_behind(Some(after), max).await?;
        let rest = max - due.len();
        if rest > 0 {
            let first = self.due_behind(None, rest).await?;
            due.extend(first.into_iter().take_while(|it| it <= after));
        }
        Ok(due)
    }

    /// Lists them in the order of their names, without coming round.
    async fn due_behind(
        &self,
        after: Option<&(Tenant, RunId)>,
        max: usize,
    ) -> Result<Vec<(Tenant, RunId)>, RunError> {
        let now = self.parts.time.now();
        let mut due = Vec::new();
        let place = after.map(|(tenant, run)| Keys { tenant: tenant.clone(), run: run.clone() }.due());
        let list = DocumentList { after: place, ..DocumentList::of_kind(keys::DUE) };
        // Runs that are driven are in the same list, and may be many.
        let mut marks = pages::documents(self.records(), list);
        while due.len() < max {
            let Some(mark) = marks.try_next().await? else { break };
            let run = Some(mark).filter(|it| self.is_old(it.at, now)).and_then(run_of);
            // Marks of the run itself follow it, one for each message in its inbox.
            due.extend(run.filter(|it| Some(it) != after && due.last() != Some(it)));
        }
        Ok(due)
    }
}

fn run_of(document: Document) -> Option<(Tenant, RunId)> {
    let name = document.key.name.split('/').next()?.to_owned();
    Some((document.key.tenant, RunId::new(document.key.session?, name)))
}
