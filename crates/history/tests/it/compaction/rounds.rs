//! Rounds of messages.

use contexture_history::compaction::rounds;

use crate::notation;

/// Shows the rounds of messages, one a line.
fn grouped(text: &str) -> String {
    let messages = notation::messages(text);
    let shown = rounds(&messages).into_iter().map(|it| {
        let words: Vec<String> = messages[it.span.clone()].iter().map(|it| notation::shown(it)).collect();
        let open = if it.is_open { " (open)" } else { "" };
        let waits = if it.is_answered { "" } else { " (waits)" };
        format!("{}{open}{waits}", words.join(" / "))
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_round_is_an_answer_with_its_results_and_what_led_to_it() {
    insta::assert_snapshot!(grouped("
        user hi
        user there
        assistant +a +b
        tool =a
        tool =b
        assistant done
        user more
    "), @"
    user hi / user there / assistant +a +b / tool =a / tool =b
    assistant done
    user more (waits)
    ");
}

#[test]
fn a_result_that_comes_late_joins_rounds() {
    insta::assert_snapshot!(grouped("
        assistant +a
        user wait
        assistant sure
        tool =a
        assistant done
    "), @"
    assistant +a / user wait / assistant sure / tool =a
    assistant done
    ");
}

#[test]
fn a_call_without_a_result_is_open() {
    insta::assert_snapshot!(grouped("
        assistant +a
        user next
        assistant +b +a
        user =b and this
        tool =a
    "), @"
    assistant +a (open)
    user next / assistant +b +a / user =b and this / tool =a
    ");
}

#[test]
fn results_without_calls_stay_where_they_are() {
    insta::assert_snapshot!(grouped("
        tool =x
        assistant hi
        tool =y
    "), @"tool =x / assistant hi / tool =y");
}
