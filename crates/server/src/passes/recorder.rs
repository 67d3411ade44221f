//! Writes down what models see.
//!
//! A call and its result are one record. If the answer takes its time, the call is recorded first, so that a crash does
//! not lose it, and its result follows in a record of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use contexture::capabilities::memory::Memories;
use contexture_agent::{Called, Calling, Watcher};
use contexture_compose::Pass;
use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_model::WireRequest;
use contexture_session::{Journal, SessionKey, Store, StoreError, Tenant, ThreadId, ThreadKey, Time};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use super::PASSES;
use super::elements::{KnownElements, PassContent};
use super::stored_pass::{CallInfo, Manifest, PassRecord, PassResult, Wire, body_hash};
use crate::lock::lock;
use crate::tasks::Tasks;

/// How long a call may take before it is recorded without its result.
const SOON: Duration = Duration::from_secs(1);
/// How long a reader waits for calls that are over and not written yet.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the result of a call is waited for.
const LATEST: Duration = Duration::from_secs(3600);
/// How many sessions are added to what is known before those that were not used since are forgotten.
const MAX_KNOWN: usize = 1_000;
/// How often a record is tried again that the store does not take, and after which pauses.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Records what models see, and the results of the calls. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct PassRecorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    /// Knows what was forgotten since a call was made.
    memories: Memories,
    time: Arc<dyn Time>,
    state: Mutex<State>,
    tasks: Tasks,
    /// Notified when a call was written.
    written: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What is known of sessions. The lock of one is held while a record of it is written, so that the next record can
    /// name its elements.
    known: HashMap<SessionKey, Known>,
    /// The sessions that were known when the last ones were forgotten, and were not used since.
    older: HashMap<SessionKey, Known>,
    n_calls: u64,
    /// The calls that are not written yet. They are counted as they are made.
    calls: BTreeMap<(SessionKey, u64), UnwrittenCall>,
}

type Known = Arc<tokio::sync::Mutex<KnownElements>>;

#[derive(Debug)]
struct UnwrittenCall {
    thread: ThreadId,
    turn: TurnNo,
    /// Where its result goes; nothing once the call is over.
    result: Option<oneshot::Sender<PassResult>>,
}

impl State {
    /// Returns whether a call that was made before this one is over and not written yet.
    fn is_behind(&self, session: &SessionKey, number: u64) -> bool {
        let mut before = self.calls.range((session.clone(), 0)..(session.clone(), number));
        before.any(|(_, it)| it.result.is_none())
    }

    /// Marks the call that a turn is making as over. Returns where its result goes.
    fn end_call(&mut self, session: &SessionKey, call: &Calling<'_>) -> Option<oneshot::Sender<PassResult>> {
        let of_session = self.calls.range_mut((session.clone(), 0)..=(session.clone(), u64::MAX));
        let mut of_turn = of_session.filter(|(_, it)| (&it.thread, it.turn) == (call.thread.id(), call.turn));
        of_turn.find_map(|(_, it)| it.result.take())
    }
}

impl PassRecorder {
    pub(crate) fn new(store: Arc<dyn Store>, memories: Memories, time: Arc<dyn Time>) -> Self {
        let (state, tasks, written) = (Mutex::default(), Tasks::default(), Notify::new());
        Self(Arc::new(Inner { store, memories, time, state, tasks, written }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// Knows nothing of a session any more.
    pub(crate) fn forget(&self, session: &SessionKey) {
        let mut state = self.state();
        state.known.remove(session);
        state.older.remove(session);
    }

    /// Returns the tasks that write calls down.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// Waits until the calls of a session that are over are written, but not for a store that is away.
    pub(crate) async fn settle(&self, session: &SessionKey) {
        let next = self.state().n_calls + 1;
        let _ = tokio::time::timeout(SETTLE, self.written_before(session, next)).await;
    }

    /// Waits until the calls are written that were made before this one and are over: records are in the order of calls.
    async fn written_before(&self, session: &SessionKey, number: u64) {
        loop {
            let written = self.0.written.notified();
            if !self.state().is_behind(session, number) {
                return;
            }
            written.await;
        }
    }

    fn known(&self, session: &SessionKey) -> Known {
        let state = &mut *self.state();
        if let Some(known) = state.known.get(session) {
            return Arc::clone(known);
        }
        if state.known.len() >= MAX_KNOWN {
            state.older = std::mem::take(&mut state.known);
        }
        let known = state.older.remove(session).unwrap_or_default();
        state.known.insert(session.clone(), Arc::clone(&known));
        known
    }

    /// Writes a call down, with its result if that is there soon.
    async fn record(&self, session: &SessionKey, call: NewCall, mut result: oneshot::Receiver<PassResult>) {
        let (manifest, content) = (call.manifest(), PassContent::of(&call.pass));
        let (number, at) = (call.number, call.at);
        drop(call);
        let soon = tokio::time::timeout(SOON, &mut result).await;
        let is_late = soon.is_err();
        let record =
            PassRecord::Pass { manifest: Box::new(manifest), result: soon.ok().and_then(Result::ok) };
        self.written_before(session, number).await;
        let Some(of) = self.write(session, record, Some(content), at).await else { return };
        if !is_late {
            return;
        }
        // A turn that is dropped tells no result.
        if let Ok(Ok(result)) = tokio::time::timeout(LATEST, result).await {
            let record = PassRecord::Result { of, result };
            self.write(session, record, None, self.0.time.now()).await;
        }
    }

    /// Writes a record, and returns its number. A store that is away for long loses it.
    async fn write(
        &self,
        session: &SessionKey,
        mut record: PassRecord,
        content: Option<PassContent>,
        at: Timestamp,
    ) -> Option<u64> {
        let journal = Journal::new(Arc::clone(&self.0.store), session.clone(), PASSES);
        let known = self.known(session);
        let mut known = known.lock().await;
        let mut hashes = Vec::new();
        if let (PassRecord::Pass { manifest, .. }, Some(content)) = (&mut record, content) {
            (manifest.document, manifest.elements, hashes) = known.split(content, at);
        }
        let mut value = record.into_value()?;
        self.0.memories.scrub_record(&session.tenant, at, &mut value);
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            match journal.append(&value, at, true).await {
                Ok(number) => {
                    known.add(number, hashes, at);
                    return Some(number);
                }
                // It was deleted meanwhile.
                Err(StoreError::NotFound { .. }) => return None,
                Err(err) => tracing::warn!(error = %err, "a pass can't be written yet"),
            }
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
        tracing::error!(session = %session.session, "a pass is not written: the store does not take it");
        None
    }
}

/// Notes that a call is written, or that it never will be: others wait for it.
struct WrittenGuard {
    recorder: PassRecorder,
    session: SessionKey,
    number: u64,
}

impl Drop for WrittenGuard {
    fn drop(&mut self) {
        self.recorder.state().calls.remove(&(self.session.clone(), self.number));
        self.recorder.0.written.notify_waiters();
    }
}

/// A call that is about to be made. The turn only pays for the clones: hashing and explaining happen while the model
/// answers.
struct NewCall {
    number: u64,
    at: Timestamp,
    thread: ThreadId,
    turn: TurnNo,
    step: u32,
    prompt: String,
    pass: Pass,
    sent: Option<WireRequest>,
    end: Seq,
}

impl NewCall {
    fn new(number: u64, at: Timestamp, call: &Calling<'_>) -> Self {
        let Calling { thread, turn, prompt, step, pass, sent } = call;
        Self {
            number,
            at,
            thread: thread.id().clone(),
            turn: *turn,
            step: *step,
            prompt: (*prompt).to_owned(),
            pass: (*pass).clone(),
            sent: sent.cloned(),
            end: thread.get().state().end,
        }
    }

    fn manifest(&self) -> Manifest {
        let call = CallInfo {
            thread: self.thread.to_string(),
            turn: self.turn.to_string(),
            step: self.step,
            prompt: self.prompt.clone(),
            model: self.pass.request().model.clone(),
            fingerprint: self.pass.fingerprint().to_string(),
            total_tokens: self.pass.total_tokens().0,
        };
        let (key, end, wire) = (String::new(), Some(self.end), self.sent.as_ref().map(wire));
        Manifest { key, call, end, wire, document: Value::Null, elements: Vec::new(), forgotten: None }
    }
}

fn wire(sent: &WireRequest) -> Wire {
    let WireRequest { target, body } = sent;
    Wire { hash: body_hash(body), bytes: body.len(), target: target.clone() }
}

/// Returns the tenant of conversations that are not kept. Nothing is written down of them.
pub(crate) fn unkept_tenant() -> Tenant {
    Tenant::parse("~unkept").expect("`~unkept` is the name of a tenant")
}

fn session_of(thread: &ThreadKey) -> Option<SessionKey> {
    (thread.tenant != unkept_tenant()).then(|| thread.session())
}

impl Watcher for PassRecorder {
    fn calling(&self, call: &Calling<'_>) {
        let Some(session) = session_of(call.thread.key()) else { return };
        let (sender, result) = oneshot::channel();
        let mut state = self.state();
        // A turn that is resumed has no result for the call that it made before.
        drop(state.end_call(&session, call));
        state.n_calls += 1;
        let number = state.n_calls;
        let (thread, turn) = (call.thread.id().clone(), call.turn);
        state.calls.insert((session.clone(), number), UnwrittenCall { thread, turn, result: Some(sender) });
        drop(state);
        let (recorder, call) = (self.clone(), NewCall::new(number, self.0.time.now(), call));
        self.0.tasks.running.spawn(async move {
            let written = WrittenGuard { recorder, session, number };
            written.recorder.record(&written.session, call, result).await;
        });
    }

    fn called(&self, call: &Calling<'_>, result: &Called) {
        let Some(session) = session_of(call.thread.key()) else { return };
        let (stop, error) = match &result.end {
            Ok(stop) => (serde_json::to_value(stop).unwrap_or(Value::Null), None),
            Err(code) => (Value::Null, Some(code.clone())),
        };
        let record = PassResult {
            took_ms: u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX),
            usage: result.usage,
            cache: result.reconciled.as_ref().and_then(|it| serde_json::to_value(it).ok()),
            stop,
            error,
        };
        if let Some(result) = self.state().end_call(&session, call) {
            // The recorder may have given up.
            let _ = result.send(record);
        }
    }
}
