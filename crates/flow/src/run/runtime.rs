//! Runs from outside: begin, drive, answer, cancel, list, follow.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_history::Timestamp;
use contexture_session::{
    Document, DocumentKey, DocumentList, Extent, Names, NewRecord, Records, SessionId, SessionStart,
    Sessions, StoreError, Tenant, Time, Writes,
};
use futures::Stream;
use serde_json::Value;

use super::book::{self, Book, written};
use super::commit::Pen;
use super::driver::{Driver, Left};
use super::error::RunError;
use super::event::{RunEvent, RunStatus};
use super::id::RunId;
use super::inbox;
use super::info::{RunInfo, RunList};
use super::keys::{self, Keys};
use super::library::Library;
use super::state::State;
use crate::define::FlowDefinition;
use crate::flow::Flow;
use crate::lower::{Shelf, lower};
use crate::services::Services;

/// How runs are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// How long a driver may be silent before another one may take over.
    pub lease: Duration,
    /// How long nodes may take to come to an end when a run is cancelled or fails.
    pub grace: Duration,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), grace: Duration::from_secs(10) }
    }
}

/// What a runtime is made of.
pub struct RuntimeParts {
    /// The sessions, of any tenant.
    pub sessions: Sessions,
    /// Where runs are kept: the store of the sessions.
    pub records: Arc<dyn Records>,
    /// Tells the time and waits.
    pub time: Arc<dyn Time>,
    /// Makes names.
    pub names: Arc<dyn Names>,
    /// What runs take from the application.
    pub library: Arc<dyn Library>,
    /// How runs are driven.
    pub config: RuntimeConfig,
}

/// The runs of one tenant. Clones share everything.
///
/// A run goes on while somebody drives it: [`start`](Self::start) puts it on record, [`drive`](Self::drive) takes it as far as it gets without
/// anybody's help. Both may happen in different processes.
#[derive(Clone)]
pub struct Runtime {
    pub(super) parts: Arc<RuntimeParts>,
    tenant: Tenant,
    /// Definitions that are known to be kept.
    kept: Arc<Mutex<BTreeSet<(Tenant, String)>>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// What a run begins with.
#[derive(Clone, Debug, Default)]
pub struct RunStart {
    /// The session that it belongs to; without one it gets a new one.
    pub session: Option<SessionId>,
    /// What it is given: an object with the flow's inputs.
    pub input: Value,
    /// The same key again gives the first run, not a second one.
    pub key: Option<String>,
}

impl Runtime {
    /// Returns the runs of the default tenant.
    pub fn new(parts: RuntimeParts) -> Self {
        Self { parts: Arc::new(parts), tenant: Tenant::default(), kept: Arc::default() }
    }

    /// Returns the runs of another tenant in the same store.
    #[must_use]
    pub fn of_tenant(&self, tenant: Tenant) -> Self {
        Self { tenant, ..self.clone() }
    }

    pub(super) fn records(&self) -> &dyn Records {
        &*self.parts.records
    }

    fn keys(&self, run: &RunId) -> Keys {
        Keys { tenant: self.tenant.clone(), run: run.clone() }
    }

    fn sessions(&self) -> Sessions {
        self.parts.sessions.of_tenant(self.tenant.clone())
    }

    /// Puts a run on record. It begins when somebody drives it.
    pub async fn start(&self, flow: &Flow, start: RunStart) -> Result<RunId, RunError> {
        let input = checked_input(flow, start.input)?;
        if let Some(run) = self.started(start.key.as_deref()).await? {
            return Ok(run);
        }
        let is_new = start.session.is_none();
        let session = match &start.session {
            Some(id) => self.sessions().open_or_create(id).await?,
            None => self.sessions().create(SessionStart::default()).await?,
        };
        let run = RunId::new(session.id().clone(), self.parts.names.next());
        let input = Arc::new(input);
        let begin = RunEvent::RunStart {
            run: run.clone(),
            flow: flow.id().to_owned(),
            fingerprint: flow.fingerprint().to_owned(),
            session: run.session().clone(),
            input: Arc::clone(&input),
        };
        let writes = self.begun(flow, &run, input, &begin, start.key.as_deref());
        match self.records().write(writes).await {
            Ok(_) => {}
            Err(StoreError::Exists { .. }) if start.key.is_some() => {
                // Somebody else was faster with the same key.
                if is_new {
                    self.sessions().delete(session.id()).await?;
                }
                let first = self.started(start.key.as_deref()).await?;
                return first.ok_or_else(|| RunError::NotFound { run: run.to_string() });
            }
            Err(err) => return Err(err.into()),
        }
        self.kept().insert((self.tenant.clone(), flow.fingerprint().to_owned()));
        self.parts.library.heard(flow, &begin);
        Ok(run)
    }

    fn begun(
        &self,
        flow: &Flow,
        run: &RunId,
        input: Arc<Value>,
        start: &RunEvent,
        key: Option<&str>,
    ) -> Writes {
        let keys = self.keys(run);
        let at = self.parts.time.now();
        let book = Book {
            flow: flow.id().to_owned(),
            fingerprint: flow.fingerprint().to_owned(),
            status: RunStatus::Running,
            epoch: 1,
            is_driven: false,
            input,
            upto: 1,
            taken: 0,
            state: State::default(),
            outputs: std::collections::BTreeMap::new(),
            node: None,
            error: None,
            created: at,
        };
        let document = |key: DocumentKey, data: String| Document { key, at, data };
        let mut creates = vec![book.document(&keys, at), document(keys.fence(1), String::new())];
        creates.extend(key.map(|it| document(keys::start_key(&self.tenant, it), run.to_string())));
        let mut puts = vec![Document { key: keys.due(), at: Timestamp(0), data: String::new() }];
        let is_kept = self.kept().contains(&(self.tenant.clone(), flow.fingerprint().to_owned()));
        if !is_kept && !flow.has_custom() {
            let key = keys::definition(&self.tenant, flow.fingerprint());
            puts.push(document(key, flow.document().to_string()));
        }
        let records = vec![NewRecord { stream: keys.log(), at, data: written(start) }];
        Writes { records, puts, creates, ..Writes::default() }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeSet<(Tenant, String)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the run that was begun with a key.
    async fn started(&self, key: Option<&str>) -> Result<Option<RunId>, RunError> {
        let Some(key) = key else { return Ok(None) };
        let found = book::document(self.records(), keys::start_key(&self.tenant, key)).await?;
        Ok(found.map(|it| RunId::parse(&it.data)).transpose()?)
    }

    /// Drives a run as far as it gets: until it is over, or everything in it waits for somebody. With `stop` the run is left to others
    /// at once, without loss. [`RunError::Driven`] if somebody else drives it.
    pub async fn drive(&self, run: &RunId, stop: CancellationToken) -> Result<RunInfo, RunError> {
        let keys = self.keys(run);
        loop {
            let Some(driver) = self.acquire(&keys).await? else { return self.info(run).await };
            let Left::Waiting { taken } = driver.drive(stop.clone()).await? else {
                return self.info(run).await;
            };
            // Somebody may have answered just before the run was let go.
            let letters = self.records().read(keys.inbox(), taken, 1).await?;
            if letters.is_empty() || stop.is_cancelled() {
                return self.info(run).await;
            }
        }
    }

    /// Takes a run up, if it is not over.
    async fn acquire(&self, keys: &Keys) -> Result<Option<Driver>, RunError> {
        let (mut book, _) = book::book(self.records(), keys).await?;
        if book.status.is_over() {
            self.forget_marks(keys).await?;
            return Ok(None);
        }
        let now = self.parts.time.now();
        if book.is_driven && !self.is_silent(keys, now).await? {
            return Err(RunError::Driven { run: keys.run.to_string() });
        }
        // Before anything is written: a run whose flow can't be made again stays as it is.
        let flow = self.flow_of(keys, &book).await?;
        let (before, is_taken_over) = (book.epoch, book.is_driven);
        (book.epoch, book.is_driven, book.status) = (before + 1, true, RunStatus::Running);
        let writes = Writes {
            puts: vec![
                book.document(keys, now),
                Document { key: keys.due(), at: now, data: book.epoch.to_string() },
            ],
            creates: vec![Document { key: keys.fence(book.epoch), at: now, data: String::new() }],
            deletes: vec![keys.fence(before)],
            requires: vec![keys.fence(before)],
            ..Writes::default()
        };
        match self.records().write(writes).await {
            Ok(_) => {}
            Err(StoreError::NotFound { .. } | StoreError::Exists { .. }) => {
                return Err(RunError::Driven { run: keys.run.to_string() });
            }
            Err(err) => return Err(err.into()),
        }
        let services = self.services(keys).await?;
        let pen = Pen {
            keys: keys.clone(),
            epoch: book.epoch,
            records: Arc::clone(&self.parts.records),
            time: Arc::clone(&self.parts.time),
        };
        Driver::open(pen, flow, services, self.parts.config, book, is_taken_over).await.map(Some)
    }

    /// Whether the run's driver has given no sign of life for too long.
    async fn is_silent(&self, keys: &Keys, now: Timestamp) -> Result<bool, RunError> {
        let beat = book::document(self.records(), keys.due()).await?;
        Ok(beat.is_none_or(|it| self.is_old(it.at, now)))
    }

    pub(super) fn is_old(&self, at: Timestamp, now: Timestamp) -> bool {
        let lease = i64::try_from(self.parts.config.lease.as_millis()).unwrap_or(i64::MAX);
        now.0.saturating_sub(at.0) >= lease
    }

    async fn services(&self, keys: &Keys) -> Result<Arc<Services>, RunError> {
        let session = self.sessions().open(keys.run.session()).await?;
        Ok(Arc::new(Services {
            agent: self.parts.library.agent(),
            library: Arc::clone(&self.parts.library),
            tenant: self.tenant.clone(),
            session,
            records: Arc::clone(&self.parts.records),
            time: Arc::clone(&self.parts.time),
            threads: Mutex::default(),
        }))
    }

    /// Finds the flow that a run was begun with: a run does not change because its file does.
    async fn flow_of(&self, keys: &Keys, book: &Book) -> Result<Flow, RunError> {
        let current = self.parts.library.flow(&book.flow);
        if let Some(flow) = current.filter(|it| it.fingerprint() == book.fingerprint) {
            return Ok(flow);
        }
        let changed =
            |why: String| RunError::FlowChanged { run: keys.run.to_string(), flow: book.flow.clone(), why };
        let key = keys::definition(&self.tenant, &book.fingerprint);
        let document = book::document(self.records(), key).await?;
        let document = document.ok_or_else(|| changed("that version is not kept".to_owned()))?;
        let document: Value = book::parsed(keys, &document.data)?;
        made_again(&book.flow, &document).map_err(changed)
    }

    async fn forget_marks(&self, keys: &Keys) -> Result<(), RunError> {
        let mut deletes = book::marks(self.records(), keys).await?;
        deletes.push(keys.due());
        self.records().write(Writes { deletes, ..Writes::default() }).await?;
        Ok(())
    }

    /// Answers what a run waits for, once. The run goes on when somebody drives it; whoever drives it now hears of it.
    pub async fn answer(&self, run: &RunId, wait: &str, value: Value) -> Result<(), RunError> {
        inbox::answer(self.records(), &self.keys(run), wait, value, self.parts.time.now()).await
    }

    /// Tells a run to stop, and returns its status before. It is over when somebody has driven it; whoever drives it now hears of it.
    pub async fn cancel(&self, run: &RunId) -> Result<RunStatus, RunError> {
        inbox::cancel(self.records(), &self.keys(run), self.parts.time.now()).await
    }

    /// Returns what can be said of a run.
    pub async fn info(&self, run: &RunId) -> Result<RunInfo, RunError> {
        let keys = self.keys(run);
        let (book, at) = book::book(self.records(), &keys).await?;
        let waits =
            if book.status.is_over() { Vec::new() } else { book::waits(self.records(), &keys).await? };
        Ok(book.info(&keys, at, waits))
    }

    /// Lists runs, without what they wait for.
    pub async fn list(&self, list: &RunList) -> Result<Vec<RunInfo>, RunError> {
        const PAGE: usize = 256;
        let mut found = Vec::new();
        let mut after = list.after.as_ref().map(|it| self.keys(it).run());
        while found.len() < list.max {
            let page = DocumentList {
                kind: keys::RUN.to_owned(),
                tenant: Some(self.tenant.clone()),
                session: list.session.clone(),
                after: after.take(),
                max: PAGE,
            };
            let page = self.records().list(page).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.key.clone());
            for document in &page {
                if let Some(info) = self.listed(document, list)? {
                    found.push(info);
                }
            }
            if is_last {
                break;
            }
        }
        found.truncate(list.max);
        Ok(found)
    }

    fn listed(&self, document: &Document, list: &RunList) -> Result<Option<RunInfo>, RunError> {
        let Some(session) = document.key.session.clone() else { return Ok(None) };
        let keys = self.keys(&RunId::new(session, document.key.name.clone()));
        let book: Book = book::parsed(&keys, &document.data)?;
        let is_wanted = list.flow.as_ref().is_none_or(|it| *it == book.flow)
            && list.status.is_none_or(|it| it == book.status);
        Ok(is_wanted.then(|| book.info(&keys, document.at, Vec::new())))
    }

    /// Returns what happened in a run after a number, oldest first, at most `max`.
    pub async fn events(
        &self,
        run: &RunId,
        after: u64,
        max: usize,
    ) -> Result<Vec<(u64, RunEvent)>, RunError> {
        let keys = self.keys(run);
        let page = self.records().read(keys.log(), after, max).await?;
        page.iter().map(|it| Ok((it.number, book::parsed(&keys, &it.data)?))).collect()
    }

    /// Returns which numbers what happened in a run has.
    pub async fn extent(&self, run: &RunId) -> Result<Extent, RunError> {
        Ok(self.records().extent(self.keys(run).log()).await?)
    }

    /// Follows a run from behind a number: everything that happens in it, each once and in order, until it is over.
    pub fn follow(
        &self,
        run: &RunId,
        after: u64,
    ) -> impl Stream<Item = Result<(u64, RunEvent), RunError>> + Send + use<> {
        let (runtime, run) = (self.clone(), run.clone());
        let first = (after, Vec::new().into_iter(), false);
        futures::stream::try_unfold(first, move |(mut after, mut page, is_over)| {
            let (runtime, run) = (runtime.clone(), run.clone());
            async move {
                loop {
                    if let Some((number, event)) = page.next() {
                        let is_over = matches!(event, RunEvent::RunEnd { .. });
                        return Ok(Some(((number, event), (number, page, is_over))));
                    }
                    if is_over {
                        return Ok(None);
                    }
                    let more = runtime.events(&run, after, 256).await?;
                    if more.is_empty() {
                        runtime.grown(&run, after).await?;
                        continue;
                    }
                    after = more.last().map_or(after, |it| it.0);
                    page = more.into_iter();
                }
            }
        })
    }

    /// Waits until something may have happened in a run after a number.
    pub async fn grown(&self, run: &RunId, after: u64) -> Result<(), RunError> {
        Ok(self.records().grown(self.keys(run).log(), after).await?)
    }
}

/// Fills in what is missing, and says what does not fit.
fn checked_input(flow: &Flow, input: Value) -> Result<Value, RunError> {
    let wrong = |why: String| RunError::InputInvalid { flow: flow.id().to_owned(), why };
    let mut map = match input {
        Value::Null => serde_json::Map::new(),
        Value::Object(map) => map,
        _ => return Err(wrong("it is an object".to_owned())),
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
        of.check(value).map_err(|why| wrong(format!("`{name}`: {why}")))?;
    }
    Ok(Value::Object(map))
}

/// Makes a flow again from what was kept of it.
fn made_again(id: &str, document: &Value) -> Result<Flow, String> {
    let read = |value: &Value| FlowDefinition::read(id, value).map_err(|err| err.to_string());
    let mut shelf = Shelf::default();
    for sub in document["subs"].as_array().into_iter().flatten() {
        let sub = read(sub)?;
        shelf.flows.insert(sub.id.clone(), Arc::new(sub));
    }
    lower(&read(&document["flow"])?, &shelf).map_err(|err| err.to_string())
}
