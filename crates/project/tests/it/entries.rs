//! `use`: names, inline contexts, conditions and branches.

use serde_json::json;

use super::support::{faults, faults_of, resolved};

#[test]
fn inline_contexts_stand_where_they_are_written() {
    let text = "---\nuse:\n  - context: {id: note, text: \"Plan: {{ input.plan }}\", priority: 10}\n  - null\n  - false\n  - a/b\n  - context: {text: Last.}\n  - context: a/b\n---\nOwn.";
    let files = [("prompts/p.md", text), ("contexts/a/b.md", "Nested.")];
    insta::assert_snapshot!(resolved(&files, json!({"plan": "pro"})), @r"
    system: Own.

    Plan: pro

    Nested.

    Last.
    ");
}

#[test]
fn one_entry_needs_no_list() {
    insta::assert_snapshot!(resolved(&[("prompts/p.md", "---\nuse: a\n---\nOwn."), ("contexts/a.md", "A.")], json!({})), @r"
    system: Own.

    A.
    ");
}

#[test]
fn a_context_that_is_used_twice_renders_once() {
    let files = [
        ("prompts/p.md", "---\nuse: [a, b, {when: input.on, use: [a, b]}]\n---\nOwn."),
        ("contexts/a.md", "---\nuse: [b]\n---\nA."),
        ("contexts/b.md", "B."),
    ];
    insta::assert_snapshot!(resolved(&files, json!({"on": true})), @r"
    system: Own.

    B.

    A.
    ");
}

#[test]
fn an_inline_context_may_hold_all_that_a_file_holds() {
    let text = "---\nuse:\n  - context:\n      id: c\n      use: [a]\n      when: input.on\n      values: {doc: \"{{ input.d }}\", none: null}\n      cached: true\n---\nOwn.";
    let files = [("prompts/p.md", text), ("contexts/a.md", "A.")];
    insta::assert_snapshot!(resolved(&files, json!({"on": true, "d": "<x>"})), @r"
    system: Own.

    A.

    <doc>
    &lt;x&gt;
    </doc>
    ");
    insta::assert_snapshot!(resolved(&files, json!({"on": false})), @"system: Own.");
}

#[test]
fn unknown_entries_name_the_place_and_the_nearest_name() {
    let files = [
        ("prompts/p.md", "---\nuse:\n  - brnad\n  - ../../secret\n  - {wen: x}\n  - 5\n  - {}\n---\n"),
        ("contexts/brand.md", "B."),
    ];
    insta::assert_snapshot!(faults(&files), @r"
    prompts/p.md:3:5 unknown_entry: there is no context `brnad`, no file `contexts/brnad.md` [did you mean `brand`?]
    prompts/p.md:4:5 unknown_entry: there is no context `../../secret`, no file `contexts/../../secret.md`
    prompts/p.md:5:6 unknown_entry: there is no kind of entry `wen` [did you mean `when`?]
    prompts/p.md:6:5 file_invalid: `use`: expected the name of a context, or a map, found `5`
    prompts/p.md:7:5 unknown_entry: an entry is an empty map
    ");
}

#[test]
fn entries_of_later_kinds_are_refused_by_name() {
    insta::assert_snapshot!(faults_of("---\nuse:\n  - skill: refunds\n  - memory: {id: m}\n---\n"), @r"
    prompts/p.md:3:5 unsupported_entry: entries of the kind `skill` can't be written in a file yet
    prompts/p.md:4:5 unsupported_entry: entries of the kind `memory` can't be written in a file yet
    ");
}

#[test]
fn conditions_and_branches_must_be_whole() {
    let text = "---\nuse:\n  - {when: input.a}\n  - {match: input.b}\n  - {match: input.b, cases: [x], defalt: y}\n---\n";
    insta::assert_snapshot!(faults_of(text), @r"
    prompts/p.md:3:5 file_invalid: `use` is missing
    prompts/p.md:4:5 file_invalid: `cases` is missing
    prompts/p.md:5:29 file_invalid: `cases`: expected a map, found a list
    prompts/p.md:5:34 unknown_field: unknown field `defalt` [did you mean `default`?]
    ");
}

#[test]
fn circles_are_found_and_the_chain_is_named() {
    let files = [
        ("prompts/p.md", "---\nuse: [outside]\n---\n"),
        ("contexts/outside.md", "---\nuse: [a]\n---\n"),
        ("contexts/a.md", "---\nuse: [b]\n---\nA."),
        ("contexts/b.md", "---\nuse:\n  - context: {use: [{match: x, cases: {y: a}}]}\n---\nB."),
    ];
    insta::assert_snapshot!(faults(&files), @r"
    contexts/a.md:2:7 depth_exceeded: contexts use each other in a circle: contexts/a.md → contexts/b.md → contexts/a.md
    contexts/b.md:3:43 depth_exceeded: contexts use each other in a circle: contexts/b.md → contexts/a.md → contexts/b.md
    ");
    insta::assert_snapshot!(faults(&[("prompts/p.md", "---\nuse: a\n---\n"), ("contexts/a.md", "---\nuse: a\n---\n")]), @"contexts/a.md:2:6 depth_exceeded: contexts use each other in a circle: contexts/a.md → contexts/a.md");
}

#[test]
fn very_long_chains_of_contexts_are_refused() {
    let mut files = vec![("prompts/p.md".to_owned(), "---\nuse: c0\n---\n".to_owned())];
    files.extend(
        (0..2_000).map(|it| (format!("contexts/c{it}.md"), format!("---\nuse: c{}\n---\nC.", it + 1))),
    );
    files.push(("contexts/c2000.md".to_owned(), "End.".to_owned()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let faults = faults(&files);
    assert!(faults.contains("depth_exceeded"), "{faults}");
}

#[test]
fn both_forms_of_the_context_slot_are_templates_at_every_depth() {
    let text = "---\ncontext:\n  - 'Raw {{ input.x }}'\n  - {a: {b: ['{{ input.x }}', null, 5]}, none: null}\n  - {role: assistant, content: 'Said {{ input.x }}'}\n---\nOwn.";
    insta::assert_snapshot!(resolved(&[("prompts/p.md", text)], json!({"x": "1 < 2"})), @r"
    system: Own.

    <a>
    <b>
    1 &lt; 2
    5
    </b>
    </a>
    system: Raw 1 < 2
    assistant: Said 1 < 2
    ");
}

#[test]
fn messages_are_templates() {
    let text = "---\nsystem: Own.\nmessages:\n  - {role: user, content: 'Q {{ input.x }}'}\n  - {role: assistant, content: A}\n---\n";
    insta::assert_snapshot!(resolved(&[("prompts/p.md", text)], json!({"x": 1})), @r"
    system: Own.
    user: Q 1
    assistant: A
    ");
}

#[test]
fn contexts_that_share_contexts_on_many_levels_are_read_once_each() {
    let mut files = vec![("prompts/p.md".to_owned(), "---\nuse: [a0, b0]\n---\nOwn.".to_owned())];
    for level in 0..28 {
        let text = format!("---\nuse: [a{0}, b{0}]\n---\n", level + 1);
        files.push((format!("contexts/a{level}.md"), text.clone()));
        files.push((format!("contexts/b{level}.md"), text));
    }
    files.push(("contexts/a28.md".to_owned(), "A.".to_owned()));
    files.push(("contexts/b28.md".to_owned(), "B.".to_owned()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert_eq!(resolved(&files, json!({})), "system: Own.\n\nA.\n\nB.");
}
