//! Checks of searching what is archived.

use std::sync::Arc;

use contexture_history::{Application, Body, Envelope, EnvelopeTag, Seq, Summary, SystemEvent, TurnNo};
use contexture_message::{Message, Part, Role, ToolCall, ToolOutput, ToolResult};
use serde_json::json;

use super::support::{BareThread, Open, TestNames, bare, bare_of, everything, new_session, process, said};
use crate::store::{ForkPoint, Guard, LogState, NewLog};
use crate::{Names as _, NewItem, Search, State, Store, StoreError, Tenant, ThreadId, ThreadKey};

const EVERYWHERE: (Seq, Seq) = (Seq(0), Seq(u64::MAX));

fn archive(first: u64, last: u64) -> Body {
    let text = "a summary of it all".to_owned();
    Body::Summary(Summary { text, first: Seq(first), last: Seq(last), number: 1, ..Summary::default() })
}

async fn searched(store: &dyn Store, key: &ThreadKey, search: Search) -> Vec<u64> {
    let found = store.search(key.clone(), search).await.expect("the store answers");
    found.into_iter().map(|it| it.seq.0).collect()
}

impl BareThread {
    async fn find(&self, query: &str) -> Vec<u64> {
        self.find_within(query, &[EVERYWHERE]).await
    }

    async fn find_within(&self, query: &str, within: &[(Seq, Seq)]) -> Vec<u64> {
        let search = Search { query: query.to_owned(), within: within.to_vec(), max: 100 };
        searched(&*self.store, &self.key, search).await
    }

    async fn add(&self, bodies: Vec<Body>) {
        self.append(Guard::Free, bodies).await.expect("an append");
    }

    /// Appends each text separately, then archives a range.
    async fn say_and_archive(&self, texts: &[&str], first: u64, last: u64) {
        for text in texts {
            self.say(text).await;
        }
        self.add(vec![archive(first, last)]).await;
    }
}

/// Nothing is found before it is archived; then it is, where the search looks, also when all came in one commit.
pub async fn archived_items_are_found(open: Open) {
    let log = bare(&open).await;
    log.say("the port is 8443").await;
    log.say("the host is alpha").await;
    assert!(log.find("port host").await.is_empty(), "nothing is archived");
    log.add(vec![archive(1, 1)]).await;
    assert_eq!(log.find("port host summary").await, [1]);
    log.add(vec![said("a port again"), said("and one more"), archive(2, 4)]).await;
    assert_eq!(log.find("port").await, [4, 1]);
    assert_eq!(log.find("PORT?").await, [4, 1]);
    assert_eq!(log.find_within("port", &[(Seq(2), Seq(9))]).await, [4]);
    assert_eq!(log.find_within("port", &[(Seq(1), Seq(1)), (Seq(5), Seq(9))]).await, [1]);
    assert!(log.find_within("port", &[]).await.is_empty());
    assert!(log.find_within("port", &[(Seq(9), Seq(1))]).await.is_empty());
    assert_eq!(log.find("more").await, Vec::<u64>::new(), "item 5 is not archived");

    let search = Search { query: "8443".to_owned(), within: vec![EVERYWHERE], max: 1 };
    let found = open().await.search(log.key.clone(), search).await.expect("another process finds it too");
    let [found] = &found[..] else { panic!("{found:?}") };
    let item = &log.items().await[0];
    assert_eq!((found.seq, found.turn, found.at), (item.seq, item.turn, item.at));
    assert_eq!((found.kind.as_str(), found.text.as_str()), ("user", "the port is 8443"));
}

/// Whatever was said or done is found; a range that names more than there is archives what there is.
pub async fn every_kind_of_text_is_found(open: Open) {
    let log = bare(&open).await;
    let call =
        ToolCall { id: "c".into(), name: "lookup_tool".into(), arguments: json!({"city": "Łódź\nwest"}) };
    let output = ToolOutput::Json(json!({"rows": [{"street": "Hauptstraße"}]}));
    let result = ToolResult { call_id: "c".into(), name: "lookup_tool".into(), output };
    let message = |role, part| Body::Message(Arc::new(Message::parts(role, vec![part])));
    let own = |kind: &str, text: &str| {
        Body::Application(Application { kind: kind.to_owned(), value: json!({"text": text}) })
    };
    log.add(vec![
        said("nul\0byte caf\u{e9}"),
        message(Role::Assistant, Part::ToolCall(call)),
        message(Role::Tool, Part::ToolResult(result)),
        own("contexture.tool_output", "the whole output"),
        own("app.card", "the whole card"),
        Body::SystemEvent(SystemEvent::new("deploy", "finished")),
        Body::Envelope(Envelope::text(EnvelopeTag::SystemContext, "今日は東京にいます")),
        archive(1, u64::MAX),
        archive(9, 2),
    ])
    .await;
    for (query, expected) in [
        ("byte", &[1][..]),
        ("nul", &[1]),
        ("cafe", &[1]),
        ("CAFÉ", &[1]),
        ("lodz", &[2]),
        ("west", &[2]),
        ("lookup_tool", &[2]),
        ("hauptstraße", &[3]),
        ("whole", &[4]),
        ("deploy", &[6]),
        ("東京", &[7]),
        ("京", &[7]),
        ("京東", &[]),
        ("card", &[]),
        ("summary", &[]),
    ] {
        assert_eq!(log.find(query).await, expected, "{query}");
    }
}

/// More words and rarer words come first, then what stands beside such items, then newer ones; no more than were asked
/// for.
pub async fn searches_are_ranked(open: Open) {
    let log = bare(&open).await;
    let texts = ["common rare", "common", "other rare", "common", "common word", "nothing", "unique common"];
    log.say_and_archive(&texts, 1, 7).await;
    assert_eq!(log.find("common rare").await, [1, 3, 2, 4, 5, 7]);
    assert_eq!(log.find("common unique rare").await, [7, 1, 3, 2, 4, 5]);
    assert_eq!(log.find("the rares").await, [3, 1], "stop words do not count, endings do not matter");
    let search = |max| Search { query: "common".to_owned(), within: vec![EVERYWHERE], max };
    assert_eq!(searched(&*log.store, &log.key, search(2)).await, [4, 2]);
    assert!(searched(&*log.store, &log.key, search(0)).await.is_empty());

    log.add((0..150).map(|_| said("crowd")).chain([archive(9, 158)]).collect()).await;
    let search = Search { query: "crowd".to_owned(), within: vec![EVERYWHERE], max: usize::MAX };
    let found = searched(&*log.store, &log.key, search).await;
    // The last one has nothing after it.
    assert_eq!((found.len(), found[0]), (100, 157));
}

/// A query is words and nothing else.
pub async fn hostile_queries_find_nothing(open: Open) {
    let log = bare(&open).await;
    log.say_and_archive(&["needle in the hay", "a:b -c"], 1, 2).await;
    let long = "\"'x*".repeat(1 << 18);
    let many: String = (0..50_000).map(|it| format!("q{it} ")).collect();
    let hostile = [
        "",
        " ",
        "*",
        "\"",
        "''",
        "(",
        ")",
        "-",
        "\\",
        ":",
        "\0",
        "NEAR(",
        "NOT",
        "OR OR",
        "x' OR '1'='1",
        "{",
        "^",
        "text:",
        "!",
        "|",
        "<->",
        "need*",
        "eedl",
        "👍",
        &long,
        &many,
    ];
    for query in hostile {
        let head: String = query.chars().take(20).collect();
        assert!(log.find(query).await.is_empty(), "{head}");
    }
    for query in
        ["\"needle\"", "NEAR(needle", "needle*", "-needle", "text:needle", "needle')--", "!needle & x"]
    {
        assert_eq!(log.find(query).await, [1], "{query}");
    }
    assert_eq!(log.find("b").await, [2]);
}

/// Archives of archives find each item once.
pub async fn nested_archives_find_items_once(open: Open) {
    let log = bare(&open).await;
    log.say_and_archive(&["first word", "second word"], 1, 2).await;
    log.say_and_archive(&["third word", "fourth word"], 1, 4).await;
    log.add(vec![archive(1, 6), archive(2, 7), archive(1, 1)]).await;
    assert_eq!(log.find("word").await, [4, 2, 5, 1]);
    assert_eq!(log.find("word third").await, [4, 2, 5, 1]);
}

/// A search sees one thread of one tenant.
pub async fn searches_stay_in_their_thread(open: Open) {
    let name = TestNames.next();
    let tenant = |it: &str| Tenant::parse(format!("{name}-{it}")).expect("a valid name");
    let one = bare_of(&open, tenant("one"), name.clone()).await;
    let other = bare_of(&open, tenant("other"), name.clone()).await;
    one.say_and_archive(&["secret plan"], 1, 1).await;
    other.say_and_archive(&["common", "plan"], 1, 2).await;
    let beside = bare_of(&open, tenant("one"), format!("{name}-beside")).await;
    beside.say_and_archive(&["plan"], 1, 1).await;
    assert_eq!(one.find("secret plan").await, [1]);
    assert_eq!(other.find("secret plan").await, [2]);
    assert_eq!(beside.find("secret plan").await, [1]);
    let stranger = ThreadKey { tenant: tenant("nobody"), thread: one.key.thread.clone() };
    let search = |query: &str| Search { query: query.to_owned(), within: vec![EVERYWHERE], max: 10 };
    for query in ["secret", ""] {
        let refused = one.store.search(stranger.clone(), search(query)).await;
        assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
    }
}

async fn forked(log: &BareThread, end: u64) -> BareThread {
    let items = everything(&*log.store, &log.key).await;
    let state = State::replay(items.iter().take_while(|it| it.seq.0 <= end));
    let thread = ThreadId::parse(format!("{}/{}", log.key.thread, TestNames.next())).expect("a valid name");
    let base = Some(ForkPoint { thread: log.key.thread.clone(), seq: Seq(end) });
    let archived = crate::search::ranges_of(&state.archives);
    let new = NewLog {
        state: LogState::from(&state),
        archived,
        base,
        ..NewLog::isolated(log.session.clone(), thread, log.head().await.info.created)
    };
    let key = new.key();
    log.store.fork(log.key.clone(), new).await.expect("a copy");
    BareThread { store: Arc::clone(&log.store), session: log.session.clone(), key }
}

/// A copy finds what was archived at its end, and goes its own way.
pub async fn copies_are_searched_by_themselves(open: Open) {
    let log = bare(&open).await;
    log.say_and_archive(&["old word", "young word"], 1, 1).await;
    log.add(vec![said("last word"), archive(1, 4)]).await;
    let (early, middle, whole) = (forked(&log, 2).await, forked(&log, 4).await, forked(&log, 5).await);
    assert_eq!(early.find("word").await, Vec::<u64>::new());
    assert_eq!(middle.find("word").await, [1]);
    assert_eq!(whole.find("word").await, [2, 4, 1]);
    middle.add(vec![said("another word"), archive(1, 5)]).await;
    assert_eq!(middle.find("word").await, [4, 2, 5, 1]);
    early.say_and_archive(&[], 1, 2).await;
    assert_eq!(early.find("word").await, [2, 1]);
    assert_eq!(log.find("word").await, [2, 4, 1]);
    assert!(log.store.delete_log(whole.key.clone()).await.expect("the store answers"));
    assert_eq!(log.find("word").await, [2, 4, 1]);
    assert_eq!(middle.find("word").await, [4, 2, 5, 1]);
}

/// What is deleted can't be found, not even by a session of the same name.
pub async fn deleting_ends_searching(open: Open) {
    let name = TestNames.next();
    let log = bare_of(&open, Tenant::default(), name.clone()).await;
    log.say_and_archive(&["gone word"], 1, 1).await;
    let copy = forked(&log, 2).await;
    assert_eq!(copy.find("gone").await, [1]);
    assert!(log.store.delete_log(copy.key.clone()).await.expect("the store answers"));
    assert_eq!(log.find("gone").await, [1]);
    assert!(log.store.delete_session(log.session.clone()).await.expect("the store answers"));
    let anew = bare_of(&open, Tenant::default(), name).await;
    anew.say_and_archive(&["new word"], 1, 1).await;
    assert!(anew.find("gone").await.is_empty());
    assert_eq!(anew.find("word").await, [1]);
    anew.store.vacuum().await.expect("the store answers");
    assert_eq!(anew.find("word").await, [1]);
}

/// An item of megabytes is archived like any other; of its words the first half megabyte counts.
pub async fn huge_items_are_archived(open: Open) {
    let log = bare(&open).await;
    let many: String = (0..400_000).map(|it| format!("word{it} ")).collect();
    let long = format!("begin {} end", "x".repeat(3 << 20));
    log.say_and_archive(&[&many, &long], 1, 2).await;
    assert_eq!(log.find("word17").await, [1]);
    assert!(log.find("word399999").await.is_empty());
    assert_eq!(log.find("end").await, [2]);
    assert_eq!(log.find(&"X".repeat(100)).await, [2]);
    let search = Search { query: "end".to_owned(), within: vec![EVERYWHERE], max: 1 };
    let found = log.store.search(log.key.clone(), search).await.expect("the store answers");
    assert!(found[0].text.ends_with("x end") && found[0].text.chars().count() <= 400);
}

/// A thread searches its archives, and nothing else.
pub async fn threads_search_their_archives(open: Open) {
    let sessions = process(&open).await;
    let session = new_session(&sessions).await;
    let main = session.main();
    let add = |text: &str| main.add_message(Message::user(text));
    add("first secret").await.expect("an append");
    let end = add("second secret").await.expect("an append").state().end;
    assert!(main.search("secret", 9).await.expect("the store answers").is_empty());
    main.add(vec![NewItem::of(archive(1, end.0))]).await.expect("an append");
    add("third secret").await.expect("an append");
    let found = main.search("secret first", 9).await.expect("the store answers");
    let found: Vec<_> = found.iter().map(|it| (it.turn, it.text.as_str())).collect();
    assert_eq!(found, [(TurnNo(1), "first secret"), (TurnNo(2), "second secret")]);
}
