//! What the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contexture_history::{Body, Cost, Item, Seq, Timestamp, TurnNo, Visibility};
use contexture_message::{Message, Tokens};
use contexture_session::{
    Append, Appended, Guard, Head, Log as _, LogState, NewLog, NewSession, SessionId, SessionKey, Span,
    State, Store, StoreError, Tenant, ThreadId, ThreadKey,
};
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use tokio_postgres::{Client, NoTls};

/// Returns the URL of the server. Without one the tests fail: they are never skipped.
pub(crate) fn url() -> String {
    contexture_pgtest::shared_url().unwrap_or_else(|err| panic!("{err}"))
}

/// Returns a name that no other test has, in no run on the same server.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    format!("{what}_{}_{now}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the default configuration with few connections: many tests run at once.
pub(crate) fn config(schema: &str) -> PostgresConfig {
    PostgresConfig { schema: schema.to_owned(), connections: 8, ..PostgresConfig::default() }
}

pub(crate) async fn store_in(config: PostgresConfig) -> PostgresStore {
    PostgresStore::connect(&url(), config).await.unwrap()
}

/// Returns the URL under which the connections of a test can be told from others.
pub(crate) fn named_url(name: &str) -> String {
    format!("{}?application_name={name}", url())
}

/// Waits until the connections of that name have ended: what they did is in the server's statistics then, and not before.
pub(crate) async fn ended(name: &str) {
    let admin = admin(&url()).await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    for _ in 0..6000 {
        let n_open: i64 = admin.query_one(sql, &[&name]).await.unwrap().get(0);
        if n_open == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("connections of `{name}` stay open");
}

/// Connects to the server directly.
pub(crate) async fn admin(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A thread and its one writer, who knows where the log ends.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) store: PostgresStore,
    pub(crate) session: SessionKey,
    pub(crate) key: ThreadKey,
    pub(crate) state: State,
}

impl Log {
    /// Creates a session of a tenant of its own.
    pub(crate) async fn create(store: &PostgresStore) -> Log {
        let session = SessionKey {
            tenant: Tenant::parse(unique("tenant")).unwrap(),
            session: SessionId::parse("s").unwrap(),
        };
        store.create_session(new_session(&session)).await.unwrap();
        Log { store: store.clone(), key: session.main(), session, state: State::default() }
    }

    /// Appends messages as one commit.
    pub(crate) async fn say(&mut self, texts: &[&str]) -> Result<Appended, StoreError> {
        self.say_with(Guard::Free, texts).await
    }

    pub(crate) async fn say_with(&mut self, guard: Guard, texts: &[&str]) -> Result<Appended, StoreError> {
        let append = append(&self.state, guard, texts);
        let state = after(&self.state, &append.items);
        let appended = self.store.append(self.key.clone(), append).await?;
        self.state = state;
        Ok(appended)
    }

    pub(crate) async fn items(&self) -> Vec<Item> {
        let all = Span::After { seq: Seq(0), max: usize::MAX };
        self.store.read(self.key.clone(), all).await.unwrap()
    }

    pub(crate) async fn texts(&self) -> Vec<String> {
        texts(&self.items().await)
    }

    pub(crate) async fn head(&self) -> Head {
        Head::read(&self.store, &self.key).await.unwrap().unwrap()
    }

    /// Checks that the log is whole: nothing missing, nothing twice, and the stored state is what a replay gives.
    pub(crate) async fn assert_whole(&self) {
        let items = self.items().await;
        assert!((1..).map(Seq).zip(&items).all(|(seq, it)| it.seq == seq));
        let head = self.head().await;
        assert_eq!(State::replay(&items), head.state);
        assert_eq!(head.info.items, items.len() as u64);
    }

    /// Describes another thread of the session.
    pub(crate) fn other_thread(&self, name: &str, state: &State) -> NewLog {
        let new = NewLog::isolated(self.session.clone(), ThreadId::parse(name).unwrap(), Timestamp(1));
        NewLog { state: LogState::from(state), ..new }
    }

    /// Returns the same log as the writer of another thread.
    pub(crate) fn at(&self, name: &str, state: State) -> Log {
        let key = ThreadKey { tenant: self.key.tenant.clone(), thread: ThreadId::parse(name).unwrap() };
        Log { key, state, ..self.clone() }
    }
}

pub(crate) fn new_session(key: &SessionKey) -> NewSession {
    NewSession { key: key.clone(), label: Some("label".to_owned()), at: Timestamp(1) }
}

pub(crate) fn texts(items: &[Item]) -> Vec<String> {
    let text = |it: &Item| match &it.body {
        Body::Message(message) => message.as_text().map(str::to_owned),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

/// Returns messages that continue a log, each a turn of its own.
pub(crate) fn append(state: &State, guard: Guard, texts: &[&str]) -> Append {
    let item = |(position, text): (u64, &&str)| Item {
        seq: state.end.plus(position),
        turn: TurnNo(state.turn.0 + position),
        visibility: Visibility::BOTH,
        cost: Cost { counter: Arc::from("test"), tokens: Tokens(1) },
        author: None,
        at: Timestamp(1_000),
        body: Body::Message(Arc::new(Message::user(*text))),
    };
    let items: Vec<Item> = (1..).zip(texts).map(item).collect();
    let next = LogState::from(&after(state, &items));
    let (expected, nonce) = (Some(state.end), unique("append"));
    Append { expected, nonce, items, state: Some(next), guard, keys: Vec::new(), lazy: false }
}

/// Returns the state after more items.
pub(crate) fn after(state: &State, items: &[Item]) -> State {
    let mut next = state.clone();
    items.iter().for_each(|it| next.apply(it));
    next
}
