//! Routes that respond with events, whatever their client accepts, for generated clients. Each is another route under a
//! path of its own, and is documented like that one apart from its response.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;

use super::{approvals, results, run_events, runs, turns};
use crate::app::App;

const TURN: [&str; 2] = ["The events of the turn", "TurnEvent"];
const RUN: [&str; 2] = ["The events of the run", "RunEvent"];
const EVENTS: [&str; 2] = ["Events as they happen", "RunEvent"];

/// How streams are documented: the route that each is a form of, its operation, what its events are, and its text.
const DOCS: [([&str; 2], &str, [&str; 2], &str); 6] = [
    (
        ["/v1/sessions/{id}/turns", "post"],
        "stream_turn",
        TURN,
        "Run a turn and stream its events.\n\nThe turn continues when the client disconnects, unless \
        `cancel_on_disconnect` is set. Repeating the\n`Idempotency-Key` replays the events of the first turn.",
    ),
    (
        ["/v1/sessions/{id}/turns/{turn}/retry", "post"],
        "stream_retry",
        TURN,
        "Retry a failed or interrupted turn and stream its events.",
    ),
    (
        ["/v1/sessions/{id}/turns/{turn}/results", "post"],
        "stream_client_tools",
        TURN,
        "Send the results of tools that the client ran, and stream the events of the turn.",
    ),
    (
        ["/v1/approvals/{id}", "post"],
        "stream_approval",
        TURN,
        "Decide about a tool call that waits, and stream the events of the turn.",
    ),
    (
        ["/v1/flows/{id}/runs", "post"],
        "stream_run",
        RUN,
        "Start a run of a flow and stream its events until it ends or waits for an answer.\n\nThe run continues \
        when the client disconnects. Repeating the `Idempotency-Key` streams the first run.",
    ),
    (
        ["/v1/runs/{id}/events", "get"],
        "follow_run",
        EVENTS,
        "Follow the events of a run as they happen, until the run is over.\n\nEach frame has an `id`; pass it as \
        `Last-Event-ID` to continue right after that event, on any instance.",
    ),
];

/// Adds the streams.
pub(super) fn add(router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    let streams = OpenApiRouter::new()
        .route("/v1/sessions/{id}/turns/stream", post(turns::run))
        .route("/v1/sessions/{id}/turns/{turn}/retry/stream", post(turns::retry))
        .route("/v1/sessions/{id}/turns/{turn}/results/stream", post(results::results))
        .route("/v1/approvals/{id}/stream", post(approvals::decide))
        .route("/v1/flows/{id}/runs/stream", post(runs::start))
        .route("/v1/runs/{id}/events/stream", get(run_events::read));
    router.merge(streams.layer(from_fn(accept_events)))
}

async fn accept_events(mut request: Request, next: Next) -> Response {
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    next.run(request).await
}

/// Adds the streams to the paths of the document.
pub(super) fn document(paths: &mut Value) {
    for ([path, method], id, [events, kind], text) in DOCS {
        let mut operation = paths[path][method].clone();
        let (summary, description) = text.split_once("\n\n").map_or((text, None), |(a, b)| (a, Some(b)));
        operation["operationId"] = id.into();
        operation["summary"] = summary.into();
        let response = json!({
            "description": format!("{events}: the `data` of each frame is a `{kind}`."),
            "content": {"text/event-stream": {"schema": {"$ref": format!("#/components/schemas/{kind}Frame")}}},
        });
        let over = json!({"description": "The run is over, and all of its events were received."});
        if let Value::Object(fields) = &mut operation {
            fields.shift_remove("description");
            fields.extend(description.map(|it| ("description".to_owned(), it.into())));
        }
        if let Some(responses) = operation["responses"].as_object_mut() {
            responses.retain(|status, _| status != "201" && status != "406");
            responses.insert("200".to_owned(), response);
            responses.extend((method == "get").then(|| ("204".to_owned(), over)));
        }
        paths[format!("{path}/stream")] = json!({method: operation});
    }
    if let Value::Object(paths) = paths {
        paths.sort_keys();
    }
}
