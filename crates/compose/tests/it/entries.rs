//! Entries: order, gates, nesting, re-entry, exclusion records.

use contexture_compose::{
    Branch, Context, Contribution, Entry, Fate, Part, Predicate, Prompt, PromptBuilder, ResolveOptions, Text,
    When, contributor, injectable, matching, provider, when,
};
use contexture_message::{Message, ToolDefinition};
use contexture_testkit::{failure, request, resolve, resolve_input};
use serde_json::{Value, json};

/// Builds and resolves; the only caller of the API here.
fn resolved(prompt: PromptBuilder, input: Value) -> String {
    match prompt.build().and_then(|it| resolve_input(&it, input)) {
        Ok(pass) => {
            let parts = pass.explain().parts;
            let excluded = parts.iter().filter(|it| it.state == "excluded");
            let reason = |it: &Part| it.reason.clone().unwrap_or_default();
            let lines = excluded.map(|it| format!("\nexcluded {}: {}", it.source, reason(it)));
            request(&pass) + &lines.collect::<String>()
        }
        Err(err) => failure(&err),
    }
}

fn prompt() -> PromptBuilder {
    Prompt::builder("p").system("Own.")
}

fn on(input: &Value) -> bool {
    input["on"] == true
}

#[test]
fn nested_entries_stand_before_their_owner() {
    let inner = Context::text("inner", "Inner.");
    let outer = Context::text("outer", "Outer.").include(inner);
    insta::assert_snapshot!(resolved(prompt().include(outer).include(Context::text("b", "B.")), json!({})), @r"
    [system]
    Own.

    Inner.

    Outer.

    B.
    ");
}

#[test]
fn cached_entries_move_to_the_front_in_author_order() {
    let entries = prompt()
        .include(Context::text("a", Text::of(|it: &Value| format!("A {}.", it["n"]))))
        .include(Context::text("b", "B.").cached())
        .include(Context::text("c", "C.").cached());
    insta::assert_snapshot!(resolved(entries, json!({"n": 1})), @r"
    [system]
    Own.

    B.

    C.

    A 1.
    ");
}

#[test]
fn the_same_entry_twice_renders_once() {
    let brand = Context::text("brand", "Brand.").tool(ToolDefinition::new("look", "Looks"));
    let twice = prompt()
        .include(brand.clone())
        .include(Context::text("b", "B.").include(brand.clone()))
        .include(brand);
    insta::assert_snapshot!(resolved(twice, json!({})), @r"
    [system]
    Own.

    Brand.

    B.
    tools: look
    ");
}

#[test]
fn every_exclusion_has_its_record() {
    let entries = prompt()
        .include(None::<Context>)
        .include(when(on, Context::text("debug", "Debug.")))
        .include(when(on, Context::unnamed("Unnamed.")))
        .include(Context::text("own", "Gated.").when(on))
        .include(
            matching(|it: &Value| it["locale"].as_str().unwrap_or_default().to_owned())
                .case("de", Context::text("german", "Deutsch.")),
        )
        .include(when(
            on,
            vec![Context::text("x", "X.").into(), Entry::Nothing, Context::unnamed("Y.").into()],
        ));
    insta::assert_snapshot!(resolved(entries, json!({"on": false, "locale": "xx"})), @r#"
    [system]
    Own.
    excluded context:debug: when() predicate returned false
    excluded context[2]: when() predicate returned false
    excluded context:own: context-level when returned false
    excluded match[4]: no case for "xx" and no default
    excluded context:x: when() predicate returned false
    excluded context[2]: when() predicate returned false
    "#);
}

#[test]
fn a_condition_that_is_data_is_shown_with_what_it_saw() {
    let condition = |it: &str| {
        Predicate::condition(contexture_template::Condition::parse(it).expect("a condition"), None)
    };
    let entry = |source: &str, id: &str| {
        let branch = Branch::One(Context::text(id, "X.").into());
        Entry::When(std::sync::Arc::new(When { predicate: condition(source), branch }))
    };
    let entries = prompt()
        .include(entry("input.plan == \"pro\" and ctx.user", "a"))
        .include(entry("input.items contains 'x' or input.deep.key", "b"))
        .include(Context::text("own", "Gated.").when_predicate(condition(" input.plan == 'long' ")));
    let input = json!({"plan": "f".repeat(100), "items": ["y"], "deep": {}});
    insta::assert_snapshot!(resolved(entries, input), @r#"
    [system]
    Own.
    excluded context:a: when() predicate returned false: input.plan == "pro" and ctx.user (input.plan is "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff…", ctx.user is null)
    excluded context:b: when() predicate returned false: input.items contains 'x' or input.deep.key (input.items is a list of 1, input.deep.key is not set)
    excluded context:own: context-level when returned false: input.plan == 'long' (input.plan is "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff…")
    "#);
}

#[test]
fn an_excluded_entry_brings_nothing_along() {
    let nested = Context::text("inner", Text::try_of(|_: &Value| Err::<String, _>("must not run")));
    let gated =
        Context::text("gated", "Gated.").when(on).include(nested).tool(ToolDefinition::new("never", ""));
    insta::assert_snapshot!(resolved(prompt().include(gated), json!({})), @r"
    [system]
    Own.
    excluded context:gated: context-level when returned false
    ");
}

#[test]
fn one_branch_of_a_match_takes_part() {
    let language = |default: bool| {
        let branches = matching(|it: &Value| it["l"].as_str().unwrap_or_default().to_owned())
            .case("fr", Branch::Many(vec![Context::text("x", "X.").into(), Context::text("y", "Y.").into()]))
            .case("de", Context::text("z", "Z."));
        let branches =
            if default { branches.default_case(Context::text("en", "English.")) } else { branches };
        prompt().include(branches)
    };
    insta::assert_snapshot!(resolved(language(false), json!({"l": "fr"})), @"
    [system]
    Own.

    X.

    Y.
    ");
    insta::assert_snapshot!(resolved(language(true), json!({"l": "xx"})), @"
    [system]
    Own.

    English.
    ");
}

#[test]
fn reentered_entries_stand_where_their_contributor_stands() {
    let again = contributor("again", |_| async {
        let inner = Context::text("inner", "Inner.").tool(ToolDefinition::new("inner_tool", ""));
        Ok(Contribution::text("Contributed.")
            .and_entry(when(on, inner))
            .and_entry(Context::text("last", "Last.")))
    });
    let entries = prompt().include(again).include(Context::text("b", "B."));
    insta::assert_snapshot!(resolved(entries.clone(), json!({"on": true})), @"
    [system]
    Own.

    Contributed.

    Inner.

    Last.

    B.
    tools: inner_tool
    ");
    insta::assert_snapshot!(resolved(entries, json!({"on": false})), @"
    [system]
    Own.

    Contributed.

    Last.

    B.
    excluded context:inner: when() predicate returned false
    ");
}

#[test]
fn a_contributor_that_reenters_itself_meets_the_depth_limit() {
    fn forever() -> Entry {
        contributor("forever", |_| async { Ok(Contribution::default().and_entry(forever())) }).into()
    }
    insta::assert_snapshot!(
        resolved(prompt().include(forever()), json!({})),
        @"depth_exceeded at p: contributor:forever at contributor:forever[0] is nested more than 32 deep"
    );
}

#[test]
fn entries_nested_too_deep_are_refused_by_name() {
    let nested = (0..40).fold(Context::text("c0", "x"), |inner, depth| {
        Context::text(format!("c{}", depth + 1), "x").include(inner)
    });
    let shown = resolved(prompt().include(nested), json!({}));
    assert!(shown.starts_with("depth_exceeded at p: context:c8 at"), "{shown}");
}

#[test]
fn injectables_and_providers_contribute_in_place() {
    let inject = injectable("tenant", |call| async move {
        let tenant = call.scope.tenant.clone().unwrap_or_else(|| "nobody".to_owned());
        Ok(Contribution::text(format!("Tenant: {tenant}.")).and_values(json!({"tenant": tenant})))
    });
    let memory = provider("memory", |_| async { Ok(vec![Message::user("Earlier: hi")]) });
    insta::assert_snapshot!(resolved(prompt().include(inject).include(memory).user("Now."), json!({})), @"
    [system]
    Own.

    Tenant: nobody.

    <tenant>
    nobody
    </tenant>
    [user]
    Earlier: hi
    [user]
    Now.
    ");
}

#[test]
fn an_empty_text_keeps_its_tools() {
    let empty = Context::text("empty", "").tool(ToolDefinition::new("lookup", "Look up"));
    let built = prompt().include(empty).build().expect("a context may be empty");
    let pass = resolve(&built, ResolveOptions::default()).expect("it resolves");
    assert_eq!(request(&pass), "[system]\nOwn.\ntools: lookup");
    assert!(
        pass.segments().iter().any(|it| it.source.to_string() == "context:empty" && it.fate == Fate::Empty)
    );
}

#[test]
fn values_of_all_sources_make_one_tag_block() {
    let entries = Prompt::builder("p")
        .system("P")
        .context(json!({"documents": "own"}))
        .include(Context::new("a").values(json!({"documents": "from A"})))
        .include(
            Context::new("b")
                .values(contexture_compose::TagValue::of(|it: &Value| json!({"Documents": it["d"]}))),
        );
    insta::assert_snapshot!(resolved(entries, json!({"d": "from <B>"})), @"
    [system]
    P

    <documents>
    own
    from A
    from &lt;B&gt;
    </documents>
    ");
}

#[test]
fn a_reentered_entry_gets_its_defaults_and_runs_once_if_it_is_there_anyway() {
    let probe = contexture_testkit::Probe::new("probe");
    let shared: Entry = Entry::Contributor(std::sync::Arc::new(probe.clone()));
    let again = shared.clone();
    let schema = json!({"type": "object", "properties": {"lang": {"type": "string", "default": "en"}}});
    let reenters = contributor("again", move |_| {
        let text = Text::template("Lang {{ input.lang }}.").expect("a template");
        let context =
            Context::text("lang", text).input_schema(contexture_compose::Schema::from_json(schema.clone()));
        let again = again.clone();
        async move { Ok(Contribution::default().and_entry(context).and_entry(again)) }
    });
    insta::assert_snapshot!(resolved(prompt().include(reenters).include(shared), json!({})), @"
    [system]
    Own.

    Lang en.

    probe
    ");
    assert_eq!(probe.calls(), 1);
}
