//! Sessions: one main thread, and any number of isolated ones.

pub(crate) mod rewrite;
pub(crate) mod transfer;

use std::sync::Arc;

use contexture_history::{Body, Change, Seq, TurnStatus};
use contexture_message::Message;

use crate::config::{Ports, SessionConfig};
use crate::live::Shared;
use crate::log::draft::{Draft, draft_items};
use crate::store::{NewLog, NewSession, SessionInfo, Span, Store, ThreadInfo, Usage};
use crate::thread::isolated_name;
use crate::{
    ModelChoice, NewItem, SessionError, SessionId, SessionKey, State, StoreError, Tenant, Thread, ThreadId,
    ThreadKey, ids,
};

/// The sessions of one tenant in one store. Clones share everything.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<Shared>,
    tenant: Tenant,
}

/// The initial values of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionStart {
    /// Its name; without one it gets a new one.
    pub id: Option<SessionId>,
    /// A label for people.
    pub label: Option<String>,
}

/// The initial values of an isolated thread.
#[derive(Clone, Debug, Default)]
pub struct IsolatedStart {
    /// The last part of its id, after the session's id and a `/`; generated if absent. See
    /// [`Session::create_isolated`] for a name that already exists.
    pub name: Option<String>,
    /// The model of the thread.
    pub model: Option<ModelChoice>,
    /// The system instructions of the thread.
    pub system_instructions: Option<String>,
    /// Whether it starts with a copy of what `base` has.
    pub inherit_history: bool,
    /// The first messages.
    pub initial_messages: Vec<Message>,
    /// A label for people.
    pub label: Option<String>,
    /// The thread whose history it inherits; the main thread by default.
    pub base: Option<ThreadId>,
}

impl Sessions {
    /// Returns the sessions of the default tenant.
    pub fn new(store: Arc<dyn Store>, ports: Ports, config: SessionConfig) -> Self {
        let owner = Arc::from(ports.names.next());
        Self { shared: Arc::new(Shared::new(store, ports, config, owner)), tenant: Tenant::default() }
    }

    /// Returns the sessions of another tenant in the same store.
    #[must_use]
    pub fn of_tenant(&self, tenant: Tenant) -> Self {
        Self { tenant, shared: Arc::clone(&self.shared) }
    }

    /// Returns how many turns of history a thread hands to a prompt.
    pub fn history_window(&self) -> usize {
        self.shared.config.history_window
    }

    /// Returns the store that holds these sessions.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Returns the tenant of these sessions.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Creates a session with its main thread.
    pub async fn create(&self, start: SessionStart) -> Result<Session, SessionError> {
        let id = match start.id {
            Some(id) => id,
            None => SessionId::parse(self.shared.ports.names.next())?,
        };
        if id.is_reserved() {
            return Err(StoreError::Exists { what: "session", id: id.to_string() }.into());
        }
        let key = SessionKey { tenant: self.tenant.clone(), session: id };
        let at = self.shared.ports.time.now();
        self.shared.store.create_session(NewSession { key: key.clone(), label: start.label, at }).await?;
        self.session(key).await
    }

    /// Opens an existing session.
    pub async fn open(&self, id: &SessionId) -> Result<Session, SessionError> {
        let key = SessionKey { tenant: self.tenant.clone(), session: id.clone() };
        match self.session(key).await {
            Err(SessionError::Store(StoreError::NotFound { .. })) => Err(StoreError::no_session(id).into()),
            done => done,
        }
    }

    /// Opens a session, or creates it.
    pub async fn open_or_create(&self, id: &SessionId) -> Result<Session, SessionError> {
        match self.open(id).await {
            Err(SessionError::Store(StoreError::NotFound { .. })) => {}
            done => return done,
        }
        match self.create(SessionStart { id: Some(id.clone()), label: None }).await {
            // Another process created it in between.
            Err(SessionError::Store(StoreError::Exists { .. })) => self.open(id).await,
            done => done,
        }
    }

    async fn session(&self, key: SessionKey) -> Result<Session, SessionError> {
        let main = self.thread(key.main()).await?;
        Ok(Session { sessions: self.clone(), key, main })
    }

    /// Lists sessions in the order of their names, those after `after`.
    pub async fn list(&self, after: Option<SessionId>, max: usize) -> Result<Vec<SessionInfo>, SessionError> {
        // One more, in place of the engine's own.
        let mut sessions =
            self.shared.store.sessions(self.tenant.clone(), after, max.saturating_add(1)).await?;
        sessions.retain(|it| !it.session.is_reserved());
        sessions.truncate(max);
        Ok(sessions)
    }

    /// Deletes a session and everything in it. Returns whether it existed.
    pub async fn delete(&self, id: &SessionId) -> Result<bool, SessionError> {
        if id.is_reserved() {
            return Ok(false);
        }
        let key = SessionKey { tenant: self.tenant.clone(), session: id.clone() };
        self.shared.forget(&key);
        Ok(self.shared.store.delete_session(key).await?)
    }

    /// Returns what the store holds of this tenant.
    pub async fn usage(&self) -> Result<Usage, SessionError> {
        Ok(self.shared.store.usage(self.tenant.clone()).await?)
    }

    /// Returns the handle of a thread of this tenant in its current state; other processes may have written to it.
    pub async fn open_thread(&self, id: &ThreadId) -> Result<Thread, SessionError> {
        self.thread(ThreadKey { tenant: self.tenant.clone(), thread: id.clone() }).await
    }

    async fn thread(&self, key: ThreadKey) -> Result<Thread, SessionError> {
        if key.thread.session().is_reserved() {
            return Err(StoreError::no_thread(&key.thread).into());
        }
        Ok(Thread::of(self.shared.live_now(key).await?))
    }
}

/// A session: one main thread, and any number of isolated ones that never leak into it.
#[derive(Clone, Debug)]
pub struct Session {
    sessions: Sessions,
    key: SessionKey,
    main: Thread,
}

impl Session {
    /// Returns the session's name.
    pub fn id(&self) -> &SessionId {
        &self.key.session
    }

    /// Returns the main thread.
    pub fn main(&self) -> &Thread {
        &self.main
    }

    /// Lists the threads, the main one first.
    pub async fn threads(&self) -> Result<Vec<ThreadInfo>, SessionError> {
        Ok(self.sessions.shared.store.threads(self.key.clone()).await?)
    }

    /// Returns the handle of one of the session's threads.
    pub async fn thread(&self, id: &ThreadId) -> Result<Thread, SessionError> {
        match id.session() == self.key.session {
            true => self.sessions.open_thread(id).await,
            false => Err(StoreError::no_thread(id).into()),
        }
    }

    /// Creates an isolated thread.
    ///
    /// A call with a name is idempotent: an existing thread of that name is returned unchanged. If the thread is still
    /// empty, because its creator crashed before writing the initial items, the items of `start` are written now. They
    /// are written exactly once, no matter how often or from which process this is called.
    pub async fn create_isolated(&self, start: IsolatedStart) -> Result<Thread, SessionError> {
        let thread = match &start.name {
            Some(name) => self.find_or_make(name, &start).await?,
            None => self.make(self.sessions.shared.ports.names.next(), &start).await?,
        };
        let copied = thread.head().await?.info.base.map_or(Seq(0), |it| it.seq);
        let own = start_of_own(&thread, copied).await?;
        let is_new = |state: &State| (copied..=own).contains(&state.end);
        // Looked at first: a thread that is in use is not waited for.
        if is_new(thread.get().state()) {
            let draft =
                |state: &State| Ok(if is_new(state) { start_draft(state, &start) } else { Draft::new() });
            thread.write(draft).await?;
        }
        Ok(thread)
    }

    async fn find_or_make(&self, name: &str, start: &IsolatedStart) -> Result<Thread, SessionError> {
        ids::check("thread name", name)?;
        let id = isolated_name(&self.key.session, name)?;
        match self.sessions.open_thread(&id).await {
            Err(SessionError::Store(StoreError::NotFound { .. })) => {}
            done => return done,
        }
        match self.make(name.to_owned(), start).await {
            // Another process created it in between.
            Err(SessionError::Store(StoreError::Exists { .. })) => self.sessions.open_thread(&id).await,
            done => done,
        }
    }

    async fn make(&self, name: String, start: &IsolatedStart) -> Result<Thread, SessionError> {
        if start.inherit_history {
            let base = match &start.base {
                Some(id) => self.thread(id).await?,
                None => self.main.clone(),
            };
            return base.fork_at(base.head().await?, None, start.label.clone(), name).await;
        }
        let shared = &self.sessions.shared;
        let thread = isolated_name(&self.key.session, &name)?;
        let new = NewLog::isolated(self.key.clone(), thread.clone(), shared.ports.time.now());
        let new = NewLog { label: start.label.clone(), ..new };
        shared.store.create_log(new).await?;
        // This process may still hold a handle to a released thread of the same name.
        self.sessions.open_thread(&thread).await
    }

    /// Deletes an isolated thread. Returns whether it existed; the main thread is never deleted.
    pub async fn release(&self, id: &ThreadId) -> Result<bool, SessionError> {
        if *id == self.key.session.main() {
            return Ok(false);
        }
        self.thread(id).await?;
        let key = ThreadKey { tenant: self.key.tenant.clone(), thread: id.clone() };
        Ok(self.sessions.shared.store.delete_log(key).await?)
    }
}

/// Returns the end of what a copy inherits. The first write to the copy of a running turn ends that turn, whatever else
/// it says, so that end is not the copy's own.
async fn start_of_own(thread: &Thread, copied: Seq) -> Result<Seq, SessionError> {
    let snapshot = thread.get();
    let state = snapshot.state();
    let is_ended = match state.end {
        end if end == copied => state.open.is_some_and(|it| it.status == TurnStatus::InFlight),
        end if end == copied.next() => {
            let first = thread.read(Span::After { seq: copied, max: 1 }).await?;
            first.iter().any(|it| matches!(it.body, Body::Change(Change::TurnEnded { .. })))
        }
        _ => false,
    };
    Ok(if is_ended { copied.next() } else { copied })
}

fn start_draft(state: &State, start: &IsolatedStart) -> Draft {
    let items: Vec<NewItem> = start.initial_messages.iter().cloned().map(NewItem::from).collect();
    let model = start.model.clone().map(|it| Change::Model { provider: it.provider, model: it.model });
    let instructions = start.system_instructions.clone().map(|it| Change::Instructions { text: Some(it) });
    let changes = model.into_iter().chain(instructions).map(|it| NewItem::of(Body::Change(it)));
    let said = draft_items(&State { open: None, ..state.clone() }, &items);
    changes.map(|it| (state.turn, it)).chain(said).collect()
}
