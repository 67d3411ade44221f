//! Blocks: files of `blocks/`, which prompts they apply to, and what is wrong with them.

use serde_json::json;

use super::support::{faults, listed, project, resolved};

/// Lists everything that `lint` finds.
fn linted(files: &[(&str, &str)]) -> String {
    project(files).lint().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_block_applies_to_all_prompts_or_to_those_it_lists() {
    let files = [
        ("prompts/p.md", "---\nuse: [c]\n---\nOwn."),
        ("prompts/deep/q.md", "---\nid: q\n---\nOther."),
        ("contexts/c.md", "Context."),
        ("blocks/house_rules.md", "Be kind to {{ ctx.user | default: 'all' }}.\n"),
        (
            "blocks/a.md",
            "---\nname: brand\norder: -1\ndescription: Who we are.\ntags: [x]\nttl: 5m\n---\nBoots <b>.",
        ),
        ("blocks/live.md", "---\nmode: real_time\nraw: true\ntype: static\n---\n<b>Live</b>"),
        ("blocks/theirs.md", "---\nagents: q\n---\nTheirs."),
        ("blocks/off.md", "---\nenabled: false\n---\nOff."),
        ("blocks/page.md", "---\nmessage: user\nscope: turn\n---\nPage {{ input.page }}"),
    ];
    insta::assert_snapshot!(resolved(&files, json!({"page": 7})), @"
    system: Own.

    <brand>
    Boots &lt;b&gt;.
    </brand>

    <house-rules>
    Be kind to all.
    </house-rules>

    Context.

    <live>
    <b>Live</b>
    </live>
    user: <system-context>
    <page>
    Page 7
    </page>
    </system-context>
    ");
    let project = project(&files);
    let options = contexture_compose::ResolveOptions::new(json!({"page": 1}));
    let pass = futures::executor::block_on(project.prompt("q").expect("a prompt").resolve(options));
    let system = pass.expect("it resolves").request().messages[0].clone();
    insta::assert_snapshot!(system.as_text().expect("a text"), @"
    Other.

    <brand>
    Boots &lt;b&gt;.
    </brand>

    <house-rules>
    Be kind to all.
    </house-rules>

    <theirs>
    Theirs.
    </theirs>

    <live>
    <b>Live</b>
    </live>
    ");
}

#[test]
fn a_prompt_that_names_a_block_has_it_there_and_once() {
    let files = [
        (
            "prompts/p.md",
            "---\nuse:\n  - {block: live}\n  - context: {id: c, text: C.}\n  - {when: input.rules, use: {block: house-rules}}\n  - {block: live}\n---\nOwn.",
        ),
        ("blocks/live.md", "---\nmode: real_time\n---\nLive."),
        ("blocks/house_rules.md", "Be kind."),
    ];
    insta::assert_snapshot!(resolved(&files, json!({"rules": false})), @"
    system: Own.

    <live>
    Live.
    </live>

    C.
    ");
    insta::assert_snapshot!(resolved(&files, json!({"rules": true})), @"
    system: Own.

    <house-rules>
    Be kind.
    </house-rules>

    <live>
    Live.
    </live>

    C.
    ");
}

#[test]
fn fields_that_a_block_does_not_have_are_refused_by_name() {
    let files = [
        ("prompts/p.md", "Own."),
        (
            "blocks/b.md",
            "---\nname: System_Context\ncontent: x\ntemplate: x\nsource: x\nkind: static\nbody: x\nmesage: user\nmode: realtime\ntype: dynamic\norder: first\nagents: [p, P2]\n---\n{{ x",
        ),
    ];
    insta::assert_snapshot!(faults(&files), @"
    blocks/b.md:2:7 tag_name_reserved: `name`: `System_Context` is the reserved tag name `system-context` [rename the key, such as `system-context-notes`]
    blocks/b.md:3:1 unknown_field: unknown field `content` [the text of a block is the body of its file, below the front matter]
    blocks/b.md:4:1 unknown_field: unknown field `template` [the text of a block is the body of its file, below the front matter; it is a template]
    blocks/b.md:5:1 unknown_field: unknown field `source` [a file says everything itself; a block with another source is written in Rust]
    blocks/b.md:6:1 unknown_field: unknown field `kind` [the position of a block is set by `message`, `scope` and `mode`]
    blocks/b.md:7:1 unknown_field: unknown field `body` [the text of a block is the body of its file, below the front matter]
    blocks/b.md:8:1 unknown_field: unknown field `mesage` [did you mean `message`?]
    blocks/b.md:9:7 file_invalid: `mode`: expected `cached` or `real_time`, found `realtime`
    blocks/b.md:10:7 file_invalid: `type`: expected `static`, found the text `dynamic` [a file is a static block; functions are written in Rust, and inline blocks come with a request]
    blocks/b.md:11:8 file_invalid: `order`: expected a whole number, found the text `first`
    blocks/b.md:12:13 unknown_prompt: `agents`: there is no prompt `P2` [did you mean `p`?]
    blocks/b.md:14:1 template_error: output `{{` is not closed by `}}`
    ");
}

#[test]
fn entries_that_name_no_block_or_two_are_faults() {
    let files = [
        (
            "prompts/p.md",
            "---\nuse:\n  - block: ruels\n  - block: twice\n  - {block: rules, priority: 5}\n---\nOwn.",
        ),
        ("blocks/rules.md", "R."),
        ("blocks/a.md", "---\nname: twice\nagents: [q]\n---\nA."),
        ("blocks/b.md", "---\nname: Twice\nagents: [q]\n---\nB."),
        ("prompts/q.md", "Q."),
    ];
    insta::assert_snapshot!(faults(&files), @"
    prompts/p.md:3:12 unknown_entry: there is no block `ruels` [did you mean `rules`?]
    prompts/p.md:4:12 duplicate_id: two blocks have the name `twice`: blocks/a.md and blocks/b.md [give one of them another `name`]
    prompts/p.md:5:20 unknown_field: `use[2]`: unknown field `priority` [known fields: block]
    ");
    let error = project(&files).prompt("q").map(|_| ()).expect_err("two blocks have one name");
    insta::assert_snapshot!(listed(&error.faults), @"blocks/b.md:2:7 duplicate_id: two different entries have the id `twice`: blocks/a.md and blocks/b.md [rename one of them, or use the same entry twice: it renders once]");
}

#[test]
fn lint_looks_at_blocks() {
    let files = [
        (
            "prompts/p.md",
            "---\ninput: {type: object, properties: {a: {type: string}}}\nuse: [{block: live}, c]\n---\nOwn.",
        ),
        ("contexts/c.md", "Static."),
        ("blocks/live.md", "---\nmode: real_time\n---\n{{ input.a }}"),
        ("blocks/empty.md", "---\nmessage: user\n---\n"),
        ("blocks/cached.md", "{{ input.b }}"),
        ("blocks/clock.md", "---\nscope: turn\n---\n{{ ctx.now }}"),
        ("blocks/broken.md", "---\nx: 1\nenabled: false\nagents: p\n---\n"),
    ];
    insta::assert_snapshot!(linted(&files), @"
    blocks/broken.md:1:1: warning[empty_block]: the block has no text
    blocks/broken.md:2:1: error[unknown_field]: unknown field `x`
    blocks/cached.md:1:1: warning[cached_volatile]: block:cached is `cached` but reads `input.b`: a thread keeps what it said first
    blocks/cached.md:1:4: warning[input_undeclared]: `input.b` is read, but no `input` schema declares it
    blocks/clock.md:1:1: warning[cache_order]: block:clock changes each turn and precedes the history: caches cannot keep the history
    blocks/empty.md:1:1: warning[empty_block]: the block has no text
    prompts/p.md:3:22: warning[cache_order]: context:c never changes but follows block:live, which changes each turn: caches cannot keep it
    ");
}

#[test]
fn a_project_lists_its_blocks_and_finds_them_in_any_spelling() {
    let files =
        [("prompts/p.md", "Own."), ("blocks/house_rules.md", "R."), ("blocks/x.md", "---\nkind: y\n---\n")];
    let project = project(&files);
    let list: Vec<String> = project
        .blocks()
        .map(|(file, block)| match block {
            Ok(block) => format!("{file} {}", block.definition().name),
            Err(err) => format!("{file} {}", err.faults[0].message),
        })
        .collect();
    assert_eq!(list, ["blocks/house_rules.md house_rules", "blocks/x.md unknown field `kind`"]);
    assert!(project.block("houseRules").is_ok() && project.block("x").is_err());
    let unknown = project.block("house-ruls").map(|_| ()).expect_err("there is none");
    insta::assert_snapshot!(listed(&unknown.faults), @" unknown_entry: there is no block `house-ruls`; there are: house-rules, x [did you mean `house-rules`?]");
}

#[test]
fn a_template_that_fails_in_a_block_is_told_with_its_file() {
    let files = [("prompts/p.md", "Own."), ("blocks/b.md", "---\norder: 1\n---\nA\n{{ input.none }}")];
    insta::assert_snapshot!(resolved(&files, json!({})), @"blocks/b.md:5:4 template_error: undefined variable `input.none` [declare it in `input`, or guard it with `{% if %}` or the `default` filter]");
}
