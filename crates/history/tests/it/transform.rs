//! Transforms and their composition.

use contexture_history::{Transforms, Turn, last_turns, transform, without_media, without_thinking};
use contexture_message::{Image, MediaSource, Message, Part, Role, ToolOutput, ToolResult};

use crate::notation;

fn transformed(transforms: &Transforms, turns: Vec<Turn>) -> String {
    let transformed = transforms.run(turns);
    let changes =
        transformed.changes.iter().map(|it| format!("! {}: {} -> {}", it.name, it.before, it.after));
    let turns = notation::shown_turns(&transformed.turns);
    [turns].into_iter().chain(changes).collect::<Vec<_>>().join("\n")
}

#[test]
fn transforms_run_left_to_right() {
    let transforms = Transforms::default().then(last_turns(1)).then(without_thinking());
    insta::assert_snapshot!(transformed(&transforms, notation::turns("
        t1 assistant ~ a
        t2 assistant ~ b
        t2 assistant ~
    ")), @"
    t2 assistant b
    ! last_turns: 3 -> 2
    ! without_thinking: 2 -> 1
    ");
}

#[test]
fn the_thinking_of_a_turn_in_flight_stays() {
    let transforms = Transforms::default().then(without_thinking());
    insta::assert_snapshot!(transformed(&transforms, notation::turns("
        t1 assistant ~ a
        t2… assistant ~ +x
    ")), @"
    t1 assistant a
    t2 assistant ~ +x
    ! without_thinking: 2 -> 2
    ");
}

#[test]
fn media_become_a_note_that_counts_them() {
    let picture = Part::Image(Image { source: MediaSource::Data("AAAA".into()), media_type: None });
    let output = ToolOutput::Content(vec![Part::text("page"), picture]);
    let result = ToolResult { call_id: "x".into(), name: "find".into(), output };
    let shot = Message::parts(Role::Tool, vec![Part::ToolResult(result)]);
    let asked = [notation::message("user look # # here"), notation::message("assistant +x"), shot];
    let turns = vec![Turn::new("t1", asked.to_vec())];
    insta::assert_snapshot!(transformed(&Transforms::default().then(without_media()), turns), @"
    t1 user look [not shown: 2 images, 0 files] here
    t1 assistant +x
    t1 tool =x (tool page [not shown: 1 images, 0 files])
    ! without_media: 3 -> 3
    ");
}

#[test]
fn last_turns_keep_what_a_window_keeps() {
    let transforms = Transforms::default().then(last_turns(1));
    insta::assert_snapshot!(transformed(&transforms, notation::turns("
        t1 user a
        t2 user b
        t3 -
        t4… user c
    ")), @"
    t3 -
    t4 user c
    ! last_turns: 3 -> 1
    ");
}

#[test]
fn a_turn_that_is_not_changed_keeps_its_cost() {
    let cost =
        contexture_history::Cost { counter: "o200k_base".into(), tokens: contexture_message::Tokens(9) };
    let turns: Vec<Turn> = notation::turns("t1 user a\nt2 assistant ~ b");
    let turns = turns.into_iter().map(|it| it.with_cost(cost.clone())).collect();
    let transforms = Transforms::default().then(without_thinking()).then(without_media());
    let turns = transforms.run(turns).turns;
    assert_eq!((turns[0].cost(), turns[1].cost()), (Some(&cost), None));
}

#[test]
fn a_function_with_a_name_is_a_transform() {
    let first = transform("first", |turns: Vec<Turn>| turns.into_iter().take(1).collect());
    let shown = transformed(&Transforms::default().then(first), notation::turns("t1 user a\nt2 user b"));
    assert_eq!(shown, "t1 user a\n! first: 2 -> 1");
}

#[test]
fn large_results_of_ended_turns_become_previews() {
    let result = |text: String| {
        let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output: ToolOutput::Text(text) };
        Message::parts(Role::Tool, vec![Part::ToolResult(result)])
    };
    let large = || result("one line of a log\n".repeat(3_000));
    let turns = vec![
        Turn::new("t1", vec![large()]),
        Turn::new("t2", vec![result("short".to_owned())]),
        Turn::new("t3", vec![large()]).with_status(contexture_history::TurnStatus::InFlight),
    ];
    let transforms = Transforms::default().then(contexture_history::compaction::bounded_results());
    let once = transforms.run(turns.clone()).turns;
    let is_changed: Vec<bool> = once.iter().zip(&turns).map(|(now, before)| now != before).collect();
    assert_eq!(is_changed, [true, false, false]);
    // A preview is short enough to stay as it is.
    assert_eq!(transforms.run(once.clone()).turns, once);
}
