//! Which runs there are.

use contexture_session::{Document, DocumentList};

use super::book::{self, Book};
use super::error::RunError;
use super::id::RunId;
use super::info::{RunInfo, RunList};
use super::keys;
use super::runtime::Runtime;

impl Runtime {
    /// Lists runs, without what they wait for.
    pub async fn list(&self, list: &RunList) -> Result<Vec<RunInfo>, RunError> {
        const PAGE: usize = 256;
        let mut found = Vec::new();
        let mut after = list.after.as_ref().map(|it| self.keys(it).run());
        while found.len() < list.max {
            let page = DocumentList {
                kind: keys::RUN.to_owned(),
                tenant: Some(self.tenant.clone()),
                session: list.session.clone(),
                after: after.take(),
                max: PAGE,
            };
            let page = self.records().list(page).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.key.clone());
            for document in &page {
                if let Some(info) = self.listed(document, list)? {
                    found.push(info);
                }
            }
            if is_last {
                break;
            }
        }
        found.truncate(list.max);
        Ok(found)
    }

    fn listed(&self, document: &Document, list: &RunList) -> Result<Option<RunInfo>, RunError> {
        let Some(session) = document.key.session.clone() else { return Ok(None) };
        let keys = self.keys(&RunId::new(session, document.key.name.clone()));
        let book: Book = book::parsed(&keys, &document.data)?;
        let is_wanted = list.flow.as_ref().is_none_or(|it| *it == book.flow)
            && list.status.is_none_or(|it| it == book.status);
        Ok(is_wanted.then(|| book.info(&keys, document.at, Vec::new())))
    }
}
