//! Checks of sessions, threads and turns on a store.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Body, Change, Limit, Seq, TurnNo, TurnStatus, Visibility};
use contexture_message::{Message, Part, Role, ToolCall};
use serde_json::json;

use super::support::{
    Open, SystemTime, assert_replays, new_session, process, process_with, test_ports, texts,
};
use super::writers::begun;
use crate::{
    Begun, IsolatedStart, MemoryStore, ModelChoice, NewItem, Policy, SessionConfig, SessionError,
    SessionStart, Sessions, Thread, ThreadKey, TurnConfig, export, fork_session, import,
};

async fn all_texts(thread: &Thread) -> Vec<String> {
    texts(&thread.all(None).await.expect("the store answers"))
}

/// Completed, failed and interrupted turns are on record, and all are part of the history.
pub async fn turns_end_as_they_say(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    let mut turn = begun(main, "one").await;
    assert_eq!((turn.turn(), main.get().state().open.map(|it| it.turn)), (TurnNo(1), Some(TurnNo(1))));
    turn.append(vec![call("c1")]).await.expect("an append");
    turn.renew().await.expect("it holds the lease");
    turn.complete(vec![Message::assistant("done").into()]).await.expect("an append");
    begun(main, "two").await.fail("the model broke", vec![]).await.expect("an append");
    begun(main, "three").await.interrupt("stopped", vec![]).await.expect("an append");
    let turns = main.history(None).await.expect("the store answers");
    let found: Vec<_> =
        turns.iter().map(|it| (it.id().to_string(), it.status(), it.messages().len())).collect();
    let expected = [
        ("t1".to_owned(), TurnStatus::Completed, 3),
        ("t2".to_owned(), TurnStatus::Failed, 1),
        ("t3".to_owned(), TurnStatus::Interrupted, 1),
    ];
    assert_eq!(found, expected);
    assert_eq!(main.get().state().open, None);
    let newest = main.history(Some(Limit::Turns(1))).await.expect("the store answers");
    assert_eq!(newest.len(), 1);
    assert_live(&open, &session, main).await;
}

fn call(id: &str) -> NewItem {
    let call = ToolCall { id: id.into(), name: "find".into(), arguments: json!({}) };
    Message::parts(Role::Assistant, vec![Part::ToolCall(call)]).into()
}

/// Checks that a process that opens the thread again sees the same, and that both match the log.
async fn assert_live(open: &Open, session: &crate::Session, thread: &Thread) {
    let fresh = process(open).await.open(session.id()).await.expect("the session");
    let fresh = fresh.thread(thread.id()).await.expect("the thread");
    assert_eq!(*fresh.get(), *thread.get(), "live and loaded are the same");
    let sessions = process(open).await;
    let key = ThreadKey { tenant: sessions.tenant().clone(), thread: thread.id().clone() };
    assert_replays(&**sessions.store(), &key).await;
}

/// The same idempotency key returns the first turn's outcome, in this and another process, also concurrently.
pub async fn a_turn_with_the_same_key_is_the_same_turn(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let config = || TurnConfig {
        key: Some("k1".to_owned()),
        items: vec![Message::user("pay").into()],
        ..TurnConfig::default()
    };
    let one = |sessions: Sessions, id: crate::SessionId| async move {
        let session = sessions.open(&id).await.expect("the session");
        match session.main().begin(config()).await.expect("a turn") {
            Begun::Running(turn) => {
                tokio::time::sleep(Duration::from_millis(30)).await;
                turn.complete(vec![Message::assistant("paid").into()]).await.expect("an append");
                None
            }
            Begun::Replayed(outcome) => Some(outcome),
            Begun::Resumed(_) => panic!("nobody asked for it"),
        }
    };
    let other = process(&open).await;
    let runs = (0..8).map(|n| {
        let sessions = if n % 2 == 0 { sessions.clone() } else { other.clone() };
        one(sessions, session.id().clone())
    });
    let outcomes = futures::future::join_all(runs).await;
    assert_eq!(outcomes.iter().filter(|it| it.is_none()).count(), 1, "one turn ran");
    for outcome in outcomes.into_iter().flatten() {
        assert_eq!((outcome.turn, outcome.status), (TurnNo(1), TurnStatus::Completed));
        assert_eq!(texts(&outcome.items), ["pay", "paid"]);
    }
    assert_eq!(session.main().refresh().await.expect("the store answers").turn(), TurnNo(1));
    let outcome = session.main().outcome("k1").await.expect("the store answers").expect("a turn");
    assert_eq!(outcome.status, TurnStatus::Completed);
    assert_eq!(session.main().outcome("k2").await.expect("the store answers"), None);
    let long = TurnConfig { key: Some("x".repeat(300)), ..TurnConfig::default() };
    assert!(session.main().begin(long).await.is_err_and(|err| err.code() == "id_invalid"));
}

/// A turn that is dropped without an end was interrupted; the next writer says so.
pub async fn a_dropped_turn_was_interrupted(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    let mut turn = begun(main, "one").await;
    turn.append(vec![call("c1")]).await.expect("an append");
    drop(turn);
    main.add_message(Message::user("two")).await.expect("an append");
    let turns = main.history(None).await.expect("the store answers");
    assert_eq!(turns[0].status(), TurnStatus::Interrupted);
    assert_eq!(all_texts(main).await, ["one", "two"]);
    drop(begun(main, "three").await);
    begun(main, "four").await.complete(Vec::new()).await.expect("an append");
    let turns = main.history(None).await.expect("the store answers");
    let statuses: Vec<_> = turns.iter().map(|it| it.status()).collect();
    use TurnStatus::{Completed, Interrupted};
    assert_eq!(statuses, [Interrupted, Completed, Interrupted, Completed]);
    assert_live(&open, &session, main).await;
}

/// A suspended turn waits without blocking anyone and can be resumed in any process, unless another turn began.
pub async fn a_suspended_turn_resumes_elsewhere(open: Open) {
    let (here, there) = (process(&open).await, process(&open).await);
    let session = new_session(&here).await;
    begun(session.main(), "one").await.suspend("approval", vec![call("c1")]).await.expect("an append");
    let main = there.open(session.id()).await.expect("the session").main().clone();
    main.add(vec![NewItem::event("deploy", "done")]).await.expect("facts may come in between");
    let wrong = main.resume(TurnNo(7)).await;
    assert!(wrong.is_err_and(|err| err.code() == "turn_not_suspended"));
    let turn = session.main().resume(TurnNo(1)).await.expect("it waits");
    turn.complete(vec![Message::assistant("done").into()]).await.expect("an append");
    assert_eq!(all_texts(session.main()).await, ["one", "done"]);

    begun(session.main(), "two").await.suspend("approval", Vec::new()).await.expect("an append");
    let main = main.clone();
    begun(&main, "three").await.complete(Vec::new()).await.expect("an append");
    let over = session.main().resume(TurnNo(2)).await;
    assert!(over.is_err_and(|err| err.code() == "turn_not_suspended"), "another turn began");
    let turns = session.main().history(None).await.expect("the store answers");
    assert_eq!(turns[1].status(), TurnStatus::Interrupted);
    assert_live(&open, &session, session.main()).await;
}

/// While a turn runs others wait in order, are refused, or get a copy; in one process and across processes.
pub async fn policies_decide_who_writes(open: Open) {
    let config = SessionConfig { queue: 2, wait: Duration::from_secs(20), ..SessionConfig::default() };
    let (here, there) = (process_with(&open, config.clone()).await, process_with(&open, config).await);
    let session = new_session(&here).await;
    let main = session.main();
    main.add_message(Message::user("before")).await.expect("an append");
    let turn = begun(main, "one").await;
    for sessions in [&here, &there] {
        let main = sessions.open(session.id()).await.expect("the session").main().clone();
        let reject = TurnConfig { policy: Policy::Reject, ..TurnConfig::default() };
        assert!(main.begin(reject).await.is_err_and(|err| err.code() == "turn_in_progress"));
        let rejected = main.clone().with_policy(Policy::Reject).add_message(Message::user("x")).await;
        assert!(rejected.is_err_and(|err| err.code() == "turn_in_progress"));
        let items = vec![Message::user("copy").into()];
        let fork = TurnConfig { policy: Policy::Fork, items, ..TurnConfig::default() };
        let Begun::Running(copy) = main.begin(fork).await.expect("a copy") else { panic!("a new turn") };
        assert_ne!(copy.thread().id(), main.id());
        assert_eq!(all_texts(&copy.thread()).await, ["before", "copy"]);
        copy.complete(Vec::new()).await.expect("an append");
    }
    assert_forks_once(main).await;
    let waiting = |n: u32| {
        let main = main.clone();
        tokio::spawn(async move { main.add_message(Message::user(format!("q{n}"))).await.map(|_| ()) })
    };
    let first = waiting(1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = waiting(2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let full = waiting(3).await.expect("no panic");
    assert!(matches!(full, Err(SessionError::QueueFull { queue: 2, .. })), "{full:?}");
    let elsewhere = there.open(session.id()).await.expect("the session").main().clone();
    let elsewhere =
        tokio::spawn(async move { elsewhere.add_message(Message::user("there")).await.map(|_| ()) });
    turn.complete(vec![Message::assistant("done").into()]).await.expect("an append");
    for it in [first, second, elsewhere] {
        it.await.expect("no panic").expect("an append");
    }
    main.refresh().await.expect("the store answers");
    let mut texts = all_texts(main).await;
    let there = texts.iter().position(|it| it == "there").expect("it was appended");
    texts.remove(there);
    assert_eq!(texts, ["before", "one", "done", "q1", "q2"]);
    assert_eq!(session.threads().await.expect("the store answers").len(), 4);
}

/// The same key again finds the turn on the copy that the first one ran on.
async fn assert_forks_once(main: &Thread) {
    let fork = || TurnConfig { key: Some("k".to_owned()), policy: Policy::Fork, ..TurnConfig::default() };
    let Begun::Running(copy) = main.begin(fork()).await.expect("a copy") else { panic!("a new turn") };
    let turn = copy.turn();
    copy.complete(vec![Message::assistant("once").into()]).await.expect("an append");
    let Begun::Replayed(outcome) = main.begin(fork()).await.expect("an outcome") else {
        panic!("a second turn")
    };
    assert_eq!((outcome.turn, texts(&outcome.items)), (turn, vec!["once".to_owned()]));
}

/// Isolated threads start as asked, and what happens in them stays in them.
pub async fn isolated_threads_never_leak(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    main.set_system_instructions(Some("be kind")).await.expect("an append");
    main.add_messages(vec![Message::user("hi"), Message::assistant("hello")]).await.expect("an append");
    let before = main.get();

    let empty = session.create_isolated(IsolatedStart::default()).await.expect("a thread");
    let start = IsolatedStart {
        name: None,
        model: Some(ModelChoice { provider: "p".into(), model: "m".into() }),
        system_instructions: Some("be brief".into()),
        inherit_history: true,
        initial_messages: vec![Message::user("sum it up")],
        label: Some("summary".into()),
        base: None,
    };
    let copy = session.create_isolated(start).await.expect("a thread");
    assert_eq!(all_texts(&copy).await, ["hi", "hello", "sum it up"]);
    assert_eq!(copy.get().instructions(), Some("be brief"));
    assert_eq!(copy.get().model().map(|it| it.model.as_str()), Some("m"));
    assert_eq!(all_texts(&empty).await, Vec::<String>::new());
    let nested = IsolatedStart { inherit_history: true, base: Some(copy.id().clone()), ..Default::default() };
    let nested = session.create_isolated(nested).await.expect("a thread");
    assert_eq!(nested.get().instructions(), Some("be brief"));
    for thread in [&empty, &copy, &nested] {
        begun(thread, "secret")
            .await
            .complete(vec![Message::assistant("psst").into()])
            .await
            .expect("an append");
        thread.reset_history().await.expect("an append");
        assert_live(&open, &session, thread).await;
    }
    assert_eq!(*main.get(), *before, "main knows nothing of it");
    assert_eq!(all_texts(main).await, ["hi", "hello"]);
    assert_live(&open, &session, main).await;

    assert!(!session.release(main.id()).await.expect("the store answers"), "main is never released");
    assert!(session.release(copy.id()).await.expect("the store answers"));
    assert!(session.thread(copy.id()).await.is_err_and(|err| err.code() == "not_found"));
    let other = new_session(&sessions).await;
    assert!(other.release(empty.id()).await.is_err_and(|err| err.code() == "not_found"), "not its thread");
    assert_eq!(session.threads().await.expect("the store answers").len(), 3);
}

/// Whatever is done to a thread, a replay of its log gives the state, and loading it gives the live snapshot.
pub async fn a_replay_gives_the_live_state(open: Open) {
    let config = SessionConfig { history_window: 4, ..SessionConfig::default() };
    let sessions = process_with(&open, config.clone()).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    for step in 0..40_u32 {
        match step * 7 % 11 {
            0 => drop(main.set_system_instructions(Some(&format!("i{step}"))).await.expect("an append")),
            1 => drop(main.set_provider_model("p", &format!("m{step}")).await.expect("an append")),
            2 => drop(main.reset_history().await.expect("an append")),
            3 => drop(begun(main, "dropped").await),
            4 => drop(begun(main, "wait").await.suspend("why", vec![call("c")]).await.expect("an append")),
            5 => drop(main.set_system_instructions(None).await.expect("an append")),
            6 => drop(main.add(vec![NewItem::event("e", "x"), hidden()]).await.expect("an append")),
            7 => drop(begun(main, "fail").await.fail("broke", vec![]).await.expect("an append")),
            _ => {
                let turn = begun(main, &format!("q{step}")).await;
                turn.complete(vec![Message::assistant("a").into()]).await.expect("an append");
            }
        }
        let fresh = process_with(&open, config.clone()).await.open(session.id()).await.expect("the session");
        assert_eq!(*fresh.main().get(), *main.get(), "after step {step}");
    }
    let key = ThreadKey { tenant: sessions.tenant().clone(), thread: main.id().clone() };
    assert_replays(&**sessions.store(), &key).await;
    let client = main.client(Some(Limit::Turns(3))).await.expect("the store answers");
    assert!(client.len() == 3 && client.iter().all(|it| it.visibility.client));
    let resets = main.all(None).await.expect("the store answers");
    let resets = resets.iter().filter(|it| it.body == Body::Change(Change::HistoryReset)).count();
    assert!(resets > 0, "what was reset is still in the log");
}

fn hidden() -> NewItem {
    NewItem::application("trace", json!({"n": 1})).visibility(Visibility::NONE)
}

/// An exported session can be imported elsewhere and back, with nothing lost; a broken one changes nothing.
pub async fn a_session_moves_between_stores(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    main.set_system_instructions(Some("be kind")).await.expect("an append");
    let config = TurnConfig {
        key: Some("k".to_owned()),
        items: vec![Message::user("漢字 ".repeat(5_000)).into()],
        ..TurnConfig::default()
    };
    let Begun::Running(turn) = main.begin(config).await.expect("a turn") else { panic!("a new turn") };
    turn.complete(vec![Message::assistant("a").into()]).await.expect("an append");
    let start = IsolatedStart { inherit_history: true, label: Some("side".into()), ..Default::default() };
    session.create_isolated(start).await.expect("a thread");

    let text = exported(&sessions, session.id()).await;
    let memory = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let elsewhere = Sessions::new(memory, test_ports(), SessionConfig::default());
    let imported = import(&elsewhere, text.lines(), None).await.expect("an import");
    assert_eq!((&imported.session, imported.threads, imported.items), (session.id(), 2, 10));
    assert_eq!(exported(&elsewhere, session.id()).await, text);
    let moved = elsewhere.open(session.id()).await.expect("the session");
    assert_eq!(*moved.main().get(), *main.get());
    assert!(moved.main().outcome("k").await.expect("the store answers").is_some(), "keys move along");

    let name = crate::SessionId::parse(format!("{}-back", session.id())).expect("a name");
    let back = exported(&elsewhere, session.id()).await;
    import(&sessions, back.lines(), Some(name.clone())).await.expect("an import");
    assert_eq!(exported(&sessions, &name).await.lines().count(), text.lines().count());
    let twice = import(&sessions, back.lines(), Some(name.clone())).await;
    assert!(twice.is_err_and(|err| err.code() == "already_exists"));

    let before = sessions.usage().await.map(|it| it.sessions);
    let cut: Vec<&str> = text.lines().filter(|it| !it.contains("\"seq\":2")).collect();
    let torn = cut.len() < text.lines().count();
    let refused = import(&sessions, cut, Some(crate::SessionId::parse("torn").expect("a name"))).await;
    assert!(torn && refused.is_err_and(|err| err.code() == "import_invalid"));
    assert!(sessions.open(&crate::SessionId::parse("torn").expect("a name")).await.is_err());
    assert!(before.is_ok());

    let copy =
        fork_session(&sessions, session.id(), Some(Seq(3)), SessionStart::default()).await.expect("a fork");
    assert_eq!((copy.threads, copy.items), (1, 3));
    let beyond = fork_session(&sessions, session.id(), Some(Seq(99)), SessionStart::default()).await;
    assert!(beyond.is_err_and(|err| err.code() == "not_found"));
}

async fn exported(sessions: &Sessions, id: &crate::SessionId) -> String {
    let mut text = String::new();
    let write = |line: &str| {
        text.push_str(line);
        text.push('\n');
        Ok::<(), SessionError>(())
    };
    export(sessions, id, write).await.expect("an export");
    text
}
