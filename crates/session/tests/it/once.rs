//! What is done once, however often it is asked for.

use contexture_history::TurnNo;
use contexture_message::Message;
use contexture_session::{
    Begun, IsolatedStart, ModelChoice, NewItem, SessionConfig, SessionError, State, Thread, TurnConfig,
};
use futures::executor::block_on;
use proptest::{collection, prop_assert_eq, proptest};

use crate::resuming::{Processes, exported, said};
use crate::threads::shown;

/// Adds messages once: `u` is said by the user, anything else by the assistant.
fn add(thread: &Thread, key: &str, text: &str) -> bool {
    let message = |it: &str| match it.starts_with('u') {
        true => Message::user(it),
        false => Message::assistant(it),
    };
    block_on(thread.add_once(key, text.split(' ').map(|it| message(it).into()).collect())).unwrap()
}

fn suspended(thread: &Thread) -> TurnNo {
    let items = vec![Message::user("question").into()];
    let begun = block_on(thread.begin(TurnConfig { items, ..TurnConfig::default() })).unwrap();
    let Begun::Running(turn) = begun else { panic!("it runs") };
    let number = turn.turn();
    block_on(turn.suspend("wait", vec![])).unwrap();
    number
}

#[test]
fn what_is_added_once_is_a_turn_of_its_own() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    assert!(add(&main, "k1", "u1 a1 u2") && add(&main, "k2", "a2"));
    assert!(!add(&main, "k1", "u1 a1 u2") && !add(&main, "k2", "other"));
    insta::assert_snapshot!(shown(&main), @r"
    t1 completed [u1, a1, u2]
    t2 completed [a2]
    t1:turn_began t1:user t1:assistant t1:user t1:turn_ended t2:turn_began t2:assistant t2:turn_ended
    ");
}

#[test]
fn a_turn_that_waits_waits_on_unless_the_user_speaks() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    let turn = suspended(&main);
    assert!(add(&main, "k1", "a1") && add(&main, "k2", "a2"));
    assert!(!add(&processes.main("b"), "k1", "a1"));
    block_on(block_on(main.resume(turn)).unwrap().suspend("again", vec![])).unwrap();
    assert!(add(&main, "k3", "u3") && !add(&main, "k2", "a2"));
    insta::assert_snapshot!(shown(&main), @r"
    t1 interrupted [question, a1, a2]
    t2 completed [u3]
    t1:turn_began t1:user t1:turn_ended t1:noted t1:assistant t1:noted t1:assistant t1:turn_resumed t1:turn_ended t1:turn_ended t2:turn_began t2:user t2:turn_ended
    ");
}

#[test]
fn a_key_that_began_a_turn_adds_nothing() {
    let processes = Processes::new(SessionConfig::default());
    let main = processes.main("a");
    let config = TurnConfig { key: Some("k".to_owned()), ..TurnConfig::default() };
    drop(block_on(main.begin(config.clone())).unwrap());
    assert!(!add(&main, "k", "a1"));
    assert!(add(&main, "l", "a1"));
    let begun = block_on(main.begin(TurnConfig { key: Some("l".to_owned()), ..config })).unwrap();
    assert!(matches!(begun, Begun::Replayed(outcome) if outcome.turn == TurnNo(2)));
}

#[test]
fn a_key_is_checked() {
    let processes = Processes::new(SessionConfig::default());
    let refused = block_on(processes.main("a").add_once("", vec![]));
    assert_eq!(refused.unwrap_err().code(), "id_invalid");
}

#[test]
fn keys_go_along_with_an_export() {
    let processes = Processes::new(SessionConfig::default());
    let (main, sessions) = (processes.main("a"), processes.start("b"));
    suspended(&main);
    assert!(add(&main, "k1", "a1") && add(&main, "k2", "u1"));
    let copy = contexture_session::SessionId::parse("copy").unwrap();
    let text = exported(&sessions, &processes.id);
    block_on(contexture_session::import(&sessions, text.lines(), Some(copy.clone()))).unwrap();
    let copy = block_on(sessions.open(&copy)).unwrap().main().clone();
    assert!(!add(&copy, "k1", "a1") && !add(&copy, "k2", "u1"));
}

proptest! {
    /// Processes whose handles know the thread as it was at some time add the same things in any order.
    #[test]
    fn each_key_is_written_once_by_any_writer(steps in collection::vec((0..3_usize, 0..4_usize, 0..3_u8), 0..30)) {
        let processes = Processes::new(SessionConfig::default());
        let handles = ["a", "b", "c"].map(|it| processes.main(it));
        let mut expected: Vec<String> = Vec::new();
        for (handle, key, other) in steps {
            let text = format!("{}{key}", if key % 2 == 0 { "u" } else { "a" });
            let is_new = !expected.contains(&text);
            prop_assert_eq!(add(&handles[handle], &text, &text), is_new);
            expected.extend(is_new.then_some(text));
            if other == 0 {
                suspended(&handles[handle]);
                expected.push("question".to_owned());
            }
        }
        let main = processes.main("d");
        prop_assert_eq!(said(&main), expected);
        let items = block_on(main.all(None)).unwrap();
        prop_assert_eq!(State::replay(&items), main.get().state().clone());
    }
}

fn start(name: &str, inherit_history: bool) -> IsolatedStart {
    IsolatedStart {
        name: Some(name.to_owned()),
        model: Some(ModelChoice { provider: "p".to_owned(), model: "m".to_owned() }),
        system_instructions: Some("be brief".to_owned()),
        inherit_history,
        initial_messages: vec![Message::user("begin")],
        ..IsolatedStart::default()
    }
}

fn isolated(processes: &Processes, name: &str, start: IsolatedStart) -> Result<Thread, SessionError> {
    let session = block_on(processes.start(name).open(&processes.id)).unwrap();
    block_on(session.create_isolated(start))
}

#[test]
fn a_named_thread_is_made_once() {
    for (inherits, texts) in [(false, vec!["begin"]), (true, vec!["before", "begin"])] {
        let processes = Processes::new(SessionConfig::default());
        block_on(processes.main("a").add_message(Message::user("before"))).unwrap();
        let first = isolated(&processes, "a", start("side", inherits)).unwrap();
        block_on(processes.main("a").add_message(Message::user("meanwhile"))).unwrap();
        let again = isolated(&processes, "b", start("side", inherits)).unwrap();
        assert_eq!((first.id().as_str(), again.id()), ("s/side", first.id()));
        assert_eq!(
            (said(&again), again.get()),
            (texts.iter().map(|it| (*it).to_owned()).collect(), first.get())
        );
        assert_eq!(again.get().instructions(), Some("be brief"));
    }
}

#[test]
fn what_a_lost_creator_did_not_say_is_said_once() {
    for inherits in [false, true] {
        let processes = Processes::new(SessionConfig::default());
        block_on(processes.main("a").add_message(Message::user("before"))).unwrap();
        // As if it were killed between the two: nothing is said.
        let bare = IsolatedStart { inherit_history: inherits, ..IsolatedStart::default() };
        let bare =
            isolated(&processes, "a", IsolatedStart { name: Some("side".to_owned()), ..bare }).unwrap();
        let mut expected = said(&bare);
        expected.push("begin".to_owned());
        for name in ["b", "c"] {
            assert_eq!(said(&isolated(&processes, name, start("side", inherits)).unwrap()), expected);
        }
    }
}

#[test]
fn a_copy_of_a_running_turn_begins_with_its_own_items_once() {
    let bare = IsolatedStart { name: Some("side".to_owned()), inherit_history: true, ..Default::default() };
    // As if a first creator were killed before it could say anything, or not.
    for lost in [None, Some(bare)] {
        let processes = Processes::new(SessionConfig::default());
        let question = TurnConfig { items: vec![Message::user("question").into()], ..TurnConfig::default() };
        let running = block_on(processes.main("a").begin(question)).unwrap();
        lost.into_iter().for_each(|it| drop(isolated(&processes, "b", it).unwrap()));
        for name in ["b", "c"] {
            let copy = isolated(&processes, name, start("side", true)).unwrap();
            assert_eq!(said(&copy), ["question", "begin"]);
            assert_eq!(copy.get().instructions(), Some("be brief"));
        }
        drop(running);
    }
}

#[test]
fn a_thread_in_use_is_not_waited_for() {
    let processes = Processes::new(SessionConfig::default());
    let session = block_on(processes.start("a").open(&processes.id)).unwrap();
    let first = block_on(session.create_isolated(start("side", false))).unwrap();
    let turn = block_on(first.begin(TurnConfig::default())).unwrap();
    block_on(session.create_isolated(start("side", false))).unwrap();
    drop(turn);
}

#[test]
fn a_name_that_was_released_is_free_again() {
    let processes = Processes::new(SessionConfig::default());
    let session = block_on(processes.start("a").open(&processes.id)).unwrap();
    let first = block_on(session.create_isolated(start("side", false))).unwrap();
    block_on(first.add(vec![NewItem::event("e", "x")])).unwrap();
    assert!(block_on(session.release(first.id())).unwrap());
    let second = block_on(session.create_isolated(start("side", false))).unwrap();
    assert_eq!(said(&second), ["begin"]);
}

#[test]
fn a_name_is_checked() {
    let processes = Processes::new(SessionConfig::default());
    for name in ["", "a\nb", &"x".repeat(201)] {
        assert_eq!(isolated(&processes, "a", start(name, false)).unwrap_err().code(), "id_invalid");
    }
}
