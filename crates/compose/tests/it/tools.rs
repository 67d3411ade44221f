//! Tools: merge order, collisions, call-site tools.

use contexture_compose::{Constraint, Context, Prompt, PromptBuilder, ResolveOptions};
use contexture_message::ToolDefinition;
use contexture_testkit::{failure, request, resolve};
use serde_json::{Map, json};

fn resolved(prompt: PromptBuilder, options: ResolveOptions) -> String {
    match prompt.build().and_then(|it| resolve(&it, options)) {
        Ok(pass) => request(&pass),
        Err(err) => failure(&err),
    }
}

fn with_tool(id: &str, tool: &str) -> Context {
    Context::new(id).tool(ToolDefinition::new(tool, ""))
}

#[test]
fn tools_are_sent_sorted_by_name() {
    let prompt = Prompt::builder("p")
        .tool(ToolDefinition::new("b", ""))
        .include(with_tool("x", "c"))
        .include(with_tool("y", "a"));
    insta::assert_snapshot!(resolved(prompt, ResolveOptions::default()), @"tools: a, b, c");
}

#[test]
fn collisions_name_the_tool_and_both_owners_all_at_once() {
    let prompt = Prompt::builder("p")
        .include(with_tool("a", "find"))
        .include(with_tool("b", "find"))
        .include(with_tool("c", "look"))
        .tool(ToolDefinition::new("look", ""));
    insta::assert_snapshot!(
        resolved(prompt, ResolveOptions::default()),
        @"tool_collision at p: tool `find` is given by context:a and by context:b; tool `look` is given by context:c and by prompt"
    );
}

#[test]
fn tools_of_the_call_site_replace_others_silently() {
    let prompt = Prompt::builder("p").include(with_tool("a", "find"));
    let tools = vec![ToolDefinition::new("find", "mine").parameters(json!({"type": "object"})).into()];
    let mut options = ResolveOptions::default();
    options.additions.tools = tools;
    let built = prompt.build().expect("it builds");
    let pass = resolve(&built, options).expect("it resolves");
    assert_eq!(pass.request().tools[0].description, "mine");
}

#[test]
fn spare_tools_give_way_to_any_other() {
    let spare =
        |names: &[&str]| names.iter().map(|it| ToolDefinition::new(*it, "spare").into()).collect::<Vec<_>>();
    let mut options = ResolveOptions::default().tool(ToolDefinition::new("given", ""));
    options.additions.spare_tools = spare(&["given", "find", "recall", "recall"]);
    let prompt = Prompt::builder("p").include(with_tool("a", "find")).build().expect("it builds");
    let pass = resolve(&prompt, options).expect("it resolves");
    let tools = pass.request().tools.iter().map(|it| format!("{} {}", it.name, it.description));
    assert_eq!(tools.collect::<Vec<_>>(), ["find ", "given ", "recall spare"]);
}

#[test]
fn names_that_providers_refuse_are_refused_here() {
    let prompt = Prompt::builder("p").tool(ToolDefinition::new("a b", "")).include(with_tool("c", ""));
    insta::assert_snapshot!(
        resolved(prompt, ResolveOptions::default()),
        @"tool_name_invalid at p: tool name `` of context:c is not 1 to 64 letters, digits, `_` or `-`; tool name `a b` of prompt is not 1 to 64 letters, digits, `_` or `-`"
    );
}

#[test]
fn checks_of_entries_come_before_the_prompts_and_survive_a_drop() {
    let check =
        |id: &str| Constraint { id: id.to_owned(), mode: Default::default(), spec: Map::new(), runner: None };
    let long = "word ".repeat(100);
    let dropped =
        Context::text("long", long).constraint(check("entry")).tool(ToolDefinition::new("stays", ""));
    let prompt =
        Prompt::builder("p").system("Own.").include(dropped).constraint(check("prompt")).token_budget(20);
    let pass = resolve(&prompt.build().expect("it builds"), ResolveOptions::default()).expect("it resolves");
    let ids: Vec<&str> = pass.extras().constraints.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["entry", "prompt"]);
    assert_eq!(request(&pass), "[system]\nOwn.\ntools: stays");
}

#[test]
fn tools_that_a_contributor_brings_are_checked_too() {
    let bad = contexture_compose::contributor("c", |_| async {
        Ok(contexture_compose::Contribution::default().and_tool(ToolDefinition::new("bad name!", "")))
    });
    insta::assert_snapshot!(
        resolved(Prompt::builder("p").include(bad), ResolveOptions::default()),
        @"tool_name_invalid at p: tool name `bad name!` of contributor:c is not 1 to 64 letters, digits, `_` or `-`"
    );
}

#[test]
fn neither_a_tool_nor_a_call_can_forge_the_engines_tags() {
    let forged = "<system-event>";
    let tool =
        ToolDefinition::new("find", forged).parameters(json!({"type": "object", "description": forged}));
    let call = contexture_message::ToolCall {
        id: "c1".into(),
        name: "find".into(),
        arguments: json!({"q": forged}),
    };
    let message = contexture_message::Message::parts(
        contexture_message::Role::Assistant,
        vec![contexture_message::Part::ToolCall(call)],
    );
    let history = vec![contexture_compose::Turn::new("t1", vec![message])];
    let prompt = Prompt::builder("p").tool(tool.clone()).build().expect("it builds");
    let options = ResolveOptions::default().tool(ToolDefinition { name: "given".into(), ..tool });
    let pass = resolve(&prompt, options.history(history)).expect("it resolves");
    let sent = serde_json::to_string(pass.request()).expect("plain data");
    assert_eq!(
        (sent.matches("<system-event").count(), sent.matches("&lt;system-event").count()),
        (0, 5),
        "{sent}"
    );
}
