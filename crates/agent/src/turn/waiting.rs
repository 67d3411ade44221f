//! Approval: requests, decisions, and how both are recorded in the log.
//!
//! A run that needs a decision appends a record of itself and one request for each waiting call, and suspends its
//! turn. Calls to client tools wait in the same way: the record names them, and their results are appended. The token
//! that decides a request is returned once, to the caller that runs the turn; the log holds only its hash. Decisions
//! are appended to the log, so that they survive a restart and can't be made twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_history::{Application, Body, Item, Visibility};
use contexture_message::{Message, Part, ToolCall, ToolOutput, Usage};
use contexture_session::NewItem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::{ApprovalError, ClientToolError};
use crate::event::ApprovalRequest;
use crate::spec::RunSpec;
use crate::text::calls_of;

/// The kinds of application items that this module appends.
const RUN: &str = "contexture.run";
const REQUEST: &str = "contexture.approval";
const DECISION: &str = "contexture.approval_decision";

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Approve,
    /// The call may not run, and the model is informed.
    Deny {
        /// The reason, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A decision about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The id of the request.
    pub approval: String,
    /// The token of the request.
    pub token: String,
    /// The decision itself.
    pub verdict: Verdict,
}

impl Decision {
    /// Splits the decision into its verdict and its proof.
    pub(crate) fn ruling(self) -> Ruling {
        Ruling { approval: self.approval, proof: Proof::Token(self.token), verdict: self.verdict }
    }
}

/// A decision and the proof that it is authorized.
pub(crate) struct Ruling {
    pub(crate) approval: String,
    pub(crate) proof: Proof,
    pub(crate) verdict: Verdict,
}

/// The proof that a decision is authorized.
pub(crate) enum Proof {
    /// The token of the request.
    Token(String),
    /// The decision comes from the owner of the turn.
    Owner,
}

impl Proof {
    fn is_of(&self, record: &Record) -> bool {
        match self {
            // Compares hashes instead of tokens, so that timing reveals nothing about the token.
            Proof::Token(token) => record.token_sha256 == hash(token),
            Proof::Owner => true,
        }
    }
}

/// What another process needs to continue a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) prompt: String,
    #[serde(flatten)]
    pub(crate) spec: RunSpec,
    #[serde(rename = "own_words", default, deserialize_with = "read_own_messages")]
    pub(crate) own_messages: Option<Arc<[Message]>>,
    /// The ids of the calls whose results come from the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_calls: Vec<String>,
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<f64>,
}

/// Reads the prompt's own messages. Older logs hold them as one text.
fn read_own_messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<[Message]>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Text(String),
        Messages(Vec<Message>),
    }
    Ok(Option::<Words>::deserialize(deserializer)?.map(|it| match it {
        Words::Text(text) if text.is_empty() => Arc::default(),
        Words::Text(text) => [Message::user(text)].into(),
        Words::Messages(messages) => messages.into(),
    }))
}

/// A request as recorded in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: String,
    call: ToolCall,
    token_sha256: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct DecisionRecord {
    id: String,
    verdict: Verdict,
}

/// A request and its decision, if there is one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestedApproval {
    record: Record,
    pub(crate) verdict: Option<Verdict>,
}

impl RequestedApproval {
    pub(crate) fn id(&self) -> &str {
        &self.record.id
    }

    pub(crate) fn call(&self) -> &ToolCall {
        &self.record.call
    }
}

/// What a suspended turn waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waiting {
    pub(crate) run: RunRecord,
    pub(crate) approvals: Vec<RequestedApproval>,
    /// Calls whose results the client has not sent yet.
    pub(crate) client: Vec<ToolCall>,
}

impl Waiting {
    /// Reads what a turn waits for from its items, as of its latest suspension.
    pub(crate) fn read(items: &[Item]) -> Waiting {
        let mut waiting = Waiting::default();
        for item in items {
            let Body::Application(Application { kind, value }) = &item.body else { continue };
            match kind.as_str() {
                RUN => waiting = Waiting { run: parsed(value).unwrap_or_default(), ..Waiting::default() },
                REQUEST => {
                    waiting
                        .approvals
                        .extend(parsed(value).map(|record| RequestedApproval { record, verdict: None }));
                }
                DECISION => waiting.decide(parsed(value)),
                _ => {}
            }
        }
        waiting.client = unanswered(items, &waiting.run.client_calls);
        waiting
    }

    fn decide(&mut self, decision: Option<DecisionRecord>) {
        let Some(DecisionRecord { id, verdict }) = decision else { return };
        if let Some(approval) = self.approvals.iter_mut().find(|it| it.record.id == id) {
            approval.verdict.get_or_insert(verdict);
        }
    }

    /// Returns an error if the decision is not valid for this turn.
    pub(crate) fn admit(&self, ruling: &Ruling, thread: &str) -> Result<(), ApprovalError> {
        let approval = ruling.approval.clone();
        let requested = self.approvals.iter().find(|it| it.record.id == approval);
        match requested {
            None => Err(ApprovalError::NotWaiting { approval, thread: thread.to_owned() }),
            Some(it) if !ruling.proof.is_of(&it.record) => Err(ApprovalError::Forged { approval }),
            Some(it) if it.verdict.is_some() => Err(ApprovalError::Decided { approval }),
            Some(_) => Ok(()),
        }
    }

    /// Returns the approval that was requested for a call, if one was.
    pub(crate) fn approval(&self, call_id: &str) -> Option<&RequestedApproval> {
        self.approvals.iter().find(|it| it.call().id == call_id)
    }

    /// Whether every request is decided.
    pub(crate) fn is_decided(&self) -> bool {
        self.approvals.iter().all(|it| it.verdict.is_some())
    }
}

/// Returns the calls with these ids that have no result among the items.
fn unanswered(items: &[Item], ids: &[String]) -> Vec<ToolCall> {
    if ids.is_empty() {
        return Vec::new();
    }
    let messages = items.iter().filter_map(|it| match &it.body {
        Body::Message(message) => Some(message),
        Body::Application(_)
        | Body::SystemEvent(_)
        | Body::Envelope(_)
        | Body::Summary(_)
        | Body::Change(_) => None,
    });
    let messages: Vec<&Arc<Message>> = messages.collect();
    let results = messages.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        Part::ToolResult(result) => Some(result.call_id.as_str()),
        Part::Text { .. }
        | Part::Image(_)
        | Part::File(_)
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolCall(_) => None,
    });
    let answered: BTreeSet<&str> = results.collect();
    let calls = messages.iter().flat_map(|it| calls_of(it));
    calls.filter(|it| ids.contains(&it.id) && !answered.contains(it.id.as_str())).cloned().collect()
}

fn parsed<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

fn hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|it| format!("{it:02x}")).collect()
}

/// Returns the reason recorded for a suspended turn.
pub(crate) fn suspension_reason(for_approval: bool, for_client: bool) -> &'static str {
    match (for_approval, for_client) {
        (true, true) => "it waits for approval and for tools of the client",
        (false, true) => "it waits for tools of the client",
        (true, false) | (false, false) => "it waits for approval",
    }
}

/// Returns the items that a run appends when it is suspended.
pub(crate) fn suspension(run: &RunRecord, requests: &[ApprovalRequest]) -> Vec<NewItem> {
    let record = NewItem::application(RUN, json!(run)).visibility(Visibility::NONE);
    let requests = requests.iter().map(|it| {
        let call =
            ToolCall { id: it.call_id.clone(), name: it.tool.clone(), arguments: it.arguments.clone() };
        let record = Record { id: it.id.clone(), call, token_sha256: hash(&it.token) };
        NewItem::application(REQUEST, json!(record))
    });
    [record].into_iter().chain(requests).collect()
}

/// Returns the id and the call of an approval that an item requests.
pub(crate) fn requested_approval(body: &Body) -> Option<(String, ToolCall)> {
    let Body::Application(Application { kind, value }) = body else { return None };
    let record: Record = parsed(value).filter(|_| kind == REQUEST)?;
    Some((record.id, record.call))
}

/// Returns the item that records a decision.
pub(crate) fn decided(ruling: &Ruling) -> NewItem {
    let record = DecisionRecord { id: ruling.approval.clone(), verdict: ruling.verdict.clone() };
    NewItem::application(DECISION, json!(record))
}

/// Returns the calls of a suspended turn that the client must run, read from the turn's items.
///
/// ```
/// assert!(contexture_agent::waiting_calls(&[]).is_empty());
/// ```
pub fn waiting_calls(items: &[Item]) -> Vec<ToolCall> {
    Waiting::read(items).client
}

/// Returns an error if the turn does not wait for these results, or has two for the same call.
pub(crate) fn admit_results(
    waiting: &Waiting,
    results: &[(String, ToolOutput)],
    thread: &str,
) -> Result<(), ClientToolError> {
    if waiting.run.client_calls.is_empty() {
        return Err(ClientToolError::NotWaiting { thread: thread.to_owned() });
    }
    let mut missing: BTreeSet<&str> = waiting.client.iter().map(|it| it.id.as_str()).collect();
    match results.iter().find(|(call, _)| !missing.remove(call.as_str())) {
        Some((call, _)) => Err(ClientToolError::Unexpected { call: call.clone(), thread: thread.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use contexture_message::{Message, Usage};
    use serde_json::json;

    use super::{RunRecord, parsed};

    #[test]
    fn records_of_older_versions_are_read() {
        let old = json!({
            "prompt": "support",
            "input": {"plan": "pro"},
            "model": "test/model",
            "own_words": "Answer briefly.",
            "steps": 3,
            "usage": {"input_tokens": 10, "output_tokens": 2},
            "cost": 0.5,
        });
        let record: RunRecord = parsed(&old).expect("it is read");
        assert_eq!(record.own_messages.as_deref(), Some(&[Message::user("Answer briefly.")][..]));
        assert_eq!(
            (record.spec.input, record.spec.model),
            (json!({"plan": "pro"}), Some("test/model".to_owned()))
        );
        let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
        assert_eq!((record.steps, record.usage, record.cost), (3, usage, Some(0.5)));
    }

    #[test]
    fn a_record_without_own_messages_has_none() {
        let old = json!({"prompt": "p", "input": {}, "model": null, "steps": 0, "usage": {}, "cost": null});
        let record: RunRecord = parsed(&old).expect("it is read");
        assert_eq!((record.own_messages, record.client_calls.is_empty()), (None, true));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let own_messages = Some([Message::user("a"), Message::user("b")].into());
        let client_calls = vec!["c".to_owned()];
        let record = RunRecord { prompt: "p".to_owned(), own_messages, client_calls, ..RunRecord::default() };
        let written = json!(record);
        assert_eq!(written["own_words"].as_array().map(Vec::len), Some(2), "{written}");
        assert_eq!(parsed::<RunRecord>(&written), Some(record));
    }
}
