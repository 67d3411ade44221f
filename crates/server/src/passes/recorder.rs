//! Writes down what models see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_agent::{Called, Calling, Watcher};
use contexture_history::Timestamp;
use contexture_session::records::{Document, NewRecord, StreamKey, Writes};
use contexture_session::{Names, SessionId, SessionKey, Tenant, ThreadKey, Time};
use contexture_wire::{Target, encode_request};
use serde_json::{Value, json};

use super::chunks::{self, Chunk};
use super::stored_pass::{Manifest, ResultRecord, Wire, key_of};
use super::{CHUNK, PASSES, RESULT};
use crate::events::writer::EventWriter;

/// How long a written chunk is assumed to exist. Then it is written again, which protects it from pruning.
const KNOWN_MS: i64 = 600_000;
/// How many chunks are remembered.
const MAX_KNOWN: usize = 100_000;

/// Records what models see, and the results of the calls.
#[derive(Clone, Debug)]
pub(crate) struct PassRecorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event_writer: EventWriter,
    time: Arc<dyn Time>,
    names: Arc<dyn Names>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pieces of sessions that were written, by the beginning of their hash, and when.
    known: HashMap<SessionKey, HashMap<u128, Timestamp>>,
    n_known: usize,
    /// The calls that are being made.
    open: HashMap<(ThreadKey, String), String>,
}

impl PassRecorder {
    pub(crate) fn new(event_writer: EventWriter, time: Arc<dyn Time>, names: Arc<dyn Names>) -> Self {
        Self(Arc::new(Inner { event_writer, time, names, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows nothing of a session any more.
    pub(crate) fn forget(&self, session: &SessionKey) {
        let mut state = self.state();
        let gone = state.known.remove(session).unwrap_or_default();
        state.n_known -= gone.len();
    }

    fn record_call(&self, call: &Calling<'_>, session: &SessionKey) {
        let at = self.0.time.now();
        let key = self.0.names.next();
        let mut document = json!({"request": call.pass.request(), "explanation": call.pass.explain()});
        let chunks = chunks::split(&mut document);
        let manifest = Manifest {
            key: key.clone(),
            thread: call.thread.id().to_string(),
            turn: call.turn.to_string(),
            step: call.step,
            end: Some(call.thread.get().state().end),
            prompt: call.prompt.to_owned(),
            model: call.pass.request().model.clone(),
            fingerprint: call.pass.fingerprint().to_string(),
            total_tokens: call.pass.total_tokens().0,
            wire: call.target.clone().map(|target| wire(target, call)),
            document,
        };
        let puts = self.new_chunks(session, chunks, at);
        let stream = StreamKey::of_session(&session.tenant, &session.session, PASSES);
        let data = serde_json::to_string(&manifest).unwrap_or_default();
        self.0.event_writer.write(Writes {
            records: vec![NewRecord { stream, at, data }],
            puts,
            ..Writes::default()
        });
        self.state().open.insert((call.thread.key().clone(), call.turn.to_string()), key);
    }

    /// Returns the chunks that may not exist yet.
    fn new_chunks(&self, session: &SessionKey, chunks: Vec<Chunk>, at: Timestamp) -> Vec<Document> {
        let mut state = self.state();
        if state.n_known > MAX_KNOWN {
            (state.known, state.n_known) = Default::default();
        }
        let known = state.known.entry(session.clone()).or_default();
        let n_before = known.len();
        let mut documents = Vec::new();
        for Chunk { hash, data } in chunks {
            let written = known.entry(chunks::short(&hash)).or_insert(Timestamp(i64::MIN));
            if at.0.saturating_sub(written.0) > KNOWN_MS {
                *written = at;
                documents.push(Document { key: key_of(session, CHUNK, hash), at, data });
            }
        }
        let n_new = known.len() - n_before;
        state.n_known += n_new;
        documents
    }
}

fn wire(target: Target, call: &Calling<'_>) -> Wire {
    let body = encode_request(&target, call.pass.request()).body.to_string();
    Wire { hash: chunks::hash(&body), bytes: body.len(), target }
}

/// Returns the tenant of conversations that are not kept. Nothing is written down of them.
pub(crate) fn unkept_tenant() -> Tenant {
    Tenant::parse("~unkept").unwrap_or_default()
}

fn session_of(thread: &ThreadKey) -> Option<SessionKey> {
    let session: SessionId = thread.thread.session();
    (thread.tenant != unkept_tenant()).then(|| SessionKey { tenant: thread.tenant.clone(), session })
}

impl Watcher for PassRecorder {
    fn calling(&self, call: &Calling<'_>) {
        if let Some(session) = session_of(call.thread.key()) {
            self.record_call(call, &session);
        }
    }

    fn called(&self, call: &Calling<'_>, result: &Called) {
        let place = (call.thread.key().clone(), call.turn.to_string());
        let Some(key) = self.state().open.remove(&place) else { return };
        let Some(session) = session_of(call.thread.key()) else { return };
        let (stop, error) = match &result.end {
            Ok(stop) => (serde_json::to_value(stop).unwrap_or(Value::Null), None),
            Err(code) => (Value::Null, Some(code.clone())),
        };
        let record = ResultRecord {
            took_ms: u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX),
            usage: result.usage,
            cache: result.reconciled.as_ref().and_then(|it| serde_json::to_value(it).ok()),
            stop,
            error,
        };
        let data = serde_json::to_string(&record).unwrap_or_default();
        let document = Document { key: key_of(&session, RESULT, key), at: self.0.time.now(), data };
        self.0.event_writer.write(Writes { puts: vec![document], ..Writes::default() });
    }
}
