//! Memory: what stays, who sees it, and what is gone when it is forgotten.

mod captured;
mod core;
mod files;
mod forgotten;
mod isolation;
mod news;
mod processes;

mod records;
mod shared;
mod spaces;
mod together;
mod turns;
mod working;

use std::sync::Arc;

use contexture_capabilities::memory::{Memories, MemoryPorts, MemorySpace, Namespace};
use contexture_message::Encoding;
use contexture_session::{
    IsolatedStart, Log, MemoryStore, Ports, SessionConfig, SessionId, SessionStart, Sessions, SourceIndex,
    Store, Tenant, Thread,
};

use crate::place::{Place, open_file, open_schema};
use crate::stage::{TestNames, TestTime};

/// A store with sessions and memories, as one process sees it.
pub(crate) struct Process {
    store: Arc<dyn Store>,
    pub(crate) memories: Memories,
}

impl Process {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new(Arc::new(TestTime))))
    }

    pub(crate) fn on<S: Store + Log + SourceIndex>(store: Arc<S>) -> Self {
        let ports = MemoryPorts { index: store.clone(), log: store.clone(), time: Arc::new(TestTime) };
        Self { store, memories: Memories::new(ports) }
    }

    /// Opens a store, as every process does for itself.
    pub(crate) async fn at(place: &Place) -> Self {
        match place {
            Place::File(path) => Self::on(Arc::new(open_file(path))),
            Place::Schema(schema) => Self::on(Arc::new(open_schema(schema).await)),
        }
    }

    pub(crate) fn ada(&self) -> MemorySpace {
        self.memories.space(&Tenant::default(), Namespace::of_user("ada")).unwrap()
    }

    pub(crate) fn sessions(&self) -> Sessions {
        let ports = Ports {
            time: Arc::new(TestTime),
            names: Arc::new(TestNames),
            counter: Arc::new(Encoding::O200kBase),
        };
        Sessions::new(Arc::clone(&self.store), ports, SessionConfig::default())
    }

    pub(crate) async fn create(&self, name: &str) -> Thread {
        let start = SessionStart { id: Some(SessionId::parse(name).unwrap()), label: None };
        self.sessions().create(start).await.unwrap().main().clone()
    }

    pub(crate) async fn create_for(&self, tenant: &str, name: &str) -> Thread {
        let start = SessionStart { id: Some(SessionId::parse(name).unwrap()), label: None };
        let sessions = self.sessions().of_tenant(Tenant::parse(tenant).unwrap());
        sessions.create(start).await.unwrap().main().clone()
    }

    pub(crate) async fn isolated(&self, session: &str, name: &str) -> Thread {
        let session = self.sessions().open(&SessionId::parse(session).unwrap()).await.unwrap();
        let start = IsolatedStart { name: Some(name.to_owned()), ..IsolatedStart::default() };
        session.create_isolated(start).await.unwrap()
    }

    pub(crate) async fn open(&self, name: &str) -> Thread {
        self.sessions().open(&SessionId::parse(name).unwrap()).await.unwrap().main().clone()
    }
}
