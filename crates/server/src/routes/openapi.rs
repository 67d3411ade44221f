//! The description of all routes, made from the code: OpenAPI 3.1.
//!
//! Routes document their parameters and responses next to their code. `http::refusals` has sets of
//! error responses, `http::schemas` derives the schemas of bodies and events from their types. The tests let Schemathesis
//! compare the server with the document, and generate clients from it.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::chat::ChatError;
use super::run_events::RunEventFrame;
use super::streams;
use crate::Problem;
use crate::app::App;
use crate::http::schemas;

/// The parts of the document besides the routes.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Contexture",
        description = "Decides what a model sees, keeps conversations, and explains every token.\n\nErrors are problem \
        documents (RFC 9457) with a stable `code`; those of the tag `chat` have OpenAI's shape. Where the server has API \
        keys, every request needs one.",
    ),
    tags(
        (name = "prompts", description = "The project's prompts: what they would send, and why; one-off runs."),
        (name = "sessions", description = "Conversations that are kept: create, list, read, delete."),
        (name = "turns", description = "Run a turn, follow its events, stop it, try it again, answer its client tools."),
        (name = "approvals", description = "Tool calls that wait for a person."),
        (name = "threads", description = "Isolated threads, and what can be done to any thread by its name."),
        (name = "compaction", description = "Summaries of older turns: make one, look behind it, take it back, search."),
        (name = "passes", description = "What models were sent, to the byte, and why; compared, and sent again."),
        (name = "flows", description = "Graphs of steps, and their runs: start one, follow it, answer it, stop it."),
        (name = "blocks", description = "Prompt blocks of the project and of the tenant."),
        (name = "knowledge", description = "Knowledge bases: their documents, and the search in them."),
        (name = "memory", description = "What agents remember: records, search, approval, forgetting."),
        (name = "blackboards", description = "State that models, applications and flows share: read it, write it, follow it."),
        (name = "chat", description = "OpenAI's Chat Completions, for clients that speak nothing else."),
        (name = "operations", description = "For operators of the server."),
    ),
    components(schemas(Problem, ChatError, RunEventFrame)),
    security((), ("key" = [])),
)]
pub(crate) struct Api;

/// Returns the OpenAPI document of the server's routes, as JSON.
///
/// ```
/// let document: serde_json::Value = serde_json::from_str(&contexture_server::openapi())?;
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/v1/sessions/{id}/turns"]["post"].is_object());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn openapi() -> String {
    text(super::all().into_openapi())
}

fn text(document: Document) -> String {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    if let Some(Value::Object(components)) = document.pointer_mut("/components/schemas") {
        schemas::merge_contracts(components);
    }
    let text = "An API key, as `contexture keys create` prints it. Needed as soon as the store has one.";
    let key = json!({"type": "http", "scheme": "bearer", "description": text});
    document["components"]["securitySchemes"] = json!({"key": key});
    streams::document(&mut document["paths"]);
    allow_no_body(&mut document);
    format!("{document:#}")
}

/// Marks bodies as optional where no field is required: a missing body is an empty one.
fn allow_no_body(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let needs_nothing = |body: &Value| {
        let reference = body["content"]["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
        let schema = &schemas[reference.rsplit('/').next().unwrap_or_default()];
        schema.is_object() && schema["required"].as_array().is_none_or(Vec::is_empty)
    };
    let items = document["paths"].as_object_mut().into_iter().flat_map(|it| it.values_mut());
    let operations = items.filter_map(Value::as_object_mut).flat_map(|it| it.values_mut());
    for body in operations.filter_map(|it| it.get_mut("requestBody")) {
        if needs_nothing(body) {
            body["required"] = false.into();
        }
    }
}

/// Adds the route of the document itself.
pub(crate) fn serve(router: Router<App>, document: Document) -> Router<App> {
    let text: axum::body::Bytes = text(document).into();
    let reply = move || {
        let text = text.clone();
        async move { ([("content-type", "application/json")], text).into_response() }
    };
    router.route("/openapi.json", get(reply))
}
