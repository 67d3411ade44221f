//! Rows: what goes in comes out, large texts apart, and damage is an error.

use std::sync::Arc;

use contexture_history::{
    Application, Body, Change, Cost, Item, Seq, SystemEvent, Timestamp, TurnNo, TurnStatus, Visibility,
};
use contexture_message::{Message, Part, Role, Tokens, ToolCall, ToolOutput, ToolResult};
use contexture_session::codec::{BLOB_BYTES, BlobRef, MAX_ITEMS, Row, decode, encode};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option, proptest};
use serde_json::{Value, json};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => ".{0,40}",
        1 => "[a-z漢\u{0}\"\\\\]{3}".prop_map(|it| it.repeat(BLOB_BYTES / 3 + 1)),
        1 => Just("x".repeat(BLOB_BYTES)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![text().prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            collection::vec(("[a-z~/]{0,3}", inner), 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn part() -> impl Strategy<Value = Part> {
    let call = (text(), value())
        .prop_map(|(id, arguments)| Part::ToolCall(ToolCall { id, name: "find".to_owned(), arguments }));
    let result = (text(), value()).prop_map(|(call_id, value)| {
        Part::ToolResult(ToolResult { call_id, name: "find".to_owned(), output: ToolOutput::Json(value) })
    });
    prop_oneof![text().prop_map(Part::text), call, result]
}

fn body() -> impl Strategy<Value = Body> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::Tool), Just(Role::System)];
    prop_oneof![
        (role, collection::vec(part(), 0..4))
            .prop_map(|(role, parts)| Body::Message(Arc::new(Message::parts(role, parts)))),
        (text(), text()).prop_map(|(name, text)| Body::SystemEvent(SystemEvent::new(name, text))),
        (text(), value()).prop_map(|(kind, value)| Body::Application(Application { kind, value })),
        option::of(text()).prop_map(|text| Body::Change(Change::Instructions { text })),
        option::of(text()).prop_map(|reason| {
            Body::Change(Change::TurnEnded { status: TurnStatus::Failed, reason, code: None, usage: None })
        }),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let visibility =
        (any::<bool>(), any::<bool>()).prop_map(|(client, history)| Visibility { client, history });
    let cost = ("[ab]", any::<u32>())
        .prop_map(|(counter, tokens)| Cost { counter: Arc::from(counter), tokens: Tokens(tokens) });
    (body(), visibility, cost, option::of(text()), any::<u32>(), 0..9_u64).prop_map(
        |(body, visibility, cost, author, at, turn)| Item {
            seq: Seq(0),
            turn: TurnNo(turn),
            visibility,
            cost,
            author,
            at: Timestamp(at.into()),
            body,
        },
    )
}

fn log(items: Vec<Item>) -> Vec<Item> {
    (7..).zip(items).map(|(seq, item)| Item { seq: Seq(seq), ..item }).collect()
}

fn read(row: Row) -> Vec<Item> {
    decode(row.first, row.count, &row.body, row.blobs).unwrap()
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(items in collection::vec(item(), 0..40)) {
        let items = log(items);
        let rows = encode(&items).unwrap();
        assert!(rows.iter().all(|it| it.count as usize <= MAX_ITEMS && it.count > 0));
        let back: Vec<Item> = rows.into_iter().flat_map(read).collect();
        assert_eq!(back, items);
    }

    #[test]
    fn nothing_large_stays_in_a_row(items in collection::vec(item(), 1..4)) {
        for row in encode(&log(items)).unwrap() {
            let document: Value = serde_json::from_str(&row.body).unwrap();
            for entry in document["items"].as_array().unwrap() {
                assert!(entry["body"].to_string().len() <= BLOB_BYTES);
            }
            assert!(row.blobs.iter().all(|it| it.text.len() > BLOB_BYTES));
        }
    }

    #[test]
    fn a_damaged_row_is_an_error_or_items(items in collection::vec(item(), 1..4), at in any::<u16>(), byte in any::<u8>()) {
        for row in encode(&log(items)).unwrap() {
            let mut bytes = row.body.into_bytes();
            let at = at as usize % bytes.len();
            bytes[at] = byte;
            // Whatever it is now, reading it ends.
            if let Ok(body) = String::from_utf8(bytes) {
                drop(decode(row.first, row.count, &body, row.blobs));
            }
        }
    }
}

#[test]
fn a_small_commit_is_one_plain_document() {
    let messages = [Message::user("hi"), Message::assistant("hello").with_id("m2")];
    let item = |message| Item {
        seq: Seq(0),
        turn: TurnNo(1),
        visibility: Visibility::BOTH,
        cost: Cost { counter: Arc::from("o200k_base"), tokens: Tokens(5) },
        author: None,
        at: Timestamp(12),
        body: Body::Message(Arc::new(message)),
    };
    let rows = encode(&log(messages.map(item).to_vec())).unwrap();
    assert_eq!((rows.len(), rows[0].count, rows[0].blobs.len()), (1, 2, 0));
    insta::assert_snapshot!(rows[0].body, @r#"{"at":12,"counter":"o200k_base","items":[{"turn":1,"tokens":5,"body":{"message":{"role":"user","content":"hi"}}},{"turn":1,"tokens":5,"body":{"message":{"role":"assistant","content":"hello","id":"m2"}}}]}"#);
}

#[test]
fn the_same_large_text_has_one_name_everywhere() {
    let large = "y".repeat(BLOB_BYTES + 1);
    let result = |id: &str| {
        let output = ToolOutput::Text(large.clone());
        let result = ToolResult { call_id: id.to_owned(), name: "read".to_owned(), output };
        Body::Message(Arc::new(Message::parts(Role::Tool, vec![Part::ToolResult(result)])))
    };
    let said = Body::Message(Arc::new(Message::user(large.as_str())));
    let forged =
        Body::Application(Application { kind: "x".into(), value: json!({"at": "/items/0", "hash": "0"}) });
    let template = Item {
        seq: Seq(0),
        turn: TurnNo(1),
        visibility: Visibility::BOTH,
        cost: Cost { counter: Arc::from("c"), tokens: Tokens(0) },
        author: None,
        at: Timestamp(0),
        body: forged,
    };
    let items = [result("c1"), said, result("c2"), template.body.clone()];
    let items = log(items.into_iter().map(|body| Item { body, ..template.clone() }).collect());
    let rows = encode(&items).unwrap();
    let mut hashes: Vec<&str> =
        rows.iter().flat_map(|it| &it.blobs).map(|it| it.place.hash.as_str()).collect();
    assert_eq!(hashes.len(), 3);
    hashes.dedup();
    assert_eq!(hashes.len(), 1);
    assert_eq!(rows.into_iter().flat_map(read).collect::<Vec<_>>(), items);
}

#[test]
fn a_missing_place_is_said() {
    let large = Body::Message(Arc::new(Message::user("z".repeat(BLOB_BYTES + 1))));
    let item = Item {
        seq: Seq(1),
        turn: TurnNo(1),
        visibility: Visibility::BOTH,
        cost: Cost { counter: Arc::from("c"), tokens: Tokens(0) },
        author: None,
        at: Timestamp(0),
        body: large,
    };
    let mut row = encode(&[item]).unwrap().remove(0);
    for (item, text) in [(7, Some(0)), (0, Some(9)), (7, None)] {
        row.blobs[0].place = BlobRef { item, text, hash: "abc".to_owned() };
        let wrong = decode(row.first, row.count, &row.body, row.blobs.clone()).unwrap_err();
        assert_eq!(wrong.to_string(), "the document has no place for the large text abc");
    }
    let wrong = decode(row.first, 2, r#"{"at":1,"counter":"c","items":[]}"#, Vec::new()).unwrap_err();
    assert_eq!(wrong.to_string(), "it says 2 items and has 0");
}
