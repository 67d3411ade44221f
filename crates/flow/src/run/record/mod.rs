//! The document with the state of a run, and how it is read.
//!
//! It is written when a driver takes the run up and when it lets it go. In between, the log is ahead of it: its state
//! is that after the record `upto`.

pub(super) mod commit;
pub(super) mod inbox;
pub(super) mod info;
pub(super) mod start_key;

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_history::Timestamp;
use contexture_session::{Document, DocumentKey, DocumentList, Records, StoreError, pages};
use futures::TryStreamExt as _;
use futures::future::ready;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::info::RunInfo;
use super::error::RunError;
use super::state::State;
use crate::keys::{self, CANCEL, Keys};
use crate::{Flow, NodeError, RunEvent, RunStatus, Wait};

/// The stored state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) flow: String,
    pub(crate) fingerprint: String,
    pub(crate) status: RunStatus,
    /// The number of the driver that may write: drivers are numbered, and only the newest one may write.
    pub(crate) epoch: u64,
    /// Whether a driver has the run, alive or not.
    pub(crate) is_driven: bool,
    pub(crate) input: Arc<Value>,
    /// The record of the log that the state is after.
    pub(crate) upto: u64,
    /// How much of the inbox was taken.
    pub(crate) taken: u64,
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) outputs: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<NodeError>,
    /// The idempotency key that it was begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    pub(crate) created: Timestamp,
}

/// The part of a run's record that can be read even if the rest can't, such as a record of a newer version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PartialRunRecord {
    pub(crate) fingerprint: String,
    status: Value,
    #[serde(default)]
    pub(crate) key: Option<String>,
}

impl PartialRunRecord {
    pub(crate) fn read(data: &str) -> Option<Self> {
        serde_json::from_str(data).ok()
    }

    /// Whether it is known that nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        RunStatus::deserialize(&self.status).is_ok_and(RunStatus::is_over)
    }
}

impl RunRecord {
    pub(crate) fn document(&self, keys: &Keys, at: Timestamp) -> Document {
        Document { key: keys.run(), at, data: written(self) }
    }

    pub(crate) fn info(&self, keys: &Keys, updated: Timestamp, waits: Vec<Wait>) -> RunInfo {
        RunInfo {
            run: keys.run.clone(),
            flow: self.flow.clone(),
            fingerprint: self.fingerprint.clone(),
            session: keys.run.session().clone(),
            status: self.status,
            input: (*self.input).clone(),
            outputs: self.outputs.clone(),
            waits,
            node: self.node.clone(),
            error: self.error.clone(),
            created: self.created,
            updated,
        }
    }
}

/// Serialises plain data. It can't fail, since none of our types has maps with non-string keys.
pub(crate) fn written<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub(crate) fn parsed<T: DeserializeOwned>(keys: &Keys, text: &str) -> Result<T, RunError> {
    serde_json::from_str(text)
        .map_err(|err| RunError::Damaged { run: keys.run.to_string(), detail: err.to_string() })
}

/// Reads one document by its key.
pub(crate) async fn document(
    records: &dyn Records,
    key: DocumentKey,
) -> Result<Option<Document>, StoreError> {
    Ok(records.documents(vec![key]).await?.into_iter().next())
}

/// Loads the record of a run.
pub(crate) async fn load(records: &dyn Records, keys: &Keys) -> Result<(RunRecord, Timestamp), RunError> {
    let document = document(records, keys.run()).await?;
    let document = document.ok_or_else(|| RunError::NotFound { run: keys.run.to_string() })?;
    Ok((parsed(keys, &document.data)?, document.at))
}

/// Lists what a run waits for.
pub(crate) async fn waits(records: &dyn Records, keys: &Keys) -> Result<Vec<Wait>, RunError> {
    let documents = of_run(records, keys, keys::WAIT, keys.wait("")).await?;
    documents.iter().map(|it| parsed(keys, &it.data)).collect()
}

/// Lists the marks that say that something is in a run's inbox.
pub(crate) async fn marks(records: &dyn Records, keys: &Keys) -> Result<Vec<DocumentKey>, RunError> {
    let documents = of_run(records, keys, keys::DUE, keys.mark("")).await?;
    Ok(documents.into_iter().map(|it| it.key).collect())
}

/// Lists the documents of a run other than its record.
pub(crate) async fn documents_of(records: &dyn Records, keys: &Keys) -> Result<Vec<DocumentKey>, RunError> {
    // A cancel request may have checked the run before its end and write its mark only now.
    let mut found = vec![keys.due(), keys.mark(CANCEL)];
    for (kind, first) in
        [(keys::DUE, keys.mark("")), (keys::WAIT, keys.wait("")), (keys::FENCE, keys.fences())]
    {
        found.extend(of_run(records, keys, kind, first).await?.into_iter().map(|it| it.key));
    }
    Ok(found)
}

/// Lists the documents of a kind whose names begin with a run's.
async fn of_run(
    records: &dyn Records,
    keys: &Keys,
    kind: &str,
    first: DocumentKey,
) -> Result<Vec<Document>, StoreError> {
    let prefix = first.name.clone();
    let list = DocumentList {
        tenant: Some(keys.tenant.clone()),
        session: Some(keys.run.session().clone()),
        after: Some(first),
        ..DocumentList::of_kind(kind)
    };
    let documents = pages::documents(records, list);
    documents.try_take_while(|it| ready(Ok(it.key.name.starts_with(&prefix)))).try_collect().await
}

/// Brings a state up to the end of the log. Returns the number of the last record.
pub(crate) async fn replay(
    records: &dyn Records,
    keys: &Keys,
    flow: &Flow,
    state: &mut State,
    mut upto: u64,
) -> Result<u64, RunError> {
    let mut log = pages::records_after(records, keys.log(), upto);
    while let Some(record) = log.try_next().await? {
        upto = record.number;
        state.apply(flow, &parsed::<RunEvent>(keys, &record.data)?);
    }
    Ok(upto)
}
