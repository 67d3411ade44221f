//! Runs that need a driver.

use contexture_session::{Document, DocumentKey, DocumentList, Tenant};

use super::error::RunError;
use super::id::RunId;
use super::keys::{self, Keys};
use super::runtime::Runtime;

/// How many documents are read per page.
const PAGE: usize = 256;

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
        let mut place = after.map(|(tenant, run)| Keys { tenant: tenant.clone(), run: run.clone() }.due());
        // Runs that are driven are in the same list, and may be many.
        while due.len() < max {
            let page = self.due_page(place.take()).await?;
            let is_last = page.len() < PAGE;
            place = page.last().map(|it| it.key.clone());
            let runs = page.into_iter().filter(|it| self.is_old(it.at, now)).filter_map(run_of);
            // Marks of the run itself follow it.
            due.extend(runs.filter(|it| Some(it) != after));
            // A run has one mark for each message in its inbox, one after the other.
            due.dedup();
            if is_last {
                break;
            }
        }
        due.truncate(max);
        Ok(due)
    }

    async fn due_page(&self, after: Option<DocumentKey>) -> Result<Vec<Document>, RunError> {
        let list = DocumentList { kind: keys::DUE.to_owned(), tenant: None, session: None, after, max: PAGE };
        Ok(self.records().list(list).await?)
    }
}

fn run_of(document: Document) -> Option<(Tenant, RunId)> {
    let name = document.key.name.split('/').next()?.to_owned();
    Some((document.key.tenant, RunId::new(document.key.session?, name)))
}
