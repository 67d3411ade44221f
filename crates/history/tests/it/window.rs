//! Windows: whole turns, from the newest back.

use contexture_history::{Cost, Limit, Turn, window};
use contexture_message::{Encoding, TokenCounter, Tokens, message_tokens};

use crate::notation;

/// Shows what a window keeps and drops.
fn windowed(limit: Option<Limit>, text: &str) -> String {
    let turns = notation::turns(text);
    let window = window(&turns, limit, &Encoding::O200kBase);
    let kept: Vec<&str> = window.kept().map(|it| &**it.id()).collect();
    let mut out = vec![format!("kept {} ({} tokens)", kept.join(" "), window.tokens())];
    out.extend(window.dropped().map(|(turn, reason)| format!("{}: {reason}", turn.id())));
    let messages = window.messages();
    out.push(notation::shown_messages(&messages.messages, &messages.repairs));
    out.join("\n")
}

fn newest(count: usize) -> Option<Limit> {
    Some(Limit::Turns(count))
}

fn tokens(count: u32) -> Option<Limit> {
    Some(Limit::Tokens(Tokens(count)))
}

#[test]
fn the_newest_turns_go_along_whole() {
    insta::assert_snapshot!(windowed(newest(2), "
        t1 user a
        t2 user b
        t2 assistant +x
        t2 tool =x
        t2 assistant c
        t3 user d
    "), @"
    kept t2 t3 (21 tokens)
    t1: older than the newest 2 turns
    user b
    assistant +x
    tool =x
    assistant c
    user d
    ");
}

#[test]
fn tokens_stop_at_the_first_turn_that_does_not_fit() {
    insta::assert_snapshot!(windowed(tokens(8), "
        t1 user a
        t2 user this one is rather long
        t3 user b
        t4 user c
    "), @"
    kept t3 t4 (8 tokens)
    t1: beyond 8 tokens of history
    t2: beyond 8 tokens of history
    user b
    user c
    ");
}

#[test]
fn the_newest_turn_with_content_is_always_kept() {
    insta::assert_snapshot!(windowed(tokens(1), "
        t1 user a
        t2 user rather long
        t3 -
    "), @"
    kept t2 t3 (5 tokens)
    t1: beyond 1 tokens of history
    user rather long
    ");
}

#[test]
fn a_silent_newest_turn_takes_its_place_of_a_number_of_turns() {
    insta::assert_snapshot!(windowed(newest(1), "
        t1 user a
        t2 user b
        t3 -
    "), @"
    kept t3 (0 tokens)
    t1: older than the newest turn
    t2: older than the newest turn
    ");
    insta::assert_snapshot!(windowed(newest(2), "
        t1 user a
        t2 user b
        t3 -
    "), @"
    kept t2 t3 (4 tokens)
    t1: older than the newest 2 turns
    user b
    ");
}

#[test]
fn a_limit_of_0_takes_no_earlier_turn() {
    for limit in [newest(0), tokens(0)] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(windowed(limit, "
                t1 user a
                t2 user b
                t3… user c
            "), @"
            kept t3 (4 tokens)
            t1: the limit is 0
            t2: the limit is 0
            user c
            ");
        }
    }
}

#[test]
fn a_turn_in_flight_goes_along_and_takes_none_of_the_limit() {
    insta::assert_snapshot!(windowed(newest(1), "
        t1 user a
        t2 user b
        t3… user c
    "), @"
    kept t2 t3 (8 tokens)
    t1: older than the newest turn
    user b
    user c
    ");
    insta::assert_snapshot!(windowed(tokens(4), "
        t1 user a
        t2 user b
        t3… user a very long one that would never fit
    "), @"
    kept t2 t3 (15 tokens)
    t1: beyond 4 tokens of history
    user b
    user a very long one that would never fit
    ");
}

#[test]
fn a_turn_that_contributes_nothing_takes_a_place_but_no_tokens() {
    insta::assert_snapshot!(windowed(newest(2), "
        t1 user a
        t2 user
        t3 user b
    "), @"
    kept t2 t3 (4 tokens)
    t1: older than the newest 2 turns
    user b
    ");
    insta::assert_snapshot!(windowed(tokens(8), "
        t1 user a
        t2 user
        t3 user b
    "), @"
    kept t1 t2 t3 (8 tokens)
    user a
    user b
    ");
}

#[test]
fn nothing_is_a_window_too() {
    insta::assert_snapshot!(windowed(newest(2), ""), @"kept  (0 tokens)");
    insta::assert_snapshot!(windowed(None, "t1 -"), @"kept t1 (0 tokens)");
}

#[test]
fn a_result_goes_to_the_turn_of_its_call() {
    let turns = notation::turns(
        "
        t1 user a
        t1 assistant +x +y
        t2 tool =x
        t2 user b
        ",
    );
    let shown = |limit| {
        let counter = Encoding::O200kBase;
        let turns = window(&turns, limit, &counter).repaired_turns();
        let line = |it: &contexture_history::RepairedTurn<'_>| {
            let recount: Tokens = it.messages.iter().map(|it| message_tokens(&counter, it)).sum();
            assert_eq!(it.tokens(&counter), recount);
            format!("{}:\n{}", it.turn.id(), notation::shown_messages(&it.messages, &it.repairs))
        };
        turns.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(shown(None), @"
    t1:
    user a
    assistant +x +y
    tool =x
    tool =y!
    ! result `x` of `find` was moved directly after its call
    ! call `y` of `find` had no result and was completed
    t2:
    user b
    ");
    insta::assert_snapshot!(shown(newest(1)), @"
    t2:
    user b
    ! result `x` of `find` had no call and was left out
    ");
}

#[test]
fn a_stored_cost_counts_for_its_own_counter() {
    let cost = |counter: &str| Cost { counter: counter.into(), tokens: Tokens(1) };
    let tokens = |counter: &str| {
        let turn = Turn::new("t1", vec![notation::message("user a b c")]).with_cost(cost(counter));
        window(&[turn], None, &Encoding::O200kBase).tokens()
    };
    assert_eq!((tokens("o200k_base"), tokens("cl100k_base")), (Tokens(1), Tokens(6)));
}

#[test]
fn the_turns_outside_are_not_counted() {
    struct Fails;
    impl TokenCounter for Fails {
        fn count(&self, text: &str) -> Tokens {
            assert_ne!(text, "old", "a turn outside the window was counted");
            Tokens(1)
        }
    }
    let turns = notation::turns("t1 user old\nt2 user new");
    assert_eq!(window(&turns, newest(1), &Fails).tokens(), Tokens(1));
    let shared: Vec<std::sync::Arc<Turn>> = turns.into_iter().map(std::sync::Arc::new).collect();
    let window = window(&shared, newest(1), &Fails);
    assert_eq!((window.is_kept(0), window.is_kept(1), window.is_kept(2)), (false, true, false));
}

#[test]
fn results_alone_are_no_content() {
    insta::assert_snapshot!(windowed(newest(1), "
        t1 user a
        t2 tool =zz
    "), @"
    kept t2 (4 tokens)
    t1: older than the newest turn
    ! result `zz` of `find` had no call and was left out
    ");
}

#[test]
fn a_turn_is_packed_with_the_results_it_lacks() {
    insta::assert_snapshot!(windowed(tokens(14), "
        t1 user a
        t1 assistant +x
        t2 user b
    "), @"
    kept t2 (4 tokens)
    t1: beyond 14 tokens of history
    user b
    ");
}
