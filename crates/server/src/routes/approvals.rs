//! Approvals: what waits for a person, and the decision.

use axum::Json;
use axum::http::HeaderMap;
use axum::response::Response;
use contexture_agent::{Decision, Pending, PendingApproval, Verdict};
use contexture_message::{ErrorCode, ToolCall};
use contexture_session::{SessionId, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::results::waiting_prompt;
use super::turn_shapes::TurnResult;
use super::turns::{ReplyConfig, ThreadQuery, reply, wants_events};
use crate::app::Access;
use crate::http::input::{JsonBody, PathParam, QueryParams, shown};
use crate::http::params::{ApprovalPath, SessionPath};
use crate::http::refusals::{Conflict, Failed, Forged, Form, NotThere, Refused, Unusable};
use crate::http::schemas::{accepts, returns};
use crate::{JsonResult, Problem};

accepts!(ApprovalDecision);
returns!(PendingCalls);

/// A decision.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalDecision {
    /// The token that came with the request for approval.
    token: String,
    /// The decision.
    verdict: ApprovalVerdict,
    /// Why a call is denied; the model receives it.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ApprovalVerdict {
    Approve,
    Deny,
}

/// Decide about a tool call that waits. Once all calls are decided the turn continues, and this is its answer.
///
/// The id is that of the request, `thread:turn:call`. A forged or repeated decision changes nothing.
/// `Accept: text/event-stream` has the same effect as `POST …/stream`.
#[utoipa::path(
    post, path = "/v1/approvals/{id}", operation_id = "decide_approval", tag = "approvals", params(ApprovalPath), request_body = ApprovalDecision,
    responses(
        (status = 200, description = "The outcome of the turn.", body = TurnResult),
        Refused, Forged, NotThere, Conflict, Form, Unusable, Failed,
    )
)]
pub(crate) async fn decide(
    access: Access,
    PathParam(id): PathParam<String>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ApprovalDecision>,
) -> Result<Response, Problem> {
    let (thread, turn) = place(&id)?;
    let session = thread.session();
    let thread = access.thread(&session, Some(thread.to_string())).await?;
    let not_waiting = || {
        Problem::new(ErrorCode::ApprovalNotWaiting, format!("nothing waits for approval `{}`", shown(&id)))
    };
    let waiting = waiting_prompt(&access, &thread, &turn).await;
    let (loaded, prompt) = waiting.map_err(|problem| match problem.code() {
        ErrorCode::TurnNotSuspended => not_waiting(),
        _ => problem,
    })?;
    let verdict = match request.verdict {
        ApprovalVerdict::Approve => Verdict::Approve,
        ApprovalVerdict::Deny => Verdict::Deny { reason: request.reason },
    };
    let decision = Decision { approval: id, token: request.token, verdict };
    let config = ReplyConfig { as_events: wants_events(&headers)?, ..ReplyConfig::default() };
    reply(&access, &thread, config, |cancel| loaded.agent.decide(&prompt, &thread, decision, cancel)).await
}

/// Reads the thread and the turn from the id of an approval. The id of a call may hold anything.
fn place(id: &str) -> Result<(ThreadId, String), Problem> {
    let wrong =
        || Problem::new(ErrorCode::PathInvalid, format!("`{}` is not the id of an approval", shown(id)));
    let is_turn = |it: &str| it.strip_prefix('t').is_some_and(|it| it.parse::<u64>().is_ok());
    let pieces: Vec<&str> = id.split(':').collect();
    let at = pieces.iter().position(|it| is_turn(it)).filter(|at| *at > 0 && at + 1 < pieces.len());
    let at = at.ok_or_else(wrong)?;
    Ok((ThreadId::parse(pieces[..at].join(":"))?, pieces[at].to_owned()))
}

/// The decisions and results that a turn waits for.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct PendingCalls {
    /// The turn that waits, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    /// The calls that need a decision. Their tokens were sent once, to the client of the turn.
    approvals: Vec<PendingApproval>,
    /// The calls whose results the client has not sent yet.
    client_calls: Vec<ToolCall>,
}

/// Show what a session waits for.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/approvals", operation_id = "list_approvals", tag = "approvals", params(SessionPath, ThreadQuery),
    responses((status = 200, description = "What the session waits for.", body = PendingCalls), Refused, NotThere)
)]
pub(crate) async fn list(
    access: Access,
    PathParam(id): PathParam<SessionId>,
    QueryParams(query): QueryParams<ThreadQuery>,
) -> JsonResult<PendingCalls> {
    let thread = access.thread(&id, query.thread).await?;
    let pending = Pending::of(&thread).await?;
    let waits = pending.map(|it| {
        let turn = Some(it.turn.to_string());
        PendingCalls { turn, approvals: it.approvals, client_calls: it.client_calls }
    });
    Ok(Json(waits.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn an_approval_names_its_thread_and_turn() {
        let read = |id: &str| place(id).map(|(thread, turn)| format!("{thread} {turn}")).unwrap_or_default();
        assert_eq!(read("demo:t3:call_1"), "demo t3");
        assert_eq!(read("demo/x1:t12:a:b:t4"), "demo/x1 t12");
        assert_eq!(read("a:b:t1:c"), "a:b t1");
        for wrong in ["", "demo", "demo:t3", ":t3:c", "t3:c", "demo:x:c"] {
            assert_eq!(read(wrong), "", "{wrong}");
        }
    }
}
