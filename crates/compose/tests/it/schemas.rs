//! Input: merged schemas, defaults, active branches, policies.

use std::sync::Arc;

use contexture_compose::{
    BoxError, BoxFuture, Call, Context, Contribution, Contributor, Declaration, Entry, InputPolicy, OnError,
    Profile, Prompt, PromptBuilder, Schema, Text, contributor, when,
};
use contexture_testkit::{failure, request, resolve_input};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

fn resolved<In, Out>(prompt: PromptBuilder<In, Out>, input: Value) -> String {
    match prompt.build().and_then(|it| resolve_input(&it, input)) {
        Ok(pass) => request(&pass),
        Err(err) => failure(&err),
    }
}

fn schema(value: Value) -> Schema {
    Schema::from_json(value)
}

fn prompt() -> PromptBuilder {
    Prompt::builder("p").system("Own.")
}

#[derive(Deserialize, JsonSchema)]
struct Ticket {
    plan: String,
    #[serde(default)]
    urgent: bool,
}

#[test]
fn typed_closures_see_the_parsed_input() {
    let typed = Prompt::builder("p")
        .input::<Ticket>()
        .system(Text::of(|it: &Ticket| format!("{} {}", it.plan, if it.urgent { "now" } else { "later" })));
    insta::assert_snapshot!(resolved(typed.clone(), json!({"plan": "pro"})), @"
    [system]
    pro later
    ");
    insta::assert_snapshot!(
        resolved(typed, json!({"urgent": "very"})),
        @r#"input_invalid at p: the input is invalid: `input.plan`: is required (rule `required` of prompt); `input.urgent`: "very" is not of type "boolean" (rule `type` of prompt)"#
    );
}

#[test]
fn two_owners_of_one_key_must_agree() {
    let string = || schema(json!({"type": "object", "properties": {"k": {"type": "string"}}}));
    let integer = || schema(json!({"type": "object", "properties": {"k": {"type": "integer"}}}));
    let a = Context::text("a", "A.").input_schema(string());
    let b = |it| Context::text("b", "B.").input_schema(it);
    insta::assert_snapshot!(
        resolved(prompt().include(a.clone()).include(b(integer())), json!({})),
        @r#"schema_conflict at p: input key `k` is declared differently by context:a and context:b: `k.type` is "string" and "integer""#
    );
    insta::assert_snapshot!(resolved(prompt().include(a.clone()).include(b(string())), json!({})), @"
    [system]
    Own.

    A.

    B.
    ");
    let own = prompt().input_schema(integer()).include(a);
    insta::assert_snapshot!(
        resolved(own.clone(), json!({"k": 1})),
        @r#"schema_conflict at p: input key `k` is declared differently by prompt and context:a: `k.type` is "integer" and "string""#
    );
    insta::assert_snapshot!(resolved(own.override_key("k"), json!({"k": 1})), @"
    [system]
    Own.

    A.
    ");
}

#[test]
fn an_active_branch_is_validated_and_an_inactive_one_is_not() {
    let extra = schema(json!({
        "type": "object",
        "properties": {"extra": {"type": "string"}, "tone": {"type": "string", "default": "calm"}},
        "required": ["extra"],
    }));
    let text = Text::template("{{ input.extra }} {{ input.tone }}").expect("a template");
    let branch = Context::text("a", text).input_schema(extra);
    let gated = prompt().include(when(|it: &Value| it["on"] == true, branch));
    insta::assert_snapshot!(resolved(gated.clone(), json!({"on": false})), @"
    [system]
    Own.
    ");
    insta::assert_snapshot!(
        resolved(gated.clone(), json!({"on": true})),
        @"input_invalid at p: the input is invalid: `input.extra`: is required (rule `required` of context:a)"
    );
    insta::assert_snapshot!(resolved(gated, json!({"on": true, "extra": "x"})), @"
    [system]
    Own.

    x calm
    ");
}

#[test]
fn the_merged_schema_requires_only_what_is_always_there() {
    let needs = |key: &str| {
        schema(json!({"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}))
    };
    let plain = Context::text("plain", "").input_schema(needs("a"));
    let gated = Context::text("gated", "").when(|_: &Value| true).input_schema(needs("b"));
    let built = prompt().include(plain).include(gated).build().expect("it builds");
    assert_eq!(
        built.input_schema(),
        json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["a"],
        })
    );
}

#[test]
fn a_closed_schema_knows_the_keys_of_entries() {
    let closed = schema(json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false}));
    let entry = Context::text("b", "B.").input_schema(schema(json!({"properties": {"b": {}}})));
    let both = prompt().input_schema(closed).include(entry);
    insta::assert_snapshot!(resolved(both.clone(), json!({"a": 1, "b": 2})), @"
    [system]
    Own.

    B.
    ");
    insta::assert_snapshot!(
        resolved(both, json!({"c": 1, "d": 1})),
        @"input_invalid at p: the input is invalid: `input.c`: is not a key of the input (rule `additionalProperties` of prompt); `input.d`: is not a key of the input (rule `additionalProperties` of prompt)"
    );
}

#[test]
fn an_input_that_is_no_object_is_refused() {
    insta::assert_snapshot!(
        resolved(prompt(), json!([1])),
        @"input_invalid at p: the input is invalid: `input`: must be a JSON object (rule `type` of prompt)"
    );
}

#[test]
fn a_broken_schema_is_refused_with_its_owner() {
    let broken = Context::text("a", "").input_schema(schema(json!({"type": "strng"})));
    let shown = resolved(prompt().include(broken), json!({}));
    assert!(shown.starts_with("schema_invalid at p: the schema of context:a is invalid"), "{shown}");
}

#[test]
fn nested_defaults_and_paths_are_named_in_full() {
    let nested = schema(json!({
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "object", "required": ["price"]}}},
    }));
    insta::assert_snapshot!(
        resolved(prompt().input_schema(nested), json!({"items": [{"price": 1}, {}]})),
        @"input_invalid at p: the input is invalid: `input.items[1].price`: is required (rule `required` of prompt)"
    );
}

#[test]
fn input_policies_are_off_by_default_and_apply_to_strings_when_on() {
    let text = || Text::template("{{ input.a }}|{{ input.html }}|{{ input.list[0] }}").expect("a template");
    let input = json!({"a": "<b>\u{200B}x", "html": "<i>", "list": ["a & b"]});
    let as_it_is = resolved(Prompt::builder("p").system(text()), input.clone());
    assert_eq!(as_it_is, "[system]\n<b>\u{200B}x|<i>|a & b");
    let policy = InputPolicy { auto_escape: true, sanitize: true, raw_fields: vec!["html".to_owned()] };
    insta::assert_snapshot!(resolved(Prompt::builder("p").system(text()).input_policy(policy), input), @"
    [system]
    &lt;b&gt;x|<i>|a &amp; b
    ");
}

#[test]
fn faults_of_an_active_branch_are_told_with_those_of_the_base() {
    let needs = |key: &str| schema(json!({"type": "object", "properties": {key: {}}, "required": [key]}));
    let branch = Context::text("a", "A.").input_schema(needs("mmm"));
    let both = prompt().input_schema(needs("kkk")).include(when(|it: &Value| it["on"] == true, branch));
    insta::assert_snapshot!(
        resolved(both, json!({"on": true})),
        @"input_invalid at p: the input is invalid: `input.kkk`: is required (rule `required` of prompt); `input.mmm`: is required (rule `required` of context:a)"
    );
}

#[test]
fn defaults_inside_a_default_apply() {
    let nested = schema(json!({
        "type": "object",
        "properties": {"d": {"type": "object", "default": {}, "properties": {"e": {"default": "deep"}}}},
    }));
    let text = Text::template("{{ input.d.e }}").expect("a template");
    assert_eq!(resolved(Prompt::builder("p").input_schema(nested).system(text), json!({})), "[system]\ndeep");
}

#[test]
fn keys_that_nobody_declares_must_be_what_the_prompt_says_of_others() {
    let texts = schema(json!({"type": "object", "additionalProperties": {"type": "string"}}));
    let entry =
        Context::text("b", "B.").input_schema(schema(json!({"properties": {"b": {"type": "integer"}}})));
    insta::assert_snapshot!(
        resolved(prompt().input_schema(texts).include(entry), json!({"a": 5, "b": 5, "c": "x"})),
        @r#"input_invalid at p: the input is invalid: `input.a`: 5 is not of type "string" (rule `type` of prompt)"#
    );
}

#[test]
fn what_schemas_say_to_people_is_no_conflict() {
    let described =
        schema(json!({"type": "object", "properties": {"k": {"type": "string", "description": "A key."}}}));
    let bare = schema(json!({"type": "object", "properties": {"k": {"type": "string"}}}));
    let a = Context::text("a", "A.").input_schema(described);
    let b = Context::text("b", "B.").input_schema(bare);
    insta::assert_snapshot!(resolved(prompt().include(a).include(b), json!({"k": "x"})), @"
    [system]
    Own.

    A.

    B.
    ");
    // A property of that name is no annotation.
    let nested = |kind: &str| {
        let inner = json!({"type": "object", "properties": {"description": {"type": kind}}});
        schema(json!({"type": "object", "properties": {"k": inner}}))
    };
    let a = Context::text("a", "A.").input_schema(nested("string"));
    let b = Context::text("b", "B.").input_schema(nested("integer"));
    insta::assert_snapshot!(resolved(prompt().include(a).include(b), json!({})), @r#"schema_conflict at p: input key `k` is declared differently by context:a and context:b: `k.properties.description.type` is "string" and "integer""#);
}

#[test]
fn an_injectable_without_a_gate_requires_its_keys() {
    let needs = schema(json!({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}));
    let made = contributor("c", |_| async { Ok(Contribution::text("C.")) }).input_schema(needs);
    let built = prompt().include(Entry::Injectable(Arc::new(made))).build().unwrap();
    assert_eq!(built.input_schema()["required"], json!(["k"]));
    assert!(resolve_input(&built, json!({})).is_err());
}

/// Takes part if `k` is long.
struct Gated;

impl Contributor for Gated {
    fn id(&self) -> &str {
        "gated"
    }

    fn contribute(&self, _: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(async { Ok(Contribution::text("G.")) })
    }

    fn gate(&self, call: &Call) -> Result<bool, BoxError> {
        let text = call.input.value()["k"].as_str();
        assert!(
            call.input.value().get("k").is_none() || text.is_some(),
            "the gate sees what was not checked"
        );
        Ok(text.is_some_and(|it| it.len() > 3))
    }

    fn declare(&self) -> Declaration {
        let needs = json!({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]});
        Declaration { input: Some(schema(needs)), ..Declaration::default() }
    }
}

#[test]
fn a_gate_sees_keys_of_its_own_schema_only_if_they_are_valid() {
    let gated = || prompt().include(Entry::Contributor(Arc::new(Gated)));
    insta::assert_snapshot!(resolved(gated(), json!({"k": 7})), @r#"input_invalid at p: the input is invalid: `input.k`: 7 is not of type "string" (rule `type` of contributor:gated)"#);
    insta::assert_snapshot!(resolved(gated(), json!({})), @"
    [system]
    Own.
    ");
    insta::assert_snapshot!(resolved(gated(), json!({"k": "long"})), @"
    [system]
    Own.

    G.
    ");
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(dead_code)]
enum Request {
    Refund { order: u32 },
    Question { text: String },
}

#[test]
fn a_tagged_enum_publishes_the_keys_of_its_variants() {
    let built = Prompt::builder("p").input::<Request>().system("Own.").build().unwrap();
    let published = built.input_schema();
    let keys: Vec<&String> = published["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["kind", "order", "text"]);
    assert_eq!(published["required"], json!(["kind"]));
    assert!(resolve_input(&built, json!({"kind": "refund", "order": 7})).is_ok());
    assert!(resolve_input(&built, json!({"kind": "refund"})).is_err());
}

#[test]
fn panics_of_authors_are_errors_that_name_them() {
    let panics = || contributor("c", |_| async { panic!("out of milk") });
    insta::assert_snapshot!(resolved(prompt().include(Entry::Injectable(Arc::new(panics()))), json!({})), @"contributor_failed at p: injectable:c: the contributor failed: it panicked: out of milk");
    let skipped = panics().profile(Profile { on_error: OnError::Skip, ..Profile::default() });
    insta::assert_snapshot!(resolved(prompt().include(Entry::Injectable(Arc::new(skipped))), json!({})), @"
    [system]
    Own.
    ");
    let text = Context::text("t", Text::of(|_: &Value| -> String { panic!("no words") }));
    insta::assert_snapshot!(resolved(prompt().include(text), json!({})), @"contributor_failed at p: context:t: the contributor failed: it panicked: no words");
    let own = Prompt::builder("p").system(Text::of(|_: &Value| -> String { panic!("no words") }));
    insta::assert_snapshot!(resolved(own, json!({})), @"contributor_failed at p: prompt: the text failed: it panicked: no words");
    let gate = when(|_: &Value| panic!("no gate"), Context::text("t", "T."));
    insta::assert_snapshot!(resolved(prompt().include(gate), json!({})), @"contributor_failed at p: context:t: the predicate failed: it panicked: no gate");
}

#[test]
fn keys_that_no_schema_declares_are_a_warning_with_a_guess() {
    let warnings = |schema: Value, input: Value| {
        let prompt = Prompt::builder("p")
            .system("S")
            .input_schema(contexture_compose::Schema::from_json(schema))
            .build()
            .expect("it builds");
        let pass = resolve_input(&prompt, input.clone()).expect("it resolves");
        assert_eq!(pass.explain().warnings, prompt.undeclared_input(&input));
        prompt.undeclared_input(&input).join("\n")
    };
    let plan = || json!({"type": "object", "properties": {"plan": {"type": "string", "default": "free"}}});
    let input = || json!({"plna": "pro", "weather": 1});
    assert_eq!(
        warnings(plan(), input()),
        "no schema declares the input key `plna`; did you mean `plan`?\nno schema declares the input key `weather`"
    );
    assert_eq!(warnings(plan(), json!({"plan": "pro"})), "");
    assert_eq!(warnings(json!({"type": "object"}), input()), "");
    let mut open = plan();
    open["patternProperties"] = json!({"^p": {"type": "string"}});
    assert_eq!(warnings(open, input()), "");
}
