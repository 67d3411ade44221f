//! What the checks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contexture_history::{Body, Cost, Item, Seq, Timestamp, TurnNo};
use contexture_message::{Message, Tokens};
use futures::future::BoxFuture;

use crate::store::{Append, Guard, LogState, NewSession, Span};
use crate::{
    MemoryStore, Names, Ports, Session, SessionConfig, SessionId, SessionKey, SessionStart, Sessions, State,
    Store, StoreError, Tenant, ThreadKey, Time,
};

/// Opens the store once more, as another process would.
pub type Open = Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>;

/// The machine's time, on a tokio runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTime;

impl Time for SystemTime {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Names that no other test has.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestNames;

impl Names for TestNames {
    fn next(&self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        format!("n{:013}-{}-{count:06}", SystemTime.now().0, std::process::id())
    }
}

/// Returns ports for tests: the machine's time, new names, a token for every four bytes.
pub fn test_ports() -> Ports {
    let counter = |text: &str| Tokens(u32::try_from(text.len().div_ceil(4)).unwrap_or(u32::MAX));
    Ports { time: Arc::new(SystemTime), names: Arc::new(TestNames), counter: Arc::new(counter) }
}

/// Returns sessions in memory, for examples.
pub fn sessions_in_memory() -> Sessions {
    Sessions::new(Arc::new(MemoryStore::new(Arc::new(SystemTime))), test_ports(), SessionConfig::default())
}

/// Returns sessions as a separate process would open them.
pub(super) async fn process(open: &Open) -> Sessions {
    process_with(open, SessionConfig::default()).await
}

pub(super) async fn process_with(open: &Open, config: SessionConfig) -> Sessions {
    Sessions::new(open().await, test_ports(), config)
}

pub(super) async fn new_session(sessions: &Sessions) -> Session {
    sessions.create(SessionStart::default()).await.expect("a new session")
}

/// A thread in a separate session, for checks of the bare contract.
pub(super) struct BareThread {
    pub(super) store: Arc<dyn Store>,
    pub(super) session: SessionKey,
    pub(super) key: ThreadKey,
}

pub(super) async fn bare(open: &Open) -> BareThread {
    bare_of(open, Tenant::default(), TestNames.next()).await
}

pub(super) async fn bare_of(open: &Open, tenant: Tenant, name: String) -> BareThread {
    let store = open().await;
    let session = SessionKey { tenant, session: SessionId::parse(name).expect("a valid name") };
    let new = NewSession { key: session.clone(), label: Some("a check".to_owned()), at: Timestamp(1) };
    store.create_session(new).await.expect("a new session");
    BareThread { store, key: session.main(), session }
}

impl BareThread {
    pub(super) async fn head(&self) -> crate::Head {
        crate::Head::read(&*self.store, &self.key)
            .await
            .expect("the store answers")
            .expect("there is a thread")
    }

    pub(super) async fn items(&self) -> Vec<Item> {
        everything(&*self.store, &self.key).await
    }

    /// Appends where the log ends, and nothing else.
    pub(super) async fn append(
        &self,
        guard: Guard,
        bodies: Vec<Body>,
    ) -> Result<crate::Appended, StoreError> {
        let state = self.head().await.state;
        self.store.append(self.key.clone(), append_to(&state, guard, bodies)).await
    }

    pub(super) async fn say(&self, text: &str) -> crate::Appended {
        self.append(Guard::Free, vec![said(text)]).await.expect("an append")
    }
}

pub(super) async fn everything(store: &dyn Store, key: &ThreadKey) -> Vec<Item> {
    let all = Span::After { seq: Seq(0), max: usize::MAX };
    store.read(key.clone(), all).await.expect("the store answers")
}

pub(super) fn said(text: &str) -> Body {
    Body::Message(Arc::new(Message::user(text)))
}

/// Makes the items of an append; each user message begins a turn.
pub(super) fn append_to(state: &State, guard: Guard, bodies: Vec<Body>) -> Append {
    let mut next = state.clone();
    let mut turn = state.turn;
    let mut items = Vec::new();
    for (position, body) in (1..).zip(bodies) {
        if body.kind() == "user" || body.kind() == "turn_began" {
            turn = turn.next();
        }
        let item = item(state.end.plus(position), turn, body);
        next.apply(&item);
        items.push(item);
    }
    Append {
        expected: Some(state.end),
        nonce: TestNames.next(),
        state: Some(LogState::from(&next)),
        guard,
        keys: Append::keys_of(&items),
        items,
        lazy: false,
    }
}

pub(super) fn item(seq: Seq, turn: TurnNo, body: Body) -> Item {
    let tokens = Tokens(u32::try_from(body.kind().len()).unwrap_or(0));
    Item {
        seq,
        turn,
        visibility: body.default_visibility(),
        cost: Cost { counter: Arc::from("check"), tokens },
        author: None,
        at: Timestamp(1_000 + i64::try_from(seq.0).unwrap_or(0)),
        body,
    }
}

/// Returns the texts of the messages among items.
pub(super) fn texts(items: &[Item]) -> Vec<String> {
    let text = |it: &Item| match &it.body {
        Body::Message(message) => message.as_text().map(str::to_owned),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

/// Checks that items have the positions 1, 2, 3, …
pub(super) fn assert_in_order(items: &[Item]) {
    let positions: Vec<u64> = items.iter().map(|it| it.seq.0).collect();
    let expected: Vec<u64> = (1..=items.len() as u64).collect();
    assert_eq!(positions, expected, "positions follow each other, each once");
}

/// Checks that what is stored of a thread is what its log gives.
pub(super) async fn assert_replays(store: &dyn Store, key: &ThreadKey) {
    let head = store.head(key.clone()).await.expect("the store answers").expect("there is a thread");
    let items = everything(store, key).await;
    assert_in_order(&items);
    assert_eq!(
        State::replay(&items),
        head.state::<State>().expect("a state"),
        "a replay gives the stored state"
    );
}
