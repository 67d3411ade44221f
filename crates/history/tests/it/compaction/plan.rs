//! Which range becomes a summary.

use std::sync::Arc;

use contexture_history::compaction::{
    Attempt, Layout, Nothing, Plan, PlanLimits, Strategy, Trigger, due, unless_repeated,
};
use contexture_history::{
    Application, Body, Change, Cost, Envelope, EnvelopeTag, Item, Seq, Summary, SystemEvent, Timestamp,
    TurnNo, TurnStatus,
};
use contexture_message::{Encoding, Tokens};

use crate::notation;

/// Reads items, one a line: the turn, its tokens, and what it is. A turn with `…` is in flight.
pub(super) fn items(text: &str) -> (Vec<Item>, Option<TurnNo>) {
    let mut in_flight = None;
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty()).enumerate();
    let items = lines.map(|(idx, line)| {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("three words");
        let (turn, tokens, what) = (word(), word(), word());
        let number = TurnNo::parse(turn.trim_end_matches('…')).expect("a turn");
        if turn.ends_with('…') {
            in_flight = Some(number);
        }
        let ended =
            |status| Body::Change(Change::TurnEnded { status, reason: None, code: None, usage: None });
        let body = match what.split_once(' ') {
            Some(("summary", range)) => {
                let (first, last) = range.split_once('-').expect("a range");
                let seq = |it: &str| Seq(it.parse().expect("a number"));
                Body::Summary(Summary {
                    text: "short".into(),
                    first: seq(first),
                    last: seq(last),
                    ..Summary::default()
                })
            }
            None if what == "began" => Body::Change(Change::began(None)),
            None if what == "ended" => ended(TurnStatus::Completed),
            None if what == "suspended" => ended(TurnStatus::Suspended),
            None if what == "envelope" => Body::Envelope(Envelope::text(EnvelopeTag::SystemContext, "page")),
            None if what == "event" => Body::SystemEvent(SystemEvent::new("deploy", "live")),
            None if what == "note" => Body::Application(Application { kind: "n".into(), value: 1.into() }),
            _ => Body::Message(Arc::new(notation::message(what))),
        };
        Item {
            seq: Seq(idx as u64 + 1),
            turn: number,
            visibility: body.default_visibility(),
            cost: Cost { counter: "o200k_base".into(), tokens: Tokens(tokens.parse().expect("a number")) },
            author: None,
            at: Timestamp(0),
            body,
        }
    });
    let items = items.collect();
    (items, in_flight)
}

pub(super) fn limits() -> PlanLimits {
    PlanLimits {
        trigger_tokens: Tokens(1000),
        min_messages: 4,
        min_range_tokens: Tokens(100),
        ..PlanLimits::for_window(Tokens(1250))
    }
}

fn layout(text: &str) -> Layout {
    let (items, in_flight) = items(text);
    Layout::new(&items, in_flight, &Encoding::O200kBase)
}

fn shown(plan: Result<Plan, Nothing>) -> String {
    match plan {
        Err(nothing) => nothing.to_string(),
        Ok(it) => format!(
            "{} at {:?} covers {}-{} of {}-{}: {} messages in {} rounds, {} tokens",
            it.strategy.as_str(),
            it.span,
            it.first,
            it.last,
            it.turns.0,
            it.turns.1,
            it.n_messages,
            it.n_rounds,
            it.before
        ),
    }
}

fn boundary(text: &str) -> String {
    shown(layout(text).at_boundary(&limits()))
}

fn micro(text: &str) -> String {
    shown(layout(text).micro(Trigger::Asked, &limits()))
}

fn full(text: &str) -> String {
    shown(layout(text).full(Trigger::PromptTooLong, &limits()))
}

#[test]
fn the_oldest_turns_go_until_half_of_the_trigger_is_left() {
    insta::assert_snapshot!(boundary("
        t1 0 began
        t1 300 user a
        t1 100 assistant b
        t1 0 ended
        t2 200 user c
        t2 100 assistant +x
        t2 100 tool =x
        t3 200 user d
        t3 200 assistant e
        t4… 900 user f
    "), @"session_compaction at 0..7 covers 1-7 of t1-t2: 5 messages in 2 rounds, 800 tokens");
}

#[test]
fn small_and_short_histories_stay() {
    insta::assert_snapshot!(boundary("t1 1000 user a"), @"the history has 1000 tokens, summaries begin above 1000");
    insta::assert_snapshot!(boundary("
        t1 1000 user a
        t2 1000 assistant b
    "), @"the history has 2 messages, summaries need 4");
}

#[test]
fn the_newest_turn_with_content_stays_however_large() {
    insta::assert_snapshot!(boundary("
        t1 200 user a
        t1 100 assistant b
        t2 3000 user c
        t2 3000 assistant d
        t3 0 began
        t3 0 ended
    "), @"session_compaction at 0..2 covers 1-2 of t1-t1: 2 messages in 1 rounds, 300 tokens");
    insta::assert_snapshot!(boundary("
        t1 900 user a
        t1 900 assistant b
        t1 900 user c
        t1 900 assistant d
    "), @"everything is recent, in flight or waits for a result");
}

#[test]
fn a_summary_goes_into_the_next_one_but_not_alone() {
    insta::assert_snapshot!(boundary("
        t9 200 summary 50-70
        t3 400 user a
        t3 400 assistant b
        t4 300 user c
        t4 300 assistant d
    "), @"session_compaction at 0..3 covers 2-70 of t9-t3: 3 messages in 2 rounds, 1000 tokens");
    insta::assert_snapshot!(boundary("
        t9 900 summary 1-70
        t4 300 user c
        t4 300 assistant d
        t4 300 assistant e
    "), @"a summary of 900 tokens would gain nothing");
}

#[test]
fn a_suspended_turn_and_what_follows_stays() {
    insta::assert_snapshot!(boundary("
        t1 400 user a
        t1 400 assistant b
        t2 400 user c
        t2 400 assistant d
        t2 400 assistant +x
        t2 0 suspended
        t3 400 user e
        t3 400 assistant f
        t4 400 user e
        t4 400 assistant f
    "), @"session_compaction at 0..2 covers 1-2 of t1-t1: 2 messages in 1 rounds, 800 tokens");
}

#[test]
fn a_result_in_a_later_turn_keeps_turns_together() {
    insta::assert_snapshot!(boundary("
        t1 400 user a
        t1 400 assistant +x
        t2 400 user b
        t2 50 tool =x
        t3 50 user c
        t3 50 assistant d
    "), @"session_compaction at 0..4 covers 1-4 of t1-t2: 4 messages in 1 rounds, 1250 tokens");
}

const LONG_TURN: &str = "
    t2 60 summary 1-9
    t3… 0 began
    t3… 20 user go
    t3… 20 envelope
    t3… 50 assistant +a
    t3… 500 tool =a
    t3… 50 assistant +b
    t3… 500 tool =b
    t3… 50 assistant +c
    t3… 500 tool =c
    t3… 50 assistant +d
    t3… 500 tool =d
";

#[test]
fn rounds_of_the_turn_in_flight_go_but_never_its_prompt() {
    insta::assert_snapshot!(micro(LONG_TURN), @"reactive_micro at 4..8 covers 5-8 of t3-t3: 4 messages in 2 rounds, 1100 tokens");
    insta::assert_snapshot!(full(LONG_TURN), @"reactive_full at 4..8 covers 5-8 of t3-t3: 4 messages in 2 rounds, 1100 tokens");
}

#[test]
fn micro_takes_the_oldest_rounds_behind_the_summary() {
    insta::assert_snapshot!(micro("
        t9 60 summary 1-9
        t2 100 user a
        t2 100 assistant b
        t3 100 user c
        t3 100 assistant d
        t4 100 user e
        t4 100 assistant f
        t5 100 user g
        t5 100 assistant h
        t6 100 user i
        t6 100 assistant j
        t7… 100 user now
    "), @"reactive_micro at 1..5 covers 2-5 of t2-t3: 4 messages in 2 rounds, 400 tokens");
}

#[test]
fn micro_takes_more_rounds_while_they_are_tiny() {
    insta::assert_snapshot!(micro("
        t1 10 user a
        t1 10 assistant b
        t2 10 user c
        t2 10 assistant d
        t3 10 user e
        t3 100 assistant f
        t4 10 user g
        t4 10 assistant h
        t5 10 user i
        t5 10 assistant j
        t6 10 user k
        t6 10 assistant l
    "), @"reactive_micro at 0..6 covers 1-6 of t1-t3: 6 messages in 3 rounds, 150 tokens");
}

#[test]
fn full_takes_the_side_of_the_prompt_that_holds_more() {
    let text = "
        t1 400 user a
        t1 400 assistant b
        t2… 100 user now
        t2… 100 assistant +a
        t2… 100 tool =a
        t2… 100 assistant +b
        t2… 100 tool =b
        t2… 100 assistant +c
        t2… 100 tool =c
    ";
    insta::assert_snapshot!(full(text), @"reactive_full at 0..2 covers 1-2 of t1-t1: 2 messages in 1 rounds, 800 tokens");
    let later = text.replace("400", "40");
    insta::assert_snapshot!(full(&later), @"reactive_full at 3..5 covers 4-5 of t2-t2: 2 messages in 1 rounds, 200 tokens");
}

#[test]
fn full_keeps_the_newest_rounds_and_merges_summaries() {
    insta::assert_snapshot!(full("
        t8 100 summary 1-5
        t9 100 summary 6-9
        t3 100 user a
        t3 100 assistant b
        t4 100 user c
        t4 100 assistant d
        t5… 100 user now
    "), @"reactive_full at 0..2 covers 1-9 of t8-t9: 2 messages in 2 rounds, 200 tokens");
}

#[test]
fn what_waits_for_a_result_stays() {
    insta::assert_snapshot!(full("
        t1… 100 user a
        t1… 100 assistant +x +y
        t1… 100 tool =x
        t1… 100 user and
    "), @"everything is recent, in flight or waits for a result");
}

#[test]
fn a_prompt_that_comes_with_results_stays_with_its_round() {
    insta::assert_snapshot!(full("
        t1… 100 user a
        t1… 100 assistant +x
        t1… 100 user =x and now this
        t1… 100 assistant +y
        t1… 100 tool =y
        t1… 100 assistant +z
        t1… 100 tool =z
        t1… 100 assistant +u
        t1… 100 tool =u
    "), @"reactive_full at 3..5 covers 4-5 of t1-t1: 2 messages in 1 rounds, 200 tokens");
}

#[test]
fn a_prompt_in_the_middle_of_a_call_splits_nothing() {
    let rest = "
        t1… 100 assistant +y
        t1… 100 tool =y
        t1… 100 assistant +z
        t1… 100 tool =z
    ";
    let envelope = "
        t1… 100 user now
        t1… 100 assistant +x
        t1… 100 envelope
        t1… 100 tool =x
    ";
    insta::assert_snapshot!(full(&format!("{envelope}{rest}")), @"everything is recent, in flight or waits for a result");
    let steering = "
        t1… 100 user go
        t1… 100 assistant +x
        t1… 100 user now
        t1… 100 tool =x
    ";
    insta::assert_snapshot!(full(&format!("{steering}{rest}")), @"everything is recent, in flight or waits for a result");
}

#[test]
fn items_that_the_model_does_not_read_go_along() {
    insta::assert_snapshot!(micro("
        t1 0 began
        t1 100 event
        t1 100 user a
        t1 0 note
        t1 100 assistant b
        t1 0 note
        t1 0 ended
        t2 100 user c
        t2 100 assistant d
        t3 100 user c
        t3 100 assistant d
    "), @"reactive_micro at 0..7 covers 1-7 of t1-t1: 3 messages in 1 rounds, 300 tokens");
}

#[test]
fn the_same_plan_without_gain_is_refused() {
    let plan = || layout(LONG_TURN).micro(Trigger::Asked, &limits()).unwrap();
    let again = |after| {
        let last = Attempt { plan: plan(), after };
        unless_repeated(plan(), Some(&last))
    };
    assert_eq!(again(None), Err(Nothing::Repeated));
    assert_eq!(again(Some(Tokens(1100))), Err(Nothing::Repeated));
    assert_eq!(again(Some(Tokens(10))), Ok(plan()));
    assert_eq!(unless_repeated(plan(), None), Ok(plan()));
}

#[test]
fn triggers_are_percentages_of_what_is_usable() {
    let strategy = |used, usable| due(Tokens(used), Tokens(usable), &limits()).map(|(it, _)| it);
    assert_eq!(strategy(84, 100), None);
    assert_eq!(strategy(85, 100), Some(Strategy::ReactiveMicro));
    assert_eq!(strategy(92, 100), Some(Strategy::ReactiveFull));
    assert_eq!(strategy(u32::MAX, u32::MAX), Some(Strategy::ReactiveFull));
    assert_eq!(strategy(0, 0), Some(Strategy::ReactiveFull));
}
