//! The description of all routes, made from the code.

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use crate::{App, Problem};

/// What the document says besides the routes.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Contexture",
        description = "Decides what a model sees, keeps conversations, and explains every token."
    ),
    components(schemas(Problem))
)]
pub(crate) struct Api;

/// Adds the route of the document itself.
pub(crate) fn serve(router: Router<App>, document: Document) -> Router<App> {
    let text: axum::body::Bytes = document.to_json().unwrap_or_default().into();
    let reply = move || {
        let text = text.clone();
        async move { ([("content-type", "application/json")], text).into_response() }
    };
    router.route("/openapi.json", get(reply))
}
