//! Lint: errors of all files, and warnings.

use super::support::project;

/// Lints a project in memory; one finding a line.
fn linted(files: &[(&str, &str)]) -> String {
    let line = |it: contexture_project::Lint| {
        let hint = it.hint.as_ref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        format!("{it}{hint}")
    };
    project(files).lint().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_good_project_is_quiet() {
    let files = [
        (
            "prompts/p.md",
            "---\ninput: {type: object, properties: {a: {type: object, properties: {b: {type: array}}}}}\nuse: [c]\n---\n{{ input.a.b.size }} {{ input.a.b.first }} {% for x in input.a.b %}{{ x.y }}{% endfor %}",
        ),
        ("contexts/c.md", "C {{ input.a.b.size }}."),
        ("skills/s/SKILL.md", "---\nname: s\ndescription: Does it.\n---\nDo it."),
        ("flows/f.yaml", "nodes: {a: {type: transform, template: A}}\nedges: [start -> a]"),
        ("partials/x.md", "X"),
    ];
    assert_eq!(linted(&files), "");
}

#[test]
fn errors_of_files_that_nobody_uses_are_found() {
    let files = [
        ("contexts/lonely.md", "---\nprio: 1\n---\n"),
        ("partials/broken.md", "{{ x"),
        ("flows/f.yaml", "a: [\n"),
        ("blocks/b.md", "---\n- x\n---\n"),
        ("skills/s/SKILL.md", "---\na: b: c\n---\n"),
    ];
    insta::assert_snapshot!(linted(&files), @r"
    blocks/b.md:1:1: warning[empty_block]: the block has no text
    blocks/b.md:2:1: error[file_invalid]: the front matter must be a map of fields, found a list
    contexts/lonely.md:1:1: warning[context_unused]: no prompt uses the context `lonely`
    contexts/lonely.md:1:1: warning[empty_context]: the context says nothing: it has no text, values, tools or entries
    contexts/lonely.md:2:1: error[unknown_field]: unknown field `prio` [did you mean `priority`?]
    flows/f.yaml:1:4: error[file_invalid]: this is not YAML: unclosed bracket '[' [close it, or put quotes around the text that it belongs to]
    partials/broken.md:1:1: error[template_error]: output `{{` is not closed by `}}`
    skills/s/SKILL.md:2:5: error[file_invalid]: this is not YAML: mapping values are not allowed in this context [put quotes around a text that holds `: `]
    ");
}

#[test]
fn variables_that_no_schema_declares_are_found_in_all_files() {
    let files = [
        (
            "prompts/p.md",
            "---\ninput: {type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}\nuse: [c, {when: input.flag, use: c}]\n---\n{{ input.a.b }} {{ input.a.c }} {{ input.x }}",
        ),
        (
            "contexts/c.md",
            "---\ninput: {type: object, properties: {d: {type: string}}}\nvalues: {k: '{{ input.e }}'}\n---\n{{ input.d }} {% render 'q' %}",
        ),
        ("partials/q.md", "{{ input.f }}"),
    ];
    insta::assert_snapshot!(linted(&files), @r"
    contexts/c.md:3:17: warning[input_undeclared]: `input.e` is read, but no `input` schema declares it [declare it, so that a missing value is found before the template runs]
    partials/q.md:1:4: warning[input_undeclared]: `input.f` is read, but no `input` schema declares it [declare it, so that a missing value is found before the template runs]
    prompts/p.md:3:17: warning[input_undeclared]: `input.flag` is read, but no `input` schema declares it [declare it, so that a missing value is found before the template runs]
    prompts/p.md:5:20: warning[input_undeclared]: `input.a.c` is read, but no `input` schema declares it [declare it, so that a missing value is found before the template runs]
    prompts/p.md:5:36: warning[input_undeclared]: `input.x` is read, but no `input` schema declares it [declare it, so that a missing value is found before the template runs]
    ");
    assert_eq!(
        linted(&[("prompts/p.md", "{{ input.x }}")]),
        "",
        "a prompt without any schema takes any object"
    );
}

#[test]
fn keys_that_the_context_section_does_not_read_are_found() {
    let files = [
        (
            "prompts/p.md",
            "---\ncontext: {userName: a, docs: b, role_play: c}\nuse: [c]\n---\n<system>S</system>\n<context>{{ config.context.user-name }}</context>",
        ),
        ("contexts/c.md", "---\nvalues: {extra: x}\n---\n"),
    ];
    insta::assert_snapshot!(linted(&files), @r"
    contexts/c.md:2:10: warning[context_unread]: the `<context>` section does not read `extra`, so it is not in the prompt [add `{{ config.context.extra }}` to the section]
    prompts/p.md:2:24: warning[context_unread]: the `<context>` section does not read `docs`, so it is not in the prompt [add `{{ config.context.docs }}` to the section]
    prompts/p.md:2:33: warning[context_unread]: the `<context>` section does not read `role_play`, so it is not in the prompt [add `{{ config.context.role-play }}` to the section]
    ");
    let all =
        "---\ncontext: {a: b}\n---\n<context>{% for x in config.context %}{{ x }}{% endfor %}</context>";
    assert_eq!(linted(&[("prompts/p.md", all)]), "");
}

#[test]
fn a_static_entry_behind_a_changing_one_is_found() {
    let files = [
        (
            "prompts/p.md",
            "---\nuse:\n  - a\n  - b\n  - c\n  - context: {id: note, text: Note.}\n  - d\n---\nOwn.",
        ),
        ("contexts/a.md", "A {{ input.x }}"),
        ("contexts/b.md", "B."),
        ("contexts/c.md", "---\ncached: true\n---\nC."),
        ("contexts/d.md", "---\nmessage: user\n---\nD."),
    ];
    insta::assert_snapshot!(linted(&files), @r"
    prompts/p.md:4:5: warning[cache_order]: context:b never changes but follows context:a, which changes each turn: caches cannot keep it [set `cached: true`, or move it to the front of `use`]
    prompts/p.md:6:14: warning[cache_order]: context:note never changes but follows context:a, which changes each turn: caches cannot keep it [set `cached: true`, or move it to the front of `use`]
    ");
    let own = [
        ("prompts/p.md", "---\nuse: [b, c, v]\n---\nOwn {{ input.x }}."),
        files[2],
        files[3],
        ("contexts/v.md", "---\nvalues: {v: x}\n---\n"),
    ];
    insta::assert_snapshot!(linted(&own), @r"
    prompts/p.md:2:7: warning[cache_order]: context:b never changes but follows the prompt's own text, which changes each turn: caches cannot keep it [move what changes out of the prompt's own text, such as to a context behind the others]
    prompts/p.md:2:10: warning[cache_order]: context:c never changes but follows the prompt's own text, which changes each turn: caches cannot keep it [move what changes out of the prompt's own text, such as to a context behind the others]
    ");
    let mut arranged = files;
    arranged[0].1 = "---\ncache: {arrange: cache_first}\nuse: [a, b, c, d]\n---\nOwn.";
    assert_eq!(linted(&arranged), "");
}

#[test]
fn small_slips_are_found() {
    let files = [
        ("prompts/empty.md", ""),
        (
            "prompts/p.md",
            "---\ntools: [{name: find}]\nuse: [now, nothing]\n---\n<system>S</system><user>U</user>",
        ),
        ("contexts/now.md", "---\nid: n\ncached: true\n---\nIt is {{ ctx.now }}."),
        ("contexts/nothing.md", "\n"),
        ("contexts/unused.md", "U."),
        ("skills/s/SKILL.md", "---\nname: s\n---\n"),
    ];
    insta::assert_snapshot!(linted(&files), @r"
    contexts/nothing.md:1:1: warning[empty_context]: the context says nothing: it has no text, values, tools or entries
    contexts/now.md:3:1: warning[cached_volatile]: context:n is `cached` but reads `ctx.now`, which changes from turn to turn [remove `cached`, or move what changes to a context of its own]
    contexts/unused.md:1:1: warning[context_unused]: no prompt uses the context `unused`
    prompts/empty.md:1:1: warning[empty_prompt]: the prompt has no text
    prompts/p.md:2:9: warning[tool_undescribed]: tool `find` has no description [a model decides by the description whether to call a tool]
    prompts/p.md:5:19: warning[section_overlooked]: `<user>` does not start a line, so it is not a section and its text is ignored [begin a new line before the tag]
    skills/s/SKILL.md:2:1: error[file_invalid]: `description` is missing
    ");
}

#[test]
fn a_user_text_that_is_filled_from_defaults_is_told() {
    let prompt = |schema: &str| {
        format!(
            "---\ninput: {schema}\n---\n<system>\nBe kind.\n</system>\n\n<user>\n{{{{ input.question }}}}\n</user>\n"
        )
    };
    let defaulted = prompt("{type: object, properties: {question: {type: string, default: Where is it?}}}");
    insta::assert_snapshot!(linted(&[("prompts/p.md", &defaulted)]), @"prompts/p.md:9:4: warning[user_text_default]: the user text is filled from defaults (`input.question`): `chat` and the server may send it beside the user's message [remove the user text and pass `--user`, or remove the default so that callers must say it]");
    assert_eq!(
        linted(&[(
            "prompts/p.md",
            &prompt("{type: object, properties: {question: {type: string}}, required: [question]}")
        )]),
        ""
    );
}

#[test]
fn variables_that_no_template_is_given_are_found() {
    let files = [
        (
            "prompts/p.md",
            "---\nuse: [c]\n---\n{% assign x = 1 %}{{ x }} {{ inpt.a }} {{ ctx.usr }} {{ config.model }}{% render 'q', name: 'n' %}",
        ),
        ("contexts/c.md", "{{ weather }}"),
        ("partials/q.md", "{{ name }}"),
    ];
    insta::assert_snapshot!(linted(&files), @"
    contexts/c.md:1:4: warning[variable_unknown]: there is no variable `weather` [there are: input, ctx, config]
    prompts/p.md:4:30: warning[variable_unknown]: there is no variable `inpt.a` [did you mean `input`?]
    prompts/p.md:4:43: warning[variable_unknown]: there is no variable `ctx.usr` [did you mean `user`?]
    ");
}
