//! Public views of a run.

use std::collections::BTreeMap;

use contexture_history::Timestamp;
use contexture_session::SessionId;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{NodeError, RunError, RunId, RunStatus, Wait};

/// Public views of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunInfo {
    /// The run's id.
    pub run: RunId,
    /// The flow's id.
    pub flow: String,
    /// Names the version of the flow.
    pub fingerprint: String,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The status of the run.
    pub status: RunStatus,
    /// The input of the run.
    pub input: Value,
    /// The outputs known so far.
    pub outputs: BTreeMap<String, Value>,
    /// The open waits.
    pub waits: Vec<Wait>,
    /// The node that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The error of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
    /// The time of the start.
    #[serde(serialize_with = "as_text")]
    pub created: Timestamp,
    /// The time of the last entry in its log.
    #[serde(serialize_with = "as_text")]
    pub updated: Timestamp,
}

/// A query for runs, which are listed by session and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunList {
    /// Of which session; of all if none is named.
    pub session: Option<SessionId>,
    /// Only runs of this flow.
    pub flow: Option<String>,
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// Only those after this one.
    pub after: Option<RunId>,
    /// How many at most.
    pub max: usize,
}

/// Some of the runs, in the order of their sessions and names.
#[derive(Debug, Default)]
pub struct RunPage {
    /// The runs whose records can be read.
    pub runs: Vec<RunInfo>,
    /// The runs whose records can't be read.
    pub damaged: Vec<DamagedRun>,
    /// The last run of both lists, if there may be more after it.
    pub next: Option<RunId>,
}

/// A run whose document can't be read: it is damaged, or was written by a newer version.
#[derive(Debug)]
pub struct DamagedRun {
    /// The run's id.
    pub run: RunId,
    /// The error.
    pub error: RunError,
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_millis())
}
