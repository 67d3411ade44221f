//! The stored state of a run.
//!
//! It is kept beside the log: written when a driver continues a waiting run, when it lets a run go, and now and then in
//! between. The log may be ahead of it: the state is that after the item `upto`.

pub(super) mod info;
pub(super) mod log;

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_history::{Seq, Timestamp};
use contexture_session::{Lease, LogHead, LogState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::info::RunInfo;
use self::log::Entry;
use super::error::RunError;
use super::state::State;
use crate::{NodeError, RunEvent, RunId, RunStatus, Wait};

/// The stored state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) flow: String,
    pub(crate) fingerprint: String,
    pub(crate) status: RunStatus,
    pub(crate) input: Arc<Value>,
    /// The user that it works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The position in the log that the state is after.
    pub(crate) upto: u64,
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) outputs: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<NodeError>,
    pub(crate) created: Timestamp,
}

/// The part of a run's record that can be read even if the rest can't, such as a record of a newer version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PartialRunRecord {
    pub(crate) fingerprint: String,
    status: Value,
}

impl PartialRunRecord {
    /// Whether it is known that nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        RunStatus::deserialize(&self.status).is_ok_and(RunStatus::is_over)
    }
}

impl RunRecord {
    /// Returns what a store keeps of it.
    pub(crate) fn log_state(&self, updated: Timestamp) -> LogState {
        LogState {
            end: Seq(self.upto),
            turns: 0,
            updated,
            needs_writer: self.status == RunStatus::Running,
            // It is plain data: its maps have names as keys.
            json: serde_json::to_string(self).unwrap_or_default(),
        }
    }
}

/// A run as it is stored: its record, and what the log has since.
#[derive(Debug)]
pub(crate) struct StoredRun {
    pub(crate) run: RunId,
    pub(crate) record: RunRecord,
    pub(crate) updated: Timestamp,
    /// The lease that a driver has or had when it was lost.
    pub(crate) lease: Option<Lease>,
    /// The end of the log, as far as it was read.
    pub(crate) end: Seq,
    /// The events since the record.
    pub(crate) events: Vec<RunEvent>,
    pub(crate) waits: Vec<Wait>,
}

impl StoredRun {
    pub(crate) fn read(head: LogHead) -> Result<Self, RunError> {
        let run = RunId::of_log(&head.info.thread);
        let record: RunRecord = serde_json::from_str(&head.state).map_err(|err| damaged(&run, &err))?;
        let (end, waits) = (Seq(record.upto), record.state.waits());
        Ok(Self {
            run,
            record,
            updated: head.info.updated,
            lease: head.lease,
            end,
            events: Vec::new(),
            waits,
        })
    }

    /// Takes in the next entry of the log.
    pub(crate) fn take(&mut self, seq: Seq, entry: Option<Entry>) {
        self.end = seq;
        let event = match entry {
            Some(Entry::Event(event)) => event,
            Some(Entry::Cancel) => return self.record.state.cancelled = true,
            None => return,
        };
        match &event {
            RunEvent::NodeWait { wait, .. } => self.waits.push(wait.clone()),
            RunEvent::NodeAnswer { wait, .. } => self.waits.retain(|it| it.id != *wait),
            RunEvent::RunEnd { status, outputs, node, error } => {
                self.waits.clear();
                self.record.status = *status;
                self.record.outputs.clone_from(outputs);
                (self.record.node, self.record.error) = (node.clone(), error.clone());
            }
            _ => {}
        }
        self.events.push(event);
    }

    /// Whether a driver has the run.
    pub(crate) fn is_driven(&self) -> bool {
        !self.record.status.is_over() && self.lease.as_ref().is_some_and(|it| it.live)
    }

    /// Whether an earlier driver has left the run in the middle of something.
    pub(crate) fn is_left(&self) -> bool {
        let has_begun = self.record.state.has_begun() || !self.events.is_empty();
        self.lease.is_some() || (self.record.status == RunStatus::Running && has_begun)
    }

    /// Returns the status: a waiting run that has a driver, or all its answers, is running.
    pub(crate) fn status(&self) -> RunStatus {
        match self.record.status {
            RunStatus::Waiting if self.is_driven() || self.waits.is_empty() => RunStatus::Running,
            status => status,
        }
    }

    pub(crate) fn info(self) -> RunInfo {
        let status = self.status();
        let Self { run, record, updated, mut waits, .. } = self;
        waits.sort_by(|one, other| one.id.cmp(&other.id));
        RunInfo {
            session: run.session().clone(),
            run,
            flow: record.flow,
            fingerprint: record.fingerprint,
            status,
            input: Arc::unwrap_or_clone(record.input),
            outputs: record.outputs,
            waits,
            node: record.node,
            error: record.error,
            created: record.created,
            updated,
        }
    }
}

/// Returns the error for what can't be read of a run.
pub(crate) fn damaged(run: &RunId, why: &dyn std::fmt::Display) -> RunError {
    RunError::Damaged { run: run.to_string(), detail: why.to_string() }
}
