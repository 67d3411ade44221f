//! What can be said of a run from outside.

use std::collections::BTreeMap;

use contexture_history::Timestamp;
use contexture_session::SessionId;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::error::RunError;
use super::event::{RunStatus, Wait};
use super::id::RunId;
use crate::node::NodeError;

/// What can be said of a run from outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunInfo {
    /// The run.
    pub run: RunId,
    /// Its flow.
    pub flow: String,
    /// Names the version of the flow.
    pub fingerprint: String,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The status of the run.
    pub status: RunStatus,
    /// What it was given.
    pub input: Value,
    /// The outputs known so far.
    pub outputs: BTreeMap<String, Value>,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// The node that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
    /// When it was begun.
    #[serde(serialize_with = "as_text")]
    pub created: Timestamp,
    /// When a driver last took it up or let it go.
    #[serde(serialize_with = "as_text")]
    pub updated: Timestamp,
}

/// Which runs are listed, in the order of their sessions and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunList {
    /// Of which session; of all if none is named.
    pub session: Option<SessionId>,
    /// Of which flow.
    pub flow: Option<String>,
    /// With which status.
    pub status: Option<RunStatus>,
    /// Only those after this one.
    pub after: Option<RunId>,
    /// How many at most.
    pub max: usize,
}

/// Some of the runs, in the order of their sessions and names.
#[derive(Debug, Default)]
pub struct RunPage {
    /// Those that can be read.
    pub runs: Vec<RunInfo>,
    /// Those that can't be read.
    pub damaged: Vec<DamagedRun>,
    /// The last one of both, if there may be more behind it.
    pub next: Option<RunId>,
}

/// A run whose document can't be read: it is damaged, or was written by a newer version.
#[derive(Debug)]
pub struct DamagedRun {
    /// The run.
    pub run: RunId,
    /// What is wrong with it.
    pub error: RunError,
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_millis())
}
