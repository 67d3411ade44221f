//! The variable parts of paths, and headers that several routes read.
#![expect(dead_code, reason = "they describe, and are never made")]

use utoipa::IntoParams;

/// A session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SessionPath {
    /// The session's name: at most 200 bytes, no control characters, no `/`.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$", example = "demo")]
    id: String,
}

/// A turn of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct TurnPath {
    /// The session's name: at most 200 bytes, no control characters, no `/`.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$", example = "demo")]
    id: String,
    /// The turn.
    #[param(min_length = 1, example = "t1")]
    turn: String,
}

/// An archive of a session.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ArchivePath {
    /// The session's name: at most 200 bytes, no control characters, no `/`.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$", example = "demo")]
    id: String,
    /// The number of the archive, from 1.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_i64, example = 1)]
    n: u64,
}

/// A thread.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ThreadPath {
    /// The thread's name. A session's main thread has the session's own name; that of an isolated one has a `/`, which
    /// is written `%2F` in a path.
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "demo")]
    id: String,
}

/// A prompt.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct PromptPath {
    /// The prompt's id, such as `chat`; a `/` in it is written `%2F`.
    #[param(min_length = 1, example = "chat")]
    id: String,
}

/// A flow.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct FlowPath {
    /// The flow's id, such as `chat`; a `/` in it is written `%2F`.
    #[param(min_length = 1, example = "chat")]
    id: String,
}

/// A run of a flow.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RunPath {
    /// The run's id: its session, a dot and its own name, such as `demo.7`.
    #[param(
        min_length = 3,
        max_length = 265,
        pattern = r"^[^\x00-\x1f\x7f-\x9f/]+\.[A-Za-z0-9_\-]{1,64}$",
        example = "demo.7"
    )]
    id: String,
}

/// Something that a run waits for.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct WaitPath {
    /// The run's id: its session, a dot and its own name, such as `demo.7`.
    #[param(
        min_length = 3,
        max_length = 265,
        pattern = r"^[^\x00-\x1f\x7f-\x9f/]+\.[A-Za-z0-9_\-]{1,64}$",
        example = "demo.7"
    )]
    id: String,
    /// The wait's id, such as `ask.1`.
    #[param(min_length = 1, max_length = 300, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "ask.1")]
    wait: String,
}

/// A pass.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct PassPath {
    /// The pass's id: its session and its number there, such as `demo.1`.
    #[param(
        min_length = 3,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f/]+\.[1-9][0-9]{0,14}$",
        example = "demo.1"
    )]
    id: String,
}

/// Two passes.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct PassesPath {
    /// The pass that came before, such as `demo.1`.
    #[param(
        min_length = 3,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f/]+\.[1-9][0-9]{0,14}$",
        example = "demo.1"
    )]
    a: String,
    /// The pass to compare it with.
    #[param(
        min_length = 3,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f/]+\.[1-9][0-9]{0,14}$",
        example = "demo.2"
    )]
    b: String,
}

/// A request for approval.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ApprovalPath {
    /// The id of the request: `THREAD:TURN:CALL`.
    #[param(
        min_length = 1,
        pattern = r"^[^\x00-\x1f\x7f-\x9f:]+:t[1-9][0-9]{0,14}:[^\x00-\x1f\x7f-\x9f]+$",
        example = "demo:t1:call_1"
    )]
    id: String,
}

/// A model, or a prompt that is called like one.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ModelPath {
    /// The model's or the prompt's id; a `/` in it is written `%2F`.
    #[param(min_length = 1, example = "chat")]
    id: String,
}

/// Makes a write safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Repeatable {
    /// A name for the write, of your choice. Repeating it writes nothing. Turns of the thread share these
    /// names.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 200,
        nullable = false,
        example = "message-8c1"
    )]
    key: Option<String>,
}

/// Makes a request safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Retryable {
    /// A name for the turn, of your choice. Repeating it returns the outcome of the first turn and runs nothing.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 200,
        nullable = false,
        example = "request-8c1"
    )]
    key: Option<String>,
}

/// Where a stream of events continues.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct LastEventId {
    /// The id of the last event that was received; wins over `after` unless it is empty.
    #[param(
        rename = "Last-Event-ID",
        pattern = r"^([0-9]{1,15}(\+[0-9]{1,15})?(~[0-9.,]+)?|latest)?$",
        nullable = false
    )]
    last_event_id: Option<String>,
}
