//! Approval: what is asked, what is decided, and how both stand in the log.
//!
//! A run that needs a decision appends a record of itself and one request for each call that waits, and suspends its
//! turn. Calls of the client's tools wait in the same way: the record names them, and their results are appended. The token that decides a request is told once, to whoever runs the turn; the log holds its hash. A decision is
//! appended like anything else, so that it survives a restart and can't be made twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_history::{Application, Body, Item, Visibility};
use contexture_message::{Message, Part, ToolCall, Usage};
use contexture_session::NewItem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::run::RunSpec;
use crate::words::calls_of;

/// The kinds of application items that this module writes.
const RUN: &str = "contexture.run";
const REQUEST: &str = "contexture.approval";
const DECISION: &str = "contexture.approval_decision";

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Names the request.
    pub id: String,
    /// Whoever has it may decide. It is told once and stored nowhere.
    pub token: String,
    /// The call that waits.
    pub call_id: String,
    /// Its tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Approve,
    /// The call may not run; the model is told so.
    Deny {
        /// Why, where it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// A decision about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The request.
    pub approval: String,
    /// Its token.
    pub token: String,
    /// What was decided.
    pub verdict: Verdict,
}

impl Decision {
    /// Takes apart what was decided and what proves that its maker may.
    pub(crate) fn ruling(self) -> Ruling {
        Ruling { approval: self.approval, proof: Proof::Token(self.token), verdict: self.verdict }
    }
}

/// A decision, and by what right it is made.
pub(crate) struct Ruling {
    pub(crate) approval: String,
    pub(crate) proof: Proof,
    pub(crate) verdict: Verdict,
}

/// By what right a decision is made.
pub(crate) enum Proof {
    /// Its maker has the token of the request.
    Token(String),
    /// The owner of the turn says so.
    Owner,
}

impl Proof {
    fn is_of(&self, record: &Record) -> bool {
        match self {
            // Hashes are compared, not tokens: how long it takes tells nothing about the token.
            Proof::Token(token) => record.token_sha256 == hash(token),
            Proof::Owner => true,
        }
    }
}

/// Why a decision changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// No turn of the thread waits for this request.
    #[error("nothing waits for approval `{approval}` on thread `{thread}`")]
    NotWaiting {
        /// The request.
        approval: String,
        /// The thread.
        thread: String,
    },
    /// The token is not the request's.
    #[error("the token does not belong to approval `{approval}`")]
    Forged {
        /// The request.
        approval: String,
    },
    /// It was decided before.
    #[error("approval `{approval}` was decided before")]
    Decided {
        /// The request.
        approval: String,
    },
    /// The turn was begun by another prompt.
    #[error("the turn that waits was begun by prompt `{theirs}`, not by `{ours}`")]
    OtherPrompt {
        /// The prompt of the turn.
        theirs: String,
        /// The prompt that was given.
        ours: String,
    },
}

impl ApprovalError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            ApprovalError::NotWaiting { .. } => "approval_not_waiting",
            ApprovalError::Forged { .. } => "approval_forged",
            ApprovalError::Decided { .. } => "approval_decided",
            ApprovalError::OtherPrompt { .. } => "approval_other_prompt",
        }
    }
}

/// What a run must remember to go on in another process.
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

/// Reads what the prompt says beside the user. Older logs hold it as one text.
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

/// A request as it stands in the log.
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

/// A request and what was decided about it, if anything was.
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
    /// Reads what a turn waits for from its items; the newest suspension counts.
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

    /// Says why a decision changes nothing, if so.
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

    /// Whether any of these calls waited.
    pub(crate) fn is_about(&self, calls: &[ToolCall]) -> bool {
        let waits = |id: &String| {
            self.run.client_calls.contains(id) || self.asked.iter().any(|it| it.call().id == *id)
        };
        calls.iter().any(|it| waits(&it.id))
    }

    /// Returns what was decided about a call, if anything was.
    pub(crate) fn verdict(&self, call: &str) -> Option<&Verdict> {
        self.asked.iter().find(|it| it.call().id == call)?.verdict.as_ref()
    }

    /// Whether every request has its decision.
    pub(crate) fn is_decided(&self) -> bool {
        self.asked.iter().all(|it| it.verdict.is_some())
    }

    /// Whether nothing is missing any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_decided() && self.client.is_empty()
    }
}

/// Returns the calls of these ids that have no result among the items.
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

/// Returns what a run appends when it suspends.
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

/// Returns what is appended for a decision.
pub(crate) fn decided(ruling: &Ruling) -> NewItem {
    let record = DecisionRecord { id: ruling.approval.clone(), verdict: ruling.verdict.clone() };
    NewItem::application(DECISION, json!(record))
}
