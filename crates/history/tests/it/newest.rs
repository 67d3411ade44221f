//! The newest messages, whatever their turns.

use contexture_history::newest_messages;

use crate::notation;

fn newest(count: usize, text: &str) -> String {
    notation::shown_messages(&newest_messages(&notation::turns(text), count), &[])
}

const RUN: &str = "
    t1 user a
    t1 assistant +x +y
    t1 tool =x
    t1 tool =y
    t1 assistant b
    t2 user c
";

#[test]
fn messages_are_taken_from_the_newest_back() {
    assert_eq!(newest(2, RUN), "assistant b\nuser c");
    assert_eq!(newest(0, RUN), "");
    assert_eq!(newest(99, RUN).lines().count(), 6);
}

#[test]
fn a_call_and_its_results_come_together_or_not_at_all() {
    assert_eq!(newest(3, RUN), "assistant b\nuser c");
    assert_eq!(newest(4, RUN), "assistant b\nuser c");
    assert_eq!(newest(5, RUN), "assistant +x +y\ntool =x\ntool =y\nassistant b\nuser c");
    assert_eq!(newest(1, "t1 assistant +x\nt1 user =x well"), "user well");
}

#[test]
fn repairs_do_not_bring_in_more_messages() {
    let broken = "
        t1 user a
        t1 assistant +x +y
        t2 user b
        t3 -
    ";
    assert_eq!(newest(4, broken), "assistant +x +y\ntool =x!\ntool =y!\nuser b");
    assert_eq!(newest(3, broken), "user b");
}
