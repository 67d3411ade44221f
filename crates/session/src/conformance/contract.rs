//! Checks of the bare contract: [`Store`](crate::Store) as [`store`](crate::store) documents it.

use std::sync::Arc;
use std::time::Duration;

use contexture_history::{
    Application, Body, Change, Envelope, EnvelopeTag, Item, Seq, Summary, SystemEvent, Timestamp, TurnNo,
    TurnStatus, Visibility,
};
use contexture_message::{Message, Part, Role, Thinking, ToolCall, ToolOutput, ToolResult};
use serde_json::json;

use super::support::{
    BareThread, Open, TestNames, append_to, assert_in_order, assert_replays, bare, bare_of, everything, item,
    said, texts,
};
use crate::codec::BLOB_BYTES;
use crate::store::{Guard, LogState, NewLog, NewSession, NewestTurns, Span};
use crate::{
    BackwardScan, Fence, Names, SessionId, SessionKey, State, Store, StoreError, Tenant, ThreadId, ThreadKey,
};

/// What is read is what was appended, whatever its kind and size.
pub async fn items_come_back_as_they_were(open: Open) {
    let it = bare(&open).await;
    let bodies = all_kinds();
    let mut append = append_to(&State::default(), Guard::Free, bodies);
    append.items[0].author = Some("ada \u{1F980}".to_owned());
    append.items[1].visibility = Visibility::NONE;
    append.items[2].cost.counter = Arc::from("another counter");
    let expected = append.items.clone();
    it.store.append(it.key.clone(), append).await.expect("an append");
    assert_eq!(it.items().await, expected);
    let again = BareThread { store: open().await, session: it.session.clone(), key: it.key.clone() };
    assert_eq!(again.items().await, expected, "another process reads the same");
    assert_replays(&*again.store, &again.key).await;
}

/// A value in a value in a value …
fn nested(depth: usize) -> Body {
    let value = (1..depth).fold(json!(1), |inner, _| json!({"a": inner}));
    Body::Application(Application { kind: "deep".into(), value })
}

/// A body of every kind, small and large.
fn all_kinds() -> Vec<Body> {
    let large = "a line with \u{0} and \"quotes\" and 漢字\n".repeat(400);
    let call = ToolCall { id: "c1".into(), name: "find".into(), arguments: json!({"q": "x", "n": 1.5}) };
    let result = |output| Part::ToolResult(ToolResult { call_id: "c1".into(), name: "find".into(), output });
    let thinking = Thinking {
        text: "hm".into(),
        signature: Some("s".into()),
        provider: Some("p".into()),
        ..Thinking::default()
    };
    let many: Vec<_> = (0..2_000).map(|it| json!({"row": it})).collect();
    vec![
        Body::Change(Change::Instructions { text: Some(large.clone()) }),
        Body::Change(Change::Model { provider: "openai".into(), model: "gpt".into() }),
        Body::Change(Change::began(Some("key".into()))),
        said(&large),
        Body::Envelope(Envelope::text(EnvelopeTag::SystemContext, "page")),
        Body::Message(Arc::new(Message::parts(
            Role::Assistant,
            vec![Part::Thinking(thinking), Part::text("so"), Part::ToolCall(call)],
        ))),
        Body::Message(Arc::new(Message::parts(Role::Tool, vec![result(ToolOutput::Json(json!(many)))]))),
        Body::Message(Arc::new(Message::parts(Role::Tool, vec![result(ToolOutput::Text(large))]))),
        Body::Message(Arc::new(Message::assistant("done").with_id("m-7"))),
        Body::Change(Change::TurnEnded {
            status: TurnStatus::Failed,
            reason: Some("why".into()),
            code: Some("model_refused".into()),
            usage: Some(contexture_message::Usage { input_tokens: 7, ..Default::default() }),
        }),
        Body::SystemEvent(SystemEvent::new("deploy", "<done>")),
        Body::Summary(Summary { text: "short".into(), first: Seq(1), last: Seq(3), ..Summary::default() }),
        Body::Application(Application { kind: "note".into(), value: json!({"$blob": "x", "a/b~c": null}) }),
        nested(100),
        Body::Change(Change::HistoryReset),
        Body::Change(Change::Instructions { text: None }),
    ]
}

/// An append that does not continue the log is refused, and leaves nothing behind.
pub async fn appends_are_checked(open: Open) {
    let it = bare(&open).await;
    it.say("one").await;
    let stale = append_to(&State::default(), Guard::Free, vec![said("late")]);
    let refused = it.store.append(it.key.clone(), stale.clone()).await;
    let at = |found: &Result<_, StoreError>| match found {
        Err(StoreError::Conflict { expected, found, .. }) => Some((*expected, *found)),
        _ => None,
    };
    assert_eq!(at(&refused), Some((Seq(0), Seq(1))), "{refused:?}");

    let mut gap = append_to(&it.head().await.state, Guard::Free, vec![said("gap")]);
    gap.items[0].seq = Seq(7);
    gap.state.as_mut().expect("it has one").end = Seq(7);
    let mut empty = gap.clone();
    empty.items.clear();
    for malformed in [gap, empty] {
        let refused = it.store.append(it.key.clone(), malformed).await;
        assert!(matches!(refused, Err(StoreError::Malformed { .. })), "{refused:?}");
    }
    let refused = it.append(Guard::Free, vec![nested(101)]).await;
    assert!(matches!(refused, Err(StoreError::Malformed { .. })), "{refused:?}");
    let nowhere = ThreadKey { thread: ThreadId::parse("nowhere").expect("a name"), ..it.key.clone() };
    let refused = it.store.append(nowhere.clone(), stale).await;
    assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
    let refused = it.store.read(nowhere.clone(), Span::After { seq: Seq(0), max: 1 }).await;
    assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
    assert_eq!(it.store.head(nowhere).await.expect("the store answers"), None);
    assert_eq!(texts(&it.items().await), ["one"]);
    it.say("two").await;
    assert_replays(&*it.store, &it.key).await;
}

/// Leases: taken, kept, given back, ended, taken over.
pub async fn guards_hold(open: Open) {
    let it = bare(&open).await;
    let long = Duration::from_secs(60);
    let acquire = |owner: &str, ttl| Guard::Acquire { owner: Arc::from(owner), ttl };
    let lease = |guard| it.store.lease(it.key.clone(), guard);
    let held = |found: &Result<_, StoreError>| matches!(found, Err(StoreError::Held { .. }));
    let fenced = |found: &Result<_, StoreError>| matches!(found, Err(StoreError::Fenced { .. }));

    assert_eq!(lease(Guard::Free).await.expect("free"), None);
    let first = lease(acquire("a", long)).await.expect("free").expect("a number");
    assert!(held(&lease(acquire("b", long)).await) && held(&lease(Guard::Free).await));
    assert!(it.append(Guard::Free, vec![said("x")]).await.is_err_and(|err| err.code() == "turn_in_progress"));
    let lease_row = it.head().await.lease.expect("a lease");
    assert_eq!((&*lease_row.owner, lease_row.fence, lease_row.live), ("a", first, true));

    let second = lease(acquire("a", long)).await.expect("its own").expect("a number");
    assert!(second > first, "each lease has a higher number");
    assert!(fenced(&lease(Guard::Hold { fence: first, ttl: long }).await));
    assert_eq!(lease(Guard::Hold { fence: second, ttl: long }).await.expect("held"), Some(second));
    let hold = Guard::Hold { fence: second, ttl: long };
    let appended = it.append(hold.clone(), vec![said("held")]).await.expect("held");
    assert_eq!(appended.fence, Some(second));
    let appended = it.append(Guard::Release { fence: second }, vec![said("last")]).await.expect("held");
    assert_eq!((appended.fence, appended.end), (None, Seq(2)));
    assert!(it.append(hold, vec![said("after")]).await.is_err_and(|err| err.code() == "lease_lost"));
    assert!(it.head().await.lease.is_none_or(|it| !it.live));

    let third = lease(acquire("b", Duration::from_millis(40))).await.expect("free").expect("a number");
    assert!(third > second, "numbers go on after a lease was given back");
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert!(it.head().await.lease.is_some_and(|it| !it.live), "it ended");
    assert_eq!(lease(Guard::Hold { fence: third, ttl: long }).await.expect("nobody took it"), Some(third));
    assert!(held(&lease(acquire("c", long)).await), "a sign of life made it live again");
    assert_eq!(lease(Guard::Release { fence: third }).await.expect("held"), None);
    let unknown = Guard::Hold { fence: Fence(third.0 + 9), ttl: long };
    assert!(fenced(&lease(unknown).await));
    assert_eq!(texts(&it.items().await), ["held", "last"]);
}

/// Every span returns what the same span gives on the whole log.
pub async fn spans_return_what_they_say(open: Open) {
    let it = bare(&open).await;
    for round in 0..6_u32 {
        let bodies = (0..round * 13 + 1).flat_map(|n| turn_of(round, n)).collect();
        it.append(Guard::Free, bodies).await.expect("an append");
    }
    let log = it.items().await;
    assert_in_order(&log);
    let end = it.head().await.state.end;
    for span in some_spans(end) {
        let found = it.store.read(it.key.clone(), span.clone()).await.expect("the store answers");
        assert_eq!(positions(&found), positions(&expected(&log, &span)), "{span:?}");
    }
}

fn turn_of(round: u32, n: u32) -> Vec<Body> {
    let answer = Body::Message(Arc::new(Message::assistant("answer")));
    let hidden = Body::Application(Application { kind: "trace".into(), value: json!(n) });
    let mut bodies = vec![said(&format!("{round}.{n}"))];
    bodies.extend(std::iter::repeat_n(answer, n as usize % 3));
    bodies.extend(n.is_multiple_of(4).then_some(hidden));
    bodies
}

fn some_spans(end: Seq) -> Vec<Span> {
    let counts = [0, 1, 2, 5, 16, 17, 64, 1_000, usize::MAX];
    let items = counts.map(|count| Span::NewestItems { count, client: false });
    let client = counts.map(|count| Span::NewestItems { count, client: true });
    let after = [0, 1, 15, 16, 17, 40, end.0 - 1, end.0, end.0 + 5];
    let after = after.iter().flat_map(|&seq| counts.map(|max| Span::After { seq: Seq(seq), max }));
    let turns = counts.iter().flat_map(|&turns| {
        let of = move |after: u64, open: Option<u64>| {
            Span::NewestTurns(NewestTurns { turns, after: Seq(after), open: open.map(TurnNo) })
        };
        [of(0, None), of(end.0 - 9, None), of(0, Some(200))]
    });
    items.into_iter().chain(client).chain(after).chain(turns).collect()
}

fn expected(log: &[Item], span: &Span) -> Vec<Item> {
    match BackwardScan::new(span) {
        Some(mut backward) => {
            log.iter().rev().for_each(|it| backward.push(vec![it.clone()]));
            backward.finish()
        }
        None => match span {
            Span::After { seq, max } => log.iter().filter(|it| it.seq > *seq).take(*max).cloned().collect(),
            _ => Vec::new(),
        },
    }
}

fn positions(items: &[Item]) -> Vec<u64> {
    items.iter().map(|it| it.seq.0).collect()
}

/// A fork starts as a copy, cut anywhere, and then both go their own ways.
pub async fn forks_are_independent(open: Open) {
    let it = bare(&open).await;
    let began = Body::Change(Change::began(Some("k".into())));
    let mut bodies = vec![began, said(&"x".repeat(BLOB_BYTES + 1))];
    bodies.extend((0..20).map(|n| said(&format!("m{n}"))));
    it.append(Guard::Free, bodies).await.expect("an append");
    let log = it.items().await;
    for cut in [1, 2, 9, 16, 17, log.len()] {
        let state = State::replay(&log[..cut]);
        let fork = fork_of(&it, state).await;
        assert_eq!(everything(&*it.store, &fork).await, log[..cut], "cut after {cut}");
        assert_replays(&*it.store, &fork).await;
        let keyed = it.store.turn_with_key(fork.clone(), "k".to_owned()).await.expect("the store answers");
        assert_eq!(keyed, None, "keys stay with the thread they were given to");
        let copy = BareThread { store: Arc::clone(&it.store), session: it.session.clone(), key: fork };
        copy.say("only here").await;
    }
    assert_eq!(it.items().await, log);
    it.say("only there").await;
    assert_eq!(it.store.threads(it.session.clone()).await.expect("the store answers").len(), 7);
    assert_eq!(it.store.usage(it.key.tenant.clone()).await.map(|it| it.threads >= 7).ok(), Some(true));
}

async fn fork_of(it: &BareThread, state: State) -> ThreadKey {
    let name = format!("{}/{}", it.session.session, TestNames.next());
    let thread = ThreadId::parse(name).expect("a name");
    let base = Some(crate::ForkPoint { thread: it.key.thread.clone(), seq: state.end });
    let archived = crate::search::ranges_of(&state.archives);
    let new = NewLog {
        base: base.clone(),
        state: LogState::from(&state),
        archived,
        ..NewLog::isolated(it.session.clone(), thread, Timestamp(5))
    };
    let key = new.key();
    it.store.fork(it.key.clone(), new.clone()).await.expect("a fork");
    let twice = it.store.fork(it.key.clone(), new).await;
    assert!(matches!(twice, Err(StoreError::Exists { .. })), "{twice:?}");
    let head = it.store.head(key.clone()).await.expect("the store answers").expect("a thread");
    assert_eq!((head.info.base, head.lease), (base, None));
    key
}

/// The same large text is stored once, for as long as anything refers to it.
pub async fn blobs_are_stored_once(open: Open) {
    let tenant = Tenant::parse(TestNames.next()).expect("a tenant");
    let large = format!("{}{}", TestNames.next(), "y".repeat(BLOB_BYTES));
    let one = bare_of(&open, tenant.clone(), TestNames.next()).await;
    let two = bare_of(&open, tenant.clone(), TestNames.next()).await;
    let result = Part::ToolResult(ToolResult {
        call_id: "c9".into(),
        name: "read".into(),
        output: ToolOutput::Text(large.clone()),
    });
    one.append(Guard::Free, vec![said(&large), said("small")]).await.expect("an append");
    one.say(&large).await;
    let tool = Body::Message(Arc::new(Message::parts(Role::Tool, vec![result])));
    two.append(Guard::Free, vec![said("read it"), tool]).await.expect("an append");

    let usage = |tenant: &Tenant| one.store.usage(tenant.clone());
    let found = usage(&tenant).await.expect("the store answers");
    assert_eq!((found.sessions, found.threads, found.items), (2, 2, 5));
    assert_eq!((found.blobs, found.blob_bytes), (1, large.len() as u64), "stored once");

    assert!(one.store.delete_session(one.session.clone()).await.expect("the store answers"));
    assert_eq!(usage(&tenant).await.expect("the store answers").blobs, 1, "the other session refers to it");
    assert_eq!(two.items().await.len(), 2);
    assert!(two.store.delete_session(two.session.clone()).await.expect("the store answers"));
    assert_eq!(usage(&tenant).await.expect("the store answers"), crate::Usage::default());
    one.store.vacuum().await.expect("the store answers");
}

/// A deleted session is gone, and its name is free for a new one.
pub async fn deleting_removes_everything(open: Open) {
    let it = bare(&open).await;
    it.append(Guard::Free, vec![Body::Change(Change::began(Some("k".into()))), said("x")])
        .await
        .expect("an append");
    let fork = fork_of(&it, it.head().await.state).await;
    let main = it.store.delete_log(it.key.clone()).await;
    assert!(matches!(main, Err(StoreError::IsMain { .. })), "{main:?}");
    assert!(it.store.delete_log(fork.clone()).await.expect("the store answers"));
    assert!(!it.store.delete_log(fork.clone()).await.expect("the store answers"));
    assert_eq!(it.store.head(fork).await.expect("the store answers"), None);

    assert!(it.store.delete_session(it.session.clone()).await.expect("the store answers"));
    assert!(!it.store.delete_session(it.session.clone()).await.expect("the store answers"));
    assert_eq!(it.store.head(it.key.clone()).await.expect("the store answers"), None);
    let new = NewSession { key: it.session.clone(), label: None, at: Timestamp(9) };
    it.store.create_session(new.clone()).await.expect("the name is free");
    let twice = it.store.create_session(new).await;
    assert!(matches!(twice, Err(StoreError::Exists { .. })), "{twice:?}");
    assert_eq!(it.items().await, []);
    assert_eq!(it.head().await.state, State::default());
    let keyed = it.store.turn_with_key(it.key.clone(), "k".to_owned()).await.expect("the store answers");
    assert_eq!(keyed, None);
    it.say("anew").await;
    assert_replays(&*it.store, &it.key).await;
}

/// Two tenants may use the same names, and neither sees, changes or waits for anything of the other.
pub async fn nothing_of_a_tenant_is_visible_to_another(open: Open) {
    let name = TestNames.next();
    let tenants = [1, 2].map(|n| Tenant::parse(format!("{name}-{n}")).expect("a tenant"));
    let [first, second] = tenants;
    let ours = bare_of(&open, first, name.clone()).await;
    ours.append(Guard::Free, vec![Body::Change(Change::began(Some("k".into()))), said("secret")])
        .await
        .expect("an append");
    let before = ours.items().await;

    let store = open().await;
    let session = SessionKey { tenant: second.clone(), session: ours.session.session.clone() };
    let key = session.main();
    assert_sees_nothing(&*store, &session, &key).await;

    let theirs = bare_of(&open, second.clone(), name).await;
    theirs.say("other").await;
    assert_eq!(texts(&theirs.items().await), ["other"]);
    assert_eq!(ours.items().await, before);
    let thread = ThreadId::parse(TestNames.next()).expect("a name");
    let fork = NewLog {
        state: LogState::from(&State::replay(&before)),
        ..NewLog::isolated(theirs.session.clone(), thread, Timestamp(1))
    };
    let nowhere = ThreadKey { tenant: second, thread: ThreadId::parse("nowhere").expect("a name") };
    assert!(store.fork(nowhere, fork).await.is_err());
    let long = Duration::from_secs(60);
    let acquire = Guard::Acquire { owner: Arc::from("them"), ttl: long };
    theirs.store.lease(theirs.key.clone(), acquire).await.expect("free");
    ours.say("not held").await;
    assert!(theirs.store.delete_session(theirs.session.clone()).await.expect("the store answers"));
    assert_eq!(ours.items().await.len(), before.len() + 1, "theirs is gone, ours is not");
}

async fn assert_sees_nothing(store: &dyn Store, session: &SessionKey, key: &ThreadKey) {
    let nothing = State::default();
    let not_found = |found: Option<&StoreError>| matches!(found, Some(StoreError::NotFound { .. }));
    assert_eq!(store.head(key.clone()).await.expect("the store answers"), None);
    let read = store.read(key.clone(), Span::NewestItems { count: 9, client: false }).await;
    assert!(not_found(read.as_ref().err()), "{read:?}");
    let append = store.append(key.clone(), append_to(&nothing, Guard::Free, vec![said("forged")])).await;
    assert!(not_found(append.as_ref().err()), "{append:?}");
    let lease = store.lease(key.clone(), Guard::Free).await;
    assert!(not_found(lease.as_ref().err()), "{lease:?}");
    let keyed = store.turn_with_key(key.clone(), "k".to_owned()).await;
    assert!(matches!(keyed, Ok(None) | Err(StoreError::NotFound { .. })), "{keyed:?}");
    assert_eq!(store.threads(session.clone()).await.expect("the store answers"), []);
    assert_eq!(store.sessions(session.tenant.clone(), None, 9).await.expect("the store answers"), []);
    assert_eq!(
        store.usage(session.tenant.clone()).await.expect("the store answers"),
        crate::Usage::default()
    );
    assert!(!store.delete_session(session.clone()).await.expect("the store answers"));
    assert!(!store.delete_log(key.clone()).await.expect("the store answers"));
    let thread = NewLog::isolated(session.clone(), ThreadId::parse("t").expect("a name"), Timestamp(1));
    let created = store.create_log(thread).await;
    assert!(not_found(created.as_ref().err()), "{created:?}");
}

/// Sessions are listed in the order of their names, page by page.
pub async fn sessions_are_listed(open: Open) {
    let tenant = Tenant::parse(TestNames.next()).expect("a tenant");
    for name in ["b", "a", "ä", "c-d", "B"] {
        bare_of(&open, tenant.clone(), name.to_owned()).await;
    }
    let store = open().await;
    let mut names = Vec::new();
    loop {
        let after = names.last().map(|it: &String| SessionId::parse(it.as_str()).expect("a name"));
        let page = store.sessions(tenant.clone(), after, 2).await.expect("the store answers");
        if page.is_empty() {
            break;
        }
        names.extend(page.iter().map(|it| it.session.to_string()));
    }
    assert_eq!(names, ["B", "a", "b", "c-d", "ä"], "in the order of their bytes");
    let page = store.sessions(tenant, None, 1).await.expect("the store answers");
    let found = (page[0].label.as_deref(), page[0].created, page[0].threads, page[0].items, page[0].turns);
    assert_eq!(found, (Some("a check"), Timestamp(1), 1, 0, 0));
}

/// Waiting ends when the log grows, in any process, and immediately if it already has.
pub async fn changes_are_noticed(open: Open) {
    let it = bare(&open).await;
    it.say("one").await;
    let soon = Duration::from_secs(10);
    let noticed = tokio::time::timeout(soon, it.store.changed(it.key.clone(), Seq(0))).await;
    noticed.expect("at once").expect("the store answers");

    let other = BareThread { store: open().await, session: it.session.clone(), key: it.key.clone() };
    for seq in 1..4 {
        let waiting = it.store.changed(it.key.clone(), Seq(seq));
        let writing = async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            other.say("more").await;
        };
        let (noticed, ()) = futures::join!(tokio::time::timeout(soon, waiting), writing);
        noticed.expect("the other's append is noticed").expect("the store answers");
    }
    // An abandoned wait must not block anything.
    drop(it.store.changed(it.key.clone(), Seq(99)));
    let item_after = item(Seq(5), TurnNo(4), said("x"));
    assert_eq!(item_after.seq, it.head().await.state.end.next());
}
