//! Partials: found beside the file, then in `partials/`.

use serde_json::json;

use super::support::{faults, resolved};

#[test]
fn the_folder_of_the_file_comes_before_the_shared_one() {
    let files = [
        ("prompts/p.md", "{% render 'sign' %} {% render 'shared', name: input.n %} {% render 'deep/er' %}"),
        ("prompts/sign.liquid", "near"),
        ("partials/sign.md", "far"),
        ("partials/shared.md", "Hi {{ name }}\n"),
        ("partials/deep/er.liquid", "{% render 'sign' %}!"),
    ];
    insta::assert_snapshot!(resolved(&files, json!({"n": "Ada"})), @"system: near Hi Ada near!");
}

#[test]
fn a_context_finds_partials_beside_itself() {
    let files = [
        ("prompts/p.md", "---\nuse: [sub/a]\n---\nOwn."),
        ("contexts/sub/a.md", "A {% render 'x' %}"),
        ("contexts/sub/x.liquid", "beside"),
    ];
    insta::assert_snapshot!(resolved(&files, json!({})), @r"
    system: Own.

    A beside
    ");
}

#[test]
fn missing_and_broken_partials_are_found_at_load() {
    let files = [
        (
            "prompts/p.md",
            "Hi\n  {% render 'gone' %}{% render 'broken' %}{% render 'chain' %}{% render '../../etc/passwd' %}",
        ),
        ("partials/broken.md", "ok\n{{ x | nope }}"),
        ("partials/chain.md", "{% render 'lost' %}"),
    ];
    insta::assert_snapshot!(faults(&files), @r"
    partials/broken.md:2:8 template_error: unknown filter `nope`
    partials/chain.md:1:1 template_error: there is no partial `lost` [write it to `partials/lost.md` or `prompts/lost.liquid`]
    prompts/p.md:2:3 template_error: there is no partial `gone` [write it to `partials/gone.md` or `prompts/gone.liquid`]
    prompts/p.md:2:63 template_error: there is no partial `../../etc/passwd`
    ");
}

#[test]
fn an_error_inside_a_partial_names_its_file() {
    let files = [("prompts/p.md", "{% render 'x' %}"), ("partials/x.md", "a\n {{ input.nope }}")];
    insta::assert_snapshot!(resolved(&files, json!({})), @"partials/x.md:2:5 template_error: undefined variable `input.nope` [declare it in `input`, or guard it with `{% if %}` or the `default` filter]");
}

#[test]
fn partials_that_render_each_other_end_in_an_error() {
    let files = [
        ("prompts/p.md", "{% render 'a' %}"),
        ("partials/a.md", "{% render 'b' %}"),
        ("partials/b.md", "{% render 'a' %}"),
    ];
    let text = resolved(&files, json!({}));
    assert!(text.contains("template_error") && text.contains(": a -> b -> a"), "{text}");
}
