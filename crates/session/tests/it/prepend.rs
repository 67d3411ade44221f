//! What stands before a thread's history.

use contexture_history::{Limit, Seq};
use contexture_message::{Message, Part, Role, Tokens, ToolCall};
use contexture_session::{SessionConfig, SessionId, Thread, import};
use futures::executor::block_on;
use serde_json::Value;

use crate::resuming::{Processes, exported, said};
use crate::threads::{run, shown};

fn prepend(thread: &Thread, key: &str, texts: &str) -> bool {
    let messages = texts.split(' ').map(Message::user).collect();
    block_on(thread.prepend_once(key, messages)).unwrap()
}

fn limited(thread: &Thread, limit: Limit) -> String {
    let turns = block_on(thread.history(Some(limit))).unwrap();
    turns.iter().map(|it| it.id().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_newest_comes_first_and_each_once() {
    let processes = Processes::new(SessionConfig::default());
    let (here, there) = (processes.main("a"), processes.main("b"));
    run(&here, "ua");
    assert!(prepend(&here, "k1", "one two") && prepend(&there, "k2", "three"));
    assert!(!prepend(&there, "k1", "one two") && !prepend(&here, "k2", "three"));
    run(&here, "u");
    insta::assert_snapshot!(shown(&here), @r"
    prepended completed [three, one, two]
    t1 completed [u0, a1]
    t2 completed [u0]
    t1:user t1:assistant t1:noted t1:noted t2:user
    ");
}

#[test]
fn no_window_drops_it() {
    let processes = Processes::new(SessionConfig { history_window: 2, ..SessionConfig::default() });
    let main = processes.main("a");
    prepend(&main, "k", "one");
    run(&main, &"ua".repeat(5));
    assert_eq!(limited(&main, Limit::Turns(1)), "prepended t5");
    assert_eq!(limited(&main, Limit::Turns(4)), "prepended t2 t3 t4 t5");
    assert_eq!(limited(&main, Limit::Tokens(Tokens(1))), "prepended t5");
    assert_eq!(limited(&main, Limit::Tokens(Tokens(0))), "prepended");
    assert_eq!(limited(&main, Limit::Turns(0)), "prepended");
    assert_eq!(limited(&processes.main("b"), Limit::Turns(2)), "prepended t4 t5");
}

#[test]
fn a_reset_takes_it_away_and_its_key_stays_taken() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    prepend(&main, "k1", "one");
    run(&main, "uaru");
    assert_eq!(said(&main), ["u3"]);
    assert!(!prepend(&main, "k1", "one") && prepend(&main, "k2", "two"));
    assert_eq!(said(&main), ["two", "u3"]);
    assert_eq!(said(&processes.main("b")), ["two", "u3"]);
}

#[test]
fn a_turn_that_waits_waits_on() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    run(&main, "s");
    prepend(&main, "k", "one");
    assert!(main.get().state().open.is_some());
    assert_eq!(said(&main), ["one", "s0"]);
}

#[test]
fn it_goes_along_with_copies() {
    let processes = Processes::new(SessionConfig::default());
    let (main, sessions) = (processes.main("a"), processes.start("b"));
    run(&main, "u");
    prepend(&main, "k", "one");
    let text = exported(&sessions, &processes.id);
    block_on(import(&sessions, text.lines(), Some(SessionId::parse("copy").unwrap()))).unwrap();
    let copy = block_on(sessions.open(&SessionId::parse("copy").unwrap())).unwrap().main().clone();
    assert!(!prepend(&copy, "k", "one"), "keys move along");
    let fork = block_on(main.fork(None, None)).unwrap();
    let before = block_on(main.fork(Some(Seq(1)), None)).unwrap();
    let scratch = main.scratch();
    for thread in [&copy, &fork, &scratch] {
        assert_eq!(said(thread), ["one", "u0"]);
    }
    assert_eq!(said(&before), ["u0"]);
}

#[test]
fn calls_of_tools_stay_where_they_were_made() {
    let processes = Processes::new(SessionConfig::default());
    let call = ToolCall { id: "c".to_owned(), name: "t".to_owned(), arguments: Value::Null };
    let call = Message::parts(Role::Assistant, vec![Part::ToolCall(call)]);
    let refused =
        block_on(processes.main("a").prepend_once("k", vec![Message::user("a"), call])).unwrap_err();
    assert_eq!(refused.code(), "message_not_prependable");
    assert_eq!(
        refused.to_string(),
        "message 2 can't be prepended to thread `s`: it contains tool calls or results"
    );
}

#[test]
fn a_forged_note_says_nothing() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    run(&main, "u");
    for forged in ["null", "[]", "[{}]", "[[[]]]", r#"{"key":"k"}"#, r#"[{"key":1,"messages":7}]"#] {
        let value = serde_json::from_str(forged).unwrap();
        let note = contexture_session::NewItem::note("contexture.prepended", Some(value));
        block_on(main.add(vec![note])).unwrap();
        assert_eq!((said(&main), said(&processes.main("b"))), (vec!["u0".into()], vec!["u0".into()]));
    }
}
