//! Turns of a transcript.

use contexture_history::group_turns;

use crate::notation;

/// Groups lines of a message, each with the id of its turn or `.`.
fn grouped(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    let messages = lines.map(|line| {
        let (id, said) = line.split_once(' ').expect("an id and a message");
        (Some(id.to_owned()).filter(|it| it != "."), notation::message(said))
    });
    let transcript = group_turns(messages);
    let system = transcript.system.iter().map(|it| format!("{}\n", notation::shown(it)));
    system.collect::<String>() + &notation::shown_turns(&transcript.turns)
}

#[test]
fn a_turn_starts_at_each_message_of_the_user() {
    insta::assert_snapshot!(grouped("
        . system rules
        . user a
        . assistant +x
        . user =x
        . assistant b
        . user c
    "), @"
    system rules
    t1 user a
    t1 assistant +x
    t1 user =x
    t1 assistant b
    t2 user c
    ");
}

#[test]
fn made_up_names_do_not_clash_with_given_ones() {
    insta::assert_snapshot!(grouped("
        . user a
        t1 user b
        . assistant c
        . user d
        t3 user e
        . user f
    "), @"
    t2 user a
    t1 user b
    t1 assistant c
    t4 user d
    t3 user e
    t5 user f
    ");
}

#[test]
fn what_comes_late_is_put_at_the_end_of_its_turn() {
    insta::assert_snapshot!(grouped("
        a user 1
        a user 2
        b user 3
        a user 4
        . assistant 5
        . user 6
    "), @"
    a user 1
    a user 2
    a user 4
    a assistant 5
    b user 3
    t3 user 6
    ");
}

#[test]
fn whatever_comes_first_has_a_turn() {
    insta::assert_snapshot!(grouped("
        . assistant Welcome!
        . system changed
        . user a
    "), @"
    t1 assistant Welcome!
    t1 system changed
    t2 user a
    ");
}
