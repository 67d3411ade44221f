//! No text makes a project panic.

use std::sync::Arc;

use contexture_project::{Config, InMemory, Project};
use proptest::prelude::*;

/// Reads a project of arbitrary texts and does everything with it that can be done.
fn read(prompt: &str, context: &str, other: &str) {
    let files = InMemory::new([
        ("prompts/p.md", prompt),
        ("contexts/a.md", context),
        ("contexts/b.md", other),
        ("capabilities/c/capability.md", context),
        ("capabilities/d/capability.md", other),
        ("partials/x.md", other),
        ("skills/s/SKILL.md", context),
        ("flows/f.yaml", prompt),
        ("flows/deep/g.yml", other),
    ]);
    let mut project = Project::from_files(Arc::new(files)).unwrap();
    let _ = project.prompt("p").map_err(|it| it.to_string());
    let _ = project.lint();
    project.reload().unwrap();
    let _ = Config::parse(other);
}

/// Pieces that mean something to the reader.
fn fragment() -> impl Strategy<Value = String> {
    let pieces = [
        "---\n",
        "\n",
        "use: ",
        "[a, b]",
        "- ",
        "  ",
        "when: input.x",
        "match: input.y",
        "cases: {a: b}",
        "default: a",
        "context: ",
        "{id: x, text: '{{ input.z }}'}",
        "transforms: ",
        "[without_media, {last_turns: 2}, {redact: [email, {name: x, pattern: '['}]}]",
        "providers: ",
        "[date, {identity: '{{ x }}'}, {workspace: ../..}, {text: x}, {http: {url: 'https://x/{a}'}}]",
        "{capability: c}",
        "{capability: d, preset: x}",
        "{defaults: {memory: true}}",
        "{injectable: {id: i, text: x}}",
        "{provider: {text: {text: x}}}",
        "presets: ",
        "{x: {values: {n: 1}}}",
        "blocks: ",
        "values: ",
        "settings: {temperature: 1}",
        "priority: 50",
        "tools: [{name: t}]",
        "&a ",
        "*a",
        "<<: ",
        "? ",
        ": ",
        "| \n",
        "> \n",
        "\"",
        "'",
        "{",
        "}",
        "[",
        "]",
        "!!str ",
        "!x ",
        "0x1f",
        "1e999",
        ".nan",
        "~",
        "<system>",
        "</system>",
        "<user>\n",
        "</user>",
        "<context>",
        "{{ ",
        " }}",
        "{% render 'x' %}",
        "{% if %}",
        "é",
        "\u{feff}",
        "\r\n",
        "\t",
        "\u{0}",
        "%YAML 1.2\n",
        "...\n",
        "# c\n",
        "a",
        "b",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..25).prop_map(|it| it.concat())
}

fn text() -> impl Strategy<Value = String> {
    let front = (fragment(), fragment()).prop_map(|(front, body)| format!("---\n{front}\n---\n{body}"));
    let keyed = (fragment(), fragment())
        .prop_map(|(one, other)| format!("---\nuse:\n  {one}\ncontext: {other}\n---\n"));
    prop_oneof![any::<String>(), fragment(), front, keyed]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn no_text_makes_it_panic(prompt in text(), context in text(), other in text()) {
        read(&prompt, &context, &other);
    }

    #[test]
    fn no_override_makes_it_panic(key in "[a-z.]{0,30}|.*", value in ".*") {
        let _ = Config::default().with_overrides(&[(&key, &value)]);
    }
}
