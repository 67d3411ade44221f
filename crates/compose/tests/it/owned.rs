//! Texts of the prompt that own the place of the tag block.

use contexture_compose::{Context, Definition, Prompt, PromptBuilder, ResolveOptions, Text};
use contexture_message::Tokens;
use contexture_testkit::{budget, request, resolve};
use serde_json::json;

fn section(text: &str) -> Definition {
    let mut definition = Prompt::builder("p").system("S").build().expect("it builds").definition().clone();
    definition.entries = vec![
        Context::new("docs").priority(80).values(json!({"docs": "one two three"})).into(),
        Context::new("notes").priority(20).values(json!({"notes": "four five six seven"})).into(),
    ];
    definition.context_section = Some(Text::template(text).expect("a template"));
    definition
}

fn shown(definition: Definition, limit: Option<u32>) -> String {
    let prompt = PromptBuilder::from(definition).build().expect("it builds");
    let mut options = ResolveOptions::default();
    options.overrides.budget.token_budget = limit.map(Tokens);
    match resolve(&prompt, options) {
        Ok(pass) => format!("{}\n---\n{}", request(&pass), budget(&pass)),
        Err(err) => format!("error: {err}"),
    }
}

const READS: &str = "Docs: {{ config.context.docs }}{% if config.context.notes %}\nNotes: {{ config.context.notes }}{% endif %}";

#[test]
fn contributions_keep_their_source_and_priority() {
    insta::assert_snapshot!(shown(section(READS), None), @"
    [system]
    S

    <context>
    Docs: one two three
    Notes: four five six seven
    </context>
    ---
    prompt system 1 kept
    context:docs tags 3 kept
    context:notes tags 7 kept
    prompt system 8 kept
    system 20, total 26
    ");
}

#[test]
fn what_the_budget_drops_is_absent_from_the_map() {
    insta::assert_snapshot!(shown(section(READS), Some(14)), @"
    [system]
    S

    <context>
    Docs: one two three
    </context>
    ---
    prompt system 1 kept
    context:docs tags 3 kept
    context:notes tags 7 dropped (did not fit token_budget: 6 tokens over, priority 20)
    prompt system 8 kept
    system 13, total 19
    ");
}

#[test]
fn a_template_that_does_not_expect_that_reads_nothing() {
    insta::assert_snapshot!(shown(section("{{ config.context.docs }} {{ config.context.notes }}"), Some(12)), @"
    [system]
    S

    <context>
    one two three 
    </context>
    ---
    prompt system 1 kept
    context:docs tags 9 kept
    context:notes tags 4 dropped (did not fit token_budget: 3 tokens over, priority 20)
    prompt system 0 kept
    system 11, total 17
    ");
}

#[test]
fn what_the_section_does_not_read_is_not_in_the_request() {
    insta::assert_snapshot!(shown(section("{{ config.context.docs }}"), None), @"
    [system]
    S

    <context>
    one two three
    </context>
    ---
    prompt system 1 kept
    context:docs tags 9 kept
    context:notes tags 0 excluded (the prompt's `<context>` does not read it)
    prompt system 0 kept
    system 11, total 17
    ");
}

#[test]
fn a_section_inside_the_system_text_stands_exactly_there() {
    let mut definition = section("");
    definition.context_section = None;
    definition.context_in_system = true;
    let text = "A\n<context>\n{{ config.context.docs }}{{ config.context.notes }}\n</context>\nB";
    definition.system = Some(Text::template(text).expect("a template"));
    insta::assert_snapshot!(shown(definition.clone(), None), @"
    [system]
    A
    <context>
    one two threefour five six seven
    </context>
    B
    ---
    prompt system 3 kept
    context:docs tags 9 kept
    context:notes tags 4 kept
    system 16, total 22
    ");
    insta::assert_snapshot!(shown(definition.clone(), Some(13)), @"
    [system]
    A
    <context>
    one two three
    </context>
    B
    ---
    prompt system 3 kept
    context:docs tags 9 kept
    context:notes tags 4 dropped (did not fit token_budget: 3 tokens over, priority 20)
    system 12, total 18
    ");
    definition.entries.clear();
    let text = "A\n<context>\n{% if config.context.docs %}x{% endif %}\n</context>\nB";
    definition.system = Some(Text::template(text).expect("a template"));
    insta::assert_snapshot!(shown(definition, None), @"
    [system]
    A
    B
    ---
    prompt system 3 kept
    system 3, total 9
    ");
}

#[test]
fn a_key_is_read_in_any_spelling() {
    let text = |template: &str| {
        let mut definition = Prompt::builder("p").build().expect("it builds").definition().clone();
        definition.context = vec![json!({"userPreferences": "short", "other": "x"}).into()];
        definition.context_section = Some(Text::template(template).expect("a template"));
        shown(definition, None).split("\n---").next().unwrap_or_default().to_owned()
    };
    for key in ["user-preferences", "user_preferences", "userPreferences", "UserPreferences"] {
        let shown = text(&format!("{{{{ config.context.{key} }}}} {{{{ config.context.other }}}}"));
        assert_eq!(shown, "[system]\n<context>\nshort x\n</context>", "{key}");
        let shown = text(&format!("{{{{ config.context['{key}'] }}}}"));
        assert_eq!(shown, "[system]\n<context>\nshort\n</context>", "{key}");
    }
    let all = text("{% for it in config.context %}{{ it[0] }} {% endfor %}");
    assert_eq!(all, "[system]\n<context>\nuser-preferences other \n</context>");
}
