//! Merge rules, versions, schemas and the log.

use contexture_capabilities::blackboard::{
    BoardAuthor, BoardDefinition, BoardError, BoardOptions, BoardOwner, BoardScope, BoardWrite, Edit,
    Expected, Pointer,
};
use contexture_history::{Seq, Timestamp};
use contexture_session::{
    Append, Guard, NewSession, SessionId, SessionKey, Span, Tenant, ThreadId, ThreadKey, record_item,
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::{board, board_in, boards, entry, patch, put, store};

const NEW: Expected = Expected::Nothing;

/// Writes values one after the other, and returns the value at the path after each, or the error.
async fn after_each(path: &str, values: &[Value]) -> Vec<String> {
    let (board, at) = (board(), path.parse::<Pointer>().unwrap());
    let mut shown = Vec::new();
    for value in values {
        shown.push(match put(&board, path, value.clone(), NEW).await {
            Ok(state) => at.get(state.value()).unwrap().to_string(),
            Err(err) => err.to_string(),
        });
    }
    shown
}

#[tokio::test]
async fn values_are_merged_by_the_rule_of_their_field() {
    let item = |it: &str| json!({"text": it});
    assert_eq!(
        after_each("/items", &[item("a"), json!([item("b"), item("a")])]).await,
        [r#"[{"text":"a"}]"#, r#"[{"text":"a"},{"text":"b"},{"text":"a"}]"#]
    );
    assert_eq!(
        after_each("/tags", &[json!("a"), json!(["b", "a", 1]), json!(1.0)]).await,
        [r#"["a"]"#, r#"["a","b",1]"#, r#"["a","b",1]"#]
    );
    assert_eq!(
        after_each("/done", &[json!(2), json!(-3), json!(i64::MAX), json!(2), json!("x")]).await,
        [
            "2".to_owned(),
            "-1".to_owned(),
            (i64::MAX - 1).to_string(),
            "`/done` has the rule `counter`: the sum is not a number that fits".to_owned(),
            "`/done` has the rule `counter`: the sum is not a number that fits".to_owned(),
        ]
    );
    assert_eq!(
        after_each("/best", &[json!(2), json!(1), json!(2.5), json!("x")]).await,
        ["2", "2", "2.5", "`/best` has the rule `max`: the values can't be compared"]
    );
    assert_eq!(after_each("/counts/new", &[json!(1), json!(1)]).await, ["1", "2"]);
}

#[tokio::test]
async fn a_stale_write_is_an_error_with_the_current_value() {
    let board = board();
    let first = put(&board, "/title", json!("one"), NEW).await.unwrap();
    let second = put(&board, "/title", json!("two"), Expected::At(first.version())).await.unwrap();
    let stale = put(&board, "/title", json!("late"), Expected::At(first.version())).await.unwrap_err();
    assert!(
        matches!(&stale, BoardError::Stale { path, version, value, .. }
            if path == "/title" && *version == second.version() && **value == json!("two")),
        "{stale}"
    );
    assert_eq!(stale.code(), "version_conflict");
    let blind = put(&board, "/title", json!("blind"), NEW).await.unwrap_err();
    assert!(matches!(blind, BoardError::Stale { .. }), "{blind}");
    let future = put(&board, "/title", json!("x"), Expected::At(second.version() + 1)).await.unwrap_err();
    assert!(matches!(future, BoardError::Stale { .. }), "no such version exists yet: {future}");
    assert_eq!(board.read().await.unwrap(), second);
    put(&board, "/title", json!("forced"), Expected::Any).await.unwrap();
}

#[tokio::test]
async fn writers_of_different_paths_do_not_conflict() {
    let board = board();
    let known = Expected::At(put(&board, "/title", json!("t"), NEW).await.unwrap().version());
    put(&board, "/owner/name", json!("Ada"), known).await.unwrap();
    put(&board, "/owner/team", json!("Core"), known).await.unwrap();
    put(&board, "/items/-", json!({"text": "a"}), known).await.unwrap();
    put(&board, "/title", json!("u"), known).await.unwrap();
    let above = put(&board, "/owner", json!({}), known).await.unwrap_err();
    assert!(matches!(above, BoardError::Stale { .. }), "paths below changed: {above}");
    let now = Expected::At(board.read().await.unwrap().version());
    put(&board, "/owner", json!({"name": "Bob"}), now).await.unwrap();
    let below = put(&board, "/owner/name", json!("Eve"), now).await.unwrap_err();
    assert!(matches!(below, BoardError::Stale { .. }), "a path above changed: {below}");
    put(&board, "/items/0/done", json!(true), now).await.unwrap();
    put(&board, "/items", json!({"text": "b"}), NEW).await.unwrap();
    put(&board, "/items/0/text", json!("c"), now).await.unwrap();
    patch(&board, json!([{"op": "add", "path": "/items/0", "value": {}}]), now).await.unwrap_err();
}

#[tokio::test]
async fn unknown_fields_and_wrong_values_are_refused() {
    let board = board();
    let refused = async |path: &str, value: Value| {
        let err = put(&board, path, value, NEW).await.unwrap_err();
        assert_eq!(err.code(), "input_invalid", "{err}");
        err.to_string()
    };
    insta::assert_snapshot!(refused("/color", json!("red")).await, @"the write does not fit the schema: Additional properties are not allowed ('color' was unexpected)");
    insta::assert_snapshot!(refused("/owner/age", json!(3)).await, @"the write does not fit the schema: /owner: Additional properties are not allowed ('age' was unexpected)");
    insta::assert_snapshot!(refused("/items", json!({"txt": "a"})).await, @"the write does not fit the schema: /items/0: Additional properties are not allowed ('txt' was unexpected)");
    insta::assert_snapshot!(refused("/title", json!(3)).await, @r#"the write does not fit the schema: /title: 3 is not of type "string""#);
    insta::assert_snapshot!(refused("/title", json!("x".repeat(70_000))).await, @"the board would have 70022 bytes, the limit is 65536");
    assert_eq!(board.read().await.unwrap().version(), 0);
}

#[test]
fn definitions_are_checked() {
    let refused = |id: &str, schema: Value| {
        BoardDefinition::new(BoardOptions::new(id, schema)).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused("a b", json!({})), @"blackboard `a b`: its id `a b` is not 1 to 48 letters, digits, `_` and `-`, beginning with a letter");
    insta::assert_snapshot!(refused("a", json!({"type": "array"})), @r#"blackboard `a`: its schema has the type "array", a board is an `object`"#);
    insta::assert_snapshot!(refused("a", json!({"properties": {"b": {"x-merge": "add"}}})), @r#"blackboard `a`: its schema has the `x-merge` "add", known are replace, append, union, counter, max"#);
    insta::assert_snapshot!(refused("a", json!({"properties": {"b": {}}, "required": ["b"]})), @r#"blackboard `a`: a new board does not fit its schema: "b" is a required property; give required fields a `default`"#);
    insta::assert_snapshot!(refused("a", json!({"properties": {"b": {"type": "what"}}})), @r#"blackboard `a`: its schema: invalid JSON Schema: "what" is not valid under any of the schemas listed in the 'anyOf' keyword"#);
}

#[tokio::test]
async fn patches_are_made_as_a_whole() {
    let board = board();
    patch(
        &board,
        json!([
            {"op": "add", "path": "/title", "value": "t"},
            {"op": "add", "path": "/items", "value": [{"text": "a"}, {"text": "b"}]},
            {"op": "add", "path": "/items/1", "value": {"text": "m"}},
            {"op": "copy", "from": "/items/0", "path": "/items/-"},
            {"op": "move", "from": "/items/0", "path": "/items/2"},
            {"op": "remove", "path": "/items/3"},
            {"op": "test", "path": "/items/0/text", "value": "m"},
            {"op": "replace", "path": "/items/0/text", "value": "n"},
        ]),
        NEW,
    )
    .await
    .unwrap();
    let state = board.read().await.unwrap();
    assert_eq!(
        state.value(),
        &json!({"title": "t", "tags": [], "items": [{"text": "n"}, {"text": "b"}, {"text": "a"}]})
    );
    let failing = json!([
        {"op": "replace", "path": "/title", "value": "u"},
        {"op": "test", "path": "/items/1/text", "value": "other"},
    ]);
    let failed = patch(&board, failing, Expected::Any).await.unwrap_err();
    assert!(matches!(&failed, BoardError::TestFailed { value, .. } if *value == json!("b")), "{failed}");
    for operation in [
        json!({"op": "remove", "path": "/owner"}),
        json!({"op": "replace", "path": "/owner/name", "value": "x"}),
        json!({"op": "add", "path": "/owner/name", "value": "x"}),
        json!({"op": "add", "path": "/items/9", "value": {}}),
        json!({"op": "add", "path": "/items/01", "value": {}}),
        json!({"op": "move", "from": "/items", "path": "/items/0"}),
        json!({"op": "copy", "from": "/none", "path": "/title"}),
    ] {
        let failed = patch(&board, json!([operation]), Expected::Any).await.unwrap_err();
        assert!(matches!(failed, BoardError::NoSuchPath { .. }), "{operation}: {failed}");
    }
    assert_eq!(board.read().await.unwrap(), state, "nothing of a patch that failed was made");
    let tested = json!([
        {"op": "test", "path": "/title", "value": "t"},
        {"op": "replace", "path": "/title", "value": "v"},
    ]);
    patch(&board, tested, NEW).await.unwrap();
    let untested = json!([{"op": "replace", "path": "/title", "value": "w"}]);
    assert!(matches!(patch(&board, untested, NEW).await, Err(BoardError::Stale { .. })));
}

#[tokio::test]
async fn clearing_goes_back_to_the_defaults() {
    let board = board();
    put(&board, "/tags", json!(["a"]), NEW).await.unwrap();
    let full = put(&board, "/title", json!("t"), NEW).await.unwrap();
    let clear = async |path: &str, expected| {
        let edit = Edit::Clear(path.parse().unwrap());
        board.write(BoardWrite::new(edit).expecting(expected)).await
    };
    assert!(matches!(clear("", NEW).await, Err(BoardError::Stale { .. })));
    let cleared = clear("/tags", Expected::At(full.version())).await.unwrap();
    assert_eq!(cleared.value(), &json!({"title": "t", "tags": []}));
    let empty = clear("", Expected::At(cleared.version())).await.unwrap();
    assert_eq!(empty.value(), &json!({"tags": []}));
    assert!(matches!(
        put(&board, "/title", json!("x"), Expected::At(full.version())).await,
        Err(BoardError::Stale { .. })
    ));
    put(&board, "/title", json!("new"), NEW).await.unwrap();
}

#[tokio::test]
async fn every_write_is_a_record() {
    let board = board();
    let write = BoardWrite {
        author: BoardAuthor::Model,
        turn: Some("s t1".to_owned()),
        key: Some("s/t1/c1".to_owned()),
        ..BoardWrite::put("/title", "t").unwrap().because("the user said so")
    };
    let first = board.write(write.clone()).await.unwrap();
    assert_eq!(board.write(write).await.unwrap(), first, "repeated with its key it is made once");
    put(&board, "/title", json!("t"), Expected::At(first.version())).await.unwrap();
    put(&board, "/title", json!("u"), Expected::At(first.version())).await.unwrap();
    let events = board.history(0, 100).await.unwrap();
    let shown: Vec<Value> = events.iter().map(|it| json!([it.version, it.record])).collect();
    assert_eq!(
        json!(shown),
        json!([
            [2, {
                "author": "model", "turn": "s t1", "reason": "the user said so", "key": "s/t1/c1",
                "changes": [{"path": "/title", "after": "t"}],
            }],
            [3, {"author": "application", "changes": [{"path": "/title", "before": "t", "after": "u"}]}],
        ]),
        "a write that changes nothing is none"
    );
    let subscribed: Vec<_> = board.subscribe(0).take(2).map(Result::unwrap).collect().await;
    assert_eq!(subscribed, events);
}

#[tokio::test]
async fn subscribers_learn_of_later_writes_of_other_processes() {
    let store = store();
    let (reader, writer) = (board_in(&store), board_in(&store));
    put(&writer, "/done", json!(1), NEW).await.unwrap();
    let mut events = Box::pin(reader.subscribe(2));
    let waiting = tokio::spawn(async move { events.next().await.unwrap().unwrap() });
    let counted = tokio::spawn(async move { reader.wait(|it| it.value()["done"] == 3).await.unwrap() });
    put(&writer, "/done", json!(2), NEW).await.unwrap();
    assert_eq!(waiting.await.unwrap().record.changes[0].after, Some(json!(3)));
    assert_eq!(counted.await.unwrap().version(), 3);
}

#[tokio::test]
async fn an_old_board_opens_from_its_newest_snapshot() {
    let store = store();
    let first = board_in(&store);
    for no in 0..100 {
        put(&first, "/done", json!(1), NEW).await.unwrap();
        put(&first, &format!("/counts/k{}", no % 7), json!(no), NEW).await.unwrap();
    }
    let (state, again) = (first.read().await.unwrap(), board_in(&store).read().await.unwrap());
    assert_eq!(state, again);
    assert_eq!(state.value()["done"], 100);
    assert_eq!(first.history(0, 1_000).await.unwrap().len(), 200);
    let key =
        ThreadKey { tenant: Tenant::default(), thread: SessionId::boards().journal("board/plan/tenant") };
    let items = store.read(key, Span::After { seq: Seq(0), max: 1_000 }).await.unwrap();
    assert_eq!(items.len(), 207, "200 records, the first snapshot, and one every 32 records");
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_never_an_empty_board() {
    for damage in [
        json!({"kind": "nonsense"}),
        json!({"kind": "write", "author": "model", "changes": [{"path": "/title", "before": "x", "after": "y"}]}),
    ] {
        let store = store();
        let board = board_in(&store);
        put(&board, "/title", json!("t"), NEW).await.unwrap();
        let key =
            ThreadKey { tenant: Tenant::default(), thread: SessionId::boards().journal("board/plan/tenant") };
        let item = record_item("blackboard", damage, Timestamp(1));
        store.append(key, Append::new(None, vec![item], Guard::Any)).await.unwrap();
        let read = board.read().await.unwrap_err();
        assert!(matches!(read, BoardError::Damaged { .. }), "{read}");
        assert_eq!(read.code(), "store_damaged");
        assert!(read.to_string().starts_with("record 3 of blackboard `plan` is damaged"), "{read}");
        let written = put(&board, "/done", json!(1), NEW).await.unwrap_err();
        assert!(matches!(written, BoardError::Damaged { .. }), "{written}");
    }
}

#[tokio::test]
async fn each_scope_has_boards_of_its_own() {
    let store = store();
    let session = |tenant: &str, name: &str| SessionKey {
        tenant: Tenant::parse(tenant).unwrap(),
        session: SessionId::parse(name).unwrap(),
    };
    for key in [session("a", "s1"), session("a", "s2"), session("b", "s1")] {
        store.create_session(NewSession { key, label: None, at: Timestamp(0) }).await.unwrap();
    }
    let owner = |tenant: &str, thread: &str, user: &str| BoardOwner {
        tenant: Tenant::parse(tenant).unwrap(),
        thread: Some(ThreadId::parse(thread).unwrap()),
        session: None,
        user: Some(user.to_owned()),
    };
    let owners = [
        owner("a", "s1", "u1"),
        owner("a", "s1/side", "u1"),
        owner("a", "s2", "u1"),
        owner("a", "s2", "u2"),
        owner("b", "s1", "u1"),
    ];
    for (scope, expected) in [
        (BoardScope::Thread, ["0", "1", "23", "23", "4"]),
        (BoardScope::Session, ["01", "01", "23", "23", "4"]),
        (BoardScope::User, ["012", "012", "012", "3", "4"]),
        (BoardScope::Tenant, ["0123", "0123", "0123", "0123", "4"]),
    ] {
        let entry = entry(&boards(&store), scope);
        for (no, owner) in owners.iter().enumerate() {
            put(&entry.board(owner).unwrap(), "/tags", json!(no.to_string()), NEW).await.unwrap();
        }
        for (owner, expected) in owners.iter().zip(expected) {
            let state = entry.board(owner).unwrap().read().await.unwrap();
            let tags: String =
                state.value()["tags"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
            assert_eq!(tags, expected, "{scope:?} {owner:?}");
        }
    }
    let nobody = BoardOwner { thread: None, user: None, ..owners[0].clone() };
    for scope in [BoardScope::Thread, BoardScope::Session, BoardScope::User] {
        let missing = entry(&boards(&store), scope).board(&nobody).unwrap_err();
        assert!(matches!(missing, BoardError::Unavailable(_)), "{missing}");
    }
    let gone = entry(&boards(&store), BoardScope::Session).board(&owner("a", "none", "u1")).unwrap();
    let refused = put(&gone, "/title", json!("t"), NEW).await.unwrap_err();
    assert_eq!(refused.code(), "not_found", "{refused}");
}
