//! Redaction: what is taken out, what stays, and what holds for all texts.

use std::borrow::Cow;
use std::sync::LazyLock;

use contexture_history::{Redact, RedactError, RedactRule, Transforms, Turn, TurnStatus, redact, transform};
use contexture_message::{
    File, MediaSource, Message, Part, Role, Thinking, ToolCall, ToolOutput, ToolResult,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

/// All built-in rules, compiled once.
fn all() -> Redact {
    static ALL: LazyLock<Redact> = LazyLock::new(|| redact(RedactRule::all_built_in()));
    ALL.clone()
}

/// Redacts a text by all built-in rules. The only caller of the API in most tests here.
fn redacted(text: &str) -> String {
    all().text(text).into_owned()
}

#[test]
fn secrets_become_marks() {
    let text = "
        Ada <ada.lovelace+x@mail.example.co.uk> paid with 4111 1111 1111 1111, 5500-0000-0000-0004 or 378282246310005.
        key=sk-proj-aB3dE6gH9jK2mN5pQ8sT, ghp_abcdefghijklmnopqrstuvwxyz0123456789, AKIAIOSFODNN7EXAMPLE, xoxb-123456789012-abcDEF
        Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123
        電話4111111111111111です
        -----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY----- and -----BEGIN PRIVATE KEY-----
        MIIEvQ";
    let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
    insta::assert_snapshot!(redacted(&lines.join("\n")), @r"
    Ada <[redacted:email]> paid with [redacted:credit_card], [redacted:credit_card] or [redacted:credit_card].
    key=[redacted:api_key], [redacted:api_key], [redacted:api_key], [redacted:api_key]
    Authorization: Bearer [redacted:bearer]
    電話[redacted:credit_card]です
    [redacted:private_key] and [redacted:private_key]
    ");
}

#[test]
fn a_card_among_other_numbers_is_found() {
    assert_eq!(redacted("order 12 4111 1111 1111 1111 17"), "order 12 [redacted:credit_card] 17");
    assert_eq!(redacted("123 4111 1111 1111 1111 123"), "123 [redacted:credit_card] 123");
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let texts = [
        "4111 1111 1111 1112 has the wrong check digit",
        "at 1700000000000 ms, id 41111111111111110000, hash a4111111111111111b",
        "5 3 4 2 6 1 7 8 9 0 1 2 3 4 5 6",
        "install sk-learn-contrib-packages-for-everyone",
        "the bearer of this letter, @home, a@b",
        "[redacted:email] [redacted:something]",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ];
    for text in texts {
        assert!(matches!(all().text(text), Cow::Borrowed(_)), "{text}: {}", redacted(text));
    }
}

#[test]
fn rules_of_ones_own_stand_beside_the_built_in_ones() {
    let rules = [
        RedactRule::pattern("order", r"ORD-\d+").expect("a rule"),
        RedactRule::pattern("password", r"password: (\S+)").expect("a rule"),
    ];
    assert_eq!(redact(rules).text("ORD-7, password: x!"), "[redacted:order], password: [redacted:password]");
}

#[test]
fn a_rule_can_not_find_its_own_mark() {
    let greedy = redact([RedactRule::pattern("e", "e|re?d|:").expect("a rule")]);
    let once = greedy.text("here: red").into_owned();
    assert_eq!(once, "h[redacted:e]r[redacted:e][redacted:e] [redacted:e]");
    assert_eq!(greedy.text(&once), once);
}

#[test]
fn a_secret_that_a_mark_cuts_free_is_found_too() {
    let rules = [
        RedactRule::built_in("api_key").expect("a rule"),
        RedactRule::pattern("tag", "TAG").expect("a rule"),
    ];
    let text = "TAGghp_abcdefghijklmnopqrstuvwxyz0123456789";
    assert_eq!(redact(rules).text(text), "[redacted:tag][redacted:api_key]");
}

#[test]
fn a_text_that_never_comes_to_an_end_is_one_mark() {
    // Each round frees one more letter at the end.
    let peeling = redact([RedactRule::pattern("last", "a$").expect("a rule")]);
    assert_eq!(peeling.text("aaa"), "[redacted:last][redacted:last][redacted:last]");
    let (many, once) = ("a".repeat(100), "[redacted:last]");
    assert_eq!(peeling.text(&many), once);
    assert_eq!(peeling.text(once), once);
}

#[test]
fn rules_that_can_not_be_used_are_refused() {
    let errors = [
        RedactRule::built_in("phone").expect_err("refused"),
        RedactRule::pattern("a b", "x").expect_err("refused"),
        RedactRule::pattern("open", "(").expect_err("refused"),
    ];
    assert!(matches!(&errors[2], RedactError::InvalidPattern { name, .. } if name == "open"));
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    there is no redaction rule `phone`; there are: email, credit_card, api_key, bearer, private_key
    invalid redaction rule name `a b`: use 1 to 64 letters, digits, `_` or `-`
    the pattern of redaction rule `open` is not a valid regular expression: unclosed group
    ");
}

/// A message of every place where a text can stand.
fn everywhere(secret: &str) -> Vec<Message> {
    let call =
        ToolCall { id: "c1".into(), name: "find".into(), arguments: json!({"who": [secret], secret: 1}) };
    let result = |output| Part::ToolResult(ToolResult { call_id: "c1".into(), name: "find".into(), output });
    let file = File { source: MediaSource::Id("f".into()), media_type: None, name: Some(secret.into()) };
    vec![
        Message::user(format!("I am {secret}")),
        Message::parts(Role::Assistant, vec![Part::ToolCall(call)]),
        Message::parts(
            Role::Tool,
            vec![
                result(ToolOutput::Text(secret.into())),
                result(ToolOutput::ErrorText(secret.into())),
                result(ToolOutput::Json(json!({"a": {"b": secret}}))),
                result(ToolOutput::ErrorJson(json!([secret]))),
                result(ToolOutput::ExecutionDenied { reason: Some(secret.into()) }),
                result(ToolOutput::Content(vec![Part::text(secret), Part::File(file)])),
            ],
        ),
    ]
}

fn shown(turns: &[Turn]) -> String {
    turns
        .iter()
        .flat_map(Turn::messages)
        .map(|it| serde_json::to_string(&**it).expect("plain data"))
        .collect()
}

#[test]
fn every_text_of_every_turn_is_redacted_also_of_the_one_in_flight() {
    let turns = vec![
        Turn::new("t1", everywhere("ada@example.com")),
        Turn::new("t2", everywhere("ada@example.com")).with_status(TurnStatus::InFlight),
    ];
    let transformed = Transforms::default().then(all()).run(turns);
    let text = shown(&transformed.turns);
    assert!(!text.contains("ada@"), "{text}");
    assert_eq!(text.matches("[redacted:email]").count(), 20);
    assert!(text.contains(r#""id":"c1","name":"find""#));
}

#[test]
fn keys_that_become_equal_lose_nothing() {
    let output = ToolOutput::Json(json!({"a@b.de": 1, "c@d.de": 2, "card": 4111111111111111_u64}));
    let part = Part::ToolResult(ToolResult { call_id: "c".into(), name: "find".into(), output });
    let turns = vec![Turn::new("t1", vec![Message::parts(Role::Tool, vec![part])])];
    let text = shown(&Transforms::default().then(all()).run(turns).turns);
    assert!(
        text.contains(r#"{"[redacted:email]":1,"[redacted:email] (2)":2,"card":"[redacted:credit_card]"}"#),
        "{text}"
    );
}

#[test]
fn thinking_that_holds_a_secret_is_left_out_of_finished_turns() {
    let thinking = Part::Thinking(Thinking { text: "ada@example.com asks".into(), ..Thinking::default() });
    let said = Message::parts(Role::Assistant, vec![thinking.clone(), Part::text("Hi")]);
    let silent = Message::parts(Role::Assistant, vec![thinking]);
    let turns = vec![
        Turn::new("t1", vec![said.clone(), silent]),
        Turn::new("t2", vec![said]).with_status(TurnStatus::InFlight),
    ];
    let turns = Transforms::default().then(all()).run(turns).turns;
    assert_eq!(turns[0].messages().len(), 1);
    assert_eq!((turns[0].messages()[0].content.len(), turns[1].messages()[0].content.len()), (1, 2));
}

#[test]
fn a_turn_without_secrets_is_handed_back_as_it_came() {
    let turns = vec![Turn::new("t1", everywhere("nothing"))];
    assert_eq!(Transforms::default().then(all()).run(turns.clone()).turns, turns);
}

#[test]
fn changes_name_the_turns_that_were_left_out() {
    let turns: Vec<Turn> = ["a", "b", "a", "c"].map(|it| Turn::new(it, vec![Message::user("x")])).into();
    let odd = transform("odd", |turns: Vec<Turn>| turns.into_iter().skip(1).step_by(2).collect());
    let changes = Transforms::default().then(odd).then(all()).run(turns).changes;
    let left_out: Vec<&str> = changes[0].left_out.iter().map(|it| &**it).collect();
    assert_eq!(left_out, ["a", "a"]);
    assert!(changes[1].left_out.is_empty());
}

fn card() -> impl Strategy<Value = String> {
    (select(vec!["4", "51", "34", "6011", "2221"]), 0_u64..10_000_000_000, select(vec!["", " ", "-"]))
        .prop_map(|(start, rest, separator)| {
            let body = format!("{start}{rest:010}");
            let body = format!("{body:0<15}");
            let check = ('0'..='9').find(|it| all().text(&format!("{body}{it}")) != format!("{body}{it}"));
            let digits = format!("{body}{}", check.expect("one check digit is right"));
            let groups: Vec<&str> = (0..4).map(|it| &digits[it * 4..it * 4 + 4]).collect();
            groups.join(separator)
        })
}

fn secret() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9.]{0,8}@[a-z]{1,8}\\.(com|de|co\\.uk)",
        card(),
        "sk-[A-Za-z]{10}[0-9][A-Za-z0-9_-]{20}",
        "gh[pousr]_[A-Za-z]{10}[0-9][A-Za-z0-9]{25}",
        "AKIA[A-Z0-9]{16}",
        "xoxb-[0-9]{12}-[A-Za-z0-9]{24}",
        "[A-Za-z0-9]{16}[0-9][A-Za-z0-9_.-]{10}[a-z]".prop_map(|it| format!("Bearer {it}")),
        "[A-Za-z0-9+/]{64}"
            .prop_map(|it| { format!("-----BEGIN PRIVATE KEY-----\n{it}\n-----END PRIVATE KEY-----") }),
    ]
}

/// What must not be read in a text once it is redacted.
fn core(secret: &str) -> &str {
    secret.trim_start_matches("Bearer ")
}

proptest! {
    #[test]
    fn no_secret_is_left(before in "[a-zA-Z ,.:;\"'(\n]{0,20}[ ,:\"(\n]", secret in secret(), after in "([ ,;\")\n][a-zA-Z ,.:;\"')\n]{0,20})?") {
        let text = format!("{before}{secret}{after}");
        let redacted = redacted(&text);
        prop_assert!(!redacted.contains(core(&secret)), "{redacted}");
        prop_assert!(redacted.contains("[redacted:"));
        let turns = vec![Turn::new("t1", everywhere(&text)).with_status(TurnStatus::InFlight)];
        let sent = shown(&Transforms::default().then(all()).run(turns).turns);
        let as_json = serde_json::to_string(core(&secret)).expect("plain data");
        prop_assert!(!sent.contains(as_json.trim_matches('"')), "{sent}");
    }

    #[test]
    fn redacting_twice_is_redacting_once(parts in prop::collection::vec(prop_oneof![secret(), ".{0,8}", "[a-z@. -]{0,12}", Just("[redacted:email]".to_owned())], 0..8)) {
        let once = redacted(&parts.concat());
        prop_assert_eq!(redacted(&once), once);
    }

    #[test]
    fn a_text_without_secrets_is_not_touched(text in "([a-z]{1,9}[ ,.\n]|[0-9]{1,5} ){0,40}") {
        // Groups of digits may happen to be a card's number; words never are anything.
        let words: String = text.chars().filter(|it| !it.is_ascii_digit()).collect();
        prop_assert!(matches!(all().text(&words), Cow::Borrowed(_)));
    }
}
