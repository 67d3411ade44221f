//! Sets of error responses. A route names those that apply to it.

use std::collections::BTreeMap;

use utoipa::ToSchema;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};

use crate::Problem;

pub(crate) type Responses = BTreeMap<String, RefOr<Response>>;

/// Makes sets of responses with a kind of document.
macro_rules! refusals {
    ($body:ty as $media:literal; $($(#[$doc:meta])* $name:ident { $($status:literal: $text:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> $crate::http::refusals::Responses {
                $crate::http::refusals::responses::<$body>($media, &[$(($status, $text)),+])
            }
        }
    )+};
}
pub(crate) use refusals;

pub(crate) fn responses<T: ToSchema>(media: &str, texts: &[(&str, &str)]) -> Responses {
    let response = |text: &str| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(T::name()))).build();
        ResponseBuilder::new().description(text).content(media, content).build()
    };
    texts.iter().map(|(status, text)| ((*status).to_owned(), response(text).into())).collect()
}

refusals! {
    Problem as "application/problem+json";
    /// Responses that any route may give.
    Refused {
        "400": "The request can't be read: an id, a query, a header or the body is wrong. `at` says where.",
        "401": "A valid API key is needed.",
        "408": "The request took too long.",
        "413": "The body is too large.",
        "429": "The key asks too often, or too much at the same time. `retry_after` says when to try again.",
        "500": "The server failed; its log says more.",
        "503": "The store does not answer, or the server stops.",
    }
    /// Responses of routes with an id.
    NotThere {
        "404": "It does not exist, or belongs to another tenant.",
    }
    /// Responses of routes with a body.
    Unusable {
        "415": "The body is not JSON.",
        "422": "The request is valid but can't be done: `code` says why.",
    }
    /// Responses of routes that report faults of the project.
    Broken {
        "422": "Its file has a fault, and there was no good version of it.",
    }
    /// Responses of routes that change something.
    Conflict {
        "409": "It conflicts with the current state: `code` says why.",
    }
    /// Responses of routes with more than one content type.
    Form {
        "406": "The response has none of the forms that `Accept` names.",
    }
    /// Responses of routes with data that expires.
    Expired {
        "410": "It has expired.",
    }
    /// Responses of routes that call a model.
    Failed {
        "502": "The model, or a source of context, failed: `code` says how.",
        "504": "The turn took too long.",
    }
    /// Responses of routes for administrators.
    NotAdmin {
        "403": "This needs an administrator's key.",
    }
    /// Responses of routes that decide about a call.
    Forged {
        "403": "The token does not belong to the request for approval.",
    }
}
