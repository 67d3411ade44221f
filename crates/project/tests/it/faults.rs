//! Every kind of fault says what is wrong, and where.

use super::support::{faults, faults_of, listed, project};

#[test]
fn an_unknown_field_is_named_with_its_place_and_the_nearest_name() {
    insta::assert_snapshot!(faults_of("---\nid: p\ntemprature: 1\nsetings: {}\n---\nOwn."), @r"
    prompts/p.md:3:1 unknown_field: unknown field `temprature` [did you mean `temperature` under `settings`?]
    prompts/p.md:4:1 unknown_field: unknown field `setings` [did you mean `settings`?]
    ");
}

#[test]
fn unknown_fields_are_found_at_every_depth_and_all_at_once() {
    let text = "---\nsettings: {temperture: 1, max_tokens: many}\nbudget:\n  tokens: 5\nhistory: {limit: {turn: 3}}\nadapt:\n  openai: {sytem: {}}\n---\nOwn.";
    insta::assert_snapshot!(faults_of(text), @"
    prompts/p.md:2:12 unknown_field: `settings`: unknown field `temperture` [did you mean `temperature`?]
    prompts/p.md:2:39 file_invalid: `settings.max_tokens`: expected a whole number from 0 on, found the text `many`
    prompts/p.md:4:3 unknown_field: `budget`: unknown field `tokens` [known fields: token_budget, input_budget, fill]
    prompts/p.md:5:18 file_invalid: `history.limit`: expected a number, `{turns: N}` or `{tokens: N}`
    prompts/p.md:7:12 unknown_field: `adapt.openai`: unknown field `sytem` [known fields: prepend_system, append_system, prepend_prompt, append_prompt, settings, tool_choice]
    ");
}

#[test]
fn wrong_values_are_named_with_their_field() {
    let text = "---\nid: [a]\ntags: {a: b}\nmodel: 5\nsystem: {a: b}\nmessages: [{role: robot, content: hi}, {role: user}]\ntools: [{description: x}, {name: t, parameters: 5}]\ntool_choice: sometimes\nstop_when: [{max_steps: lots}]\nconstraints: [{mode: assert}]\nguardrails: no\ninput: yes\ncache: {arrange: backwards}\ntests: 1\n---\n";
    insta::assert_snapshot!(faults_of(text), @"
    prompts/p.md:2:5 file_invalid: `id`: expected a text, found a list
    prompts/p.md:3:7 file_invalid: `tags`: expected a text, found a map
    prompts/p.md:4:8 file_invalid: `model`: expected a text, found `5`
    prompts/p.md:5:9 file_invalid: `system`: expected a text, found a map
    prompts/p.md:6:19 file_invalid: `messages[0].role`: expected `system` or `user` or `assistant` or `tool`, found `robot`
    prompts/p.md:6:40 file_invalid: `messages[1]`: `content` is missing
    prompts/p.md:7:9 file_invalid: `tools[0]`: `name` is missing
    prompts/p.md:7:49 file_invalid: `tools[1].parameters`: expected the JSON Schema of an object, such as `{type: object}`
    prompts/p.md:8:14 file_invalid: `tool_choice`: expected `auto` or `none` or `required` or `tool`, found `sometimes`
    prompts/p.md:9:25 file_invalid: `stop_when[0].max_steps`: expected a whole number from 0 on, found the text `lots`
    prompts/p.md:10:15 file_invalid: `constraints[0]`: `id` is missing
    prompts/p.md:11:13 file_invalid: `guardrails`: expected a list, found the text `no`
    prompts/p.md:12:8 file_invalid: `input`: expected a map, found the text `yes`
    prompts/p.md:13:18 file_invalid: `cache.arrange`: expected `author` or `cache_first`, found `backwards`
    prompts/p.md:14:8 file_invalid: `tests`: expected a list, found `1`
    ");
}

#[test]
fn wrong_values_of_a_context_are_named_with_its_file() {
    let context = "---\npriority: 101\npinned: maybe\nmax_tokens: -1\nmessage: assistant\nscope: forever\ndeadline: 2\nremember: soon\non_error: shrug\ntrust: blind\nvalues: [a]\ntext: hi\n---\nA.";
    let files = [("prompts/p.md", "---\nuse: [a]\n---\nOwn."), ("contexts/a.md", context)];
    insta::assert_snapshot!(faults(&files), @"
    contexts/a.md:2:11 file_invalid: `priority`: priority 101 is outside 0 to 100 [priorities go from 0 (dropped first) to 100]
    contexts/a.md:3:9 file_invalid: `pinned`: expected `true` or `false`, found the text `maybe`
    contexts/a.md:4:13 file_invalid: `max_tokens`: expected a whole number from 0 on, found `-1`
    contexts/a.md:5:10 file_invalid: `message`: expected `system` or `user`, found `assistant`
    contexts/a.md:6:8 file_invalid: `scope`: expected `conversation` or `turn`, found `forever`
    contexts/a.md:7:11 file_invalid: `deadline`: expected a duration such as `2s` or `500ms`, found `2`
    contexts/a.md:8:11 file_invalid: `remember`: expected a duration such as `2s` or `500ms`, found the text `soon`
    contexts/a.md:9:11 file_invalid: `on_error`: expected `fail` or `skip`, found `shrug`
    contexts/a.md:10:8 file_invalid: `trust`: expected `developer` or `user` or `external`, found `blind`
    contexts/a.md:11:9 file_invalid: `values`: expected a map, found a list
    contexts/a.md:12:1 unknown_field: unknown field `text`: the text of a context file is its body
    ");
}

#[test]
fn a_name_of_the_other_kind_of_file_is_guessed() {
    let files = [
        ("prompts/p.md", "---\nuse: [a]\nvalues: {a: b}\n---\nOwn."),
        ("contexts/a.md", "---\ncontext: {a: b}\n---\n"),
    ];
    insta::assert_snapshot!(faults(&files), @r"
    contexts/a.md:2:1 unknown_field: unknown field `context` [did you mean `values`?]
    prompts/p.md:3:1 unknown_field: unknown field `values` [did you mean `context`?]
    ");
}

#[test]
fn faults_of_all_files_come_together_in_order() {
    let files = [
        ("prompts/p.md", "---\nuse: [b, a]\nmodle: x\n---\n{{ input.x | nope }}"),
        ("contexts/a.md", "---\nx: 1\n---\n"),
        ("contexts/b.md", "---\nuse: [a, c]\n---\n{% if %}"),
    ];
    insta::assert_snapshot!(faults(&files), @r"
    contexts/a.md:2:1 unknown_field: unknown field `x` [known fields: id, description, priority, pinned, max_tokens, shorter, cached, message, scope, when, input, use, tools, values, constraints, guardrails, deadline, on_error, remember, trust, text]
    contexts/b.md:2:10 unknown_entry: there is no context `c`, no file `contexts/c.md` [write `contexts/c.md`, or an inline `context:`]
    contexts/b.md:4:6 template_error: expected a value, found the end
    prompts/p.md:3:1 unknown_field: unknown field `modle` [did you mean `model`?]
    prompts/p.md:5:14 template_error: unknown filter `nope`
    ");
}

#[test]
fn front_matter_that_is_not_yaml_is_placed() {
    insta::assert_snapshot!(faults_of("---\na: [1\nb: 2\n---\n"), @"prompts/p.md:3:2 file_invalid: this is not YAML: illegal placement of ':' indicator [close every bracket and quote before this place]");
    insta::assert_snapshot!(faults_of("---\nsystem: {{ input.x }}\n---\n"), @"prompts/p.md:2:10 file_invalid: a key must be a single word or text, not a list or map [put quotes around a value that begins with `{{` or `{%`]");
    insta::assert_snapshot!(faults_of("---\ndescription: One: two\n---\n"), @"prompts/p.md:2:17 file_invalid: this is not YAML: mapping values are not allowed in this context [put quotes around a text that holds `: `]");
    insta::assert_snapshot!(faults_of("---\ninput:\n\ttype: object\n---\n"), @"prompts/p.md:3:2 file_invalid: this is not YAML: tabs disallowed within this context (block indentation) [indent with spaces, not with tabs]");
    insta::assert_snapshot!(faults_of("---\nsystem: \"Hi\n---\n"), @"prompts/p.md:3:1 file_invalid: this is not YAML: invalid indentation in multiline quoted scalar [close every bracket and quote before this place]");
    insta::assert_snapshot!(faults_of("---\n- a\n---\n"), @"prompts/p.md:2:1 file_invalid: the front matter must be a map of fields, found a list");
    insta::assert_snapshot!(faults_of("---\nid: p\nNo end."), @"prompts/p.md:1:1 file_invalid: the front matter is not closed [end it with a line `---`, or begin the file with an empty line]");
    insta::assert_snapshot!(faults_of("---\nid: p\ntags: [a]\nid: q\n---\n"), @"prompts/p.md:4:1 file_invalid: key `id` appears on line 2 and again on line 4");
    insta::assert_snapshot!(faults_of("---\nid: !secret p\n---\n"), @"prompts/p.md:2:13 file_invalid: the YAML tag `!secret` is not supported");
    insta::assert_snapshot!(faults_of("---\ntags: .inf\n---\n"), @"prompts/p.md:2:7 file_invalid: `.inf` is not a number that JSON has");
    insta::assert_snapshot!(faults_of("---\n? [a]\n: b\n---\n"), @"prompts/p.md:2:3 file_invalid: a key must be a single word or text, not a list or map");
    insta::assert_snapshot!(faults_of("---\ntags: &a [*a]\n---\n"), @"prompts/p.md:2:11 file_invalid: an alias is inside the value that it repeats");
}

#[test]
fn aliases_can_not_blow_a_file_up() {
    let mut text = "---\na: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (level, name) in ('b'..='z').enumerate() {
        let before = char::from(b'a' + u8::try_from(level).unwrap());
        let repeated = vec![format!("*{before}"); 10].join(", ");
        text.push_str(&format!("{name}: &{name} [{repeated}]\n"));
    }
    let faults = faults_of(&(text + "---\n"));
    assert!(faults.contains("aliases repeat more than 1048576 bytes"), "{faults}");
}

#[test]
fn nesting_is_bounded() {
    for text in [format!("---\ntests: {}\n---\n", "[".repeat(10_000)), nested_block(2_000), nested_uses(60)] {
        let faults = faults_of(&text);
        assert!(faults.contains("deep") || faults.contains("nest"), "{faults}");
    }
}

fn nested_block(depth: usize) -> String {
    let lines: Vec<String> = (0..depth).map(|it| format!("{}a:", " ".repeat(it))).collect();
    format!("---\n{}\n---\n", lines.join("\n"))
}

fn nested_uses(depth: usize) -> String {
    format!("---\nuse: {}null{}\n---\n", "{when: input.a, use: ".repeat(depth), "}".repeat(depth))
}

#[test]
fn hooks_are_refused_with_a_reason() {
    insta::assert_snapshot!(faults_of("---\nhooks: {}\n---\nOwn."), @"prompts/p.md:2:1 file_invalid: `hooks` are functions: a file can't hold them [add them to the prompt's definition in Rust]");
}

#[test]
fn template_errors_name_the_place_in_the_file() {
    insta::assert_snapshot!(faults_of("---\nid: p\n---\n\nHello\n  {{ input.a | nope }}"), @"prompts/p.md:6:16 template_error: unknown filter `nope`");
    insta::assert_snapshot!(faults_of("---\nsystem: \"Hi {{ x | nope }}\"\n---\n"), @"prompts/p.md:2:20 template_error: unknown filter `nope`");
    insta::assert_snapshot!(faults_of("---\nsystem: |\n  Hi\n  {{ x | nope }}\n---\n"), @"prompts/p.md:4:10 template_error: unknown filter `nope`");
    insta::assert_snapshot!(faults_of("---\ncontext: {a: [{b: '{{ x'}]}\n---\n"), @"prompts/p.md:2:20 template_error: output `{{` is not closed by `}}`");
    insta::assert_snapshot!(faults_of("---\nuse:\n  - when: input.a ==\n    use: null\n---\n"), @"prompts/p.md:3:21 template_error: expected a value, found the end");
    insta::assert_snapshot!(faults_of("<system>S</system>\n<user>a\n{{ | }}</user>"), @"prompts/p.md:3:4 template_error: expected a value, found `|`");
}

#[test]
fn template_errors_in_texts_of_several_lines_name_the_place_in_the_file() {
    let place = |front: &str| {
        let faults = faults_of(&format!("---\n{front}\n---\n"));
        faults.split(' ').next().unwrap_or_default().to_owned()
    };
    // The column is that of `nope` in all of them.
    assert_eq!(place("system: |\n\n    Hi\n      {{ x | nope }}"), "prompts/p.md:5:14");
    assert_eq!(place("system: |2\n    {{ x | nope }}"), "prompts/p.md:3:12");
    assert_eq!(place("system: |-\n  {{ x | nope }}"), "prompts/p.md:3:10");
    assert_eq!(place("system: >\n  One\n  two\n\n  three\n  {{ x | nope }}"), "prompts/p.md:7:10");
    assert_eq!(place("system: One\n  two {{ x | nope }}"), "prompts/p.md:3:14");
    assert_eq!(place("system: 'One\n\n  two {{ x | nope }}'"), "prompts/p.md:4:14");
    assert_eq!(place("system: \"One\n\n  two {{ x | nope }}\""), "prompts/p.md:4:14");
    assert_eq!(
        place("use:\n  - context:\n      text: |\n        Hi\n        {{ x | nope }}"),
        "prompts/p.md:6:16"
    );
    // With escapes only the start is known.
    assert_eq!(place("system: \"One\\n\\n{{ x | nope }}\""), "prompts/p.md:2:10");
    assert_eq!(place("system: \"One \\\n\n  {{ x | nope }}\""), "prompts/p.md:2:10");
    assert_eq!(place("use:\n  - when: |\n      input.a\n      ===\n    use: null"), "prompts/p.md:5:9");
}

#[test]
fn an_error_while_rendering_names_the_place_in_texts_of_several_lines() {
    let place = |front: &str| {
        let project = project(&[("prompts/p.md", &format!("---\n{front}\n---\n"))]);
        let prompt = project.prompt("p").unwrap();
        let options = project.options(prompt, None, None);
        let err = futures::executor::block_on(prompt.resolve(options)).map(|_| ()).unwrap_err();
        project.error(&err).faults[0].at().unwrap_or_default()
    };
    assert_eq!(place("system: |\n  Hi\n    {{ input.x }}"), "prompts/p.md:4:8");
    assert_eq!(place("system: >\n  Hi\n  {{ input.x }}"), "prompts/p.md:4:6");
    assert_eq!(place("system: \"a\\nb\\n{{ input.x }}\"\nuser: |\n  U"), "prompts/p.md:2:10");
    assert_eq!(place("system: \"a\\nb\"\nuser: '{{ input.x }}'"), "prompts/p.md:3:11");
    assert_eq!(place("system: 'Hi {{ input.x }}'"), "prompts/p.md:2:16");
}

#[test]
fn an_error_while_rendering_names_the_place_too() {
    let text = "---\ninput: {type: object}\n---\n<system>\n\nHi {{ input.nme }}</system>";
    insta::assert_snapshot!(super::support::resolved(&[("prompts/p.md", text)], serde_json::json!({})), @"prompts/p.md:6:7 template_error: undefined variable `input.nme` [declare it in `input`, or guard it with `{% if %}` or the `default` filter]");
}

#[test]
fn a_text_stands_in_one_place_only() {
    insta::assert_snapshot!(faults_of("---\nsystem: A\n---\nB"), @"prompts/p.md:2:1 file_invalid: `system` on line 2 and the text of `<system>` on line 4 are the same thing: give one");
    insta::assert_snapshot!(faults_of("---\nuser: A\n---\n<user>B</user>"), @"prompts/p.md:2:1 file_invalid: `user` on line 2 and the text of `<user>` on line 4 are the same thing: give one");
    insta::assert_snapshot!(faults_of("---\nprompt: A\nmessages: [{role: user, content: B}]\n---\n"), @"prompts/p.md:3:1 file_invalid: `prompt` on line 2 and `messages` on line 3 exclude each other: give one");
    insta::assert_snapshot!(faults_of("---\nprompt: A\nuser: B\n---\n"), @"prompts/p.md:3:1 file_invalid: `prompt` on line 2 and `user` on line 3 are the same thing: give one");
}

#[test]
fn faults_of_the_engine_are_placed_where_one_file_is_to_blame() {
    let context = "---\ninput: {type: 5}\n---\nA.";
    let files =
        [("prompts/p.md", "---\ninput: {type: nonsense}\nuse: [a]\n---\nOwn."), ("contexts/a.md", context)];
    insta::assert_snapshot!(faults(&files), @r#"
    contexts/a.md:2:1 file_invalid: the schema of context:a is invalid: 5 is not valid under any of the schemas listed in the 'anyOf' keyword
    prompts/p.md:2:1 file_invalid: the schema of prompt is invalid: "nonsense" is not valid under any of the schemas listed in the 'anyOf' keyword
    "#);
    let tool = "---\nuse:\n  - context: {id: note, tools: [{name: 'not a name'}]}\n---\nOwn.";
    insta::assert_snapshot!(faults_of(tool), @"prompts/p.md:3:40 file_invalid: `use[0].context.tools[0]`: invalid tool name `not a name`: use 1 to 64 letters, digits, `_` or `-`");
}

#[test]
fn a_wrong_tag_name_keeps_its_code() {
    let text = "---\ncontext: {user: x}\n---\nOwn.";
    let shown = super::support::resolved(&[("prompts/p.md", text)], serde_json::json!({}));
    assert!(shown.contains("tag_name_reserved"), "{shown}");
}

#[test]
fn two_files_with_one_id_are_both_named() {
    let files = [
        ("prompts/p.md", "---\nuse: [a, b]\n---\nOwn."),
        ("contexts/a.md", "---\nid: same\n---\nA."),
        ("contexts/b.md", "---\nid: same\n---\nB."),
    ];
    let error = project(&files).prompt("p").unwrap_err();
    assert_eq!(error.faults[0].code, "duplicate_id");
    assert_eq!(error.faults[0].sources, ["contexts/a.md", "contexts/b.md"]);
}

#[test]
fn two_prompts_with_one_id_are_both_named() {
    let files = [("prompts/a.md", "---\nid: same\n---\nA."), ("prompts/b.md", "---\nid: same\n---\nB.")];
    let project = project(&files);
    insta::assert_snapshot!(project.prompt("same").unwrap_err(), @"prompts/b.md:2:5: two prompts have the id `same`: prompts/a.md and prompts/b.md (give one of them another `id`)");
    assert!(project.prompt("a").is_ok(), "a path is unique");
    let files = [("prompts/p.md", "---\nid: q\n---\nP."), ("prompts/q.md", "Q.")];
    insta::assert_snapshot!(super::support::project(&files).prompt("q").unwrap_err(), @"prompts/q.md:1:1: two prompts have the id `q`: prompts/p.md and prompts/q.md (give one of them another `id`)");
    insta::assert_snapshot!(project.prompt("b").unwrap_err(), @"prompts/b.md:2:5: two prompts have the id `same`: prompts/a.md and prompts/b.md (give one of them another `id`)");
}

#[test]
fn an_unknown_prompt_lists_what_there_is() {
    let project = project(&[("prompts/support/refund.md", "A."), ("prompts/hello.md", "B.")]);
    insta::assert_snapshot!(project.prompt("support/refunds").unwrap_err(), @"there is no prompt `support/refunds`; there are: hello, support/refund (did you mean `support/refund`?)");
    for id in ["../../etc/passwd", "prompts/hello.md", "", "hello.md", "/hello", "hello\0"] {
        assert_eq!(project.prompt(id).unwrap_err().faults[0].code, "unknown_prompt", "{id}");
    }
    assert!(
        super::support::project(&[]).prompt("x").unwrap_err().to_string().contains("the project has none")
    );
}

#[test]
fn an_error_shows_its_first_fault_in_full_and_the_others_below() {
    let error =
        project(&[("prompts/p.md", "---\nid: p\nmodle: x\nsetings: y\n---\n")]).prompt("p").unwrap_err();
    insta::assert_snapshot!(error, @r"
    prompts/p.md:3:1: unknown field `modle` (did you mean `model`?)
    prompts/p.md:4:1: unknown field `setings`
    ");
}

#[test]
fn a_tool_choice_names_a_tool_that_is_there() {
    let files = |choice: &str| {
        let text = format!(
            "---\nuse: [c]\ntools: [{{name: lookup, description: x}}]\ntool_choice: {{tool: {choice}}}\nadapt:\n  openai: {{tool_choice: {{tool: {choice}}}}}\n---\nHi."
        );
        faults(&[
            ("prompts/p.md", &text),
            ("contexts/c.md", "---\ntools: [{name: refund, description: x}]\n---\nC."),
        ])
    };
    insta::assert_snapshot!(files("lokup"), @r"
    prompts/p.md:4:21 tool_unknown: `tool_choice`: there is no tool `lokup` [did you mean `lookup`?]
    prompts/p.md:6:32 tool_unknown: `adapt.openai.tool_choice`: there is no tool `lokup` [did you mean `lookup`?]
    ");
    for known in ["lookup", "refund", "read_tool_result"] {
        assert_eq!(files(known), "fine", "{known}");
    }
}

#[test]
fn tags_are_checked_when_a_project_is_loaded() {
    let of = |text: &str| faults_of(&format!("---\ncontext:\n{text}\n---\nHi."));
    insta::assert_snapshot!(of("  notes: x\n  facts: {system: y}"), @"prompts/p.md:4:11 tag_name_reserved: `system` is the reserved tag name `system`, in `prompt` at `facts.system` [rename the key, such as `system-notes`]");
    insta::assert_snapshot!(of("  - {notes: x}\n  - {1st: '{{ input.a }}'}"), @"prompts/p.md:4:6 tag_name_invalid: `1st` is not a valid name: it begins with a digit, in `prompt` at `1st` [use ASCII letters, digits, `_` and `-`, and begin with a letter]");
    insta::assert_snapshot!(of("  - {role: user, content: hi}\n  - {role: robot, content: hi}"), @"prompts/p.md:4:12 file_invalid: `context[1].role`: expected `system` or `user` or `assistant` or `tool`, found `robot` [rename the key, such as `userRole`, unless the object is a message]");
    insta::assert_snapshot!(of("  true"), @"prompts/p.md:3:3 entry_invalid: an entry is `true` where text, a message or named values can stand, in `prompt` [write what the model should read, or give the value a name, such as `{isMember: true}`]");
    assert_eq!(of("  - {role: '{{ input.role }}', content: '{{ input.text }}'}"), "fine");
}

#[test]
fn files_that_do_not_go_together_are_found_when_a_project_is_loaded() {
    let prompt = "---\nuse: [c, {context: {id: d, text: D.}}]\ninput:\n  properties:\n    plan: {type: string}\ncontext: {docs: text}\n---\nHi.";
    let with = |context: &str| faults(&[("prompts/p.md", prompt), ("contexts/c.md", context)]);
    insta::assert_snapshot!(with("---\nvalues:\n  other: x\n  docs: {a: x}\n---\n"), @"contexts/c.md:4:3 tag_shape_mismatch: `docs` is text in `prompt` and an object with nested tags in `context:c` [give `docs` only text or only nested tags in all sources, or use two names]");
    insta::assert_snapshot!(with("---\ninput: {properties: {plan: {type: integer}}}\n---\nC."), @r#"prompts/p.md:5:5 schema_conflict: input key `plan` is declared differently by prompt and context:c: `plan.type` is "string" and "integer" [make both declarations equal, or list the key under `override` in the prompt]"#);
    insta::assert_snapshot!(with("---\ndescription: x\nid: d\n---\nC."), @"prompts/p.md:2:25 duplicate_id: two different entries have the id `d`: contexts/c.md and use[1] [rename one of them, or use the same entry twice: it renders once]");
}

#[test]
fn faults_of_names_point_at_the_name() {
    insta::assert_snapshot!(
        faults_of("---\ntools:\n  - description: x\n    name: bad name\n---\n"),
        @"prompts/p.md:4:11 file_invalid: `tools[0]`: invalid tool name `bad name`: use 1 to 64 letters, digits, `_` or `-`"
    );
    let twice = "---\ndescription: x\nid: p\n---\nHi.";
    let project = project(&[("prompts/a.md", twice), ("prompts/b.md", twice)]);
    insta::assert_snapshot!(
        super::support::listed(&project.faults()),
        @"prompts/b.md:3:5 duplicate_id: two prompts have the id `p`: prompts/a.md and prompts/b.md [give one of them another `id`]"
    );
}

#[test]
fn parameters_are_the_schema_of_an_object() {
    let of = |it: &str| {
        faults_of(&format!("---\ntools:\n  - name: t\n    description: x\n    parameters: {it}\n---\nHi."))
    };
    insta::assert_snapshot!(of("{number: integer}"), @"prompts/p.md:5:17 file_invalid: `tools[0].parameters`: `number` is not a word of JSON Schema: `parameters` is the schema of an object [write `{type: object, properties: {number: {type: integer}}}`]");
    insta::assert_snapshot!(of("{type: string}"), @r#"prompts/p.md:5:17 file_invalid: `tools[0].parameters`: expected the JSON Schema of an object, found one of type "string" [write `{type: object, properties: {name: {type: string}}}`]"#);
    insta::assert_snapshot!(of("5"), @"prompts/p.md:5:17 file_invalid: `tools[0].parameters`: expected the JSON Schema of an object, such as `{type: object}`");
    for fine in [
        "{}",
        "{type: object}",
        "{properties: {n: {type: integer}}}",
        "{$ref: '#/$defs/a', $defs: {a: {type: object}}}",
    ] {
        assert_eq!(of(fine), "fine", "{fine}");
    }
    assert!(of("{type: object, properties: {n: integer}}").contains("invalid schema"));
}

#[test]
fn each_test_of_a_prompt_is_a_map() {
    insta::assert_snapshot!(faults_of("---\ntests: [1, x, {input: {}}]\n---\nHi."), @r"
    prompts/p.md:2:9 file_invalid: `tests[0]`: expected a map, found `1`
    prompts/p.md:2:12 file_invalid: `tests[1]`: expected a map, found the text `x`
    ");
}

#[test]
fn a_block_for_a_prompt_that_is_not_there_is_found_when_a_project_is_loaded() {
    let project =
        project(&[("prompts/support.md", "Hi."), ("blocks/b.md", "---\nagents: [suport]\n---\nB.")]);
    insta::assert_snapshot!(
        super::support::listed(&project.faults()),
        @"blocks/b.md:2:10 unknown_prompt: `agents`: there is no prompt `suport` [did you mean `support`?]"
    );
}

#[test]
fn a_whole_number_that_would_be_rounded_is_refused() {
    insta::assert_snapshot!(
        faults_of("---\ndescription: x\nmetadata: 1\nid: 12345678901234567890123\n---\n"),
        @"prompts/p.md:4:5 file_invalid: the number 12345678901234567890123 has too many digits to be kept exactly [put quotes around it, so that it is a text]"
    );
    assert!(
        !faults_of("---\nid: '12345678901234567890123'\ndescription: 18446744073709551615\n---\nHi.")
            .contains("digits")
    );
}

#[test]
fn what_can_be_known_to_fail_is_a_fault_before_anything_runs() {
    let field = |text: &str| faults_of(&format!("---\n{text}\n---\nText."));
    let tool = |text: &str| format!("{{name: find, description: {text}, parameters: {{type: object}}}}");
    insta::assert_snapshot!(field(&format!("use: [{{context: {{id: a, tools: [{}]}}}}]\ntools: [{}]", tool("One"), tool("Two"))), @"prompts/p.md:3:9 tool_collision: tool `find` is given by context:a and by prompt [rename one; tools given at the call site replace others of that name]");
    insta::assert_snapshot!(field("use: [{memory: {policy: {archival_min_score: 2}}}]"), @"prompts/p.md:2:46 file_invalid: `use[0].memory.policy.archival_min_score`: a score is from 0 to 1, found 2");
    insta::assert_snapshot!(field("user_message: 12"), @"prompts/p.md:2:15 file_invalid: `user_message`: expected a text, found `12`");
    let board = |rest: &str| field(&format!("use: [{{blackboard: {{id: b, {rest}}}}}]"));
    insta::assert_snapshot!(board("schema: {properties: {n: {type: string, x-merge: counter}}}"), @r#"prompts/p.md:2:25 entry_invalid: blackboard `b`: its schema has the `x-merge` "counter" on a field of type "string""#);
    insta::assert_snapshot!(board("schema: {properties: {}}, scope: galaxy"), @"prompts/p.md:2:61 file_invalid: `use[0].blackboard.scope`: expected `thread` or `session` or `user` or `tenant`, found `galaxy`");
    let bundle = |front: &str| {
        let text = format!("---\n{front}\n---\nBundle.");
        listed(
            &project(&[
                ("capabilities/b/capability.md", &text),
                ("prompts/p.md", "---\nuse: [{capability: b}]\n---\nHi."),
            ])
            .faults(),
        )
    };
    insta::assert_snapshot!(bundle("values: {one: 1, two: '{{ ctx.cap.b.one }}'}"), @"capabilities/b/capability.md:2:27 file_invalid: `values`: a value of a bundle can't read another: `ctx.cap.b.one`");
    insta::assert_snapshot!(bundle("preset: {}"), @"capabilities/b/capability.md:2:1 unknown_field: unknown field `preset` [did you mean `presets`?]");
    let wait = "nodes: {s: {type: start}, w: {type: blackboard_wait, board: plan, condition: board.done}}\nedges: [s -> w]\n";
    insta::assert_snapshot!(listed(&project(&[("prompts/p.md", "Hi."), ("flows/f.yaml", wait)]).faults()), @"flows/f.yaml:1:61 unknown_entry: node `w`: there is no blackboard `plan`; the project has none");

    let boards = "---\nuse: [{blackboard: {id: a, prefix: x, schema: {}}}, {blackboard: {id: b, prefix: x, schema: {}}}]\n---\nHi.";
    let found = project(&[("prompts/p.md", boards)]).lint();
    let found: Vec<String> = found.iter().map(|it| format!("{} {}", it.code, it.message)).collect();
    insta::assert_snapshot!(found.join("\n"), @"tool_collision the tools of blackboards `a` (prompts/p.md:2:25) and `b` both begin with `x`");
}
