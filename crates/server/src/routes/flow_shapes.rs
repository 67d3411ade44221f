//! Flows and their runs, as JSON.

use std::collections::BTreeMap;

use contexture_flow::{Flow, RunEvent, RunInfo, RunPage, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::prompts::FaultView;
use crate::http::schemas::{Frame, returns};
use crate::loaded_project::LoadedProject;

returns!(FlowList, FlowView, RunEventFrame = Frame<RunEvent>, RunStatusBody = RunStatus);
returns!(RunBody = RunInfo, RunPageBody = RunPage);

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
