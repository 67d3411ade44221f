//! What the tests share: a file in a folder of its own, and short words for the contract.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture_history::{Body, Change, Cost, Item, Seq, Timestamp, TurnNo};
use contexture_message::{Message, Tokens};
use contexture_session::conformance::SystemTime;
use contexture_session::{
    Append, Appended, Guard, Head, Log as _, LogState, NewLog, NewSession, SessionId, SessionKey, Span,
    State, Store as _, StoreError, Tenant, ThreadId, ThreadKey, search,
};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use futures::executor::block_on;

/// The size of a new file's pages.
pub(crate) const PAGE: usize = 2048;

/// A folder with one file.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.file("contexture.db")
    }

    pub(crate) fn open(&self) -> Threads {
        Threads::open(&self.db()).expect("the file can be opened")
    }
}

/// A store, one call at a time.
#[derive(Clone)]
pub(crate) struct Threads {
    pub(crate) store: SqliteStore,
}

impl Threads {
    pub(crate) fn open(path: &Path) -> Result<Threads, StoreError> {
        let store = SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime)))?;
        Ok(Threads { store })
    }

    pub(crate) fn create(&self, name: &str) {
        let new = NewSession { key: session(name), label: None, at: Timestamp(1) };
        block_on(self.store.create_session(new)).expect("a new session");
    }

    /// Copies `from` up to `end` into a thread of the session of the same name.
    pub(crate) fn fork(&self, from: &str, to: &str, end: u64) -> Result<(), StoreError> {
        let items = self.items(from);
        let state = State::replay(items.iter().take(usize::try_from(end).unwrap_or(usize::MAX)));
        let (session, thread) = (session(from), ThreadId::parse(to).expect("a name"));
        let archived = search::ranges_of(&state.archives);
        let new = NewLog {
            state: LogState::from(&state),
            archived,
            ..NewLog::isolated(session, thread, Timestamp(2))
        };
        block_on(self.store.fork(thread_key(from), new))
    }

    pub(crate) fn head(&self, name: &str) -> Head {
        block_on(Head::read(&self.store, &thread_key(name))).expect("an answer").expect("a thread")
    }

    pub(crate) fn items(&self, name: &str) -> Vec<Item> {
        self.try_items(name).expect("items")
    }

    pub(crate) fn try_items(&self, name: &str) -> Result<Vec<Item>, StoreError> {
        block_on(self.store.read(thread_key(name), Span::After { seq: Seq(0), max: usize::MAX }))
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        texts(&self.items(name))
    }

    /// Appends messages as one commit at the end of a thread.
    pub(crate) fn say(&self, name: &str, texts: &[&str]) {
        self.append(name, &self.head(name).state, texts, Guard::Free).expect("an append");
    }

    pub(crate) fn append(
        &self,
        name: &str,
        state: &State,
        texts: &[&str],
        guard: Guard,
    ) -> Result<Appended, StoreError> {
        let bodies = texts.iter().map(|it| said(it)).collect();
        block_on(self.store.append(thread_key(name), append(state, bodies, guard)))
    }
}

pub(crate) fn session(name: &str) -> SessionKey {
    SessionKey { tenant: Tenant::default(), session: SessionId::parse(name).expect("a name") }
}

pub(crate) fn thread_key(name: &str) -> ThreadKey {
    ThreadKey { tenant: Tenant::default(), thread: ThreadId::parse(name).expect("a name") }
}

pub(crate) fn said(text: &str) -> Body {
    Body::Message(Arc::new(Message::user(text)))
}

pub(crate) fn began(key: &str) -> Body {
    Body::Change(Change::began(Some(key.to_owned())))
}

/// One turn with the bodies as its items.
pub(crate) fn append(state: &State, bodies: Vec<Body>, guard: Guard) -> Append {
    let turn = TurnNo(state.turn.0 + 1);
    let item = |(position, body): (u64, Body)| Item {
        seq: state.end.plus(position),
        turn,
        visibility: body.default_visibility(),
        cost: Cost { counter: Arc::from("test"), tokens: Tokens(1) },
        author: None,
        at: Timestamp(1_000),
        body,
    };
    let items: Vec<Item> = (1..).zip(bodies).map(item).collect();
    let mut next = state.clone();
    items.iter().for_each(|it| next.apply(it));
    Append {
        expected: Some(state.end),
        nonce: String::new(),
        state: Some(LogState::from(&next)),
        guard,
        keys: Append::keys_of(&items),
        items,
        lazy: false,
    }
}

pub(crate) fn texts(items: &[Item]) -> Vec<String> {
    let text = |it: &Item| match &it.body {
        Body::Message(message) => message.as_text().map(str::to_owned),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

/// A text that is stored apart.
pub(crate) fn large(word: &str) -> String {
    word.repeat(10 * 1024 / word.len())
}
