//! Capabilities: named bundles, presets and the values that texts read.

use contexture_compose::{
    Block, Capability, CapabilityBuilder, Context, ContextProvider, Contribution, Entry, Predicate, Prompt,
    PromptBuilder, ResolveOptions, Schema, TagValue, Text, ToolMiddleware, contributor, when,
};
use contexture_history::last_turns;
use contexture_message::{Message, ToolDefinition};
use contexture_testkit::{failure, request, resolve_input};
use serde_json::{Value, json};

fn resolved(prompt: PromptBuilder, input: Value) -> String {
    match prompt.build().and_then(|it| resolve_input(&it, input)) {
        Ok(pass) => request(&pass),
        Err(err) => failure(&err),
    }
}

fn prompt() -> PromptBuilder {
    Prompt::builder("p").system("Own.")
}

fn template(text: &str) -> Text {
    Text::template(text).expect("a template")
}

/// A bundle with a part of every kind.
fn research() -> CapabilityBuilder {
    Capability::builder("research")
        .instructions(template(
            "Read {{ ctx.cap.research.limit }} sources for {{ ctx.cap.research.reader }}.",
        ))
        .include(Context::text("sources", "Prefer primary sources."))
        .include(Block::text("style", "Cite."))
        .include(ContextProvider::new("desk", |_, _| async {
            Ok(vec![Message::system("The desk is open.")])
        }))
        .tool(ToolDefinition::new("fetch", "Fetches a page."))
        .value("limit", json!(5))
        .value("reader", TagValue::of(|input: &Value| input["name"].clone()))
        .preset("deep", |it| it.value("limit", json!(20)).include(Context::text("deep", "Go deep.")))
}

#[test]
fn a_bundle_brings_all_its_parts() {
    insta::assert_snapshot!(resolved(prompt().include(research().build()), json!({"name": "Ada"})), @"
    [system]
    Own.

    <style>
    Cite.
    </style>

    Prefer primary sources.

    Read 5 sources for Ada.
    [system]
    The desk is open.
    tools: fetch
    ");
    let build = prompt().include(research().build()).build().unwrap();
    let pass = resolve_input(&build, json!({"name": "Ada"})).unwrap();
    let told = pass.explain().capabilities;
    insta::assert_snapshot!(serde_json::to_string(&told).unwrap(), @r#"[{"name":"research","preset":"defaults","parts":["context:sources","block:style","provider:desk","capability:research"]}]"#);
    let tool = pass.explain().parts.into_iter().find(|it| it.slot == "tools").unwrap();
    assert_eq!(tool.source, "capability:research");
}

#[test]
fn a_preset_is_the_bundle_with_changes() {
    let deep = research().build().preset("deep");
    insta::assert_snapshot!(resolved(prompt().include(deep), json!({"name": "Ada"})), @"
    [system]
    Own.

    <style>
    Cite.
    </style>

    Prefer primary sources.

    Go deep.

    Read 20 sources for Ada.
    [system]
    The desk is open.
    tools: fetch
    ");
    let defaults = research().preset("defaults", |it| it.value("limit", json!(1))).build();
    let said = resolved(prompt().include(&defaults), json!({"name": "Ada"}));
    assert!(said.contains("Read 1 sources"), "{said}");
    let named = resolved(prompt().include(defaults.preset("defaults")), json!({"name": "Ada"}));
    assert_eq!(said, named);
}

#[test]
fn values_are_seen_by_every_text_condition_and_function_of_the_prompt() {
    let limits = Capability::builder("limits").value("max", json!(3)).build();
    let many =
        Predicate::condition(contexture_template::Condition::parse("ctx.cap.limits.max > 2").unwrap(), None);
    let built = Prompt::builder("p")
        .system(template("Own {{ ctx.cap.limits.max }}."))
        .include(Context::text("many", "Many.").when_predicate(many))
        .include(Context::unnamed(Text::of_scoped(|_: &Value, ctx| {
            format!("Scope {}.", ctx.cap["limits"]["max"])
        })))
        .include(
            Context::new("tags")
                .values(TagValue::of_scoped(|_: &Value, ctx| json!({"max": ctx.cap["limits"]["max"]}))),
        )
        .include(contributor("c", |call| async move {
            Ok(Contribution::text(call.scope.cap["limits"].to_string()))
        }))
        .include(limits)
        .user(template("User {{ ctx.cap.limits.max }}"));
    insta::assert_snapshot!(resolved(built, json!({})), @r#"
    [system]
    Own 3.

    Many.

    Scope 3.

    {"max":3}

    <max>
    3
    </max>
    [user]
    User 3
    "#);
}

#[test]
fn an_undefined_value_is_an_error_with_its_name() {
    let limits = Capability::builder("limits").value("max", json!(3)).build();
    let reads = |text: &str| prompt().include(Context::text("c", template(text)));
    insta::assert_snapshot!(resolved(reads("{{ ctx.cap.limits.min }}").include(&limits), json!({})), @"template_error at p: 1:4: undefined variable `ctx.cap.limits.min`");
    insta::assert_snapshot!(resolved(reads("{{ ctx.cap.other.min }}").include(&limits), json!({})), @"template_error at p: 1:4: undefined variable `ctx.cap.other.min`");
    insta::assert_snapshot!(resolved(reads("{{ ctx.cap.limits.max }}"), json!({})), @"template_error at p: 1:4: undefined variable `ctx.cap.limits.max`");
}

#[test]
fn a_bundle_under_a_condition_is_there_or_not_as_a_whole() {
    let bundle = |n: bool| {
        let research = research().input_schema(Schema::from_json(json!({
            "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]
        })));
        prompt()
            .include(when(|it: &Value| it["on"] == true, research.build()))
            .include(n.then(|| Context::text("reads", template("Still {{ ctx.cap.research.limit }}."))))
    };
    insta::assert_snapshot!(resolved(bundle(true), json!({"on": true, "name": "Ada"})), @"
    [system]
    Own.

    <style>
    Cite.
    </style>

    Prefer primary sources.

    Read 5 sources for Ada.

    Still 5.
    [system]
    The desk is open.
    tools: fetch
    ");
    insta::assert_snapshot!(resolved(bundle(true), json!({"on": true})), @"input_invalid at p: the input is invalid: `input.name`: is required (rule `required` of capability:research)");
    let built = bundle(true).build().unwrap();
    let pass = resolve_input(&built, json!({})).unwrap();
    insta::assert_snapshot!(request(&pass), @"
    [system]
    Own.

    Still 5.
    ");
    let left_out: Vec<String> =
        pass.explain().excluded.iter().map(|it| format!("{}: {}", it.source, it.reason)).collect();
    assert_eq!(left_out, ["capability:research: when() predicate returned false"]);
}

#[test]
fn the_same_bundle_twice_is_rendered_once_and_two_presets_are_an_error() {
    let bundle = research().build();
    let once = resolved(prompt().include(&bundle), json!({"name": "Ada"}));
    let nested = Context::new("around").include(&bundle);
    let twice = prompt().include(&bundle).include(nested).include(bundle.preset("defaults"));
    assert_eq!(resolved(twice, json!({"name": "Ada"})), once);
    insta::assert_snapshot!(resolved(prompt().include(&bundle).include(bundle.preset("deep")), json!({})), @"duplicate_id at p: capability `research` is included with the preset `defaults` at use[0], and with `deep` at use[1]");
    insta::assert_snapshot!(resolved(prompt().include(bundle.preset("depe")), json!({})), @"unknown_entry at p: capability `research` at use[0] has no preset `depe`; there are: defaults, deep");
    insta::assert_snapshot!(resolved(prompt().include(&bundle).include(research().build()), json!({})), @"duplicate_id at p: two different entries have the id `research`: use[0] and use[1]; two different entries have the id `sources`: use[0] use[0] and use[1] use[0]; two different entries have the id `style`: use[0] use[1] and use[1] use[1]; two different entries have the id `desk`: use[0] use[2] and use[1] use[2]; tool `fetch` is given by capability:research and by capability:research");
    insta::assert_snapshot!(resolved(prompt().include(Capability::builder("a b").build()), json!({})), @"definition_invalid at p: `a b` is not the name of a capability: use a letter, then letters, digits, `_` or `-`, 64 at most");
}

#[test]
fn bundles_nest_to_a_limit() {
    let nested = |n: usize| {
        let innermost: Entry = Context::text("c", "Innermost.").into();
        (0..n).fold(innermost, |entry, idx| {
            Capability::builder(format!("b{idx}")).include(entry).build().into()
        })
    };
    assert_eq!(resolved(prompt().include(nested(31)), json!({})), "[system]\nOwn.\n\nInnermost.");
    insta::assert_snapshot!(resolved(prompt().include(nested(32)), json!({})), @"depth_exceeded at p: context:c at use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] use[0] is nested more than 32 deep");
}

#[test]
fn transforms_and_middleware_belong_to_the_whole_prompt() {
    let middleware: ToolMiddleware = serde_json::from_value(json!({"id": "log"})).unwrap();
    let tidy = Capability::builder("tidy").transform(last_turns(1)).tool_middleware(middleware).build();
    let built =
        prompt().include(Context::new("around").include(&tidy)).transform(last_turns(9)).build().unwrap();
    let names: Vec<_> = built.definition().tool_middleware.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(names, ["log"]);
    let turns = ["a", "b"].map(|it| contexture_compose::Turn::new(it, vec![Message::user(it)])).to_vec();
    let options = ResolveOptions::default().history(turns);
    let pass = futures::executor::block_on(built.resolve(options)).unwrap();
    let said: Vec<_> = pass.request().messages.iter().filter_map(|it| it.as_text()).collect();
    assert_eq!(said, ["Own.", "b"]);
    let order: Vec<_> = pass.explain().transforms.into_iter().map(|it| (it.before, it.after)).collect();
    assert_eq!(order, [(2, 1), (1, 1)]);

    let conditional = prompt().include(when(|_: &Value| true, &tidy));
    insta::assert_snapshot!(resolved(conditional, json!({})), @"definition_invalid at p: capability:tidy has transforms, which can't depend on a condition");
    let both = prompt().include(when(|_: &Value| true, &tidy)).include(&tidy);
    assert_eq!(resolved(both, json!({})), "[system]\nOwn.");
    let late = tidy.clone();
    let reentered = contributor("late", move |_| {
        let late = late.clone();
        async move { Ok(Contribution::default().and_entry(late)) }
    });
    insta::assert_snapshot!(resolved(prompt().include(reentered), json!({})), @"definition_invalid at p: capability:tidy has transforms, which can't depend on a condition");
}

#[test]
fn a_contributor_may_return_a_bundle() {
    let later = contributor("late", |_| async {
        let bundle = Capability::builder("late")
            .value("n", json!(7))
            .instructions(template("N is {{ ctx.cap.late.n }}."));
        Ok(Contribution::default().and_entry(bundle.build()))
    });
    let limits = Capability::builder("limits").value("max", json!(3)).build();
    let reads = Context::text("r", template("Max is {{ ctx.cap.limits.max }}."));
    insta::assert_snapshot!(resolved(prompt().include(later).include(limits).include(reads), json!({})), @"
    [system]
    Own.

    N is 7.

    Max is 3.
    ");
}

#[test]
fn a_value_that_fails_or_waits_names_its_capability() {
    let of = |value: TagValue| prompt().include(Capability::builder("v").value("x", value).build());
    let waits = TagValue::later(|_: std::sync::Arc<Value>| async {
        std::future::pending::<()>().await;
        Ok(json!(1))
    });
    insta::assert_snapshot!(resolved(of(waits), json!({})), @"contributor_failed at p: capability:v: a value failed: `x` waits for something, which a value can't do");
    insta::assert_snapshot!(resolved(of(TagValue::of(|_: &Value| panic!("no"))), json!({})), @"contributor_failed at p: capability:v: a value failed: it panicked: no");
    insta::assert_snapshot!(resolved(of(template("{{ input.gone }}").into()), json!({})), @"template_error at p: 1:4: undefined variable `input.gone`");
}

#[test]
fn what_a_caller_passes_as_cap_is_not_seen() {
    let built = prompt().include(Context::text("c", template("{{ ctx.cap.x }}"))).build().unwrap();
    let mut options = ResolveOptions::default();
    options.scope.cap.insert("x".to_owned(), json!("forged"));
    let err = futures::executor::block_on(built.resolve(options)).unwrap_err();
    assert_eq!(err.code().as_str(), "template_error");
}
