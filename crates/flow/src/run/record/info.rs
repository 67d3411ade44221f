//! Public views of a run.

use std::collections::BTreeMap;

use contexture_history::Timestamp;
use contexture_session::SessionId;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{NodeError, RunId, RunStatus, Wait};

/// A run of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub struct RunInfo {
    /// Its id: the session's, a dot, and its own name.
    pub run: RunId,
    /// The flow's id.
    pub flow: String,
    /// Names the version of the flow that it was begun with. It stays with that one.
    pub fingerprint: String,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The status of the run.
    pub status: RunStatus,
    /// The input of the run.
    #[schemars(with = "Map<String, Value>")]
    pub input: Value,
    /// The outputs known so far.
    pub outputs: BTreeMap<String, Value>,
    /// The open waits: `POST /v1/runs/{id}/waits/{wait}` answers one. Absent in lists of runs.
    pub waits: Vec<Wait>,
    /// The node that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The error of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
    /// The time of the start.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created: Timestamp,
    /// The time of the last entry in its log.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String", extend("format" = "date-time"))]
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

/// A page of runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RunPage {
    /// The runs, in the order of their sessions and names, without what they wait for.
    pub runs: Vec<RunInfo>,
    /// Runs between them whose record can't be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRun>,
    /// The last run of both lists, if there may be more after it: the start of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<RunId>,
}

/// A run whose record is damaged, or was written by a newer version.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DamagedRun {
    /// The run's id.
    pub run: RunId,
    /// The error.
    pub error: NodeError,
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_millis())
}
