//! Threads and turns on the store in memory, with a clock and names of the test's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contexture_history::{Body, Limit, Timestamp, TurnNo};
use contexture_message::{Message, Tokens};
use contexture_session::{
    Begun, MemoryStore, Names, NewItem, Ports, SessionConfig, SessionStart, Sessions, State, Store, Thread,
    ThreadKey, Time, TurnConfig,
};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use proptest::prelude::any;
use proptest::{collection, proptest};

/// Time that moves a second with every look.
#[derive(Debug, Default)]
pub(crate) struct Ticking(AtomicU64);

impl Ticking {
    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Time for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1_000, Ordering::Relaxed) as i64)
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        futures::future::ready(()).boxed()
    }
}

#[derive(Debug)]
pub(crate) struct Counting(AtomicU64, String);

impl Counting {
    pub(crate) fn named(prefix: &str) -> Self {
        Self(AtomicU64::new(0), prefix.to_owned())
    }
}

impl Default for Counting {
    fn default() -> Self {
        Self::named("n")
    }
}

impl Names for Counting {
    fn next(&self) -> String {
        format!("{}{}", self.1, self.0.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) fn words(text: &str) -> Tokens {
    Tokens(text.split_whitespace().count() as u32)
}

fn sessions(config: SessionConfig) -> Sessions {
    let time = Arc::new(Ticking::default());
    let store = Arc::new(MemoryStore::new(time.clone()));
    Sessions::new(
        store,
        Ports { time, names: Arc::new(Counting::default()), counter: Arc::new(words) },
        config,
    )
}

fn main_thread(config: SessionConfig) -> (Sessions, Thread) {
    let sessions = sessions(config);
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    let main = session.main().clone();
    (sessions, main)
}

/// Runs a script: one letter a step. The only caller of the API for scripted tests.
pub(crate) fn run(thread: &Thread, script: &str) {
    for (step, letter) in script.chars().enumerate() {
        let text = format!("{letter}{step}");
        let begin = || {
            let items = vec![Message::user(text.as_str()).into()];
            match block_on(thread.begin(TurnConfig { items, ..TurnConfig::default() })).unwrap() {
                Begun::Running(turn) => turn,
                other => panic!("{other:?}"),
            }
        };
        match letter {
            'u' => drop(block_on(thread.add_message(Message::user(text))).unwrap()),
            'a' => drop(block_on(thread.add_message(Message::assistant(text))).unwrap()),
            'e' => drop(block_on(thread.add(vec![NewItem::event("e", text)])).unwrap()),
            'r' => drop(block_on(thread.reset_history()).unwrap()),
            'i' => drop(block_on(thread.set_system_instructions(Some(&text))).unwrap()),
            'm' => drop(block_on(thread.set_provider_model("p", &text)).unwrap()),
            'c' => drop(block_on(begin().complete(vec![Message::assistant("ok").into()])).unwrap()),
            'f' => drop(block_on(begin().fail("broke", vec![])).unwrap()),
            's' => drop(block_on(begin().suspend("wait", Vec::new())).unwrap()),
            'd' => drop(begin()),
            'n' => drop(block_on(thread.add(vec![NewItem::note("n", Some(text.into()))])).unwrap()),
            'p' => assert!(block_on(thread.prepend_once(&key(thread), vec![Message::user(text)])).unwrap()),
            'k' | 'g' => keyed(thread, letter == 'g'),
            other => panic!("no step `{other}`"),
        }
    }
}

/// A key that nobody took.
fn key(thread: &Thread) -> String {
    thread.get().state().end.to_string()
}

/// Lets a turn fail that goes on if it can (`g`), or begins the same one and is lost (`k`).
fn keyed(thread: &Thread, fails: bool) {
    let items = vec![Message::user("k").into()];
    let config = TurnConfig { key: Some("k".to_owned()), resume: true, items, ..TurnConfig::default() };
    match block_on(thread.begin(config)) {
        Ok(Begun::Running(turn) | Begun::Resumed(turn)) if fails => {
            block_on(turn.fail("broke", vec![Message::assistant("half").into()])).unwrap();
        }
        _ => {}
    }
}

/// Shows the turns at hand, and the log behind them.
pub(crate) fn shown(thread: &Thread) -> String {
    let snapshot = thread.get();
    let turns = snapshot.turns().iter().map(|turn| {
        let texts: Vec<&str> = turn.messages().iter().filter_map(|it| it.as_text()).collect();
        format!("{} {} [{}]\n", turn.id(), turn.status().as_str(), texts.join(", "))
    });
    let items = block_on(thread.all(None)).unwrap();
    let kinds: Vec<String> = items.iter().map(|it| format!("{}:{}", it.turn, it.body.kind())).collect();
    format!("{}{}", turns.collect::<String>(), kinds.join(" "))
}

fn scripted(script: &str) -> String {
    let (_sessions, thread) = main_thread(SessionConfig::default());
    run(&thread, script);
    shown(&thread)
}

#[test]
fn each_user_message_begins_a_turn() {
    insta::assert_snapshot!(scripted("uaau"), @r"
    t1 completed [u0, a1, a2]
    t2 completed [u3]
    t1:user t1:assistant t1:assistant t2:user
    ");
}

#[test]
fn a_reset_is_a_record_and_the_history_starts_after_it() {
    insta::assert_snapshot!(scripted("uarua"), @r"
    t2 completed [u3, a4]
    t1:user t1:assistant t1:history_reset t2:user t2:assistant
    ");
}

#[test]
fn changes_alone_are_no_turn() {
    insta::assert_snapshot!(scripted("imuarsr"), @"t0:instructions t0:model t1:user t1:assistant t1:history_reset t2:turn_began t2:user t2:turn_ended t2:history_reset");
}

#[test]
fn a_turn_that_was_dropped_is_closed_by_the_next_write() {
    insta::assert_snapshot!(scripted("di"), @r"
    t1 interrupted [d0]
    t1:turn_began t1:user t1:turn_ended t1:instructions
    ");
}

#[test]
fn a_suspended_turn_ends_when_another_begins_and_not_by_an_event() {
    insta::assert_snapshot!(scripted("sec"), @r#"
    t1 interrupted [s0, <system-event name="e">
    e1
    </system-event>]
    t2 completed [c2, ok]
    t1:turn_began t1:user t1:turn_ended t1:system_event t1:turn_ended t2:turn_began t2:user t2:assistant t2:turn_ended
    "#);
}

#[test]
fn only_the_newest_turns_stay_loaded() {
    let (_sessions, thread) = main_thread(SessionConfig { history_window: 3, ..SessionConfig::default() });
    run(&thread, &"ua".repeat(50));
    assert_eq!(thread.get().turns().len(), 3);
    assert_eq!(thread.get().turn(), TurnNo(50));
    let more = block_on(thread.history(Some(Limit::Turns(10)))).unwrap();
    assert_eq!(
        more.iter().map(|it| it.id().to_string()).collect::<Vec<_>>().join(" "),
        "t41 t42 t43 t44 t45 t46 t47 t48 t49 t50"
    );
    assert_eq!(block_on(thread.history(Some(Limit::Turns(2)))).unwrap().len(), 2);
}

#[test]
fn what_is_appended_is_counted_once() {
    let time = Arc::new(Ticking::default());
    let counted = Arc::new(AtomicU64::new(0));
    let counter = {
        let counted = Arc::clone(&counted);
        move |text: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            words(text)
        }
    };
    let store = Arc::new(MemoryStore::new(time.clone()));
    let ports = Ports { time, names: Arc::new(Counting::default()), counter: Arc::new(counter) };
    let sessions = Sessions::new(store, ports.clone(), SessionConfig::default());
    let session = block_on(sessions.create(SessionStart::default())).unwrap();
    run(session.main(), &"ua".repeat(20));
    let after_append = counted.load(Ordering::Relaxed);
    let window = session.main().get();
    let window = window.history(Some(Limit::Tokens(Tokens(60))), &*ports.counter);
    assert!(window.tokens().0 <= 60 && window.kept().count() > 1);
    drop(block_on(session.main().history(None)).unwrap());
    assert_eq!(counted.load(Ordering::Relaxed), after_append);
}

#[test]
fn an_abandoned_append_does_no_harm() {
    let (_sessions, thread) = main_thread(SessionConfig::default());
    let Begun::Running(mut turn) = block_on(thread.begin(TurnConfig::default())).unwrap() else {
        panic!("a new turn")
    };
    // Polled once and dropped: the store in memory has appended by then, the handle does not know.
    drop(turn.append(vec![Message::assistant("a").into()]).now_or_never());
    block_on(turn.append(vec![Message::assistant("b").into()])).unwrap();
    block_on(turn.complete(Vec::new())).unwrap();
    let items = block_on(thread.all(None)).unwrap();
    let said = items.iter().filter(|it| matches!(it.body, Body::Message(_))).count();
    assert_eq!(said, 2);
}

#[test]
fn the_same_script_gives_the_same_bytes() {
    let export = |script: &str| {
        let (sessions, thread) = main_thread(SessionConfig::default());
        run(&thread, script);
        let id = contexture_session::SessionId::parse(thread.id().as_str()).unwrap();
        let mut lines = Vec::new();
        let write = |line: &str| {
            lines.push(line.to_owned());
            Ok::<(), contexture_session::SessionError>(())
        };
        block_on(contexture_session::export(&sessions, &id, write)).unwrap();
        lines.join("\n")
    };
    assert_eq!(export("uaimcsdferu"), export("uaimcsdferu"));
}

proptest! {
    #[test]
    fn a_replayed_log_is_the_live_thread(steps in collection::vec(any::<u8>(), 0..60), window in 1..6_usize) {
        let config = SessionConfig { history_window: window, ..SessionConfig::default() };
        let (sessions, thread) = main_thread(config.clone());
        let script: String = steps.iter().map(|it| char::from(b"uaerimcfsdkgnp"[*it as usize % 14])).collect();
        run(&thread, &script);
        let items = block_on(thread.all(None)).unwrap();
        assert_eq!(State::replay(&items), *thread.get().state());

        let ports = Ports {
            time: Arc::new(Ticking::default()),
            names: Arc::new(Counting::default()),
            counter: Arc::new(words),
        };
        let store: Arc<dyn Store> = Arc::clone(sessions.store());
        let fresh = Sessions::new(store, ports, config);
        let loaded = block_on(fresh.open_thread(thread.id())).unwrap();
        assert_eq!(*loaded.get(), *thread.get(), "script {script}");
        let key = ThreadKey { tenant: sessions.tenant().clone(), thread: thread.id().clone() };
        let head = block_on(sessions.store().head(key)).unwrap().unwrap();
        assert_eq!(head.state::<State>().unwrap(), State::replay(&items));
    }
}
