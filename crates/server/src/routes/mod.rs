//! The routes, one module for each noun.

mod approvals;
mod artifacts;
mod blackboards;
mod blocks;
pub(crate) mod chat;
mod compaction;
mod events;
mod flows;
mod follow;
mod knowledge;
mod memories;
pub(crate) mod openapi;
pub(crate) mod ops;
mod passes;
mod prompts;
mod results;
mod run_events;
mod runs;
mod sessions;
mod streams;
mod threads;
mod turn_shapes;
mod turns;

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::openapi::Api;
use crate::app::App;

/// Returns all routes that need a caller.
pub(crate) fn all() -> OpenApiRouter<App> {
    let router = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(prompts::list))
        .routes(routes!(prompts::show))
        .routes(routes!(prompts::resolve))
        .routes(routes!(prompts::inspect))
        .routes(routes!(prompts::run))
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, sessions::delete))
        .routes(routes!(sessions::items))
        .routes(routes!(artifacts::add, artifacts::list))
        .routes(routes!(artifacts::show, artifacts::delete))
        .routes(routes!(turns::run))
        .routes(routes!(turns::cancel))
        .routes(routes!(turns::retry))
        .routes(routes!(results::results))
        .routes(routes!(approvals::decide))
        .routes(routes!(approvals::list))
        .routes(routes!(threads::create, threads::list))
        .routes(routes!(threads::show, threads::delete))
        .routes(routes!(threads::append))
        .routes(routes!(threads::tell))
        .routes(routes!(threads::instruct))
        .routes(routes!(threads::choose))
        .routes(routes!(threads::reset))
        .routes(routes!(threads::refresh))
        .routes(routes!(compaction::compact))
        .routes(routes!(compaction::archives))
        .routes(routes!(compaction::archive))
        .routes(routes!(compaction::undo))
        .routes(routes!(compaction::search))
        .routes(routes!(passes::list))
        .routes(routes!(passes::show))
        .routes(routes!(passes::diff))
        .routes(routes!(passes::body))
        .routes(routes!(passes::replay))
        .routes(routes!(events::follow))
        .routes(routes!(flows::list))
        .routes(routes!(flows::show))
        .routes(routes!(flows::draw))
        .routes(routes!(runs::start))
        .routes(routes!(runs::list))
        .routes(routes!(runs::show, runs::cancel))
        .routes(routes!(run_events::read))
        .routes(routes!(runs::answer))
        .routes(routes!(runs::resume))
        .routes(routes!(blocks::list))
        .routes(routes!(blocks::show, blocks::put, blocks::delete))
        .routes(routes!(blocks::preview))
        .routes(routes!(knowledge::list))
        .routes(routes!(knowledge::show, knowledge::put, knowledge::delete))
        .routes(routes!(knowledge::documents, knowledge::add))
        .routes(routes!(knowledge::document_details, knowledge::delete_document))
        .routes(routes!(knowledge::search))
        .routes(routes!(memories::list, memories::add))
        .routes(routes!(memories::show, memories::edit))
        .routes(routes!(memories::namespaces))
        .routes(routes!(memories::search))
        .routes(routes!(memories::forget))
        .routes(routes!(memories::audit))
        .routes(routes!(memories::export, memories::import))
        .routes(routes!(blackboards::list))
        .routes(routes!(blackboards::show, blackboards::put, blackboards::patch, blackboards::clear))
        .routes(routes!(blackboards::records))
        .routes(routes!(blackboards::follow))
        .routes(routes!(chat::complete))
        .routes(routes!(chat::list))
        .routes(routes!(chat::show))
        .route("/v1/models/{id}/{*rest}", axum::routing::get(chat::show_named))
        .routes(routes!(ops::metrics))
        .routes(routes!(ops::audited));
    streams::add(router)
}
