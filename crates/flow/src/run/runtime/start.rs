//! How a run is put on record.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use contexture_history::{Seq, Timestamp};
use contexture_session::{
    Document, LogKind, NewLog, SessionId, SessionKey, SessionStart, StoreError, Tenant,
};
use serde_json::Value;

use super::Runtime;
use crate::keys::{self, FRESH, earlier};
use crate::port::weight::check_depth;
use crate::run::record::RunRecord;
use crate::run::record::log::{Entry, items};
use crate::run::state::State;
use crate::{EventContext, Flow, RunError, RunEvent, RunId, RunStatus};

/// How often a key is tried that others take and free at the same time.
const TRIES: usize = 16;

/// The arguments of a new run.
#[derive(Clone, Debug, Default)]
pub struct RunStart {
    /// The session that it belongs to; without one it gets a new one.
    pub session: Option<SessionId>,
    /// The input: an object with the flow's inputs.
    pub input: Value,
    /// The same key again gives the first run, not a second one.
    pub key: Option<String>,
    /// The user that the run works for. Nodes that ask a model pass it on: memory is kept by user.
    pub user: Option<String>,
}

impl Runtime {
    /// Records a run. It starts when it is driven.
    pub async fn start(&self, flow: &Flow, mut start: RunStart) -> Result<RunId, RunError> {
        let input = Arc::new(checked_input(flow, std::mem::take(&mut start.input))?);
        let mut tries = 0;
        loop {
            if let Some(run) = self.started(start.key.clone()).await? {
                return Ok(run);
            }
            tries += 1;
            match self.begin(flow, &start, &input).await {
                // Another process was faster with the same key.
                Err(RunError::Store(StoreError::Exists { .. })) if start.key.is_some() && tries < TRIES => {}
                begun => return begun,
            }
        }
    }

    /// Finds the run that was begun with a key.
    async fn started(&self, key: Option<String>) -> Result<Option<RunId>, RunError> {
        let Some(key) = key else { return Ok(None) };
        let log = self.store().log_with_start_key(self.tenant.clone(), key).await?;
        Ok(log.map(|it| RunId::of_log(&it.thread)))
    }

    async fn begin(&self, flow: &Flow, start: &RunStart, input: &Arc<Value>) -> Result<RunId, RunError> {
        let is_new = start.session.is_none();
        let session = match &start.session {
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
        self.keep_definition(flow).await?;
        let created = self.store().create_log(self.new_log(flow, &run, begin.clone(), start, input)).await;
        if is_new && matches!(created, Err(StoreError::Exists { .. })) {
            self.sessions().delete(session.id()).await?;
        }
        match created {
            // Its session was deleted in this moment.
            Err(StoreError::NotFound { .. }) => return Err(RunError::NotFound { run: run.to_string() }),
            created => created?,
        }
        let number = Some(1);
        self.parts.library.on_event(EventContext { tenant: &self.tenant, run: &run, flow, number }, &begin);
        Ok(run)
    }

    fn new_log(
        &self,
        flow: &Flow,
        run: &RunId,
        begin: RunEvent,
        start: &RunStart,
        input: &Arc<Value>,
    ) -> NewLog {
        let at = self.parts.time.now();
        let session = SessionKey { tenant: self.tenant.clone(), session: run.session().clone() };
        let record = RunRecord {
            flow: flow.id().to_owned(),
            fingerprint: flow.fingerprint().to_owned(),
            status: RunStatus::Running,
            input: Arc::clone(input),
            user: start.user.clone(),
            upto: 1,
            state: State::default(),
            outputs: BTreeMap::new(),
            node: None,
            error: None,
            created: at,
        };
        NewLog {
            kind: LogKind::Run,
            start_key: start.key.clone(),
            state: record.log_state(at),
            items: items(Seq(0), [Entry::Event(begin)], at),
            ..NewLog::isolated(session, run.log(&self.tenant).thread, at)
        }
    }

    /// Makes sure that a flow's definition is kept: it is written now and then, and not pruned before long.
    async fn keep_definition(&self, flow: &Flow) -> Result<(), RunError> {
        let now = self.parts.time.now();
        let kept = (self.tenant.clone(), flow.fingerprint().to_owned());
        // What was written recently exists.
        if self.fresh_definitions().get(&kept).is_some_and(|it| *it > earlier(now, FRESH)) {
            return Ok(());
        }
        let key = keys::definition(&self.tenant, flow.fingerprint());
        self.documents().put(Document { key, at: now, data: flow.document().to_string() }).await?;
        self.fresh_definitions().insert(kept, now);
        Ok(())
    }

    fn fresh_definitions(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Tenant, String), Timestamp>> {
        self.fresh_definitions.lock().unwrap_or_else(PoisonError::into_inner)
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
