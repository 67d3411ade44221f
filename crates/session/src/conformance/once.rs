//! Checks of resuming turns and of idempotent writes.

use std::time::Duration;

use contexture_history::{Limit, TurnNo};
use contexture_message::Message;
use futures::future::join_all;

use super::support::{Open, assert_replays, new_session, process, process_with, texts};
use super::writers::begun;
use crate::{Begun, IsolatedStart, RunningTurn, SessionConfig, Sessions, Thread, TurnConfig};

async fn resumed(thread: &Thread) -> RunningTurn {
    let items = vec![Message::user("question").into()];
    let config = TurnConfig { key: Some("k".to_owned()), resume: true, items, ..TurnConfig::default() };
    match thread.begin(config).await.expect("a turn") {
        Begun::Running(turn) | Begun::Resumed(turn) => turn,
        Begun::Replayed(outcome) => panic!("it did not come to its end: {outcome:?}"),
    }
}

/// A lost or failed turn is resumed in another process with all its items, and its first writer is fenced out.
pub async fn a_lost_turn_is_resumed(open: Open) {
    let quick = SessionConfig { lease: Duration::from_millis(150), ..SessionConfig::default() };
    let (here, there) = (process_with(&open, quick.clone()).await, process_with(&open, quick).await);
    let session = new_session(&here).await;
    let main = there.open(session.id()).await.expect("the session").main().clone();
    let mut lost = resumed(session.main()).await;
    lost.append(vec![Message::assistant("half").into()]).await.expect("it holds the lease");

    // The first writer stays silent until its lease expires; then the other process resumes the turn.
    let turn = resumed(&main).await;
    let late = lost.append(vec![Message::assistant("late").into()]).await;
    assert!(late.as_ref().is_err_and(|err| err.code() == "lease_lost"), "{late:?}");
    drop(lost);
    turn.fail("broke", Vec::new()).await.expect("it holds the lease");
    let turn = resumed(session.main()).await;
    assert_eq!(turn.turn(), TurnNo(1));
    turn.complete(vec![Message::assistant("done").into()]).await.expect("it holds the lease");

    let outcome = main.outcome("k").await.expect("the store answers").expect("a turn");
    assert_eq!(texts(&outcome.items), ["question", "half", "done"]);
    assert_eq!(main.refresh().await.expect("the store answers"), session.main().get());
    assert_replays(&**here.store(), main.key()).await;
}

/// When many writers in two processes add, prepend and create the same things, each is done once.
pub async fn what_is_done_once_is_done_once(open: Open) {
    let (here, there) = (process(&open).await, process(&open).await);
    let session = new_session(&here).await;
    let writer = |n: usize| {
        let sessions: Sessions = if n.is_multiple_of(2) { here.clone() } else { there.clone() };
        let id = session.id().clone();
        tokio::spawn(async move {
            let session = sessions.open(&id).await.expect("the session");
            let (main, key) = (session.main(), n / 4);
            let said = |what: &str| Message::user(format!("{what}{key}"));
            let added = main.add_once(&format!("a{key}"), vec![said("a").into()]).await.expect("an append");
            let before = main.prepend_once(&format!("p{key}"), vec![said("p")]).await.expect("an append");
            let (name, initial_messages) = (Some("side".to_owned()), vec![Message::user("begin")]);
            let start = IsolatedStart { name, initial_messages, ..IsolatedStart::default() };
            session.create_isolated(start).await.expect("a thread");
            usize::from(added) + usize::from(before)
        })
    };
    let written: usize =
        join_all((0..16).map(writer)).await.into_iter().map(|it| it.expect("no writer fails")).sum();
    assert_eq!(written, 8);
    let fresh = process(&open).await.open(session.id()).await.expect("the session");
    let turns = fresh.main().history(None).await.expect("the store answers");
    let mut said: Vec<&str> =
        turns.iter().flat_map(|it| it.messages()).filter_map(|it| it.as_text()).collect();
    assert!(said[..4].iter().all(|it| it.starts_with('p')), "{said:?}");
    said.sort_unstable();
    assert_eq!(said, ["a0", "a1", "a2", "a3", "p0", "p1", "p2", "p3"]);
    let threads = fresh.threads().await.expect("the store answers");
    assert_eq!(threads.len(), 2);
    let side = fresh.thread(&threads[1].thread).await.expect("a thread");
    assert_eq!(texts(&side.all(None).await.expect("the store answers")), ["begin"]);
    for thread in [fresh.main(), &side] {
        assert_replays(&**here.store(), thread.key()).await;
    }
}

/// A scratch thread reads on in its thread's store, as it was, and writes nothing to it.
pub async fn a_scratch_thread_leaves_no_trace(open: Open) {
    let config = SessionConfig { history_window: 2, ..SessionConfig::default() };
    let sessions = process_with(&open, config).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    for n in 0..5 {
        main.add_message(Message::user(format!("m{n}"))).await.expect("an append");
    }
    let scratch = main.scratch();
    main.add_message(Message::user("later")).await.expect("an append");
    begun(&scratch, "tried").await.complete(Vec::new()).await.expect("an append");
    let all = scratch.all(None).await.expect("the store answers");
    assert_eq!(texts(&all), ["m0", "m1", "m2", "m3", "m4", "tried"]);
    let turns = scratch.history(Some(Limit::Turns(4))).await.expect("the store answers");
    assert_eq!(turns.iter().map(|it| &**it.id()).collect::<Vec<_>>(), ["t3", "t4", "t5", "t6"]);
    let live = scratch.get();
    assert_eq!(scratch.refresh().await.expect("the store answers"), live);
    let all = main.all(None).await.expect("the store answers");
    assert_eq!(texts(&all), ["m0", "m1", "m2", "m3", "m4", "later"]);
}
