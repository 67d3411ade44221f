//! The token budget.

use std::sync::Arc;

use contexture_compose::ports::FixedCounter;
use contexture_compose::{
    Budget, Context, Engine, ModelLimits, Priority, Prompt, PromptBuilder, ResolveOptions, Turn,
};
use contexture_message::{Message, TokenCounter, Tokens};
use contexture_testkit::{budget, failure, resolve};
use serde_json::json;

/// A word is a token, so that sums can be checked by eye.
fn words(text: &str) -> Tokens {
    Tokens(u32::try_from(text.split_whitespace().count()).expect("small texts"))
}

/// Resolves with a token per word.
fn fitted(prompt: PromptBuilder, mut options: ResolveOptions) -> String {
    let counter: Arc<dyn TokenCounter> = Arc::new(words);
    options.engine = Some(Engine { counters: Arc::new(FixedCounter(counter)), ..Engine::default() });
    match prompt.build().and_then(|it| resolve(&it, options)) {
        Ok(pass) => budget(&pass),
        Err(err) => failure(&err),
    }
}

fn text(words: usize) -> String {
    vec!["word"; words].join(" ")
}

fn context(id: &str, priority: u8, words: usize) -> Context {
    Context::text(id, text(words)).priority(priority)
}

fn limit(tokens: u32) -> ResolveOptions {
    // The counter is an estimate, so 5 % of the limit are kept free.
    let mut options = ResolveOptions::default();
    options.overrides.budget.token_budget = Some(Tokens(tokens * 100 / 95 + 1));
    options
}

#[test]
fn the_lowest_priority_gives_way_first_and_never_reorders() {
    let prompt = Prompt::builder("p")
        .system("Own text.")
        .include(context("a", 10, 40))
        .include(context("b", 80, 40))
        .include(context("c", 30, 40));
    insta::assert_snapshot!(fitted(prompt, limit(100)), @"
    prompt system 2 kept
    context:a system 40 dropped (did not fit token_budget: 21 tokens over, priority 10)
    context:b system 40 kept
    context:c system 40 kept
    system 82, total 82
    ");
}

#[test]
fn among_equals_the_later_one_gives_way() {
    let prompt = Prompt::builder("p").include(context("a", 50, 10)).include(context("b", 50, 10));
    insta::assert_snapshot!(fitted(prompt, limit(12)), @"
    context:a system 10 kept
    context:b system 10 dropped (did not fit token_budget: 7 tokens over, priority 50)
    system 10, total 10
    ");
}

#[test]
fn nothing_of_lower_priority_is_kept_unless_the_budget_says_fill() {
    let prompt = || {
        Prompt::builder("p")
            .include(context("small", 10, 5))
            .include(context("big", 50, 40))
            .include(context("top", 90, 10))
    };
    insta::assert_snapshot!(fitted(prompt(), limit(20)), @"
    context:small system 5 dropped (did not fit token_budget: 34 tokens over, priority 10)
    context:big system 40 dropped (did not fit token_budget: 29 tokens over, priority 50)
    context:top system 10 kept
    system 10, total 10
    ");
    let mut options = limit(20);
    options.overrides.budget.fill = true;
    insta::assert_snapshot!(fitted(prompt(), options), @"
    context:small system 5 kept
    context:big system 40 dropped (did not fit token_budget: 29 tokens over, priority 50)
    context:top system 10 kept
    system 15, total 15
    ");
}

#[test]
fn pinned_and_own_texts_are_never_dropped() {
    let prompt = Prompt::builder("p")
        .system(text(10))
        .include(context("a", 0, 20).pinned())
        .include(context("b", 99, 5));
    insta::assert_snapshot!(fitted(prompt.clone(), limit(31)), @"
    prompt system 10 kept
    context:a system 20 kept
    context:b system 5 dropped (did not fit token_budget: 3 tokens over, priority 99)
    system 30, total 30
    ");
    insta::assert_snapshot!(
        fitted(prompt, limit(20)),
        @"budget_exceeded at p: token_budget is 22, but what can't be dropped needs 30 tokens, and 1 are kept free because the count is an estimate; the largest: context:a (20), prompt (10)"
    );
}

#[test]
fn shorter_forms_are_tried_before_a_drop_longest_first() {
    let prompt = |forms: bool| {
        let low = context("low", 10, 30);
        let low = if forms { low.shorter(text(20)).shorter(text(8)) } else { low };
        Prompt::builder("p").include(low).include(context("high", 90, 10))
    };
    insta::assert_snapshot!(fitted(prompt(true), limit(31)), @"
    context:low system 20 shortened (shortened from 30 to 20 tokens to fit token_budget)
    context:high system 10 kept
    system 30, total 30
    ");
    insta::assert_snapshot!(fitted(prompt(true), limit(25)), @"
    context:low system 8 shortened (shortened from 30 to 8 tokens to fit token_budget)
    context:high system 10 kept
    system 18, total 18
    ");
    insta::assert_snapshot!(fitted(prompt(true), limit(15)), @"
    context:low system 30 dropped (did not fit token_budget: 24 tokens over, priority 10)
    context:high system 10 kept
    system 10, total 10
    ");
}

#[test]
fn a_cut_ends_at_a_line_or_sentence_and_says_so() {
    let long = "First line here.\nSecond line here.\nThird line is here.";
    let prompt = |max| Prompt::builder("p").include(Context::text("a", long).max_tokens(Tokens(max)));
    let cut = |max, room| {
        let mut options = limit(room);
        let counter: Arc<dyn TokenCounter> = Arc::new(words);
        options.engine = Some(Engine { counters: Arc::new(FixedCounter(counter)), ..Engine::default() });
        let pass = resolve(&prompt(max).build().expect("it builds"), options).expect("it resolves");
        pass.request().messages.first().and_then(|it| it.as_text()).unwrap_or("(dropped)").to_owned()
    };
    insta::assert_snapshot!(cut(8, 8), @"
    First line here.
    Second line here.
    [… shortened]
    ");
    insta::assert_snapshot!(cut(5, 8), @"
    First line here.
    [… shortened]
    ");
    insta::assert_snapshot!(cut(1, 8), @"(dropped)");
    // With room for all of it, nothing is cut.
    assert_eq!(cut(5, 50), long);
}

#[test]
fn a_source_that_is_too_large_is_named_once_with_what_to_do() {
    let values = json!([{"a": text(20)}, {"b": text(20)}, {"c": text(20)}]);
    let prompt = Prompt::builder("p").system(text(10)).context(values).include(context("x", 0, 15).pinned());
    let counter: Arc<dyn TokenCounter> = Arc::new(words);
    let engine = Engine { counters: Arc::new(FixedCounter(counter)), ..Engine::default() };
    let options = limit(20).engine(&engine);
    let err = prompt.build().and_then(|it| resolve(&it, options)).expect_err("it does not fit");
    insta::assert_snapshot!(err.to_string(), @"token_budget is 22, but what can't be dropped needs 91 tokens, and 1 are kept free because the count is an estimate; the largest: prompt (76), context:x (15)");
    insta::assert_snapshot!(err.kind().hint().unwrap_or_default(), @"raise `token_budget`, or shorten the prompt's own text, or shorten or unpin `context:x`");
}

#[test]
fn history_gives_way_with_the_oldest_turn_first_and_the_newest_stays() {
    let turn = |id: &str, words: usize| Turn::new(id, vec![Message::user(text(words))]);
    let prompt = Prompt::builder("p").system("Own.").include(context("a", 60, 10)).user("Now.");
    let mut options = ResolveOptions::default().history(vec![turn("t1", 10), turn("t2", 10), turn("t3", 10)]);
    options.overrides.budget.input_budget = Some(Tokens(25));
    insta::assert_snapshot!(fitted(prompt.clone(), options.clone()), @"
    prompt system 1 kept
    context:a system 10 kept
    history:t1 history 10 dropped (did not fit input_budget: 18 tokens over, priority 60)
    history:t2 history 10 dropped (did not fit input_budget: 8 tokens over, priority 60)
    history:t3 history 10 kept
    user user 1 kept
    system 11, total 22
    ");
    options.overrides.budget.input_budget = Some(Tokens(11));
    insta::assert_snapshot!(
        fitted(prompt, options),
        @"budget_exceeded at p: input_budget is 11, but what can't be dropped needs 12 tokens; the largest: history:t3 (10), prompt (1), user (1)"
    );
}

#[test]
fn the_models_window_less_the_answer_is_the_default_limit() {
    let prompt = Prompt::builder("p").system("Own.").include(context("a", 50, 50));
    let limits = ModelLimits {
        context_window: Some(Tokens(60)),
        output_reserve: Some(Tokens(20)),
        ..ModelLimits::default()
    };
    let mut options = ResolveOptions::default();
    options.target.limits = limits;
    insta::assert_snapshot!(fitted(prompt.clone(), options.clone()), @"
    prompt system 1 kept
    context:a system 50 dropped (did not fit input_budget: 13 tokens over, priority 50)
    system 1, total 1
    ");
    options.overrides.settings.max_tokens = Some(1);
    insta::assert_snapshot!(fitted(prompt, options), @"
    prompt system 1 kept
    context:a system 50 kept
    system 51, total 51
    ");
}

#[test]
fn shares_of_the_tag_block_give_way_like_any_other() {
    let values = |id: &str, priority: u8, text: &str| {
        Context::new(id).priority(priority).values(json!({"docs": text}))
    };
    let prompt = Prompt::builder("p")
        .system("Own.")
        .include(values("low", 10, "one two three four five six seven eight"))
        .include(values("high", 90, "nine ten"));
    let mut options = limit(6);
    let shown = fitted(prompt.clone(), options.clone());
    insta::assert_snapshot!(shown, @"
    prompt system 1 kept
    context:low tags 8 dropped (did not fit token_budget: 6 tokens over, priority 10)
    context:high tags 4 kept
    system 5, total 5
    ");
    options.overrides.budget = Budget::default();
    let pass = resolve(&prompt.token_budget(12).build().expect("it builds"), options).expect("it resolves");
    assert_eq!(pass.request().messages[0].as_text(), Some("Own.\n\n<docs>\nnine ten\n</docs>"));
}

#[test]
fn an_exact_budget_keeps_what_fits_exactly() {
    let prompt = || {
        Prompt::builder("p")
            .system("Own.")
            .include(Context::text("a", "One."))
            .include(Context::text("b", "Two."))
    };
    let whole =
        resolve(&prompt().build().expect("it builds"), ResolveOptions::default()).expect("it resolves");
    let text = whole.request().messages[0].as_text().expect("a text").to_owned();
    let exact = contexture_message::tokens::counter_for(None).count(&text);
    let fits =
        resolve(&prompt().token_budget(exact.0).build().expect("it builds"), ResolveOptions::default());
    assert!(fits.expect("it resolves").explain().dropped.is_empty());
    let less =
        resolve(&prompt().token_budget(exact.0 - 1).build().expect("it builds"), ResolveOptions::default());
    assert_eq!(less.expect("it resolves").explain().dropped[0].source, "context:b");
}

#[test]
fn priorities_out_of_range_are_refused_with_their_owner() {
    let prompt = Prompt::builder("p")
        .include(Context::text("a", "A.").priority(101))
        .include(Context::text("b", "B.").priority(-1));
    insta::assert_snapshot!(
        fitted(prompt, ResolveOptions::default()),
        @"priority_invalid at p: context:a: priority 101 is outside 0 to 100; context:b: priority -1 is outside 0 to 100"
    );
    assert_eq!(
        Priority::new(f64::NAN).map_err(|it| it.to_string()),
        Err("priority NaN is outside 0 to 100".into())
    );
}

#[test]
fn what_a_section_reads_is_no_share_of_the_block() {
    let mut definition = Prompt::builder("p").build().expect("it builds").definition().clone();
    definition.entries = vec![
        Context::new("a").priority(10).values(json!({"docs": "DDD"})).into(),
        context("b", 90, 60).into(),
    ];
    definition.context_section =
        Some(contexture_compose::Text::template("{{ config.context.docs }}").expect("a template"));
    insta::assert_snapshot!(fitted(definition.into(), limit(30)), @"
    context:b system 60 dropped (did not fit token_budget: 29 tokens over, priority 90)
    context:a tags 3 dropped (did not fit token_budget: 32 tokens over, priority 10)
    prompt system 0 empty
    system 0, total 0
    ");
}

#[test]
fn a_cut_of_blank_lines_takes_no_time() {
    let blank = " \n".repeat(200_000) + &text(50);
    let prompt = Prompt::builder("p").system("Own.").include(Context::text("a", blank).max_tokens(Tokens(5)));
    let shown = fitted(prompt, limit(30));
    assert!(shown.contains("context:a system"), "{shown}");
}

#[test]
fn among_equals_the_later_entry_gives_way_whatever_it_contributes() {
    let tags = Context::new("a").values(json!({"docs": text(10)}));
    let prompt = Prompt::builder("p").include(tags).include(context("b", 50, 10));
    insta::assert_snapshot!(fitted(prompt, limit(15)), @"
    context:b system 10 dropped (did not fit token_budget: 6 tokens over, priority 50)
    context:a tags 12 kept
    system 12, total 12
    ");
}
