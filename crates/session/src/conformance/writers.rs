//! Checks of many writers on one thread.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{Seq, TurnStatus};
use contexture_message::ErrorCode;
use contexture_message::Message;
use futures::StreamExt;
use futures::future::join_all;

use super::support::{
    BareThread, Open, append_to, assert_in_order, assert_replays, bare, everything, new_session, process,
    process_with, said, texts,
};
use crate::store::Guard;
use crate::{Begun, NewItem, RunningTurn, SessionConfig, Sessions, StoreError, Thread, TurnConfig};

/// 64 writers in two processes append to one thread: nothing is lost, nothing comes twice, the order is total.
pub async fn many_writers_lose_nothing(open: Open) {
    let (here, there) = (process(&open).await, process(&open).await);
    let session = new_session(&here).await;
    let writer = |n: usize| {
        let sessions: Sessions = if n.is_multiple_of(2) { here.clone() } else { there.clone() };
        let id = session.id().clone();
        tokio::spawn(async move {
            let session = sessions.open(&id).await.expect("the session");
            session.main().add_message(Message::user(format!("w{n}"))).await.expect("an append");
        })
    };
    for done in join_all((0..64).map(writer)).await {
        done.expect("no writer fails");
    }
    let key = crate::ThreadKey { tenant: here.tenant().clone(), thread: session.id().main() };
    let items = everything(&**here.store(), &key).await;
    assert_in_order(&items);
    let mut said = texts(&items);
    said.sort();
    let mut expected: Vec<String> = (0..64).map(|n| format!("w{n}")).collect();
    expected.sort();
    assert_eq!(said, expected);
    assert_replays(&**here.store(), &key).await;
}

/// Of writers that append at the same place exactly one succeeds, every time.
pub async fn raw_writers_never_both_succeed(open: Open) {
    let it = bare(&open).await;
    let stores = [open().await, open().await];
    for round in 0..8_u64 {
        let state = it.head().await.state;
        let writer = |n: usize| {
            let (store, key) = (Arc::clone(&stores[n % 2]), it.key.clone());
            let append = append_to(&state, Guard::Free, vec![said(&format!("{round}.{n}")), said("and")]);
            tokio::spawn(async move { store.append(key, append).await })
        };
        let done = join_all((0..16).map(writer)).await;
        let done: Vec<_> = done.into_iter().map(|it| it.expect("no writer panics")).collect();
        assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 1, "round {round}");
        let conflict = |it: &&StoreError| matches!(it, StoreError::Conflict { .. });
        assert_eq!(done.iter().filter_map(|it| it.as_ref().err()).filter(conflict).count(), 15, "{done:?}");
        assert_eq!(it.head().await.state.end, Seq((round + 1) * 2));
    }
    assert_replays(&*it.store, &it.key).await;
}

/// A writer that gives no sign of life is taken over, and what it then writes is refused.
pub async fn a_lost_writer_is_fenced_out(open: Open) {
    let quick = SessionConfig { lease: Duration::from_millis(150), ..SessionConfig::default() };
    let (here, there) = (process_with(&open, quick.clone()).await, process_with(&open, quick).await);
    let session = new_session(&here).await;
    let mut lost = begun(session.main(), "one").await;
    lost.append(vec![Message::assistant("half").into()]).await.expect("it holds the lease");

    let main = there.open(session.id()).await.expect("the session").main().clone();
    let turn = begun(&main, "two").await;
    let refused = lost.append(vec![Message::assistant("late").into()]).await;
    assert!(refused.as_ref().is_err_and(|err| err.code() == "lease_lost"), "{refused:?}");
    let refused = lost.complete(Vec::new()).await;
    assert!(refused.as_ref().is_err_and(|err| err.code() == "lease_lost"), "{refused:?}");
    turn.complete(vec![Message::assistant("done").into()]).await.expect("it holds the lease");

    let all = main.all(None).await.expect("the store answers");
    assert_eq!(texts(&all), ["one", "half", "two", "done"]);
    let kinds: Vec<&str> = all.iter().map(|it| it.body.kind()).collect();
    let lost = ["turn_began", "user", "assistant", "turn_ended"];
    assert_eq!(kinds, [lost, ["turn_began", "user", "assistant", "turn_ended"]].concat());
    session.main().add_message(Message::user("after")).await.expect("the first process may write again");
    assert_eq!(main.refresh().await.expect("the store answers"), session.main().get());
}

/// Whatever takes over from a writer that gave no sign of life, be it one plain append, that writer never writes
/// again: not at the end it knew, nor at the new one, nor after a sign of life.
pub async fn a_fenced_writer_never_writes_again(open: Open) {
    let it = bare(&open).await;
    let ttl = Duration::from_millis(60);
    let acquire = |owner: &str| Guard::Acquire { owner: Arc::from(owner), ttl };
    for round in 0..3 {
        let began = it.append(acquire("a"), vec![said("began")]).await.expect("free");
        let fence = began.fence.expect("a number");
        tokio::time::sleep(ttl * 3).await;
        match round {
            0 => drop(it.append(Guard::Free, vec![said("taken over")]).await.expect("the lease ended")),
            1 => drop(it.store.lease(it.key.clone(), acquire("b")).await.expect("the lease ended")),
            _ => drop(it.store.lease(it.key.clone(), Guard::Free).await.expect("the lease ended")),
        }
        let before = it.items().await.len();
        let late = [Guard::Hold { fence, ttl }, Guard::Release { fence }];
        for guard in late.iter().chain(&late) {
            let refused = it.append(guard.clone(), vec![said("late")]).await.err().map(|it| it.code());
            assert_eq!(refused, Some(ErrorCode::LeaseLost), "round {round}: {guard:?}");
            let refused = it.store.lease(it.key.clone(), guard.clone()).await.err().map(|it| it.code());
            assert_eq!(refused, Some(ErrorCode::LeaseLost), "round {round}: {guard:?}");
        }
        assert_eq!(it.items().await.len(), before);
        tokio::time::sleep(ttl * 3).await;
    }
    assert_replays(&*it.store, &it.key).await;
    for way in
        [Takeover::Message, Takeover::Instructions, Takeover::Once, Takeover::CloseLost, Takeover::Begin]
    {
        a_taken_over_turn_writes_nothing(&open, way).await;
    }
}

/// A way to take over a thread.
#[derive(Clone, Copy, Debug)]
enum Takeover {
    Message,
    Instructions,
    Once,
    CloseLost,
    Begin,
    /// With the key of the lost turn.
    Again,
}

impl Takeover {
    async fn take(self, thread: &Thread) -> Result<(), crate::SessionError> {
        match self {
            Takeover::Message => thread.add_message(Message::user("mine")).await.map(drop),
            Takeover::Instructions => thread.set_system_instructions(Some("mine")).await.map(drop),
            Takeover::Once => thread.add_once("mine", vec![Message::user("mine").into()]).await.map(drop),
            Takeover::Begin => begun(thread, "mine").await.complete(Vec::new()).await.map(drop),
            Takeover::Again => {
                let key = Some("again".to_owned());
                let again = thread.begin(TurnConfig { key, ..TurnConfig::default() }).await?;
                let is_over = matches!(again, Begun::Replayed(it) if it.status == TurnStatus::Interrupted);
                assert!(is_over, "it was lost");
                Ok(())
            }
            Takeover::CloseLost => thread.close_lost().await.map(|it| assert!(it.is_some(), "it was lost")),
        }
    }
}

async fn a_taken_over_turn_writes_nothing(open: &Open, way: Takeover) {
    let quick = SessionConfig { lease: Duration::from_millis(80), ..SessionConfig::default() };
    let (here, there) = (process_with(open, quick.clone()).await, process_with(open, quick).await);
    let session = new_session(&here).await;
    let mut lost = begun(session.main(), "one").await;
    tokio::time::sleep(Duration::from_millis(240)).await;
    let main = there.open(session.id()).await.expect("the session").main().clone();
    way.take(&main).await.expect("its lease has ended");

    let before = main.all(None).await.expect("the store answers");
    let ends = before.iter().filter(|it| it.body.kind() == "turn_ended" && it.turn == lost.turn());
    assert_eq!(ends.count(), 1, "{way:?}");
    let code = |refused: Result<Seq, crate::SessionError>| refused.err().map(|it| it.code());
    let late = lost.renew().await.map(|()| Seq(0));
    assert_eq!(code(late), Some(ErrorCode::LeaseLost), "{way:?}");
    // The second time it knows where the log ends.
    for _ in 0..2 {
        let late = lost.append(vec![Message::assistant("late").into()]).await;
        assert_eq!(code(late), Some(ErrorCode::LeaseLost), "{way:?}");
    }
    assert_eq!(code(lost.fail("late", Vec::new()).await), Some(ErrorCode::LeaseLost), "{way:?}");
    let after = main.all(None).await.expect("the store answers");
    assert_eq!(after, before, "{way:?}: nothing stands behind what took over");
    session.main().add_message(Message::user("next")).await.expect("a new write is none of the lost writer");
}

/// A turn of a lost writer is closed by the next process that checks; a turn that is still being written is not.
pub async fn a_lost_turn_is_closed(open: Open) {
    let quick = SessionConfig { lease: Duration::from_millis(150), ..SessionConfig::default() };
    let (here, there) = (process_with(&open, quick).await, process(&open).await);
    let session = new_session(&here).await;
    let main = there.open(session.id()).await.expect("the session").main().clone();
    assert_eq!(main.key().thread, *main.id());
    assert_eq!(main.close_lost().await.expect("the store answers"), None, "there is no turn");

    let turn = begun(session.main(), "one").await;
    assert_eq!(session.main().close_lost().await.expect("the store answers"), None, "it runs here");
    tokio::time::sleep(Duration::from_millis(400)).await;
    // Simulates a dead process: its lease has expired and it sends nothing.
    let closed = main.close_lost().await.expect("the store answers");
    assert_eq!(closed, Some(turn.turn()));
    let items = main.all(None).await.expect("the store answers");
    assert_eq!(items.last().map(|it| it.body.kind()), Some("turn_ended"));
    assert_eq!(main.close_lost().await.expect("the store answers"), None, "once");
    let late = turn.complete(Vec::new()).await;
    assert!(late.is_err(), "{late:?}");

    let held = begun(&main, "two").await;
    let before = session.main().refresh().await.expect("the store answers");
    assert_eq!(session.main().close_lost().await.expect("the store answers"), None, "another has the lease");
    assert_eq!(session.main().refresh().await.expect("the store answers"), before, "nothing is written");
    drop(held);
    let closed = main.close_lost().await.expect("the store answers");
    assert_eq!(closed, Some(before.turn()), "it was dropped here, so nobody runs it");
    let head = main.head().await.expect("the store answers");
    assert!(head.lease.is_none_or(|it| !it.live));
}

/// No matter which operation closes a lost turn, the text that was saved of it is kept exactly once.
pub async fn what_a_lost_turn_said_is_kept(open: Open) {
    let quick = SessionConfig { lease: Duration::from_millis(80), ..SessionConfig::default() };
    for way in [
        Takeover::Message,
        Takeover::Instructions,
        Takeover::Once,
        Takeover::CloseLost,
        Takeover::Begin,
        Takeover::Again,
    ] {
        let (here, there) =
            (process_with(&open, quick.clone()).await, process_with(&open, quick.clone()).await);
        let session = new_session(&here).await;
        let items = vec![Message::user("one").into()];
        let config = TurnConfig { key: Some("again".to_owned()), items, ..TurnConfig::default() };
        let Begun::Running(lost) = session.main().begin(config).await.expect("a turn") else {
            panic!("{way:?}: it is new")
        };
        let mut unfinished = lost.unfinished();
        unfinished.push_text("half of t1");
        unfinished.save().await.expect("it is saved");
        let main = there.open(session.id()).await.expect("the session").main().clone();
        tokio::time::sleep(Duration::from_millis(240)).await;
        way.take(&main).await.expect("its lease has ended");

        let all = main.all(None).await.expect("the store answers");
        let first: Vec<&str> = all.iter().map(|it| it.body.kind()).take(4).collect();
        assert_eq!(first, ["turn_began", "user", "assistant", "turn_ended"], "{way:?}");
        assert_eq!(texts(&all)[..2], ["one", "half of t1"], "{way:?}");
        assert_eq!(texts(&all).iter().filter(|it| it.starts_with("half")).count(), 1, "{way:?}");
        assert!(
            main.head().await.expect("there").lease.is_none_or(|it| !it.live),
            "{way:?}: it is given back"
        );
        assert_replays(&**there.store(), main.key()).await;
        drop(lost);
    }
}

pub(super) async fn begun(thread: &Thread, text: &str) -> RunningTurn {
    let items = vec![NewItem::from(Message::user(text))];
    match thread.begin(TurnConfig { items, ..TurnConfig::default() }).await.expect("a turn") {
        Begun::Running(turn) => turn,
        other => panic!("there was no such turn before: {other:?}"),
    }
}

/// A subscriber gets every item once and in order, from wherever it starts, while another process appends.
pub async fn subscriptions_have_no_gap_and_no_repeat(open: Open) {
    const ITEMS: u64 = 240;
    let it = bare(&open).await;
    let other = BareThread { store: open().await, session: it.session.clone(), key: it.key.clone() };
    let writing = tokio::spawn(async move {
        let mut end = 0;
        while end < ITEMS {
            let count = (end % 7 + 1).min(ITEMS - end);
            let bodies = (0..count).map(|n| said(&format!("m{}", end + n + 1))).collect();
            end = other.append(Guard::Free, bodies).await.expect("an append").end.0;
            if end.is_multiple_of(3) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let sessions = process(&open).await;
    let thread = sessions.open(&it.session.session).await.expect("the session").main().clone();
    let follow = |after: u64| {
        let stream = thread.subscribe(Seq(after)).take((ITEMS - after) as usize);
        async move {
            let positions: Vec<u64> = stream.map(|it| it.expect("the store answers").seq.0).collect().await;
            assert_eq!(positions, (after + 1..=ITEMS).collect::<Vec<u64>>());
        }
    };
    let all = async { futures::join!(follow(0), follow(0), follow(100), follow(ITEMS - 1)) };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("nothing is waited for in vain");
    writing.await.expect("the writer is done");
    follow(17).await;
}
