//! Flows: list, show, draw.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use contexture_flow::{Flow, graph};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::prompts::FaultView;
use crate::app::Access;
use crate::http::input::{PathParam, QueryParams};
use crate::http::params::FlowPath;
use crate::http::refusals::{Broken, NotThere, Refused};
use crate::http::schemas::returns;
use crate::loaded_project::LoadedProject;
use crate::{JsonResult, Problem};

returns!(FlowList, FlowView);

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
    flows: Vec<FlowSummary>,
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
    fn of(loaded: &LoadedProject, flow: &Flow) -> Self {
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

/// List the flows.
#[utoipa::path(
    get, path = "/v1/flows", operation_id = "list_flows", tag = "flows",
    responses((status = 200, description = "The flows.", body = FlowList), Refused)
)]
pub(crate) async fn list(access: Access) -> Json<FlowList> {
    let loaded = access.loaded();
    let flows = loaded.project.flows().map(|(id, flow)| {
        let flow = flow.ok();
        FlowSummary {
            id: id.to_owned(),
            description: flow.map(|it| it.definition().description.clone()).unwrap_or_default(),
            fingerprint: flow.map(|it| it.fingerprint().to_owned()),
            faults: faults(&loaded, id),
        }
    });
    Json(FlowList { flows: flows.collect() })
}

/// Show a flow: what a run is given, its nodes and edges, and what a run comes to.
#[utoipa::path(
    get, path = "/v1/flows/{id}", operation_id = "show_flow", tag = "flows", params(FlowPath),
    responses((status = 200, description = "The flow.", body = FlowView), Refused, NotThere, Broken)
)]
pub(crate) async fn show(access: Access, PathParam(id): PathParam<String>) -> JsonResult<FlowView> {
    let loaded = access.loaded();
    let flow = loaded.flow(&id)?;
    Ok(Json(FlowView::of(&loaded, &flow)))
}

/// How a flow is drawn.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    /// `mermaid` (the default) or `svg`.
    #[param(inline)]
    format: Option<GraphFormat>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GraphFormat {
    Mermaid,
    Svg,
}

/// Draw a flow.
#[utoipa::path(
    get, path = "/v1/flows/{id}/graph", operation_id = "draw_flow", tag = "flows", params(FlowPath, GraphQuery),
    responses(
        (status = 200, description = "The picture.", content((String = "text/plain"), (String = "image/svg+xml"))),
        Refused, NotThere, Broken,
    )
)]
pub(crate) async fn draw(
    access: Access,
    PathParam(id): PathParam<String>,
    QueryParams(query): QueryParams<GraphQuery>,
) -> Result<impl IntoResponse, Problem> {
    let flow = access.loaded().flow(&id)?;
    let (kind, text) = match query.format.unwrap_or(GraphFormat::Mermaid) {
        GraphFormat::Mermaid => ("text/plain; charset=utf-8", graph::mermaid(flow.definition())),
        GraphFormat::Svg => ("image/svg+xml", graph::svg(flow.definition())),
    };
    // A picture has nothing to run or to load, whatever a flow's names say.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    Ok(([(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)], text))
}
