//! What happens in runs of flows.
#![expect(dead_code, reason = "they describe, and are never made")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

/// A frame of a stream of a run's events.
#[derive(ToSchema)]
pub(crate) struct RunFrame {
    /// The number of the event, for `Last-Event-ID`.
    #[schema(pattern = "^[0-9]+$")]
    id: String,
    /// The kind of the event.
    event: String,
    /// A `RunEvent`, as JSON on one line.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// The status of a run.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// It is running.
    Running,
    /// Everything in it waits for an answer.
    Waiting,
    /// It completed.
    Completed,
    /// A node failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// What kind of answer is waited for.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskedKind {
    /// Free input.
    Input,
    /// Whether a tool may be called.
    Approval,
}

/// Something that happened in a run; its `type` is also the frame's `event`. Clients skip types that they do not know.
#[derive(ToSchema)]
#[serde(tag = "type")]
#[schema(example = json!({"type": "run.wait", "waits": ["ask.1"]}))]
pub(crate) enum RunEvent {
    #[serde(rename = "run.start")]
    RunStart(RunStart),
    #[serde(rename = "run.resume")]
    RunResume(RunResume),
    #[serde(rename = "node.start")]
    NodeStart(NodeStart),
    #[serde(rename = "node.repeat")]
    NodeRepeat(NodeRepeat),
    #[serde(rename = "node.pull")]
    NodePull(NodePull),
    #[serde(rename = "node.wait")]
    NodeWait(NodeWait),
    #[serde(rename = "node.answer")]
    NodeAnswer(NodeAnswer),
    #[serde(rename = "node.retry")]
    NodeRetry(NodeRetry),
    #[serde(rename = "node.event")]
    NodeEvent(NodeEvent),
    #[serde(rename = "node.end")]
    NodeEnd(NodeEnd),
    #[serde(rename = "run.wait")]
    RunWait(RunWait),
    #[serde(rename = "run.end")]
    RunEnd(RunEnd),
}

/// The run is on record.
#[derive(ToSchema)]
pub(crate) struct RunStart {
    /// The run.
    run: String,
    /// Its flow.
    flow: String,
    /// Names the version of the flow.
    fingerprint: String,
    /// The session that it belongs to.
    session: String,
    /// What it was given.
    #[schema(value_type = Object)]
    input: Value,
}

/// Another driver took over the run after its driver was lost or had released it.
#[derive(ToSchema)]
pub(crate) struct RunResume {}

/// A node begins.
#[derive(ToSchema)]
pub(crate) struct NodeStart {
    /// The node.
    node: String,
    /// How often it has run in this run, this time included.
    firing: u32,
    /// What came in, by port.
    inputs: BTreeMap<String, Value>,
    /// The thread that it works on.
    thread: Option<String>,
}

/// A node that ran when its driver was lost is run again.
#[derive(ToSchema)]
pub(crate) struct NodeRepeat {
    node: String,
    firing: u32,
}

/// A node asks for lazy inputs.
#[derive(ToSchema)]
pub(crate) struct NodePull {
    node: String,
    firing: u32,
    /// The inputs.
    ports: Vec<String>,
}

/// A node waits for an answer.
#[derive(ToSchema)]
pub(crate) struct NodeWait {
    node: String,
    firing: u32,
    /// What it waits for.
    #[schema(value_type = crate::routes::WaitView)]
    wait: Value,
}

/// A wait was answered.
#[derive(ToSchema)]
pub(crate) struct NodeAnswer {
    node: String,
    firing: u32,
    /// The wait's id.
    wait: String,
    /// What was answered.
    value: Value,
}

/// A node failed and is tried again.
#[derive(ToSchema)]
pub(crate) struct NodeRetry {
    node: String,
    firing: u32,
    /// Which attempt comes now.
    attempt: u32,
    /// What went wrong.
    error: NodeError,
}

/// Something happened in a node's model call.
#[derive(ToSchema)]
pub(crate) struct NodeEvent {
    node: String,
    /// The thread that it happens in, if the node works on one of the session.
    thread: Option<String>,
    /// The turn of that thread.
    turn: Option<String>,
    /// What: as a `SessionEvent`, without its place.
    #[schema(value_type = Object)]
    event: Value,
}

/// A node is done, or failed for good.
#[derive(ToSchema)]
pub(crate) struct NodeEnd {
    node: String,
    firing: u32,
    /// What it gives, by port.
    outputs: BTreeMap<String, Value>,
    /// What went wrong.
    error: Option<NodeError>,
}

/// Everything in the run waits for an answer.
#[derive(ToSchema)]
pub(crate) struct RunWait {
    /// The ids of what it waits for.
    waits: Vec<String>,
}

/// The run ended; nothing follows.
#[derive(ToSchema)]
pub(crate) struct RunEnd {
    /// The final status.
    status: RunStatus,
    /// The outputs of the run.
    outputs: BTreeMap<String, Value>,
    /// The node that failed, if one did.
    node: Option<String>,
    /// What went wrong.
    error: Option<NodeError>,
}

/// Why a node did not do its work.
#[derive(ToSchema)]
pub(crate) struct NodeError {
    /// A stable code.
    code: String,
    /// What went wrong.
    message: String,
}
