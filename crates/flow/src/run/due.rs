//! Runs that need a driver.

use contexture_session::{Document, DocumentKey, DocumentList, Tenant};

use super::error::RunError;
use super::id::RunId;
use super::keys;
use super::runtime::Runtime;

/// How many documents are read at once.
const PAGE: usize = 256;

impl Runtime {
    /// Lists runs of all tenants that need a driver: nobody drives them, or their driver has been silent for too long.
    pub async fn due(&self, max: usize) -> Result<Vec<(Tenant, RunId)>, RunError> {
        let now = self.parts.time.now();
        let mut due = Vec::new();
        let mut after = None;
        // Runs that are driven stand among the others, and may be many.
        while due.len() < max {
            let page = self.due_page(after.take()).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.key.clone());
            due.extend(page.into_iter().filter(|it| self.is_old(it.at, now)).filter_map(run_of));
            // A run has a mark for each thing in its inbox, one behind the other.
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
