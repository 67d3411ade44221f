//! Errors: every one names its place, and several are told at once.

use contexture_compose::{Context, Error, Hooks, Prompt, PromptBuilder, Prompts, Text, when};
use contexture_testkit::{failure, resolve_input};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn failed(prompt: PromptBuilder) -> String {
    match prompt.build().and_then(|it| resolve_input(&it, json!({}))) {
        Ok(_) => "no error".to_owned(),
        Err(err) => failure(&err),
    }
}

#[test]
fn two_entries_with_one_id_are_refused_naming_both() {
    let prompt = Prompt::builder("p")
        .include(Context::text("same", "A."))
        .include(Context::text("b", "B.").include(Context::text("same", "C.").file("contexts/c.md")));
    insta::assert_snapshot!(
        failed(prompt),
        @"duplicate_id at p: two different entries have the id `same`: use[0] and contexts/c.md"
    );
}

#[test]
fn faults_of_a_definition_are_told_at_once() {
    let prompt = Prompt::builder("p")
        .prompt("a")
        .user("b")
        .include(Context::text("a", "").priority(200))
        .include(Context::text("a", ""));
    insta::assert_snapshot!(
        failed(prompt),
        @"definition_invalid at p: give `prompt` or `user`, not both; context:a: priority 200 is outside 0 to 100; two different entries have the id `a`: use[0] and use[1]"
    );
}

#[test]
fn a_template_names_line_and_column() {
    let text = Text::template("Hello\n{{ input.nme }}.").expect("a template");
    insta::assert_snapshot!(
        failed(Prompt::builder("p").include(Context::text("a", text))),
        @"template_error at p: 2:4: undefined variable `input.nme`"
    );
}

#[test]
fn a_failing_predicate_names_what_it_guards() {
    #[derive(serde::Deserialize)]
    struct Needs {
        flag: bool,
    }
    let prompt = Prompt::builder("p").include(when(|it: &Needs| it.flag, Context::text("a", "A.")));
    insta::assert_snapshot!(
        failed(prompt),
        @"contributor_failed at p: context:a: the predicate failed: missing field `flag`"
    );
}

#[test]
fn tags_that_do_not_go_together_name_both_sources() {
    let prompt = Prompt::builder("p")
        .context(json!({"documents": "scalar"}))
        .include(Context::new("a").values(json!({"documents": {"recent": "x"}})));
    let shown = failed(prompt);
    assert!(shown.starts_with("tag_shape_mismatch at p: "), "{shown}");
    assert!(
        shown.contains("documents") && shown.contains("prompt") && shown.contains("context:a"),
        "{shown}"
    );
}

/// Builds only: what is said here is found before any input is known.
fn refused(prompt: PromptBuilder) -> String {
    prompt.build().map_or_else(|err| failure(&err), |_| "no error".to_owned())
}

#[test]
fn tags_that_no_pass_can_have_are_refused_before_any_pass() {
    let text = |it: &str| contexture_compose::TagValue::from(Text::template(it).expect("a template"));
    let values = |id: &str, it: Value| Context::new(id).values(it);
    let nested = || values("b", json!({"documents": {"recent": "x"}}));
    let prompt = || Prompt::builder("p");
    insta::assert_snapshot!(
        refused(prompt().context(json!({"system": "x"})).include(values("a", json!({"1st": "y"})))),
        @"tag_name_reserved at p: `system` is the reserved tag name `system`, in `prompt` at `system`; `1st` is not a valid name: it begins with a digit, in `context:a` at `1st`"
    );
    insta::assert_snapshot!(
        refused(prompt().include(values("a", json!({"documents": "text"}))).include(nested())),
        @"tag_shape_mismatch at p: `documents` is text in `context:a` and an object with nested tags in `context:b`"
    );
    insta::assert_snapshot!(
        refused(prompt().context(json!({"role": "robot", "content": "hi"}))),
        @"role_ambiguous at p: an object with the key `role` is neither a message nor a tag: the role `robot` is none of system, user, assistant and tool, in `prompt`"
    );
    // What a template says is not known yet, and entries under a condition need not stand beside each other.
    let message =
        contexture_compose::TagValue::object([("role", "user".into()), ("content", text("{{ input.x }}"))]);
    let maybe = Context::new("a")
        .values(contexture_compose::TagValue::object([("documents", text("{{ input.x }}"))]));
    assert_eq!(refused(prompt().context(message).include(maybe).include(nested())), "no error");
    let gated = when(|_: &Value| false, values("a", json!({"documents": "text"})));
    assert_eq!(refused(prompt().include(gated).include(nested())), "no error");
}

#[test]
fn hooks_observe_success_and_failure() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (ok, bad) = (Arc::clone(&seen), Arc::clone(&seen));
    let hooks = Hooks::default()
        .on_prepare(move |pass| ok.lock().expect("not poisoned").push(format!("prepared {}", pass.prompt())))
        .on_error(move |err| {
            let code = err.downcast_ref::<Error>().map(|it| it.code().as_str()).unwrap_or_default();
            bad.lock().expect("not poisoned").push(format!("error {code}"));
        });
    let text = Text::try_of(|it: &Value| match it["ok"].as_bool() {
        Some(true) => Ok("fine"),
        _ => Err("broken"),
    });
    let prompt = Prompt::builder("p").system(text).hooks(hooks).build().expect("it builds");
    resolve_input(&prompt, json!({"ok": true})).expect("fine");
    resolve_input(&prompt, json!({})).expect_err("broken");
    assert_eq!(*seen.lock().expect("not poisoned"), ["prepared p", "error contributor_failed"]);
}

#[test]
fn the_registry_refuses_a_second_prompt_with_one_id_naming_both_paths() {
    let prompt = || Prompt::builder("refund").system("x").build().expect("it builds");
    let mut prompts = Prompts::default();
    prompts.insert("a/refund", prompt()).expect("the first");
    insta::assert_snapshot!(
        failure(&prompts.insert("b/refund", prompt()).expect_err("the second")),
        @"duplicate_id: two different entries have the id `refund`: a/refund and b/refund"
    );
    insta::assert_snapshot!(
        failure(&prompts.get("refnd").expect_err("unknown")),
        @"unknown_prompt: there is no prompt `refnd`; there are: refund"
    );
    assert_eq!(prompts.below("a").count(), 1);
    assert_eq!(prompts.get("a/refund").expect("by path").id(), "refund");
}
