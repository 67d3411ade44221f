//! Lists runs.

use contexture_session::{Document, DocumentList, pages};
use futures::TryStreamExt as _;

use super::Runtime;
use crate::run::record::{self, RunRecord};
use crate::{DamagedRun, RunError, RunId, RunList, RunPage, keys};

impl Runtime {
    /// Lists runs, without their waits. A run whose record can't be read does not hide others: it is listed as damaged
    /// whatever flow and status are asked for, since its own are unknown.
    pub async fn list(&self, list: &RunList) -> Result<RunPage, RunError> {
        let mut page = RunPage::default();
        let all = DocumentList {
            tenant: Some(self.tenant.clone()),
            session: list.session.clone(),
            after: list.after.as_ref().map(|it| self.keys(it).run()),
            ..DocumentList::of_kind(keys::RUN)
        };
        let mut documents = pages::documents(self.records(), all);
        while page.len() < list.max {
            let Some(document) = documents.try_next().await? else { break };
            self.add_listed(&document, list, &mut page);
        }
        Ok(page)
    }

    fn add_listed(&self, document: &Document, list: &RunList, page: &mut RunPage) {
        let Some(session) = document.key.session.clone() else { return };
        let keys = self.keys(&RunId::new(session, document.key.name.clone()));
        match record::parsed::<RunRecord>(&keys, &document.data) {
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
