//! Boards in a store. A board is a log of records; its state is their replay.
//!
//! A write decides on the newest state and appends at its end. If another writer was faster, it decides again, so the
//! order of the log is the order of the writes, in all processes. The log begins with a snapshot of the initial state
//! and has another one every [`SNAPSHOT_EVERY`] records or less: an old board costs no more to open than a new one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use contexture_history::{Body, Item, Seq, Timestamp};
use contexture_session::{
    Append, Guard, Names, NewLog, NewSession, Span, Store, StoreError, ThreadKey, Time, append_surely,
    record_item,
};
use futures::Stream;
use futures::stream::try_unfold;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definition::BoardDefinition;
use super::edit::{Edit, Expected, changes};
use super::error::BoardError;
use super::pointer::Pointer;
use super::scope::{BoardKey, BoardOwner};
use super::state::{BoardAuthor, BoardEvent, BoardRecord, BoardState};

/// The kind of the items of a board's log.
const KIND: &str = "blackboard";
/// A snapshot follows after at most so many items.
const SNAPSHOT_EVERY: u64 = 32;
/// So many of the newest items have a snapshot among them.
const NEWEST: usize = 64;
/// How often a write decides again because others were faster. One of them succeeds each time.
const MAX_ATTEMPTS: usize = 1_000;
/// How often waiters poll a log: appends to journals do not wake other processes.
const POLL: Duration = Duration::from_millis(100);
/// How many records are read at once.
const PAGE: usize = 100;

/// What boards need from the program.
#[derive(Clone, Debug)]
pub struct BoardPorts {
    /// Keeps the logs.
    pub store: Arc<dyn Store>,
    /// Tells the time and waits.
    pub time: Arc<dyn Time>,
    /// Names appends.
    pub names: Arc<dyn Names>,
}

/// The boards of a program. Clones share everything.
#[derive(Clone, Default)]
pub struct Boards(Arc<Inner>);

#[derive(Default)]
struct Inner {
    ports: RwLock<Option<BoardPorts>>,
    definitions: RwLock<BTreeMap<String, Arc<BoardDefinition>>>,
    /// The boards that writers of this process write now. They queue instead of racing.
    writing: Mutex<BTreeMap<BoardKey, Weak<futures::lock::Mutex<()>>>>,
}

impl fmt::Debug for Boards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boards").field("is_provided", &self.is_provided()).finish_non_exhaustive()
    }
}

impl Boards {
    /// Returns boards in a store.
    pub fn new(ports: BoardPorts) -> Self {
        let boards = Self::default();
        boards.provide(ports);
        boards
    }

    /// Returns boards without a store: until one is [provided](Self::provide), entries with boards add nothing.
    pub fn unprovided() -> Self {
        Self::default()
    }

    /// Sets the store.
    pub fn provide(&self, ports: BoardPorts) {
        *self.0.ports.write().unwrap_or_else(PoisonError::into_inner) = Some(ports);
    }

    /// Whether there is a store.
    pub fn is_provided(&self) -> bool {
        self.0.ports.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Lets a board be found by its id. The last definition of an id counts.
    pub fn define(&self, definition: Arc<BoardDefinition>) {
        let mut definitions = self.0.definitions.write().unwrap_or_else(PoisonError::into_inner);
        definitions.insert(definition.id().to_owned(), definition);
    }

    /// Returns the definition with an id.
    pub fn definition(&self, id: &str) -> Option<Arc<BoardDefinition>> {
        self.0.definitions.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Returns all definitions in the order of their ids.
    pub fn definitions(&self) -> Vec<Arc<BoardDefinition>> {
        self.0.definitions.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the board of an owner by its id.
    pub fn find(&self, id: &str, owner: &BoardOwner) -> Result<Board, BoardError> {
        let definition = self.definition(id).ok_or_else(|| BoardError::Unknown { id: id.to_owned() })?;
        self.board(&definition, owner)
    }

    /// Returns a board of an owner. It exists from its first write on; until then it holds the defaults of its schema.
    pub fn board(&self, definition: &Arc<BoardDefinition>, owner: &BoardOwner) -> Result<Board, BoardError> {
        let ports = self.0.ports.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ports = ports.ok_or(BoardError::Unavailable("there is no store for blackboards here"))?;
        let key = BoardKey::new(definition.id(), definition.scope(), owner)?;
        let mut writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = match writing.get(&key).and_then(Weak::upgrade) {
            Some(queue) => queue,
            None => {
                writing.retain(|_, it| it.strong_count() > 0);
                let queue = Arc::default();
                writing.insert(key.clone(), Arc::downgrade(&queue));
                queue
            }
        };
        Ok(Board { ports, definition: Arc::clone(definition), key, queue })
    }
}

/// One board. Clones are the same board.
#[derive(Clone, Debug)]
pub struct Board {
    ports: BoardPorts,
    definition: Arc<BoardDefinition>,
    key: BoardKey,
    queue: Arc<futures::lock::Mutex<()>>,
}

/// A write with its circumstances.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardWrite {
    /// The change.
    pub edit: Edit,
    /// What the writer expects of the paths that it writes.
    pub expected: Expected,
    /// The author.
    pub author: BoardAuthor,
    /// The thread and turn, if it is made in one.
    pub turn: Option<String>,
    /// The author's reason.
    pub reason: Option<String>,
    /// Names the write: repeated with the same key it is made once.
    pub key: Option<String>,
}

impl BoardWrite {
    /// Returns a write of the application that expects nothing to be there yet.
    pub fn new(edit: Edit) -> Self {
        let (expected, author) = (Expected::Nothing, BoardAuthor::Application);
        Self { edit, expected, author, turn: None, reason: None, key: None }
    }

    /// Returns a write of a value by the merge rule of its field.
    pub fn put(path: &str, value: impl Into<Value>) -> Result<Self, BoardError> {
        Ok(Self::new(Edit::Put { path: path.parse()?, value: value.into() }))
    }

    /// Sets what the writer expects of the paths that it writes.
    #[must_use]
    pub fn expecting(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    /// Sets the author's reason.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }
}

/// An item of a board's log.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Stored {
    Write(BoardRecord),
    Snapshot { state: BoardState },
}

impl Board {
    /// Returns the definition of the board.
    pub fn definition(&self) -> &Arc<BoardDefinition> {
        &self.definition
    }

    fn log(&self) -> ThreadKey {
        let session = &self.key.session;
        ThreadKey { tenant: session.tenant.clone(), thread: session.session.journal(&self.key.name) }
    }

    /// Returns the newest state. What can't be read is an error, never an empty board.
    pub async fn read(&self) -> Result<BoardState, BoardError> {
        Ok(self.load().await?.state)
    }

    async fn load(&self) -> Result<Loaded, BoardError> {
        let span = Span::NewestItems { count: NEWEST, client: false };
        let items = match self.ports.store.read(self.log(), span).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            items => items?,
        };
        let mut stored = Vec::with_capacity(items.len());
        for item in &items {
            stored.push((item.seq, self.stored(item)?));
        }
        let is_snapshot = |(_, it): &(Seq, Stored)| matches!(it, Stored::Snapshot { .. });
        let Some(begin) = stored.iter().rposition(is_snapshot) else {
            return match stored.first() {
                None => Ok(Loaded {
                    state: BoardState::new(self.definition.schema.initial().clone()),
                    end: Seq(0),
                    since_snapshot: 0,
                }),
                Some((seq, _)) => Err(self.damaged(*seq, "no snapshot was found before it".to_owned())),
            };
        };
        let mut loaded = Loaded { state: BoardState::default(), end: Seq(0), since_snapshot: 0 };
        for (seq, stored) in stored.drain(begin..) {
            match stored {
                Stored::Snapshot { state } => (loaded.state, loaded.since_snapshot) = (state, 0),
                Stored::Write(record) => {
                    loaded.state.apply(seq.0, &record).map_err(|err| self.damaged(seq, err))?;
                    loaded.since_snapshot += 1;
                }
            }
            loaded.end = seq;
        }
        Ok(loaded)
    }

    fn stored(&self, item: &Item) -> Result<Stored, BoardError> {
        match &item.body {
            Body::Application(it) => {
                Stored::deserialize(&it.value).map_err(|err| self.damaged(item.seq, err.to_string()))
            }
            other => Err(self.damaged(item.seq, format!("it is of the kind `{}`", other.kind()))),
        }
    }

    fn damaged(&self, seq: Seq, detail: String) -> BoardError {
        BoardError::Damaged {
            place: format!("record {seq} of blackboard `{}`", self.definition.id()),
            detail,
        }
    }

    /// Writes, and returns the state after it. Writes to different paths never conflict; a write to a path that is not
    /// as the writer expects is [`BoardError::Stale`] with its value. The result is durable.
    pub async fn write(&self, write: BoardWrite) -> Result<BoardState, BoardError> {
        let _turn = self.queue.lock().await;
        let mut attempts = 0;
        loop {
            let mut loaded = self.load().await?;
            if write.key.as_ref().is_some_and(|it| loaded.state.written_with(it).is_some()) {
                return Ok(loaded.state);
            }
            let BoardWrite { edit, expected, author, turn, reason, key } = write.clone();
            let changes = changes(&loaded.state, &self.definition.schema, &edit, expected)?;
            if changes.is_empty() {
                return Ok(loaded.state);
            }
            let record = BoardRecord { author, turn, reason, key, changes };
            let items = self.items(&mut loaded, record)?;
            attempts += 1;
            match self.append(loaded.end, items).await {
                Err(StoreError::Conflict { .. }) if attempts < MAX_ATTEMPTS => {}
                done => return done.map(|()| loaded.state).map_err(BoardError::from),
            }
        }
    }

    /// Returns the items of a record, with the snapshots that are due, and moves the state behind them.
    fn items(&self, loaded: &mut Loaded, record: BoardRecord) -> Result<Vec<Item>, BoardError> {
        let at = self.ports.time.now();
        let mut next = loaded.end.0;
        let mut item = |stored: &Stored| {
            next += 1;
            Item { seq: Seq(next), ..record_item(KIND, json!(stored), at) }
        };
        let mut items = Vec::new();
        if loaded.end == Seq(0) {
            items.push(item(&Stored::Snapshot { state: loaded.state.clone() }));
        }
        let version = loaded.end.0 + items.len() as u64 + 1;
        loaded.state.apply(version, &record).map_err(|err| self.damaged(Seq(version), err))?;
        items.push(item(&Stored::Write(record)));
        if loaded.since_snapshot + 1 >= SNAPSHOT_EVERY {
            items.push(item(&Stored::Snapshot { state: loaded.state.clone() }));
        }
        Ok(items)
    }

    async fn append(&self, end: Seq, items: Vec<Item>) -> Result<(), StoreError> {
        let append = Append { nonce: self.ports.names.next(), ..Append::new(Some(end), items, Guard::Any) };
        let (store, time) = (&*self.ports.store, &*self.ports.time);
        if end == Seq(0) {
            self.create(time.now()).await?;
        }
        append_surely(store, time, &self.log(), append).await.map(drop)
    }

    /// Makes the log, unless it exists.
    async fn create(&self, at: Timestamp) -> Result<(), StoreError> {
        let store = &self.ports.store;
        if self.key.is_apart() {
            let session = NewSession { key: self.key.session.clone(), label: None, at };
            exists(store.create_session(session).await)?;
        }
        exists(store.create_log(NewLog::journal(self.key.session.clone(), &self.key.name, at)).await)
    }

    /// Returns records after a version, oldest first, at most about `max`.
    pub async fn history(&self, after: u64, max: usize) -> Result<Vec<BoardEvent>, BoardError> {
        Ok(self.page(after, max).await?.0)
    }

    /// Returns records, and where the next page begins.
    async fn page(&self, after: u64, max: usize) -> Result<(Vec<BoardEvent>, u64), BoardError> {
        let span = Span::After { seq: Seq(after), max: max.max(1) };
        let items = match self.ports.store.read(self.log(), span).await {
            Err(StoreError::NotFound { .. }) => return Ok((Vec::new(), after)),
            items => items?,
        };
        let next = items.last().map_or(after, |it| it.seq.0);
        let mut events = Vec::with_capacity(items.len());
        for item in items {
            if let Stored::Write(record) = self.stored(&item)? {
                events.push(BoardEvent { version: item.seq.0, at: item.at, record });
            }
        }
        Ok((events, next))
    }

    /// Returns the records after a version, and then each further one when it is written, by any process.
    pub fn subscribe(
        &self,
        after: u64,
    ) -> impl Stream<Item = Result<BoardEvent, BoardError>> + Send + 'static {
        let start = (self.clone(), after, Vec::<BoardEvent>::new().into_iter());
        try_unfold(start, |(board, mut after, mut ready)| async move {
            loop {
                if let Some(event) = ready.next() {
                    return Ok(Some((event, (board, after, ready))));
                }
                let (events, next) = board.page(after, PAGE).await?;
                if next == after {
                    board.ports.time.sleep(POLL).await;
                }
                (after, ready) = (next, events.into_iter());
            }
        })
    }

    /// Waits until the board fits a condition, and returns its state then.
    pub async fn wait(&self, condition: impl Fn(&BoardState) -> bool) -> Result<BoardState, BoardError> {
        loop {
            let state = self.read().await?;
            if condition(&state) {
                return Ok(state);
            }
            self.ports.time.sleep(POLL).await;
        }
    }

    /// Returns the value at a path with its version.
    pub async fn get(&self, path: &Pointer) -> Result<Option<(Value, u64)>, BoardError> {
        let state = self.read().await?;
        Ok(path.get(state.value()).map(|it| (it.clone(), state.version_of(path))))
    }
}

/// A board as its log has it.
struct Loaded {
    state: BoardState,
    end: Seq,
    /// How many records there are since the last snapshot.
    since_snapshot: u64,
}

fn exists(made: Result<(), StoreError>) -> Result<(), StoreError> {
    match made {
        Err(StoreError::Exists { .. }) => Ok(()),
        made => made,
    }
}
