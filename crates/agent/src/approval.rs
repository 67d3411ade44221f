//! Approval: requests, decisions, and how both are recorded in the log.
//!
//! A run that needs a decision appends a record of itself and one request for each waiting call, and suspends its
//! turn. Calls to client tools wait in the same way: the record names them, and their results are appended. The token
//! that decides a request is returned once, to the caller that runs the turn; the log holds only its hash. Decisions
//! are appended to the log, so that they survive a restart and can't be made twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_history::{Application, Body, Item, Visibility};
use contexture_message::{ErrorCode, Message, Part, ToolCall, Usage};
use contexture_session::NewItem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::run::RunSpec;
use crate::words::calls_of;

/// The kinds of application items that this module appends.
const RUN: &str = "contexture.run";
const REQUEST: &str = "contexture.approval";
const DECISION: &str = "contexture.approval_decision";

/// A request for a person's approval of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The id of the request.
    pub id: String,
    /// The secret that authorizes a decision. It is returned once and not stored.
    pub token: String,
    /// The id of the waiting call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
}

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

/// Why a decision was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// No turn of the thread waits for this approval.
    #[error("nothing waits for approval `{approval}` on thread `{thread}`")]
    NotWaiting {
        /// The id of the request.
        approval: String,
        /// The id of the thread.
        thread: String,
    },
    /// The token does not belong to the request.
    #[error("the token does not belong to approval `{approval}`")]
    Forged {
        /// The id of the request.
        approval: String,
    },
    /// The request was already decided.
    #[error("approval `{approval}` was decided before")]
    Decided {
        /// The id of the request.
        approval: String,
    },
    /// Another prompt began the turn.
    #[error("the turn that waits was begun by prompt `{theirs}`, not by `{ours}`")]
    OtherPrompt {
        /// The prompt that began the turn.
        theirs: String,
        /// The prompt that was given.
        ours: String,
    },
}

impl ApprovalError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            ApprovalError::NotWaiting { .. } => ErrorCode::ApprovalNotWaiting,
            ApprovalError::Forged { .. } => ErrorCode::ApprovalForged,
            ApprovalError::Decided { .. } => ErrorCode::ApprovalDecided,
            ApprovalError::OtherPrompt { .. } => ErrorCode::ApprovalOtherPrompt,
        }
    }
}

/// What another process needs to continue a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) prompt: String,
    #[serde(flatten)]
    pub(crate) spec: RunSpec,
    #[serde(default, deserialize_with = "read_words")]
    pub(crate) own_words: Option<Arc<[Message]>>,
    /// The ids of the calls whose results come from the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_calls: Vec<String>,
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    pub(crate) cost: Option<f64>,
}

/// Reads the prompt's own messages. Older logs hold them as one text.
fn read_words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<[Message]>>, D::Error> {
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
pub(crate) struct Asked {
    record: Record,
    pub(crate) verdict: Option<Verdict>,
}

impl Asked {
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
    pub(crate) asked: Vec<Asked>,
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
                    waiting.asked.extend(parsed(value).map(|record| Asked { record, verdict: None }));
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
        if let Some(asked) = self.asked.iter_mut().find(|it| it.record.id == id) {
            asked.verdict.get_or_insert(verdict);
        }
    }

    /// Returns an error if the decision is not valid for this turn.
    pub(crate) fn admit(&self, ruling: &Ruling, thread: &str) -> Result<(), ApprovalError> {
        let approval = ruling.approval.clone();
        let asked = self.asked.iter().find(|it| it.record.id == approval);
        match asked {
            None => Err(ApprovalError::NotWaiting { approval, thread: thread.to_owned() }),
            Some(asked) if !ruling.proof.is_of(&asked.record) => Err(ApprovalError::Forged { approval }),
            Some(asked) if asked.verdict.is_some() => Err(ApprovalError::Decided { approval }),
            Some(_) => Ok(()),
        }
    }

    /// Whether the turn was suspended for any of these calls.
    pub(crate) fn is_about(&self, calls: &[ToolCall]) -> bool {
        let waits = |id: &String| {
            self.run.client_calls.contains(id) || self.asked.iter().any(|it| it.call().id == *id)
        };
        calls.iter().any(|it| waits(&it.id))
    }

    /// Returns the decision about a call, if there is one.
    pub(crate) fn verdict(&self, call: &str) -> Option<&Verdict> {
        self.asked.iter().find(|it| it.call().id == call)?.verdict.as_ref()
    }

    /// Whether every request is decided.
    pub(crate) fn is_decided(&self) -> bool {
        self.asked.iter().all(|it| it.verdict.is_some())
    }

    /// Whether all decisions and results have arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.is_decided() && self.client.is_empty()
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
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) => None,
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

/// Returns the item that records a decision.
pub(crate) fn decided(ruling: &Ruling) -> NewItem {
    let record = DecisionRecord { id: ruling.approval.clone(), verdict: ruling.verdict.clone() };
    NewItem::application(DECISION, json!(record))
}
