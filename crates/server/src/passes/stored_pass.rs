//! Stored passes, and how they are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture::PassDocument;
use contexture_agent::answer_in;
use contexture_compose::Explanation;
use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_message::{ErrorCode, Message, Request, StopReason, Usage};
use contexture_session::records::{DocumentKey, Record, Records, StreamKey};
use contexture_session::{SessionError, SessionId, SessionKey, Sessions, StoreError, Tenant, ThreadId};
use contexture_wire::{Target, encode_request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CHUNK, PASSES, RESULT, chunks};
use crate::Problem;
use crate::http::input::{FromPath, shown};

/// Names a pass: its session and its number there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassId {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
}

impl FromPath for PassId {
    fn from_path(text: String) -> Result<Self, Problem> {
        let wrong =
            || Problem::new(ErrorCode::PathInvalid, format!("`{}` is not the id of a pass", shown(&text)));
        let (session, number) = text.rsplit_once('.').ok_or_else(wrong)?;
        let number = number.parse().ok().filter(|it| *it > 0).ok_or_else(wrong)?;
        Ok(Self { session: SessionId::parse(session)?, number })
    }
}

impl std::fmt::Display for PassId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.session, self.number)
    }
}

/// The record of a pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The name of the document with the result of the call.
    pub(crate) key: String,
    pub(crate) thread: String,
    pub(crate) turn: String,
    pub(crate) step: u32,
    /// Where the thread's log ended when the model was called; the answer follows it.
    #[serde(default)]
    pub(crate) end: Option<Seq>,
    pub(crate) prompt: String,
    pub(crate) model: Option<String>,
    pub(crate) fingerprint: String,
    pub(crate) total_tokens: u32,
    pub(crate) wire: Option<Wire>,
    /// Request and Explanation, split into chunks.
    pub(crate) document: Value,
}

/// The request as it was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wire {
    /// The provider and model it was sent to.
    pub(crate) target: Target,
    /// The hash of the body.
    pub(crate) hash: String,
    /// The length of the body.
    pub(crate) bytes: usize,
}

/// The result of a model call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PassResult")]
pub(crate) struct ResultRecord {
    /// How long it took, in milliseconds.
    pub(crate) took_ms: u64,
    /// The tokens used.
    pub(crate) usage: Usage,
    /// The forecast of the provider's cache, compared with what the provider reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<Value>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(with = "Option<StopReason>")]
    pub(crate) stop: Value,
    /// The error of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// Returns the key of a document about passes.
pub(super) fn key_of(session: &SessionKey, kind: &str, name: impl Into<String>) -> DocumentKey {
    DocumentKey::of_session(&session.tenant, &session.session, kind, name)
}

/// A pass that was read.
#[derive(Clone, Debug)]
pub(crate) struct StoredPass {
    pub(crate) id: PassId,
    pub(crate) at: Timestamp,
    pub(crate) manifest: Manifest,
    pub(crate) result: Option<ResultRecord>,
}

impl StoredPass {
    fn of(session: &SessionId, record: &Record) -> Option<Self> {
        let manifest = serde_json::from_str(&record.data).ok()?;
        let id = PassId { session: session.clone(), number: record.number };
        Some(Self { id, at: record.at, manifest, result: None })
    }

    /// Returns request and Explanation as they were.
    pub(crate) fn document(&self) -> Result<PassDocument, Problem> {
        let explanation = Explanation::deserialize(&self.manifest.document["explanation"]);
        let explanation = explanation.map_err(|err| damaged(&self.id, &err.to_string()))?;
        Ok(PassDocument { explanation, request: Some(self.manifest.document["request"].clone()) })
    }

    /// Returns the request as it was.
    pub(crate) fn request(&self) -> Result<Request, Problem> {
        Request::deserialize(&self.manifest.document["request"])
            .map_err(|err| damaged(&self.id, &err.to_string()))
    }

    /// Returns the body that went over the wire, to the byte.
    pub(crate) fn body(&self) -> Result<String, Problem> {
        let none = || {
            let problem =
                Problem::new(ErrorCode::NotFound, format!("pass `{}` was not sent over a wire", self.id));
            problem.hint("its model runs in the server itself")
        };
        let wire = self.manifest.wire.as_ref().ok_or_else(none)?;
        let body = encode_request(&wire.target, &self.request()?).body.to_string();
        match chunks::hash(&body) == wire.hash {
            true => Ok(body),
            false => {
                Err(Problem::new(ErrorCode::PassDiffers, format!("pass `{}` is not what was sent", self.id))
                    .hint("another version of the server kept it"))
            }
        }
    }
}

/// How many items of a log are searched for an answer; a few notes may precede it.
const MAX_BEHIND: usize = 64;

/// Returns the model's answer, read from the thread's log; `None` if there is no answer yet, if the call failed, or if
/// the thread is gone.
pub(crate) async fn answer(
    sessions: &Sessions,
    stored_pass: &StoredPass,
) -> Result<Option<Arc<Message>>, Problem> {
    let Manifest { thread, turn, end, .. } = &stored_pass.manifest;
    let is_answered = stored_pass.result.as_ref().is_some_and(|it| it.error.is_none());
    let (Some(end), Some(turn), true) = (*end, TurnNo::parse(turn), is_answered) else { return Ok(None) };
    let thread = match sessions.current_thread(&ThreadId::parse(thread.as_str())?).await {
        Err(SessionError::Store(StoreError::NotFound { .. })) => return Ok(None),
        thread => thread?,
    };
    let behind = thread.after(end, MAX_BEHIND).await?;
    let of_turn = behind.iter().filter(|it| it.turn == turn);
    Ok(of_turn.into_iter().find_map(|it| answer_in(&it.body)))
}

fn damaged(id: &PassId, reason: &str) -> Problem {
    Problem::new(ErrorCode::StoreDamaged, format!("pass `{id}` can't be read: {reason}"))
}

fn stream(tenant: &Tenant, session: &SessionId) -> StreamKey {
    StreamKey::of_session(tenant, session, PASSES)
}

/// Reads a pass with all its chunks.
pub(crate) async fn load(records: &dyn Records, tenant: &Tenant, id: &PassId) -> Result<StoredPass, Problem> {
    let found = records.read(stream(tenant, &id.session), id.number - 1, 1).await?;
    let record = found.first().filter(|it| it.number == id.number);
    let Some(record) = record else {
        let extent = records.extent(stream(tenant, &id.session)).await?;
        let is_forgotten = id.number <= extent.forgotten;
        return Err(match is_forgotten {
            true => Problem::new(ErrorCode::PassExpired, format!("pass `{id}` is not kept any more")),
            false => Problem::not_found("pass", &id.to_string()),
        });
    };
    let stored_pass = StoredPass::of(&id.session, record).ok_or_else(|| damaged(id, "it is not a pass"))?;
    let mut stored_pass = with_results(records, tenant, vec![stored_pass])
        .await?
        .pop()
        .ok_or_else(|| damaged(id, "it is gone"))?;
    let session = SessionKey { tenant: tenant.clone(), session: id.session.clone() };
    let hashes = chunks::hashes(&mut stored_pass.manifest.document);
    let keys = hashes.into_iter().map(|it| key_of(&session, CHUNK, it)).collect();
    let found = records.documents(keys).await?;
    let chunks: BTreeMap<String, String> = found.into_iter().map(|it| (it.key.name, it.data)).collect();
    chunks::join(&mut stored_pass.manifest.document, &chunks).map_err(|_| {
        Problem::new(ErrorCode::PassExpired, format!("pass `{id}` is not kept whole any more"))
    })?;
    Ok(stored_pass)
}

/// Reads the newest passes of a session, without their chunks, newest first.
pub(crate) async fn newest(
    records: &dyn Records,
    tenant: &Tenant,
    session: &SessionId,
    before: Option<u64>,
    max: usize,
) -> Result<Vec<StoredPass>, Problem> {
    let found = records.read_back(stream(tenant, session), before, max).await?;
    let stored_pass = found.iter().filter_map(|it| StoredPass::of(session, it)).collect();
    with_results(records, tenant, stored_pass).await
}

async fn with_results(
    records: &dyn Records,
    tenant: &Tenant,
    mut stored_pass: Vec<StoredPass>,
) -> Result<Vec<StoredPass>, Problem> {
    let key = |it: &StoredPass| {
        let session = SessionKey { tenant: tenant.clone(), session: it.id.session.clone() };
        key_of(&session, RESULT, it.manifest.key.clone())
    };
    let found = records.documents(stored_pass.iter().map(key).collect()).await?;
    let results: BTreeMap<String, String> = found.into_iter().map(|it| (it.key.name, it.data)).collect();
    for pass in &mut stored_pass {
        let data = results.get(&pass.manifest.key);
        pass.result = data.and_then(|it| serde_json::from_str(it).ok());
    }
    Ok(stored_pass)
}
