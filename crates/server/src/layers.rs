//! What lies around the routes, from the outside in: the gate, then the limits of bodies.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;

use crate::{App, body, gate};

/// Puts the layers around the routes that need a caller.
pub(crate) fn around(router: Router<App>, app: &App) -> Router {
    router
        .layer(DefaultBodyLimit::disable()) // Ours has read the body already.
        .layer(from_fn_with_state(app.clone(), body::limit))
        .layer(from_fn_with_state(app.clone(), gate::pass))
        .with_state(app.clone())
}
