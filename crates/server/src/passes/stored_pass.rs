//! Stored passes, and how they are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture::PassDocument;
use contexture_agent::answer_in;
use contexture_compose::Explanation;
use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_message::{ErrorCode, Message, Request, StopReason, Usage};
use contexture_session::documents::Documents;
use contexture_session::{
    Journal, JournalRecord, SessionError, SessionId, SessionKey, Sessions, StoreError, ThreadId,
};
use contexture_wire::{Target, encode_request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

use super::elements::{self, Elements};
use super::{PASSES, legacy};
use crate::Problem;
use crate::http::input::shown;

/// Names a pass: its session and its number there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassId {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
}

impl TryFrom<String> for PassId {
    type Error = Problem;

    fn try_from(text: String) -> Result<Self, Problem> {
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

/// A record of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum PassRecord {
    /// The result of a call that was recorded without it.
    Result { of: u64, result: PassResult },
    /// A call, with its result if that was there soon.
    Pass {
        #[serde(flatten)]
        manifest: Box<Manifest>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<PassResult>,
    },
}

impl PassRecord {
    /// Returns the record as it is stored. What is large in it is moved, not copied.
    pub(super) fn into_value(mut self) -> Option<Value> {
        let content = match &mut self {
            PassRecord::Result { .. } => None,
            PassRecord::Pass { manifest, .. } => {
                Some((manifest.document.take(), std::mem::take(&mut manifest.elements)))
            }
        };
        let mut value = serde_json::to_value(&self).ok()?;
        if let Some((document, elements)) = content {
            (value["document"], value["elements"]) = (document, elements.into());
        }
        Some(value)
    }
}

/// A call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The name of the document with the result of the call, in records of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key: String,
    #[serde(flatten)]
    pub(crate) call: CallInfo,
    /// Where the thread's log ended when the model was called; the answer follows it.
    #[serde(default)]
    pub(crate) end: Option<Seq>,
    pub(crate) wire: Option<Wire>,
    /// Request and Explanation; their long lists name elements of this and of earlier records.
    pub(crate) document: Value,
    /// The elements that no earlier record has.
    #[serde(default)]
    pub(crate) elements: Elements,
    /// What was forgotten of it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forgotten: Option<ForgottenParts>,
}

/// What of a pass was forgotten. The document is gone, or has marks in the place of words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForgottenParts {
    /// When.
    pub(crate) at: Timestamp,
    /// The elements of the record that have marks.
    #[serde(default)]
    pub(crate) elements: Vec<usize>,
}

/// What was called, and from where.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CallInfo {
    /// The thread.
    pub(crate) thread: String,
    /// The turn.
    pub(crate) turn: String,
    /// The number of the call within the turn, from 1.
    pub(crate) step: u32,
    /// The prompt.
    pub(crate) prompt: String,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The hash of the request.
    pub(crate) fingerprint: String,
    /// The size of the request, as counted before the call.
    pub(crate) total_tokens: u32,
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
pub(crate) struct PassResult {
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

/// Returns the hash of a body, which tells whether it can be made again: 128 bits, as hex digits. It detects differences,
/// not attacks, so a fast hash will do: every call hashes its whole conversation.
pub(super) fn body_hash(body: &[u8]) -> String {
    format!("{:032x}", xxh3_128(body))
}

/// Returns the hash of a body in records of earlier versions.
fn legacy_body_hash(body: &[u8]) -> String {
    Sha256::digest(body).iter().take(20).map(|it| format!("{it:02x}")).collect()
}

/// A pass that was read.
#[derive(Clone, Debug)]
pub(crate) struct StoredPass {
    pub(crate) id: PassId,
    pub(crate) at: Timestamp,
    pub(crate) manifest: Manifest,
    pub(crate) result: Option<PassResult>,
}

impl StoredPass {
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

    /// Refuses a pass of which something was forgotten: it is not what was sent.
    pub(crate) fn check_whole(&self) -> Result<(), Problem> {
        match &self.manifest.forgotten {
            Some(parts) => Err(forgotten(&self.id, parts.at)),
            None => Ok(()),
        }
    }

    /// Returns the body that went over the wire, to the byte.
    pub(crate) fn body(&self) -> Result<String, Problem> {
        self.check_whole()?;
        let none = || {
            let problem =
                Problem::new(ErrorCode::NotFound, format!("pass `{}` was not sent over a wire", self.id));
            problem.hint("its model runs in the server itself")
        };
        let wire = self.manifest.wire.as_ref().ok_or_else(none)?;
        let body = encode_request(&wire.target, &self.request()?).body.to_string();
        let hashes = [body_hash, legacy_body_hash];
        match hashes.iter().any(|hash| hash(body.as_bytes()) == wire.hash) {
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
    let Manifest { call: CallInfo { thread, turn, .. }, end, .. } = &stored_pass.manifest;
    let is_answered = stored_pass.result.as_ref().is_some_and(|it| it.error.is_none());
    let (Some(end), Some(turn), true) = (*end, TurnNo::parse(turn), is_answered) else { return Ok(None) };
    let thread = match sessions.open_thread(&ThreadId::parse(thread.as_str())?).await {
        Err(SessionError::Store(StoreError::NotFound { .. })) => return Ok(None),
        thread => thread?,
    };
    let behind = thread.after(end, MAX_BEHIND).await?;
    let of_turn = behind.iter().filter(|it| it.turn == turn);
    Ok(of_turn.into_iter().find_map(|it| answer_in(&it.body)))
}

fn forgotten(id: &PassId, at: Timestamp) -> Problem {
    let text = format!("pass `{id}` showed something that was forgotten at {}", at.to_seconds());
    Problem::new(ErrorCode::PassForgotten, text).hint("it can't be sent again")
}

fn damaged(id: &PassId, reason: &str) -> Problem {
    Problem::new(ErrorCode::StoreDamaged, format!("pass `{id}` can't be read: {reason}"))
}

/// Where the passes of a session are read.
pub(crate) struct PassReader<'a> {
    journal: Journal,
    documents: &'a dyn Documents,
    session: SessionKey,
}

impl<'a> PassReader<'a> {
    pub(crate) fn new(sessions: &Sessions, documents: &'a dyn Documents, session: &SessionId) -> Self {
        let session = SessionKey { tenant: sessions.tenant().clone(), session: session.clone() };
        let journal = Journal::new(Arc::clone(sessions.store()), session.clone(), PASSES);
        Self { journal, documents, session }
    }

    /// Reads a pass with all its elements.
    pub(crate) async fn load(&self, number: u64) -> Result<StoredPass, Problem> {
        let id = PassId { session: self.session.session.clone(), number };
        let Some(record) = self.journal.record(number).await? else {
            return Err(match number <= self.journal.end().await? {
                true => Problem::new(ErrorCode::PassExpired, format!("pass `{id}` is not kept any more")),
                false => Problem::not_found("pass", &id.to_string()),
            });
        };
        let (at, record) = (record.at, PassRecord::deserialize(&record.value));
        let (manifest, result) = match record.map_err(|err| damaged(&id, &err.to_string()))? {
            PassRecord::Pass { manifest, result } => (*manifest, result),
            PassRecord::Result { .. } => return Err(Problem::not_found("pass", &id.to_string())),
        };
        let mut pass = StoredPass { id, at, manifest, result };
        self.complete(&mut pass).await?;
        self.put_elements(&mut pass).await?;
        Ok(pass)
    }

    /// Reads the newest passes, without their elements, newest first.
    pub(crate) async fn newest(
        &self,
        mut before: Option<u64>,
        max: usize,
    ) -> Result<Vec<StoredPass>, Problem> {
        let (mut passes, mut results) = (Vec::new(), BTreeMap::new());
        while passes.len() < max {
            let page = self.journal.newest(before, max).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.number);
            for JournalRecord { number, at, value } in page {
                match PassRecord::deserialize(&value) {
                    Ok(PassRecord::Result { of, result }) => _ = results.insert(of, result),
                    Ok(PassRecord::Pass { manifest, result }) => {
                        let id = PassId { session: self.session.session.clone(), number };
                        let result = result.or_else(|| results.remove(&number));
                        passes.push(StoredPass { id, at, manifest: *manifest, result });
                    }
                    Err(_) => {}
                }
            }
        }
        passes.truncate(max);
        for pass in &mut passes {
            self.complete(pass).await?;
        }
        Ok(passes)
    }

    /// Adds the result of a call that was recorded without it.
    async fn complete(&self, pass: &mut StoredPass) -> Result<(), Problem> {
        /// How many records may lie between a call and its result: those of other threads of the session.
        const MAX_BETWEEN: u64 = 64;
        if pass.result.is_some() {
            return Ok(());
        }
        if !pass.manifest.key.is_empty() {
            let found = legacy::result(self.documents, &self.session, &pass.manifest.key).await?;
            pass.result = found.and_then(|it| serde_json::from_str(&it).ok());
            return Ok(());
        }
        let number = pass.id.number;
        let behind = self.journal.newest(Some(number + MAX_BETWEEN + 1), MAX_BETWEEN as usize).await?;
        pass.result = behind.iter().find_map(|it| match PassRecord::deserialize(&it.value) {
            Ok(PassRecord::Result { of, result }) if of == number => Some(result),
            _ => None,
        });
        Ok(())
    }

    async fn put_elements(&self, pass: &mut StoredPass) -> Result<(), Problem> {
        let not_whole = |id: &PassId| {
            Problem::new(ErrorCode::PassExpired, format!("pass `{id}` is not kept whole any more"))
        };
        if let Some(parts) = pass.manifest.forgotten.as_ref().filter(|_| pass.manifest.document.is_null()) {
            return Err(forgotten(&pass.id, parts.at));
        }
        let document = &mut pass.manifest.document;
        if !pass.manifest.key.is_empty() {
            let is_whole = legacy::join(self.documents, &self.session, document).await?;
            return if is_whole { Ok(()) } else { Err(not_whole(&pass.id)) };
        }
        let mut records = BTreeMap::from([(0, std::mem::take(&mut pass.manifest.elements))]);
        for number in elements::records_named(document) {
            let Some(record) = self.journal.record(number).await? else { return Err(not_whole(&pass.id)) };
            let Ok(PassRecord::Pass { manifest, .. }) = PassRecord::deserialize(&record.value) else {
                continue;
            };
            if let Some(parts) = manifest.forgotten {
                if manifest.document.is_null() {
                    return Err(forgotten(&pass.id, parts.at));
                }
                if parts.elements.iter().any(|it| elements::is_named(document, number, *it)) {
                    pass.manifest.forgotten = Some(ForgottenParts { at: parts.at, elements: Vec::new() });
                }
            }
            records.insert(number, manifest.elements);
        }
        elements::join(document, &records).map_err(|_| not_whole(&pass.id))
    }
}
