//! The middleware around the routes, from the outside in: request log, CORS, panics, the gate, body limits. The
//! liveness probe bypasses the gate.

use contexture_message::ErrorCode;
mod body_limit;
mod request_log;

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, StreamExt};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use self::request_log::{REQUEST_ID, is_stream, log_request};
use crate::Problem;
use crate::app::App;
use crate::http::guarded;

/// The response headers that web pages of other origins may read.
const EXPOSED: [&str; 5] =
    ["x-contexture-session", "x-contexture-thread", "x-contexture-turn", "location", "retry-after"];

/// Wraps routes in the layers: those that need a caller, and those that are open to everyone.
pub(crate) fn around(router: Router<App>, open: Router<App>, app: &App) -> Router {
    router
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::disable()) // Ours has read the body already.
        .layer(from_fn_with_state(app.clone(), body_limit::limit))
        .layer(from_fn_with_state(app.clone(), admit))
        .merge(open.method_not_allowed_fallback(wrong_method))
        .layer(from_fn(catch_panic))
        .layer(cors(&app.config.cors_origins))
        .layer(from_fn_with_state(app.clone(), log_request))
        .with_state(app.clone())
}

/// Passes a request on with its [`Caller`] attached, or responds with an error.
async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match app.gate.admit(request.uri(), request.headers()).await {
        Ok((caller, running)) => {
            request.extensions_mut().insert(caller.clone());
            let mut response = next.run(request).await;
            if let Some(key) = caller.key.clone().filter(|_| is_stream(&response)) {
                response = until_invalid(response, app, key);
            }
            // The request log needs the caller.
            response.extensions_mut().insert(caller);
            // A stream of events runs until its end.
            guarded(response, running)
        }
        Err(problem) => problem.into_response(),
    }
}

/// Ends a stream when the key of its request is no longer valid.
fn until_invalid(response: Response, app: App, key: String) -> Response {
    let invalidated = async move { app.gate.invalidated(&key).await };
    response.map(|frames| Body::from_stream(frames.into_data_stream().take_until(invalidated)))
}

async fn unknown() -> Problem {
    Problem::new(ErrorCode::RouteUnknown, "there is nothing at this path")
        .hint("`GET /openapi.json` lists what there is")
}

async fn wrong_method(method: Method) -> Problem {
    let method: String = method.as_str().chars().take(20).collect();
    Problem::new(ErrorCode::MethodNotAllowed, format!("`{method}` means nothing at this path"))
}

/// Responds with a problem if a route panics. The panic message is only in the log of the process.
async fn catch_panic(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => Problem::new(ErrorCode::Panicked, "the server made a mistake").into_response(),
    }
}

fn cors(origins: &[String]) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(
            EXPOSED.map(HeaderName::from_static).into_iter().chain([REQUEST_ID]).collect::<Vec<_>>(),
        )
        .max_age(std::time::Duration::from_secs(600));
    match origins.iter().any(|it| it == "*") {
        true => layer.allow_origin(AllowOrigin::any()),
        false => {
            let origins =
                origins.iter().filter_map(|it| HeaderValue::from_str(it.trim_end_matches('/')).ok());
            layer.allow_origin(AllowOrigin::list(origins))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::catch_panic;

    #[tokio::test]
    async fn a_route_that_panics_answers_with_a_problem() {
        async fn wrong() -> &'static str {
            panic!("a secret thing")
        }
        let router = Router::new().route("/", get(wrong)).layer(from_fn(catch_panic));
        let response = TowerToHyperService::new(router).call(Request::new(Body::empty())).await;
        let response = response.expect("routers do not fail");
        assert_eq!(response.status(), 500);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("it is there");
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("panicked") && !text.contains("secret"), "{text}");
    }
}
