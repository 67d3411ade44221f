//! The variable parts of paths, and headers that several routes read: how they are documented.

use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Object, Required};

/// A name of a session, and one of anything else: no control characters.
const SESSION: &str = r"^[^\x00-\x1f\x7f-\x9f/]+$";
const NAME: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";
const BLOCK: &str = r"^[A-Za-z][A-Za-z0-9_\-]*$";
const VERSION: &str = r"^[0-9]{0,15}$";
const BASE: &str = r"^[\w\-][\w.\-]*$";
const RUN: &str = r"^[^\x00-\x1f\x7f-\x9f/]+\.[A-Za-z0-9_\-]{1,64}$";
const PASS: &str = r"^[^\x00-\x1f\x7f-\x9f/]+\.[1-9][0-9]{0,14}$";
const APPROVAL: &str = r"^[^\x00-\x1f\x7f-\x9f:]+:t[1-9][0-9]{0,14}:[^\x00-\x1f\x7f-\x9f]+$";
/// What a header can carry: spaces around it are not part of it.
const KEY: &str = r"^[!-~]([ -~]*[!-~])?$";
const EVENT: &str = r"^([0-9]{1,15}(\+[0-9]{1,15})?(~[0-9.,]+)?|latest)?$";

/// Names the parameters of routes, each by its name, schema, example and text.
macro_rules! params {
    ($($(#[$doc:meta])* $routes:ident: $place:ident { $($name:literal $schema:tt $example:literal $text:literal),+ })+) => {$(
        $(#[$doc])*
        pub(crate) struct $routes;

        impl IntoParams for $routes {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$(parameter(ParameterIn::$place, $name, json!($schema), json!($example), $text)),+]
            }
        }
    )+};
}

fn parameter(place: ParameterIn, name: &str, mut schema: Value, example: Value, text: &str) -> Parameter {
    if schema["type"].is_null() {
        schema["type"] = "string".into();
    }
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    let example = Some(example).filter(|it| *it != "");
    // Plain keywords, which utoipa knows all of.
    let schema = serde_json::from_value::<Object>(schema).unwrap_or_default();
    parameter.description(Some(text)).schema(Some(schema)).example(example).build()
}

params! {
    /// A session.
    SessionPath: Path {
        "id" {"minLength": 1, "maxLength": 200, "pattern": SESSION} "demo"
            "The session's name: at most 200 bytes, no control characters, no `/`."
    }
    /// A turn of a session, beside the session.
    TurnPath: Path {
        "turn" {"minLength": 1} "t1" "The turn."
    }
    /// An archive of a session, beside the session.
    ArchivePath: Path {
        "n" {"type": "integer", "format": "int64", "minimum": 0, "maximum": 9_007_199_254_740_991_i64} 1
            "The number of the archive, from 1."
    }
    /// A thread.
    ThreadPath: Path {
        "id" {"minLength": 1, "maxLength": 300, "pattern": NAME} "demo"
            "The thread's name. A session's main thread has the session's own name; that of an isolated one has a `/`, which\nis written `%2F` in a path."
    }
    /// A prompt.
    PromptPath: Path {
        "id" {"minLength": 1} "chat" "The prompt's id, such as `chat`; a `/` in it is written `%2F`."
    }
    /// A flow.
    FlowPath: Path {
        "id" {"minLength": 1} "chat" "The flow's id, such as `chat`; a `/` in it is written `%2F`."
    }
    /// A run of a flow.
    RunPath: Path {
        "id" {"minLength": 3, "maxLength": 265, "pattern": RUN} "demo.7"
            "The run's id: its session, a dot and its own name, such as `demo.7`."
    }
    /// Something that a run waits for, beside the run.
    WaitPath: Path {
        "wait" {"minLength": 1, "maxLength": 300, "pattern": NAME} "ask.1" "The wait's id, such as `ask.1`."
    }
    /// A pass.
    PassPath: Path {
        "id" {"minLength": 3, "maxLength": 200, "pattern": PASS} "demo.1"
            "The pass's id: its session and its number there, such as `demo.1`."
    }
    /// Two passes.
    PassesPath: Path {
        "a" {"minLength": 3, "maxLength": 200, "pattern": PASS} "demo.1" "The pass that came before, such as `demo.1`.",
        "b" {"minLength": 3, "maxLength": 200, "pattern": PASS} "demo.2" "The pass to compare it with."
    }
    /// A request for approval.
    ApprovalPath: Path {
        "id" {"minLength": 1, "pattern": APPROVAL} "demo:t1:call_1" "The id of the request: `THREAD:TURN:CALL`."
    }
    /// A knowledge base.
    BasePath: Path {
        "base" {"minLength": 1, "maxLength": 64, "pattern": BASE} "handbook"
            "The base's name: at most 64 bytes of letters, digits, `-`, `_` and `.`."
    }
    /// A document, beside its knowledge base.
    KnowledgeDocumentPath: Path {
        "id" {"minLength": 1, "maxLength": 1000, "pattern": NAME} "refunds"
            "The document's id; a `/` in it is written `%2F`."
    }
    /// A record of a memory.
    MemoryPath: Path {
        "id" {"minLength": 1, "maxLength": 900, "pattern": NAME} "m-1f0c" "The record's id; a `/` in it is written `%2F`."
    }
    /// A blackboard.
    BlackboardPath: Path {
        "id" {"minLength": 1, "maxLength": 48, "pattern": NAME} "todo" "The board's id."
    }
    /// An artifact, beside its session.
    ArtifactPath: Path {
        "name" {"minLength": 1, "maxLength": 100, "pattern": NAME} "plan.md" "The artifact's name; a `/` in it is written `%2F`."
    }
    /// A prompt block.
    BlockPath: Path {
        "name" {"minLength": 1, "maxLength": 128, "pattern": BLOCK} "house_rules" "The block's name, which is also its tag."
    }
    /// A model, or a prompt that is called like one.
    ModelPath: Path {
        "id" {"minLength": 1} "chat" "The model's or the prompt's id; a `/` in it is written `%2F`."
    }
    /// Makes a write safe to repeat.
    Repeatable: Header {
        "Idempotency-Key" {"minLength": 1, "maxLength": 200, "pattern": KEY} "message-8c1"
            "A name for the write, of your choice. Repeating it writes nothing. Turns of the thread share these\nnames."
    }
    /// Makes a request safe to repeat.
    Retryable: Header {
        "Idempotency-Key" {"minLength": 1, "maxLength": 200, "pattern": KEY} "request-8c1"
            "A name for the turn, of your choice. Repeating it returns the outcome of the first turn and runs nothing."
    }
    /// Where the stream of a blackboard continues.
    LastVersion: Header {
        "Last-Event-ID" {"pattern": VERSION} "" "The version of the last write that was received; wins over `after` unless it is empty."
    }
    /// Where a stream of events continues.
    LastEventId: Header {
        "Last-Event-ID" {"pattern": EVENT} ""
            "The id of the last event that was received; wins over `after` unless it is empty."
    }
}
