//! The log of a run is a list of these events; followers receive them.
//!
//! It refers to the turns that nodes work in and does not repeat what is said there.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_agent::Event;
use contexture_session::{SessionId, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keys::firing_key;
use crate::port::fits;
use crate::{NodeError, PortValues, Question, RunId, TurnRef};

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum RunEvent {
    /// The run is on record.
    #[serde(rename = "run.start")]
    RunStart {
        /// The run's id.
        run: RunId,
        /// The flow's id.
        flow: String,
        /// Names the version of the flow.
        fingerprint: String,
        /// The session that it belongs to.
        session: SessionId,
        /// The input of the run.
        input: Arc<Value>,
    },
    /// Another driver took over after the previous one was lost.
    #[serde(rename = "run.resume")]
    RunResume {},
    /// A node starts.
    #[serde(rename = "node.start")]
    NodeStart {
        /// The node's id.
        node: Arc<str>,
        /// How often it has run in this run, this time included.
        firing: u32,
        /// The inputs, by port.
        inputs: Arc<PortValues>,
        /// The thread that it works on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadId>,
    },
    /// A node that ran when its driver was lost is run again.
    #[serde(rename = "node.repeat")]
    NodeRepeat {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
    },
    /// A node asks for lazy inputs.
    #[serde(rename = "node.pull")]
    NodePull {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
        /// The pulled inputs.
        ports: Vec<String>,
    },
    /// A node waits for an answer.
    #[serde(rename = "node.wait")]
    NodeWait {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
        /// The question.
        wait: Wait,
    },
    /// A wait was answered.
    #[serde(rename = "node.answer")]
    NodeAnswer {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
        /// The id of the wait.
        wait: String,
        /// The value of the answer.
        value: Value,
    },
    /// A node continues with the answer to its wait.
    #[serde(rename = "node.resume")]
    NodeResume {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
    },
    /// A node failed and is tried again.
    #[serde(rename = "node.retry")]
    NodeRetry {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
        /// The number of the next attempt.
        attempt: u32,
        /// The error of the last attempt.
        error: NodeError,
    },
    /// A node works in a turn of a thread, whose log says what happens in it.
    #[serde(rename = "node.turn")]
    NodeTurn {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
        /// The turn.
        #[serde(flatten)]
        turn: TurnRef,
    },
    /// Something happens in a node's model call. It is told at once and is not in the log.
    #[serde(rename = "node.event")]
    NodeEvent {
        /// The node's id.
        node: Arc<str>,
        /// The turn that it happens in, if the node works on a thread of the session.
        #[serde(flatten)]
        turn: Option<TurnRef>,
        /// The event.
        event: Event,
    },
    /// A node is done, or failed for good.
    #[serde(rename = "node.end")]
    NodeEnd {
        /// The node's id.
        node: Arc<str>,
        /// The number of the firing.
        firing: u32,
        /// The outputs, by port.
        outputs: Arc<PortValues>,
        /// The error of the last attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<NodeError>,
    },
    /// Everything in the run waits for an answer.
    #[serde(rename = "run.wait")]
    RunWait {
        /// The ids of what it waits for.
        waits: Vec<String>,
    },
    /// The run ended; nothing follows.
    #[serde(rename = "run.end")]
    RunEnd {
        /// The final status.
        status: RunStatus,
        /// The outputs of the run.
        outputs: BTreeMap<String, Value>,
        /// The node that failed, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// The error of the last attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<NodeError>,
    },
}

impl RunEvent {
    /// Returns the thread and the idempotency key of the turn that a node of the run has if it starts here and runs one.
    pub fn turn_to_come(&self, run: &RunId) -> Option<(&ThreadId, String)> {
        match self {
            RunEvent::NodeStart { node, firing, thread: Some(thread), .. } => {
                Some((thread, firing_key(run, node, *firing)))
            }
            _ => None,
        }
    }

    /// Returns the event's name, such as `node.start`.
    pub fn name(&self) -> &'static str {
        match self {
            RunEvent::RunStart { .. } => "run.start",
            RunEvent::RunResume {} => "run.resume",
            RunEvent::NodeStart { .. } => "node.start",
            RunEvent::NodeRepeat { .. } => "node.repeat",
            RunEvent::NodePull { .. } => "node.pull",
            RunEvent::NodeWait { .. } => "node.wait",
            RunEvent::NodeAnswer { .. } => "node.answer",
            RunEvent::NodeResume { .. } => "node.resume",
            RunEvent::NodeRetry { .. } => "node.retry",
            RunEvent::NodeTurn { .. } => "node.turn",
            RunEvent::NodeEvent { .. } => "node.event",
            RunEvent::NodeEnd { .. } => "node.end",
            RunEvent::RunWait { .. } => "run.wait",
            RunEvent::RunEnd { .. } => "run.end",
        }
    }
}

/// How long the id of a wait may be: a store need not take longer ones as keys.
const MAX_ID_BYTES: usize = 576;

/// An open wait of a run. An answer names its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// Names it within the run.
    pub id: String,
    /// The node that waits.
    pub node: String,
    /// The question.
    #[serde(flatten)]
    pub asked: Question,
}

impl Wait {
    /// Returns the id of a node's wait: the node, the firing, and the number of the wait.
    pub(crate) fn id_of(node: &str, firing: u32, n_waits: u32) -> String {
        // Names contain no colon, so ids are unique. The id is part of URLs, so it must not contain a slash.
        let node = node.replace('/', ":");
        match n_waits {
            0 => format!("{node}.{firing}"),
            n => format!("{node}.{firing}.{}", u64::from(n) + 1),
        }
    }

    /// Returns the node and the firing that an id names, if it can be one.
    pub(crate) fn place_of(id: &str) -> Option<(String, u32)> {
        let fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | ':' | '.');
        if id.len() > MAX_ID_BYTES || !id.chars().all(fine) {
            return None;
        }
        let (node, rest) = id.split_once('.')?;
        let firing = rest.split('.').next()?.parse().ok()?;
        Some((node.replace(':', "/"), firing))
    }

    /// Returns why a value is not a valid answer.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        fits(&self.asked.schema, value)
    }
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It is running, or can be continued by a driver.
    Running,
    /// Everything in it waits for an answer.
    Waiting,
    /// It ended normally.
    Completed,
    /// A node failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunStatus {
    /// Whether the run has ended.
    pub fn is_over(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }

    /// Returns its name, such as `waiting`.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
        }
    }
}
