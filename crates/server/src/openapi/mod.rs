//! The description of all routes, made from the code: OpenAPI 3.1.
//!
//! Routes document their parameters and responses next to their code. Shared parts are here: [`refusals`] has sets of
//! error responses, [`shapes`] describes documents whose types belong to other crates. The tests let Schemathesis
//! compare the server with the document.

pub(crate) mod params;
pub(crate) mod refusals;
pub(crate) mod shapes;

use std::collections::BTreeMap;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi as Document, RefOr, Required};
use utoipa::{Modify, OpenApi};

use crate::{App, Problem, routes};

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
        (name = "chat", description = "OpenAI's Chat Completions, for clients that speak nothing else."),
        (name = "operations", description = "For operators of the server."),
    ),
    components(schemas(Problem, refusals::ChatProblem, shapes::SessionEvent, shapes::RunEvent)),
    modifiers(&Keys),
    security((), ("key" = [])),
)]
pub(crate) struct Api;

/// Documents how a key is sent.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let text = "An API key, as `contexture keys create` prints it. Needed as soon as the store has one.";
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(text)).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// Returns the OpenAPI document of the server's routes, as JSON.
///
/// ```
/// let document: serde_json::Value = serde_json::from_str(&contexture_server::openapi())?;
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/v1/sessions/{id}/turns"]["post"].is_object());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn openapi() -> String {
    text(routes::all().into_openapi())
}

fn text(mut document: Document) -> String {
    allow_no_body(&mut document);
    // Plain data with string keys: writing it as JSON can't fail.
    document.to_pretty_json().unwrap_or_default()
}

/// Marks bodies as optional where no field is required: a missing body is an empty one.
fn allow_no_body(document: &mut Document) {
    let schemas = document.components.as_ref().map(|it| it.schemas.clone()).unwrap_or_default();
    let needs_nothing = |schema: &RefOr<Schema>| needs_nothing(schema, &schemas);
    for item in document.paths.paths.values_mut() {
        let bodies =
            [&mut item.post, &mut item.put].into_iter().flatten().filter_map(|it| it.request_body.as_mut());
        for body in bodies {
            let RefOr::T(body) = body else { continue };
            let schema_of = |it: &RefOr<Content>| match it {
                RefOr::T(content) => content.schema.clone(),
                RefOr::Ref(_) => None,
            };
            if body.content.values().filter_map(schema_of).all(|it| needs_nothing(&it)) {
                body.required = Some(Required::False);
            }
        }
    }
}

/// Whether an empty object is all that a schema asks for.
fn needs_nothing(schema: &RefOr<Schema>, schemas: &BTreeMap<String, RefOr<Schema>>) -> bool {
    match schema {
        RefOr::Ref(to) => {
            let name = to.ref_location.rsplit('/').next().unwrap_or_default();
            schemas.get(name).is_some_and(|it| needs_nothing(it, schemas))
        }
        RefOr::T(Schema::Object(it)) => it.required.is_empty(),
        RefOr::T(Schema::AllOf(all)) => all.items.iter().all(|it| needs_nothing(it, schemas)),
        RefOr::T(_) => false,
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
