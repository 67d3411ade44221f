//! Repair: every call has one result directly after it, and every result its call.

use contexture_history::{RepairKind, repair};

use crate::notation;

fn repaired(text: &str) -> String {
    let repaired = repair(&notation::messages(text));
    notation::shown_messages(&repaired.messages, &repaired.repairs)
}

#[test]
fn what_is_paired_stays_as_it_is() {
    insta::assert_snapshot!(repaired("
        user go
        assistant first +a +b
        tool =b
        tool =a
        assistant +c
        user =c and now
        assistant done
    "), @"
    user go
    assistant first +a +b
    tool =b
    tool =a
    assistant +c
    user =c and now
    assistant done
    ");
}

#[test]
fn a_missing_result_is_completed_behind_those_that_are_there() {
    insta::assert_snapshot!(repaired("
        assistant +a +b +c
        tool =b
        user next
    "), @"
    assistant +a +b +c
    tool =b
    tool =a!
    tool =c!
    user next
    ! call `a` of `find` had no result and was completed
    ! call `c` of `find` had no result and was completed
    ");
}

#[test]
fn a_call_at_the_end_is_completed() {
    insta::assert_snapshot!(repaired("assistant +a"), @"
    assistant +a
    tool =a!
    ! call `a` of `find` had no result and was completed
    ");
}

#[test]
fn nothing_is_between_a_call_and_a_completed_result() {
    insta::assert_snapshot!(repaired("
        assistant +a +b
        user =a and by the way
    "), @"
    assistant +a +b
    tool =b!
    user =a and by the way
    ! call `b` of `find` had no result and was completed
    ");
}

#[test]
fn a_late_result_is_moved_to_its_call() {
    insta::assert_snapshot!(repaired("
        assistant +a
        user wait
        tool =a
        assistant done
    "), @"
    assistant +a
    tool =a
    user wait
    assistant done
    ! result `a` of `find` was moved directly after its call
    ");
}

#[test]
fn a_result_behind_words_or_in_the_message_of_its_call_is_moved() {
    insta::assert_snapshot!(repaired("
        assistant +a =a said +b
        user well =b
    "), @"
    assistant +a said +b
    tool =a
    tool =b
    user well
    ! result `a` of `find` was moved directly after its call
    ! result `b` of `find` was moved directly after its call
    ");
}

#[test]
fn a_result_without_a_call_is_left_out_and_so_is_a_second_one() {
    insta::assert_snapshot!(repaired("
        tool =z
        user =y hello
        assistant +a
        tool =a
        tool =a
        user bye
    "), @"
    user hello
    assistant +a
    tool =a
    user bye
    ! result `z` of `find` had no call and was left out
    ! result `y` of `find` had no call and was left out
    ! result `a` of `find` had no call and was left out
    ");
}

#[test]
fn a_result_before_its_call_is_none() {
    insta::assert_snapshot!(repaired("
        tool =a
        assistant +a
    "), @"
    assistant +a
    tool =a!
    ! result `a` of `find` had no call and was left out
    ! call `a` of `find` had no result and was completed
    ");
}

#[test]
fn an_id_that_is_used_again_belongs_to_the_nearest_call() {
    insta::assert_snapshot!(repaired("
        assistant +call_0
        user again
        assistant +call_0 +call_0
        tool =call_0
        tool =call_0
    "), @"
    assistant +call_0
    tool =call_0!
    user again
    assistant +call_0 +call_0
    tool =call_0
    tool =call_0
    ! call `call_0` of `find` had no result and was completed
    ");
}

#[test]
fn messages_of_nothing_but_results_are_moved_whole() {
    let mut messages = notation::messages(
        "
        assistant +a +b
        user wait
        user =a =b
        ",
    );
    messages[2] = std::sync::Arc::new(notation::message("user =a =b").with_id("m3"));
    let repaired = repair(&messages);
    assert_eq!(repaired.messages[1].id.as_deref(), Some("m3"));
    assert_eq!(repaired.repairs.len(), 2);
}

#[test]
fn repairs_have_names_in_json() {
    let repaired = repair(&notation::messages("assistant +a"));
    assert_eq!(
        serde_json::to_string(&repaired.repairs).expect("plain data"),
        r#"[{"call_id":"a","name":"find","what":"completed"}]"#
    );
    assert_eq!(RepairKind::LeftOut.as_str(), "left_out");
}
