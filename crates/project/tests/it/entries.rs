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
    insta::assert_snapshot!(faults(&files), @"
    prompts/p.md:3:5 unknown_entry: there is no context `brnad`, no file `contexts/brnad.md` [did you mean `brand`?]
    prompts/p.md:4:5 unknown_entry: there is no context `../../secret`, no file `contexts/../../secret.md`
    prompts/p.md:5:6 unknown_entry: unknown kind of entry `wen` [did you mean `when`?]
    prompts/p.md:6:5 file_invalid: `use[3]`: expected the name of a context, or a map, found `5`
    prompts/p.md:7:5 unknown_entry: an entry is an empty map
    ");
}

#[test]
fn entries_of_unknown_kinds_are_refused_by_name() {
    insta::assert_snapshot!(faults_of("---\nuse:\n  - mcp: refunds\n  - blackboard: {id: m}\n  - block: [a]\n---\n"), @"
    prompts/p.md:3:5 unknown_entry: unknown kind of entry `mcp`
    prompts/p.md:4:17 entry_invalid: a blackboard needs `id` and `schema`
    prompts/p.md:5:12 file_invalid: `use[2].block`: expected the name of a block, found a list
    ");
}

#[test]
fn a_context_is_found_by_its_id_and_by_its_file_name_in_any_folder() {
    let files = [
        ("prompts/p.md", "---\nuse: [brand, deep, both]\n---\nOwn."),
        ("contexts/x.md", "---\nid: brand\nuse: [y]\n---\nBrand."),
        ("contexts/other.md", "---\nid: y\n---\nY."),
        ("contexts/some/where/deep.md", "Deep."),
        ("contexts/both.md", "Path."),
        ("contexts/z.md", "---\nid: both\n---\nId."),
    ];
    assert_eq!(resolved(&files, json!({})), "system: Own.\n\nY.\n\nBrand.\n\nDeep.\n\nPath.");
    let several = [
        ("prompts/p.md", "---\nuse: [a, b]\n---\nOwn."),
        ("contexts/one/a.md", "1"),
        ("contexts/two/a.md", "2"),
        ("contexts/x.md", "---\nid: b\n---\n3"),
        ("contexts/y.md", "---\nid: b\n---\n4"),
    ];
    insta::assert_snapshot!(faults(&several), @r"
    prompts/p.md:2:7 unknown_entry: `a` may be contexts/one/a.md or contexts/two/a.md [name one by its path: `one/a` or `two/a`]
    prompts/p.md:2:10 unknown_entry: `b` may be contexts/x.md or contexts/y.md [name one by its path: `x` or `y`]
    ");
    let circle = [
        ("prompts/p.md", "---\nuse: [one]\n---\nOwn."),
        ("contexts/x.md", "---\nid: one\nuse: [two]\n---\n"),
        ("contexts/deep/two.md", "---\nuse: [one]\n---\n"),
    ];
    let found = faults(&circle);
    assert!(found.contains("context:one (contexts/x.md) → context:two (contexts/deep/two.md)"), "{found}");
}

#[test]
fn conditions_and_branches_must_be_whole() {
    let text = "---\nuse:\n  - {when: input.a}\n  - {match: input.b}\n  - {match: input.b, cases: [x], defalt: y}\n---\n";
    insta::assert_snapshot!(faults_of(text), @"
    prompts/p.md:3:5 file_invalid: `use[0]`: `use` is missing
    prompts/p.md:4:5 file_invalid: `use[1]`: `cases` is missing
    prompts/p.md:5:29 file_invalid: `use[2].cases`: expected a map, found a list
    prompts/p.md:5:34 unknown_field: `use[2]`: unknown field `defalt` [did you mean `default`?]
    ");
}

#[test]
fn circles_are_found_and_the_chain_is_named() {
    let files = [
        ("prompts/p.md", "---\nuse: [outside]\n---\n"),
        ("contexts/outside.md", "---\nuse: [a]\n---\n"),
        ("contexts/a.md", "---\nuse: [b]\n---\nA."),
        ("contexts/b.md", "---\nid: other\nuse:\n  - context: {use: [{match: x, cases: {y: a}}]}\n---\nB."),
    ];
    insta::assert_snapshot!(faults(&files), @r"
    contexts/a.md:2:7 depth_exceeded: contexts use each other in a circle: context:a (contexts/a.md) → context:other (contexts/b.md) → context:a [remove one of these uses, or move what both need to a context of its own]
    contexts/b.md:4:43 depth_exceeded: contexts use each other in a circle: context:other (contexts/b.md) → context:a (contexts/a.md) → context:other [remove one of these uses, or move what both need to a context of its own]
    ");
    insta::assert_snapshot!(faults(&[("prompts/p.md", "---\nuse: a\n---\n"), ("contexts/a.md", "---\nuse: a\n---\n")]), @"contexts/a.md:2:6 depth_exceeded: contexts use each other in a circle: context:a (contexts/a.md) → context:a [remove one of these uses, or move what both need to a context of its own]");
    let error = super::support::project(&files).prompt("p").unwrap_err();
    assert_eq!(error.faults[0].sources, ["context:a", "context:other", "context:a"]);
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
fn an_override_may_stand_in_the_schema() {
    let context = ("contexts/a.md", "---\ninput: {properties: {k: {type: integer}}}\n---\nA.");
    let with = |front: &str| {
        resolved(
            &[("prompts/p.md", &format!("---\nuse: [a]\n{front}\n---\nOwn {{{{ input.k }}}}.")), context],
            json!({"k": "x"}),
        )
    };
    assert!(with("input: {properties: {k: {type: string}}}").contains("schema_conflict"));
    assert_eq!(with("input: {override: [k], properties: {k: {type: string}}}"), "system: Own x.\n\nA.");
    assert_eq!(
        with("input: {override: k, properties: {k: {type: string}}}\noverride: [z]"),
        "system: Own x.\n\nA."
    );
    insta::assert_snapshot!(with("input: {override: {k: true}}"), @"prompts/p.md:3:19 file_invalid: `input.override`: expected a text, found a map");
    let project = super::support::project(&[(
        "prompts/p.md",
        "---\ninput: {override: [k], properties: {k: {}}}\n---\n",
    )]);
    assert!(project.prompt("p").unwrap().input_schema().get("override").is_none());
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

#[test]
fn the_id_of_a_context_is_its_file_name_whatever_folder_it_is_in() {
    let files = |other: &str| {
        let prompt = "---\nuse: [sub/a, other/a]\n---\nOwn.";
        let files = [("prompts/p.md", prompt), ("contexts/sub/a.md", "A."), ("contexts/other/a.md", other)];
        contexture_project::Project::from_files(std::sync::Arc::new(contexture_project::InMemory::new(files)))
    };
    let project = files("B.").expect("it is read");
    let fault = &project.prompt("p").expect_err("two ids").faults[0];
    assert_eq!(fault.code, "duplicate_id");
    assert!(fault.message.contains("contexts/sub/a.md") && fault.message.contains("contexts/other/a.md"));

    let project = files("---\nid: b\n---\nB.").expect("it is read");
    let prompt = project.prompt("p").expect("two ids");
    let pass = futures::executor::block_on(prompt.resolve(Default::default())).expect("it resolves");
    let sources: Vec<String> = pass.explain().parts.into_iter().map(|it| it.source).collect();
    assert_eq!(sources, ["prompt", "context:a", "context:b"]);
}
