//! Checks of archives, notes and what takes them back.

use std::sync::Arc;

use contexture_history::compaction::Strategy;
use contexture_history::{Body, EnvelopeTag, Item, Seq, Timestamp, TurnNo};
use contexture_message::{Message, Tokens};
use serde_json::json;

use super::support::{Open, TestNames, assert_replays, new_session, process};
use crate::{
    IsolatedStart, Names, NewArchive, NewItem, Session, SessionError, SessionId, SessionStart, Sessions,
    Snapshot, Tenant, Thread, ThreadKey,
};
use crate::{export, fork_session, import, rewrite_thread};

/// Says as many things, with hidden context; each turn takes three positions.
async fn said(thread: &Thread, turns: std::ops::Range<u64>) {
    for turn in turns {
        let items = vec![
            NewItem::from(Message::user(format!("question {turn}"))),
            NewItem::envelope(EnvelopeTag::SystemContext, format!("page {turn}")),
            NewItem::from(Message::assistant(format!("answer {turn}"))),
        ];
        thread.add(items).await.expect("an append");
    }
}

fn over(first: u64, last: u64, text: &str) -> NewArchive {
    NewArchive {
        text: Some(text.to_owned()),
        facts: Vec::new(),
        left_out: None,
        range: (Seq(first), Seq(last)),
        turns: (TurnNo(first.div_ceil(3)), TurnNo(last.div_ceil(3))),
        strategy: Strategy::SessionCompaction,
        before: Tokens(100),
    }
}

async fn archived(thread: &Thread, first: u64, last: u64, text: &str) {
    let view = thread.view().await.expect("the store answers");
    thread.archive_range(&view, &over(first, last, text)).await.expect("an archive");
}

/// What the model reads of a thread.
fn reads(snapshot: &Snapshot) -> Vec<String> {
    let messages = snapshot.turns().iter().flat_map(|it| it.messages().iter().cloned());
    messages.map(|it| format!("{it:?}")).collect()
}

async fn elsewhere(open: &Open, session: &Session) -> Thread {
    let sessions = process(open).await.of_tenant(session.main().key().tenant.clone());
    sessions.open(session.id()).await.expect("the session").main().clone()
}

async fn full(thread: &Thread) -> Vec<Item> {
    thread.full_history().await.expect("the store answers")
}

/// Another process reads what this one does, whatever is archived, noted, reset or undone, and nothing is lost.
pub async fn archives_read_the_same_everywhere(open: Open) {
    let session = new_session(&process(&open).await).await;
    let main = session.main();
    said(main, 1..5).await;
    let (before, original) = (main.get(), full(main).await);
    archived(main, 1, 3, "the first").await;
    archived(main, 4, 6, "the second").await;
    let large = json!({"text": "é".repeat(20_000), "list": ["x".repeat(9_000)]});
    main.add(vec![NewItem::note("large", Some(large.clone()))]).await.expect("an append");
    let two = main.get();
    archived(main, 1, 9, "all three").await;
    main.add(vec![NewItem::aged(Seq(0), Seq(12))]).await.expect("an append");
    for step in 0..4 {
        let other = elsewhere(&open, &session).await;
        assert_eq!(*other.get(), *main.get(), "step {step}");
        assert_eq!(other.get().note("large").map(|it| &**it), Some(&large));
        assert_eq!(full(&other).await[..original.len()], original[..]);
        match step {
            0 => assert_eq!(other.undo().await.expect("it is there").map(|it| it.number), Some(3)),
            1 => drop(main.reset_history().await.expect("an append")),
            _ => assert!(main.undo().await.expect("the store answers").is_none(), "nothing to undo"),
        }
        let state = main.refresh().await.expect("the store answers").state().clone();
        match step {
            0 => assert_eq!(state.archives, two.state().archives, "those it took the place of hold again"),
            _ => assert!(state.archives.is_empty()),
        }
    }
    assert_eq!(reads(&before).len(), 8);
    assert!(reads(&main.get()).is_empty());
    let shown = main.client(None).await.expect("the store answers");
    assert_eq!(shown.len(), 8, "the client sees what was said, and nothing else");
    let key = ThreadKey { tenant: process(&open).await.tenant().clone(), thread: main.id().clone() };
    assert_replays(&*open().await, &key).await;
}

/// Whatever copies a thread copies its archives, as they were at that position.
pub async fn copies_keep_archives(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    said(main, 1..4).await;
    let mut points = vec![main.get()];
    archived(main, 1, 3, "the first").await;
    points.push(main.get());
    points.push(main.add(vec![NewItem::note("k", Some(json!("v")))]).await.expect("an append"));
    points.push(main.add(vec![NewItem::aged(Seq(0), Seq(6))]).await.expect("an append"));
    archived(main, 1, 6, "two").await;
    points.push(main.get());
    main.undo().await.expect("the store answers");
    points.push(main.get());
    for point in &points {
        let end = point.state().end;
        let copy = main.fork(Some(end), None).await.expect("a copy");
        assert_eq!(*copy.get(), **point, "a copy at {end}");
        let start = SessionStart::default();
        let forked = fork_session(&sessions, session.id(), Some(end), start).await.expect("a copy");
        let forked = sessions.open(&forked.session).await.expect("the session");
        assert_eq!(*forked.main().get(), **point, "a session at {end}");
    }
    let inherits = IsolatedStart { inherit_history: true, ..IsolatedStart::default() };
    let isolated = session.create_isolated(inherits).await.expect("a thread");
    assert_eq!(*isolated.get(), *main.get());
    let moved = moved(&sessions, session.id()).await;
    assert_eq!(*moved.main().get(), *main.get(), "what was exported reads the same");
    assert_eq!(
        moved.main().archives().await.expect("the store answers"),
        main.archives().await.expect("the store answers")
    );
    let found = moved.main().search("question", 10).await.expect("the store answers");
    assert_eq!(found.len(), 1, "what is archived is found in the copy");
}

async fn moved(sessions: &Sessions, id: &SessionId) -> Session {
    let mut lines = Vec::new();
    let write = |line: &str| {
        lines.push(line.to_owned());
        Ok::<_, SessionError>(())
    };
    export(sessions, id, write).await.expect("an export");
    let name = SessionId::parse(format!("{id}-moved")).expect("a name");
    let imported = import(sessions, lines.iter().map(String::as_str), Some(name)).await.expect("an import");
    sessions.open(&imported.session).await.expect("the session")
}

/// A process that does not know another process's archives yet sees them where it matters, and two never both commit.
pub async fn archives_of_others_are_seen(open: Open) {
    let session = new_session(&process(&open).await).await;
    let (here, there) = (session.main(), elsewhere(&open, &session).await);
    said(here, 1..6).await;
    let there_view = there.view().await.expect("the store answers");
    archived(here, 1, 3, "the first").await;
    let late = there.archive_range(&there_view, &over(1, 6, "late")).await;
    assert!(matches!(late, Err(SessionError::ViewChanged { .. })), "{late:?}");
    archived(here, 4, 6, "the second").await;
    assert_eq!(there.archives().await.expect("the store answers").len(), 2);
    assert_eq!(there.archive(2).await.expect("the store answers").len(), 3);
    assert_eq!(there.search("question", 10).await.expect("the store answers").len(), 2);
    // It reads the newest state although it received no notification.
    archived(&there, 1, 9, "three").await;
    assert_eq!(here.archives().await.expect("the store answers").len(), 3);
    let beyond = there.view().await.expect("the store answers");
    for (first, last) in [(10, 10_000), (12, 11), (0, 3), (u64::MAX, u64::MAX)] {
        let refused = there.archive_range(&beyond, &over(first, last, "no")).await;
        assert!(matches!(refused, Err(SessionError::NotInThread { .. })), "{first}..{last} {refused:?}");
    }
    assert_eq!(*here.refresh().await.expect("the store answers"), *there.get());
}

/// Content that was replaced is in no view, no search, no large text and no other process; the rest stays as it was.
pub async fn rewritten_items_are_gone(open: Open) {
    // A tenant of its own: its blobs are counted.
    let tenant = Tenant::parse(TestNames.next()).expect("a tenant");
    let sessions = process(&open).await.of_tenant(tenant);
    let session = new_session(&sessions).await;
    let (main, store) = (session.main(), sessions.store());
    said(main, 1..3).await;
    let large = "zanzibar ".repeat(2_000);
    main.add_messages(vec![Message::user(&large), Message::assistant("zanzibar again")])
        .await
        .expect("an append");
    said(main, 4..6).await;
    archived(main, 1, 8, "the start").await;
    let other = elsewhere(&open, &session).await;
    assert_eq!(main.search("zanzibar", 5).await.expect("an answer").len(), 2);
    let before = full(main).await;
    let usage = store.usage(main.key().tenant.clone()).await.expect("an answer");
    let forgotten = |item: &Item| {
        let is_gone = format!("{:?}", item.body).contains("zanzibar");
        is_gone.then(|| Item { body: Body::Message(Arc::new(Message::user("[gone]"))), ..item.clone() })
    };
    let items: Vec<Item> = before.iter().filter_map(forgotten).collect();
    assert_eq!(items.len(), 2);
    rewrite_thread(&**store, main.key(), items, Timestamp(5)).await.expect("a rewrite");
    for thread in [main, &other] {
        let snapshot = thread.refresh().await.expect("an answer");
        assert!(!format!("{snapshot:?}").contains("zanzibar"));
        assert_eq!(thread.search("zanzibar", 5).await.expect("an answer"), []);
        assert_eq!(thread.search("gone", 5).await.expect("an answer").len(), 2);
    }
    let after = full(main).await;
    for (old, new) in before.iter().zip(&after) {
        match forgotten(old) {
            Some(gone) => assert_eq!(*new, gone),
            None => assert_eq!(new, old),
        }
    }
    assert_eq!(after.len(), before.len());
    let now = store.usage(main.key().tenant.clone()).await.expect("an answer");
    assert_eq!((usage.blobs, now.blobs), (1, 0));
    said(main, 7..8).await;
    assert_replays(&**store, main.key()).await;
}
