//! The routes, one module for each noun.

mod events;
mod prompts;
mod sessions;
mod turns;

pub(crate) use prompts::unkept_sessions;
pub(crate) use turns::idempotency_key;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::openapi::Api;

/// Returns all routes that need a caller.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(prompts::list))
        .routes(routes!(prompts::show))
        .routes(routes!(prompts::resolve))
        .routes(routes!(prompts::inspect))
        .routes(routes!(prompts::run))
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, sessions::delete))
        .routes(routes!(sessions::items))
        .routes(routes!(turns::run))
        .routes(routes!(turns::cancel))
        .routes(routes!(turns::retry))
        .routes(routes!(events::follow))
        .routes(routes!(crate::chat::complete))
        .routes(routes!(crate::chat::list))
        .routes(routes!(crate::chat::show))
        .route("/v1/models/{id}/{*rest}", axum::routing::get(crate::chat::show_named))
}
