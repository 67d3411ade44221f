//! Stable codes of errors, and the class of each.
//!
//! A code is what programs match on; it never changes once released. Its class says who can do something about the
//! error. The status of an HTTP response and the exit code of the command line follow from the class alone, so a new
//! code needs no decision of theirs, and a new class does not compile until both have decided.

use std::fmt;

use serde::{Serialize, Serializer};

/// Who can do something about an error, and what.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ErrorClass {
    /// The caller must identify itself.
    Unauthorized,
    /// The caller may not do this.
    Forbidden,
    /// What the caller names does not exist.
    NotFound,
    /// The route does not have the method.
    MethodNotAllowed,
    /// The response cannot have the form that the caller accepts.
    NotAcceptable,
    /// The request did not arrive in time.
    RequestTimeout,
    /// The present state does not allow it; the same request fails again.
    Conflict,
    /// Another writer was first, or the work was cancelled; the same request may succeed later.
    Contention,
    /// It existed, but is not kept any more.
    Gone,
    /// The request is larger than allowed.
    TooLarge,
    /// The body has an unsupported media type.
    UnsupportedMedia,
    /// The request cannot be read.
    Malformed,
    /// The request, or what it refers to, breaks a rule.
    Invalid,
    /// A guardrail, a constraint or an output schema rejected the words.
    CheckFailed,
    /// A model or a store rejected this particular request.
    Refused,
    /// There are too many requests at the moment.
    Throttled,
    /// This program or its storage is broken.
    Internal,
    /// A model, tool or contributor that we called failed.
    Upstream,
    /// A part that is needed is not available at the moment.
    Unavailable,
    /// The work took longer than allowed.
    Timeout,
}

macro_rules! codes {
    ($($code:ident = $text:literal / $class:ident,)+) => {
        /// A stable code of an error, such as `budget_exceeded`.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $text, "`")] $code,)+
        }

        impl ErrorCode {
            /// Every code, in the order of their classes.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code,)+];

            /// Returns the code as it is written everywhere.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $text,)+
                }
            }

            /// Returns the code that a log has recorded as this text.
            pub fn recorded(text: &str) -> Option<ErrorCode> {
                Self::ALL.iter().copied().find(|it| it.as_str() == text)
            }

            /// Returns the class of the code.
            pub const fn class(self) -> ErrorClass {
                match self {
                    $(ErrorCode::$code => ErrorClass::$class,)+
                }
            }
        }
    };
}

codes! {
    Unauthorized = "unauthorized" / Unauthorized,
    Forbidden = "forbidden" / Forbidden,
    ApprovalForged = "approval_forged" / Forbidden,
    HostForbidden = "host_forbidden" / Forbidden,
    OriginForbidden = "origin_forbidden" / Forbidden,
    ToolDenied = "tool_denied" / Forbidden,
    NotFound = "not_found" / NotFound,
    UnknownPrompt = "unknown_prompt" / NotFound,
    UnknownFlow = "unknown_flow" / NotFound,
    RouteUnknown = "route_unknown" / NotFound,
    MethodNotAllowed = "method_not_allowed" / MethodNotAllowed,
    NotAcceptable = "not_acceptable" / NotAcceptable,
    RequestTimeout = "request_timeout" / RequestTimeout,
    AlreadyExists = "already_exists" / Conflict,
    BaseReadOnly = "base_read_only" / Conflict,
    FileExists = "file_exists" / Conflict,
    MainThread = "main_thread" / Conflict,
    TurnNotSuspended = "turn_not_suspended" / Conflict,
    TurnSuperseded = "turn_superseded" / Conflict,
    ApprovalNotWaiting = "approval_not_waiting" / Conflict,
    ApprovalDecided = "approval_decided" / Conflict,
    ApprovalOtherPrompt = "approval_other_prompt" / Conflict,
    ToolResultUnexpected = "tool_result_unexpected" / Conflict,
    ToolResultOtherPrompt = "tool_result_other_prompt" / Conflict,
    ToolNeedsApproval = "tool_needs_approval" / Conflict,
    TurnNotRetryable = "turn_not_retryable" / Conflict,
    RunOver = "run_over" / Conflict,
    RunDriven = "run_driven" / Conflict,
    WaitAnswered = "wait_answered" / Conflict,
    FlowChanged = "flow_changed" / Conflict,
    TurnUnfinished = "turn_unfinished" / Conflict,
    IdempotencyKeyUsed = "idempotency_key_used" / Conflict,
    VersionConflict = "version_conflict" / Conflict,
    TurnInProgress = "turn_in_progress" / Contention,
    LeaseLost = "lease_lost" / Contention,
    Cancelled = "cancelled" / Contention,
    PassExpired = "pass_expired" / Gone,
    PassForgotten = "pass_forgotten" / Gone,
    TurnForgotten = "turn_forgotten" / Gone,
    BodyTooLarge = "body_too_large" / TooLarge,
    MediaTypeUnsupported = "media_type_unsupported" / UnsupportedMedia,
    IdInvalid = "id_invalid" / Malformed,
    BodyInvalid = "body_invalid" / Malformed,
    QueryInvalid = "query_invalid" / Malformed,
    HeaderInvalid = "header_invalid" / Malformed,
    PathInvalid = "path_invalid" / Malformed,
    Usage = "usage" / Invalid,
    FileInvalid = "file_invalid" / Invalid,
    KeysMissing = "keys_missing" / Invalid,
    ServerConfigInvalid = "server_config_invalid" / Invalid,
    DefinitionInvalid = "definition_invalid" / Invalid,
    DuplicateId = "duplicate_id" / Invalid,
    SchemaConflict = "schema_conflict" / Invalid,
    SchemaInvalid = "schema_invalid" / Invalid,
    InputInvalid = "input_invalid" / Invalid,
    AnswerInvalid = "answer_invalid" / Invalid,
    PromptInvalid = "prompt_invalid" / Invalid,
    MessageInvalid = "message_invalid" / Invalid,
    MessageNotPrependable = "message_not_prependable" / Invalid,
    BudgetExceeded = "budget_exceeded" / Invalid,
    ModelMissing = "model_missing" / Invalid,
    ModelUnconfigured = "model_not_found" / Invalid,
    ToolCollision = "tool_collision" / Invalid,
    ToolUnknown = "tool_unknown" / Invalid,
    ToolNameInvalid = "tool_name_invalid" / Invalid,
    ToolArgumentsInvalid = "tool_arguments_invalid" / Invalid,
    PriorityInvalid = "priority_invalid" / Invalid,
    CheckUnknown = "check_unknown" / Invalid,
    NoAnswer = "no_answer" / Invalid,
    TemplateError = "template_error" / Invalid,
    NameTooLong = "name_too_long" / Invalid,
    TagNameInvalid = "tag_name_invalid" / Invalid,
    TagNameReserved = "tag_name_reserved" / Invalid,
    TagShapeMismatch = "tag_shape_mismatch" / Invalid,
    MessageInTag = "message_in_tag" / Invalid,
    RoleAmbiguous = "role_ambiguous" / Invalid,
    EntryInvalid = "entry_invalid" / Invalid,
    DepthExceeded = "depth_exceeded" / Invalid,
    UnknownEntry = "unknown_entry" / Invalid,
    UnknownField = "unknown_field" / Invalid,
    UnknownTool = "unknown_tool" / Invalid,
    ImportInvalid = "import_invalid" / Invalid,
    FlowInvalid = "flow_invalid" / Invalid,
    FlowCircular = "flow_circular" / Invalid,
    FlowCycle = "flow_cycle" / Invalid,
    FlowEdgeInvalid = "flow_edge_invalid" / Invalid,
    FlowLazyAndPushed = "flow_lazy_and_pushed" / Invalid,
    FlowMissingInput = "flow_missing_input" / Invalid,
    FlowNeverStarts = "flow_never_starts" / Invalid,
    FlowPortalOpen = "flow_portal_open" / Invalid,
    FlowTextTwice = "flow_text_twice" / Invalid,
    FlowTypeMismatch = "flow_type_mismatch" / Invalid,
    FlowUnknownNode = "flow_unknown_node" / Invalid,
    FlowUnknownPort = "flow_unknown_port" / Invalid,
    FlowUnknownType = "flow_unknown_type" / Invalid,
    FlowUnreachable = "flow_unreachable" / Invalid,
    FlowCannotWait = "flow_cannot_wait" / Invalid,
    FlowMaxSteps = "flow_max_steps" / Invalid,
    FlowQueueFull = "flow_queue_full" / Invalid,
    FlowStalled = "flow_stalled" / Invalid,
    FlowValueTooDeep = "flow_value_too_deep" / Invalid,
    FlowValueTooLarge = "flow_value_too_large" / Invalid,
    FlowTooLarge = "flow_too_large" / Invalid,
    TransformInvalid = "transform_invalid" / Invalid,
    GuardrailBlocked = "guardrail_blocked" / CheckFailed,
    ConstraintFailed = "constraint_failed" / CheckFailed,
    OutputInvalid = "output_invalid" / CheckFailed,
    PromptTooLong = "prompt_too_long" / Refused,
    ModelNotFound = "model_not_found" / Refused,
    ModelKeyMissing = "model_auth" / Refused,
    AppendMalformed = "append_malformed" / Refused,
    RateLimited = "rate_limited" / Throttled,
    QueueFull = "queue_full" / Throttled,
    Panicked = "panicked" / Internal,
    StoreDamaged = "store_damaged" / Internal,
    SchemaNewer = "schema_newer" / Internal,
    RuntimeFailed = "runtime_failed" / Internal,
    WriteFailed = "write_failed" / Internal,
    ListenFailed = "listen_failed" / Internal,
    PassDiffers = "pass_differs" / Internal,
    ModelAuth = "model_auth" / Upstream,
    ModelRateLimited = "model_rate_limited" / Upstream,
    ModelRefused = "model_refused" / Upstream,
    ModelOverloaded = "model_overloaded" / Upstream,
    ModelAddressWrong = "model_address_wrong" / Upstream,
    ModelError = "model_error" / Upstream,
    ModelTimedOut = "model_timed_out" / Upstream,
    ModelUnreachable = "model_unreachable" / Upstream,
    ModelMalformed = "model_malformed" / Upstream,
    ModelAnswerTooLarge = "model_answer_too_large" / Upstream,
    ContributorFailed = "contributor_failed" / Upstream,
    TransformFailed = "transform_failed" / Upstream,
    ToolFailed = "tool_failed" / Upstream,
    StoreUnavailable = "store_unavailable" / Unavailable,
    StoreMissing = "not_found" / Unavailable,
    ShuttingDown = "shutting_down" / Unavailable,
    Interrupted = "interrupted" / Unavailable,
    TurnTimeout = "turn_timeout" / Timeout,
    DeadlineExceeded = "deadline_exceeded" / Timeout,
    ToolTimedOut = "tool_timed_out" / Timeout,
    Timeout = "timeout" / Timeout,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<ErrorCode> for String {
    fn from(code: ErrorCode) -> Self {
        code.as_str().to_owned()
    }
}

impl PartialEq<&str> for ErrorCode {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ErrorClass, ErrorCode};

    #[test]
    fn a_code_is_written_once() {
        let mut written: BTreeMap<&str, Vec<ErrorCode>> = BTreeMap::new();
        for code in ErrorCode::ALL {
            written.entry(code.as_str()).or_default().push(*code);
        }
        written.retain(|_, codes| codes.len() > 1);
        // What the user can change shares its code with what only the provider or the operator can.
        let expected = [
            ("model_auth", vec![ErrorCode::ModelKeyMissing, ErrorCode::ModelAuth]),
            ("model_not_found", vec![ErrorCode::ModelUnconfigured, ErrorCode::ModelNotFound]),
            ("not_found", vec![ErrorCode::NotFound, ErrorCode::StoreMissing]),
        ];
        assert_eq!(written, BTreeMap::from(expected));
    }

    #[test]
    fn a_code_is_its_text_and_its_class() {
        let code = ErrorCode::BudgetExceeded;
        assert_eq!(code, "budget_exceeded");
        assert_eq!(format!("{code:>16}"), " budget_exceeded");
        assert_eq!(serde_json::to_string(&code).unwrap(), "\"budget_exceeded\"");
        assert_eq!(code.class(), ErrorClass::Invalid);
    }
}
