//! Words and what is found by them.

use std::sync::Arc;

use contexture_history::search::{MAX_QUERY_WORDS, query_words, searchable, snippet, words};
use contexture_history::{Application, Body, Change, Envelope, EnvelopeTag, Summary, SystemEvent};
use contexture_message::{
    Image, MediaSource, Message, Part, Role, Thinking, ToolCall, ToolOutput, ToolResult,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::log::of;

fn text_words(text: &str) -> String {
    words(text).into_iter().collect::<Vec<_>>().join(" ")
}

fn asked(query: &str) -> String {
    query_words(query).join(" ")
}

fn text_of(body: Body) -> String {
    searchable(&of(1, 1, body)).unwrap_or_else(|| "-".to_owned())
}

fn parts(role: Role, parts: Vec<Part>) -> Body {
    Body::Message(Arc::new(Message::parts(role, parts)))
}

fn result(output: ToolOutput) -> Body {
    let result = ToolResult { call_id: "c1".into(), name: "find".into(), output };
    parts(Role::Tool, vec![Part::ToolResult(result)])
}

fn own(kind: &str, value: Value) -> Body {
    Body::Application(Application { kind: kind.to_owned(), value })
}

#[test]
fn words_are_letters_and_digits() {
    assert_eq!(text_words("Order-17: it's DONE (src/main.rs)"), "17 done it main order rs s src");
    assert_eq!(asked("Order-17 order"), "order 17");
}

#[test]
fn case_and_diacritics_make_no_difference() {
    assert_eq!(text_words("ÉCOLE école ecole e\u{301}cole"), "ecole");
    assert_eq!(text_words("Müller MULLER Łódź İstanbul Việt"), "istanbul lodz muller viet");
    assert_eq!(text_words("ΑΒΓ абв АБВ"), "αβγ абв");
}

#[test]
fn scripts_without_spaces_are_found_by_pairs() {
    assert_eq!(text_words("東京都です"), "す で です 京 京都 東 東京 都 都で");
    assert_eq!(asked("東京都"), "東京 京都");
    assert_eq!(asked("a東b 京"), "a 東 b 京");
    assert_eq!(asked("สวัสดี").split(' ').count(), 5);
}

#[test]
fn no_syntax_is_read_in_a_query() {
    assert_eq!(asked("\"a\" OR b* NEAR(c, 5) col:d -e ^f {g} \\ ' ; --"), "a or b near c 5 col d e f g");
    for nothing in ["", "   ", "\"*()-:'\\^", "\0\u{1}", "…—“”", "👍"] {
        assert_eq!(asked(nothing), "", "{nothing:?}");
    }
}

#[test]
fn long_queries_and_words_are_cut() {
    let many: String = (0..200_000).map(|it| format!("w{it} ")).collect();
    assert_eq!(query_words(&many).len(), MAX_QUERY_WORDS);
    let long = "X".repeat(1 << 20);
    assert_eq!(query_words(&long), ["x".repeat(64)]);
    assert_eq!(words(&long), query_words(&long).into_iter().collect());
    let bytes: usize = words(&many).iter().map(String::len).sum();
    assert!(bytes <= 512 * 1024, "{bytes}");
}

#[test]
fn what_was_said_and_done_is_searchable() {
    assert_eq!(text_of(Body::Message(Arc::new(Message::user("hello")))), "hello");
    let call = ToolCall {
        id: "c1".into(),
        name: "find".into(),
        arguments: json!({"path": "a\nb", "n": 3, "in": {"deep": ["x", true, null]}}),
    };
    let said = parts(Role::Assistant, vec![Part::text("I look."), Part::ToolCall(call)]);
    assert_eq!(text_of(said), "I look.\nfind\npath: a\nb\nn: 3\nin\ndeep\nx\ntrue");
    assert_eq!(text_of(result(ToolOutput::Text("42 lines".into()))), "42 lines");
    assert_eq!(text_of(result(ToolOutput::Json(json!([{"id": 7}])))), "id: 7");
    assert_eq!(text_of(result(ToolOutput::Content(vec![Part::text("one"), picture()]))), "one");
    let denied = ToolOutput::ExecutionDenied { reason: Some("too risky".into()) };
    assert_eq!(text_of(result(denied)), "too risky");
    let event = SystemEvent::new("deploy", "it is out");
    assert_eq!(text_of(Body::SystemEvent(event)), "deploy\nit is out");
    let envelope = Envelope::text(EnvelopeTag::SystemContext, "hidden");
    assert_eq!(text_of(Body::Envelope(envelope)), "hidden");
    assert_eq!(text_of(own("contexture.tool_output", json!({"text": "whole", "name": "x"}))), "whole");
}

fn picture() -> Part {
    Part::Image(Image { source: MediaSource::Data("QUJD".into()), media_type: Some("image/png".into()) })
}

#[test]
fn everything_else_is_not() {
    let thinking = Part::Thinking(Thinking { text: "hmm".into(), ..Thinking::default() });
    assert_eq!(text_of(parts(Role::Assistant, vec![thinking, picture()])), "-");
    assert_eq!(text_of(Body::Summary(Summary { text: "again".into(), ..Summary::default() })), "-");
    assert_eq!(text_of(Body::Change(Change::Instructions { text: Some("be kind".into()) })), "-");
    assert_eq!(text_of(own("app.card", json!({"text": "card"}))), "-");
    assert_eq!(text_of(own("contexture.tool_output", json!({"other": 1}))), "-");
    assert_eq!(text_of(result(ToolOutput::Json(json!({})))), "-");
}

#[test]
fn a_snippet_has_the_most_words() {
    let text = "red .. .. .. .. .. .. .. .. red .. blue .. .. .. .. .. .. .. .. .. .. blue";
    assert_eq!(snippet(text, &query_words("red blue"), 20), "… .. red .. blue ..…");
    assert_eq!(snippet(text, &query_words("red"), 12), "red .. .. …");
    assert_eq!(snippet(text, &query_words("other"), 12), "red .. .. …");
    assert_eq!(snippet(text, &[], 0), "");
}

proptest! {
    #[test]
    fn a_text_is_found_by_its_own_words(text in "\\PC{0,60}") {
        let found = words(&text);
        prop_assert!(query_words(&text).iter().all(|it| found.contains(it)));
        prop_assert!(found.iter().all(|it| !it.is_empty() && !it.contains([' ', '\'', '"', '\\', '\0'])));
    }

    #[test]
    fn words_stay_as_they_are(text in "\\PC{0,60}") {
        let found = words(&text);
        let joined = found.iter().cloned().collect::<Vec<_>>().join(" ");
        prop_assert_eq!(words(&joined), found);
    }

    #[test]
    fn a_snippet_is_no_longer_than_it_may_be(text in "\\PC{0,90}", query in "\\PC{0,9}", max in 0_usize..40) {
        let piece = snippet(&text, &query_words(&query), max);
        prop_assert!(piece.chars().count() <= max);
        prop_assert!(text.contains(piece.trim_matches('…')) || text.contains('…'));
    }
}
