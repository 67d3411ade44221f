//! Flows: list, show, draw.

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use contexture_flow::graph;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::flow_shapes::{FlowList, FlowSummary, FlowView};
use crate::Problem;
use crate::app::Access;
use crate::http::input::{PathParam, QueryParams};
use crate::http::params::FlowPath;
use crate::http::refusals::{Broken, NotThere, Refused};

/// List the flows.
#[utoipa::path(
    get, path = "/v1/flows", operation_id = "list_flows", tag = "flows",
    responses((status = 200, description = "The flows.", body = FlowList), Refused)
)]
pub(crate) async fn list(access: Access) -> Json<FlowList> {
    Json(FlowList { flows: FlowSummary::all(&access.loaded()) })
}

/// Show a flow: what a run is given, its nodes and edges, and what a run comes to.
#[utoipa::path(
    get, path = "/v1/flows/{id}", operation_id = "show_flow", tag = "flows", params(FlowPath),
    responses((status = 200, description = "The flow.", body = FlowView), Refused, NotThere, Broken)
)]
pub(crate) async fn show(
    access: Access,
    PathParam(id): PathParam<String>,
) -> Result<Json<FlowView>, Problem> {
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
    #[param(nullable = false, inline)]
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
