//! How a run is put on record.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use contexture_history::Timestamp;
use contexture_session::{
    Document, DocumentKey, NewRecord, SessionId, SessionStart, StoreError, Tenant, Writes,
};
use serde_json::Value;

use super::Runtime;
use crate::keys::{self, FRESH, earlier};
use crate::port::weight::check_depth;
use crate::run::record::{RunRecord, start_key, written};
use crate::run::state::State;
use crate::{Flow, RunError, RunEvent, RunId, RunStatus};

/// How often a key is tried that others take or free at the same time. Only one that is damaged needs more.
const TRIES: usize = 100;

/// The arguments of a new run.
#[derive(Clone, Debug, Default)]
pub struct RunStart {
    /// The session that it belongs to; without one it gets a new one.
    pub session: Option<SessionId>,
    /// The input: an object with the flow's inputs.
    pub input: Value,
    /// The same key again gives the first run, not a second one.
    pub key: Option<String>,
}

impl Runtime {
    /// Records a run. It starts when it is driven.
    pub async fn start(&self, flow: &Flow, start: RunStart) -> Result<RunId, RunError> {
        let input = Arc::new(checked_input(flow, start.input)?);
        for _ in 0..TRIES {
            if let Some(run) = self.started(start.key.as_deref()).await? {
                return Ok(run);
            }
            if let Some(run) = self.begin(flow, start.session.as_ref(), &input, start.key.clone()).await? {
                return Ok(run);
            }
        }
        let place = format!("start key `{}`", start.key.unwrap_or_default());
        Err(StoreError::Damaged { place, detail: "it belongs to no run and can't be freed".to_owned() }
            .into())
    }

    /// Starts a run, unless another process was faster with the same key.
    async fn begin(
        &self,
        flow: &Flow,
        session: Option<&SessionId>,
        input: &Arc<Value>,
        key: Option<String>,
    ) -> Result<Option<RunId>, RunError> {
        let (is_new, has_key) = (session.is_none(), key.is_some());
        let session = match session {
            Some(id) => self.sessions().open_or_create(id).await?,
            None => self.sessions().create(SessionStart::default()).await?,
        };
        let run = RunId::new(session.id().clone(), self.parts.names.next());
        let begin = RunEvent::RunStart {
            run: run.clone(),
            flow: flow.id().to_owned(),
            fingerprint: flow.fingerprint().to_owned(),
            session: run.session().clone(),
            input: Arc::clone(input),
        };
        let now = self.parts.time.now();
        let is_kept = self.is_kept(flow, now);
        let mut writes = self.begun(&run, new_run_record(flow, Arc::clone(input), key, now), &begin);
        if !is_kept {
            let key = keys::definition(&self.tenant, flow.fingerprint());
            writes.puts.push(Document { key, at: now, data: flow.document().to_string() });
        }
        match self.records().write(writes).await {
            // Its session was deleted in this moment, and nothing of the run is on record.
            Ok(numbers) if numbers.contains(&0) => return Err(RunError::NotFound { run: run.to_string() }),
            Ok(_) => {}
            Err(StoreError::Exists { .. }) if has_key => {
                if is_new {
                    self.sessions().delete(session.id()).await?;
                }
                return Ok(None);
            }
            Err(err) => return Err(err.into()),
        }
        if !is_kept {
            self.fresh_definitions().insert((self.tenant.clone(), flow.fingerprint().to_owned()), now);
        }
        self.parts.library.on_event(flow, &begin);
        Ok(Some(run))
    }

    fn begun(&self, run: &RunId, run_record: RunRecord, start: &RunEvent) -> Writes {
        let keys = self.keys(run);
        let at = run_record.created;
        let document = |key: DocumentKey, data: String| Document { key, at, data };
        let mut creates = vec![run_record.document(&keys, at), document(keys.fence(1), String::new())];
        let key = run_record.key.as_deref().map(|it| keys::start_key(&self.tenant, it));
        creates.extend(key.map(|it| document(it, run.to_string())));
        let puts = vec![Document { key: keys.due(), at: Timestamp(0), data: String::new() }];
        let records = vec![NewRecord { stream: keys.log(), at, data: written(start) }];
        Writes { records, puts, creates, ..Writes::default() }
    }

    /// Whether a flow's definition was written recently and therefore exists.
    fn is_kept(&self, flow: &Flow, now: Timestamp) -> bool {
        let fresh_definitions =
            self.fresh_definitions().get(&(self.tenant.clone(), flow.fingerprint().to_owned())).copied();
        fresh_definitions.is_some_and(|it| it > earlier(now, FRESH))
    }

    fn fresh_definitions(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Tenant, String), Timestamp>> {
        self.fresh_definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the run that was begun with a key.
    async fn started(&self, key: Option<&str>) -> Result<Option<RunId>, RunError> {
        let Some(key) = key else { return Ok(None) };
        start_key::run_of(self.records(), &self.tenant, key, self.parts.time.now()).await
    }

    /// Deletes a session and everything in it, including its runs and their start keys. Returns whether it existed.
    pub async fn delete_session(&self, session: &SessionId) -> Result<bool, RunError> {
        let now = self.parts.time.now();
        start_key::delete_session(&self.sessions(), self.records(), session, now).await
    }
}

fn new_run_record(flow: &Flow, input: Arc<Value>, key: Option<String>, at: Timestamp) -> RunRecord {
    RunRecord {
        flow: flow.id().to_owned(),
        fingerprint: flow.fingerprint().to_owned(),
        status: RunStatus::Running,
        epoch: 1,
        is_driven: false,
        input,
        upto: 1,
        taken: 0,
        state: State::default(),
        outputs: BTreeMap::new(),
        node: None,
        error: None,
        key,
        created: at,
    }
}

/// Fills in defaults, and reports what does not fit.
fn checked_input(flow: &Flow, input: Value) -> Result<Value, RunError> {
    let wrong = |why: String| RunError::InputInvalid { flow: flow.id().to_owned(), why };
    let mut map = match input {
        Value::Null => serde_json::Map::new(),
        Value::Object(map) => map,
        _ => return Err(wrong("it must be an object".to_owned())),
    };
    if let Some(name) = map.keys().find(|it| !flow.inputs().contains_key(*it)) {
        let known: Vec<&str> = flow.inputs().keys().map(String::as_str).collect();
        return Err(wrong(format!("there is no `{name}`; there are: {}", known.join(", "))));
    }
    for (name, of) in flow.inputs() {
        let usual = of.schema.as_ref().and_then(|it| it.get("default"));
        if let (false, Some(usual)) = (map.contains_key(name), usual) {
            map.insert(name.clone(), usual.clone());
        }
        let value = map.get(name).ok_or_else(|| wrong(format!("`{name}` is missing")))?;
        check_depth(value).and_then(|()| of.check(value)).map_err(|why| wrong(format!("`{name}`: {why}")))?;
    }
    Ok(Value::Object(map))
}
