//! Flows and their runs, as JSON.

use std::collections::BTreeMap;

use contexture_flow::{DamagedRun, Flow, QuestionKind, RunInfo, RunStatus, Wait};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::prompts::FaultView;
use crate::loaded_project::LoadedProject;
use crate::openapi::shapes;

/// A flow, in short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FlowSummary {
    /// Its id.
    id: String,
    /// What it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    description: String,
    /// Names the version of it; nothing where no version could be used yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    /// What is wrong with its file; the last good version is used, if there was one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
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

/// Returns what is wrong with a flow's file as it is now.
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
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FlowList {
    /// The flows, in the order of their files.
    pub(super) flows: Vec<FlowSummary>,
}

/// A flow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FlowView {
    /// Its id.
    id: String,
    /// What it is for.
    description: String,
    /// What a run is given: each input's JSON Schema.
    #[schema(value_type = BTreeMap<String, Object>)]
    inputs: BTreeMap<String, Value>,
    /// The nodes, as they are written down, by name.
    #[schema(value_type = BTreeMap<String, Object>)]
    nodes: Value,
    /// The edges, as they are written down: `node.port -> node.port`.
    edges: Vec<String>,
    /// What a run comes to: each output's port.
    outputs: BTreeMap<String, String>,
    /// Names the version of the flow: equal flows have equal ones.
    fingerprint: String,
    /// What is wrong with its file as it is now; this is the last good version then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
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
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunView {
    /// Its id: the session's, a dot, and its own name.
    run: String,
    /// Its flow.
    flow: String,
    /// Names the version of the flow that it was begun with. It stays with that one.
    fingerprint: String,
    /// The session that it belongs to.
    session: String,
    /// The status of the run.
    #[schema(value_type = shapes::RunStatus)]
    status: RunStatus,
    /// What it was given.
    #[schema(value_type = Object)]
    input: Value,
    /// Its outputs; empty before its end.
    outputs: BTreeMap<String, Value>,
    /// What it waits for: `POST /v1/runs/{id}/waits/{wait}` answers. A list of runs does not say.
    waits: Vec<WaitView>,
    /// The node that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<NodeErrorView>,
    /// When it was begun.
    #[schema(format = DateTime)]
    created: String,
    /// When a driver last took or released it.
    #[schema(format = DateTime)]
    updated: String,
}

/// What a run waits for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitView {
    /// Names it within the run.
    id: String,
    /// The node that waits.
    node: String,
    /// What kind of answer it is.
    #[schema(value_type = shapes::AskedKind)]
    kind: QuestionKind,
    /// What is asked, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    message: String,
    /// The JSON Schema that an answer fits.
    #[schema(value_type = Object)]
    schema: Value,
    /// What it is about, such as the tool call that waits for approval.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    about: Value,
}

/// Why a node did not do its work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeErrorView {
    /// A stable code.
    code: String,
    /// What went wrong.
    message: String,
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
            waits: info.waits.into_iter().map(WaitView::from).collect(),
            node: info.node,
            error: info.error.map(|it| NodeErrorView { code: it.code, message: it.message }),
            created: info.created.to_millis(),
            updated: info.updated.to_millis(),
        }
    }
}

impl From<Wait> for WaitView {
    fn from(wait: Wait) -> Self {
        let Wait { id, node, asked } = wait;
        Self { id, node, kind: asked.kind, message: asked.message, schema: asked.schema, about: asked.about }
    }
}

/// A run whose record is damaged, or was written by a newer version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DamagedRunView {
    /// Its id.
    run: String,
    /// What is wrong with it.
    error: NodeErrorView,
}

impl From<DamagedRun> for DamagedRunView {
    fn from(damaged: DamagedRun) -> Self {
        let DamagedRun { run, error } = damaged;
        let error = NodeErrorView { code: error.code().to_owned(), message: error.to_string() };
        Self { run: run.to_string(), error }
    }
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunPage {
    /// The runs, in the order of their sessions and names, without what they wait for.
    pub(super) runs: Vec<RunView>,
    /// Runs between them whose record can't be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) damaged: Vec<DamagedRunView>,
    /// Where the next page begins, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
}
