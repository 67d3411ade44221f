//! Flows and their runs, as JSON.

use std::collections::BTreeMap;

use contexture_flow::{DamagedRun, Flow, NodeError, RunEvent, RunInfo, RunStatus, Wait};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::prompts::FaultView;
use crate::http::schemas::{Frame, returns};
use crate::loaded_project::LoadedProject;

returns!(FlowList, FlowView, RunView, RunPage, RunEventFrame = Frame<RunEvent>, RunStatusBody = RunStatus);

/// A flow, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FlowSummary {
    /// Its id.
    id: String,
    /// A description for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// Names the version of it; nothing where no version could be used yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    /// The faults of its file; the last good version is used, if there was one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<FaultView>,
}

impl FlowSummary {
    pub(super) fn all(loaded: &LoadedProject) -> Vec<Self> {
        let flows = loaded.project.flows().map(|(id, flow)| {
            let flow = flow.ok();
            Self {
                id: id.to_owned(),
                description: flow.map(|it| it.definition().description.clone()).unwrap_or_default(),
                fingerprint: flow.map(|it| it.fingerprint().to_owned()),
                faults: faults(loaded, id),
            }
        });
        flows.collect()
    }
}

/// Returns the faults of a flow's current file.
fn faults(loaded: &LoadedProject, id: &str) -> Vec<FaultView> {
    let file = loaded.project.flow_file(id);
    let own = loaded.faults.iter().filter(|it| file.is_some() && it.file.as_deref() == file);
    let own: Vec<FaultView> = own.map(FaultView::from).collect();
    match loaded.project.flow(id) {
        // Before the first reload the faults have not been collected.
        Err(err) if own.is_empty() => err.faults.iter().map(FaultView::from).collect(),
        _ => own,
    }
}

/// All flows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FlowList {
    /// The flows, in the order of their files.
    pub(super) flows: Vec<FlowSummary>,
}

/// A flow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Flow")]
pub(crate) struct FlowView {
    /// Its id.
    id: String,
    /// A description for people.
    description: String,
    /// The inputs of a run: the JSON Schema of each.
    #[schemars(with = "BTreeMap<String, Map<String, Value>>")]
    inputs: BTreeMap<String, Value>,
    /// The nodes as defined, by name.
    #[schemars(with = "BTreeMap<String, Map<String, Value>>")]
    nodes: Value,
    /// The edges as defined: `node.port -> node.port`.
    edges: Vec<String>,
    /// The outputs of a run: the port of each.
    outputs: BTreeMap<String, String>,
    /// Names the version of the flow: equal flows have equal ones.
    fingerprint: String,
    /// The faults of its current file; then this is the last good version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<FaultView>,
}

impl FlowView {
    pub(super) fn of(loaded: &LoadedProject, flow: &Flow) -> Self {
        let definition = flow.definition();
        let outputs = definition.outputs.iter();
        Self {
            id: flow.id().to_owned(),
            description: definition.description.clone(),
            inputs: flow.inputs().iter().map(|(name, of)| (name.clone(), of.to_schema())).collect(),
            nodes: definition.to_json()["nodes"].take(),
            edges: definition.edges.clone(),
            outputs: outputs.map(|(name, port)| (name.clone(), port.clone())).collect(),
            fingerprint: flow.fingerprint().to_owned(),
            faults: faults(loaded, flow.id()),
        }
    }
}

/// A run of a flow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct RunView {
    /// Its id: the session's, a dot, and its own name.
    run: String,
    /// The flow's id.
    flow: String,
    /// Names the version of the flow that it was begun with. It stays with that one.
    fingerprint: String,
    /// The session that it belongs to.
    session: String,
    /// The status of the run.
    status: RunStatus,
    /// The input of the run.
    #[schemars(with = "Map<String, Value>")]
    input: Value,
    /// Its outputs; empty before its end.
    outputs: BTreeMap<String, Value>,
    /// The open waits: `POST /v1/runs/{id}/waits/{wait}` answers one. Absent in lists of runs.
    waits: Vec<Wait>,
    /// The node that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The error of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<NodeError>,
    /// The time of the start.
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// When a driver last took or released it.
    #[schemars(extend("format" = "date-time"))]
    updated: String,
}

impl From<RunInfo> for RunView {
    fn from(info: RunInfo) -> Self {
        Self {
            run: info.run.to_string(),
            flow: info.flow,
            fingerprint: info.fingerprint,
            session: info.session.to_string(),
            status: info.status,
            input: info.input,
            outputs: info.outputs,
            waits: info.waits,
            node: info.node,
            error: info.error,
            created: info.created.to_millis(),
            updated: info.updated.to_millis(),
        }
    }
}

/// A run whose record is damaged, or was written by a newer version.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DamagedRun")]
pub(crate) struct DamagedRunView {
    /// Its id.
    run: String,
    /// The error.
    error: NodeError,
}

impl From<DamagedRun> for DamagedRunView {
    fn from(damaged: DamagedRun) -> Self {
        let DamagedRun { run, error } = damaged;
        let error = NodeError::new(error.code(), error.to_string());
        Self { run: run.to_string(), error }
    }
}

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunPage {
    /// The runs, in the order of their sessions and names, without what they wait for.
    pub(super) runs: Vec<RunView>,
    /// Runs between them whose record can't be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) damaged: Vec<DamagedRunView>,
    /// The start of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}
