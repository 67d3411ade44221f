//! Lists runs.

use contexture_session::{Document, DocumentKey, DocumentList};

use super::error::RunError;
use super::id::RunId;
use super::info::{DamagedRun, RunList, RunPage};
use super::keys;
use super::run_record::{self, RunRecord};
use super::runtime::Runtime;

/// How many documents are read per page.
const PAGE: usize = 256;

impl Runtime {
    /// Lists runs, without their waits. A run whose record can't be read does not hide others: it is listed as damaged
    /// whatever flow and status are asked for, since its own are unknown.
    pub async fn list(&self, list: &RunList) -> Result<RunPage, RunError> {
        let mut page = RunPage::default();
        let mut after = list.after.as_ref().map(|it| self.keys(it).run());
        while page.len() < list.max {
            let documents = self.run_documents(list, after.take()).await?;
            let is_last = documents.len() < PAGE;
            after = documents.last().map(|it| it.key.clone());
            for document in &documents {
                self.add_listed(document, list, &mut page);
                if page.len() == list.max {
                    break;
                }
            }
            if is_last {
                break;
            }
        }
        Ok(page)
    }

    async fn run_documents(
        &self,
        list: &RunList,
        after: Option<DocumentKey>,
    ) -> Result<Vec<Document>, RunError> {
        let list = DocumentList {
            kind: keys::RUN.to_owned(),
            tenant: Some(self.tenant.clone()),
            session: list.session.clone(),
            after,
            max: PAGE,
        };
        Ok(self.records().list(list).await?)
    }

    fn add_listed(&self, document: &Document, list: &RunList, page: &mut RunPage) {
        let Some(session) = document.key.session.clone() else { return };
        let keys = self.keys(&RunId::new(session, document.key.name.clone()));
        match run_record::parsed::<RunRecord>(&keys, &document.data) {
            Ok(run_record) if is_wanted(&run_record, list) => {
                page.runs.push(run_record.info(&keys, document.at, Vec::new()));
            }
            Ok(_) => return,
            Err(error) => page.damaged.push(DamagedRun { run: keys.run.clone(), error }),
        }
        page.next = (page.len() == list.max).then_some(keys.run);
    }
}

fn is_wanted(run_record: &RunRecord, list: &RunList) -> bool {
    list.flow.as_ref().is_none_or(|it| *it == run_record.flow)
        && list.status.is_none_or(|it| it == run_record.status)
}

impl RunPage {
    fn len(&self) -> usize {
        self.runs.len() + self.damaged.len()
    }
}
