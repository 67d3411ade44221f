//! The cache contract: order, breakpoints, forecast, diff.

use contexture_compose::{
    Arrangement, CacheConfig, Context, Explanation, Pass, Prompt, PromptBuilder, ResolveOptions, Text, Turn,
};
use contexture_message::{Breakpoint, Message, Tokens, Tool};
use contexture_testkit::resolve;
use serde_json::{Value, json};

fn pass(prompt: &PromptBuilder, options: ResolveOptions) -> Pass {
    resolve(&prompt.clone().build().expect("it builds"), options).expect("it resolves")
}

fn system(pass: &Pass) -> &str {
    pass.request().messages[0].as_text().expect("a text")
}

fn of_input(key: &'static str) -> Text {
    Text::of(move |it: &Value| format!("{key} {}", it[key]))
}

fn long(word: &str) -> String {
    format!("{word} ").repeat(1_200)
}

fn volatile() -> PromptBuilder {
    Prompt::builder("p")
        .system("Own.")
        .include(Context::text("v", of_input("v")))
        .include(Context::text("s", "Static."))
        .include(Context::text("user", Text::template("{{ ctx.user }}").expect("a template")))
}

#[test]
fn cache_first_orders_by_volatility() {
    let by_volatility = volatile().cache(CacheConfig { arrange: Arrangement::CacheFirst });
    let mut options = ResolveOptions::new(json!({"v": 1}));
    options.scope.user = Some("ada".to_owned());
    assert_eq!(system(&pass(&by_volatility, options.clone())), "Own.\n\nStatic.\n\nada\n\nv 1");
    assert_eq!(system(&pass(&volatile(), options)), "Own.\n\nv 1\n\nStatic.\n\nada");
}

#[test]
fn a_static_segment_behind_a_volatile_one_is_warned_of() {
    let warnings = pass(&volatile(), ResolveOptions::new(json!({"v": 1}))).explain().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("context:s") && warnings[0].contains("context:v"), "{warnings:?}");
}

#[test]
fn breakpoints_follow_the_providers_rules() {
    let prompt = Prompt::builder("p")
        .system(long("own"))
        .tool(Tool::new("find", long("tool")))
        .include(Context::text("v", of_input("v")));
    let history = || vec![Turn::new("t1", vec![Message::user("q"), Message::assistant("a")])];
    let claude = |prompt: &PromptBuilder| {
        let options =
            ResolveOptions::new(json!({"v": 1})).model("anthropic/claude-sonnet-4-5").history(history());
        pass(prompt, options).request().breakpoints.clone()
    };
    // What changes each turn stands before the history: there is no use in marking behind it.
    assert_eq!(
        claude(&prompt),
        [Breakpoint::Tools, Breakpoint::Text { message: 0, byte: long("own").len() }]
    );
    let stable = Prompt::builder("p").system(long("own")).tool(Tool::new("find", long("tool"))).user("Now.");
    assert_eq!(
        claude(&stable),
        [
            Breakpoint::Tools,
            Breakpoint::Text { message: 0, byte: long("own").len() },
            Breakpoint::Message { message: 2 }
        ]
    );
    let small = Prompt::builder("p").system("Own.").tool(Tool::new("find", ""));
    assert_eq!(claude(&small), [], "below the provider's minimum");
    let openai = ResolveOptions::new(json!({"v": 1})).model("openai/gpt-5");
    assert_eq!(pass(&prompt, openai).request().breakpoints, [], "it finds prefixes by itself");
}

#[test]
fn the_forecast_names_who_broke_the_prefix() {
    let prompt =
        Prompt::builder("p").system(long("own")).include(Context::text("v", of_input("v"))).user("Now.");
    let options = |v: u32| ResolveOptions::new(json!({"v": v})).model("openai/gpt-5");
    let first = pass(&prompt, options(11));
    assert_eq!(first.explain().cache.forecast, None);

    let same = pass(&prompt, options(11).previous(&first)).explain().cache.forecast.expect("a forecast");
    assert_eq!(same.changed, None);
    let changed = pass(&prompt, options(12).previous(&first)).explain().cache.forecast.expect("a forecast");
    let change = changed.changed.clone().expect("a change");
    assert_eq!((change.source.as_str(), change.byte), ("context:v", long("own").len() + "\n\nv 1".len()));
    assert!(changed.read_tokens < same.read_tokens && changed.read_tokens > Tokens(1_024));
    assert!(changed.reconcile(Tokens(0)).broken && !changed.reconcile(changed.read_tokens).broken);
}

#[test]
fn a_longer_conversation_reads_everything_it_said_before() {
    let prompt = Prompt::builder("p").system(long("own"));
    let turn =
        |id: &str, question: &str| Turn::new(id, vec![Message::user(question), Message::assistant("a")]);
    let options = |turns| ResolveOptions::default().model("openai/gpt-5").history(turns);
    let first = pass(&prompt, options(vec![turn("t1", "q1")]).user_message("q2"));
    // What was this turn's message is the history's now.
    let longer = options(vec![turn("t1", "q1"), turn("t2", "q2")]).user_message("q3");
    let forecast = pass(&prompt, longer.previous(&first)).explain().cache.forecast.expect("a forecast");
    assert_eq!(forecast.changed, None);
    let seen = contexture_message::tokens::counter_for(Some("gpt-5"));
    let whole: u32 = first
        .request()
        .messages
        .iter()
        .skip(1)
        .map(|it| contexture_message::tokens::message_tokens(&*seen, it).0)
        .sum();
    assert_eq!(forecast.read_tokens.0, seen.count(&long("own")).0 + whole);
}

#[test]
fn a_diff_tells_what_was_added_removed_changed_and_moved() {
    let prompt = Prompt::builder("p")
        .system("Own.")
        .include(Context::text("a", "A.").when(|it: &Value| it["a"] == true))
        .include(Context::text("v", of_input("v")));
    let explain = |input: Value| pass(&prompt, ResolveOptions::new(input)).explain();
    let (before, now) = (explain(json!({"a": true, "v": 1})), explain(json!({"a": false, "v": 2})));
    let diff = Explanation::diff(&before, &now);
    let names = |changes: &[contexture_compose::Change]| {
        changes.iter().map(|it| it.source.clone()).collect::<Vec<_>>().join(",")
    };
    assert_eq!(
        (names(&diff.added), names(&diff.removed), names(&diff.changed)),
        ("".into(), "context:a".into(), "context:v".into())
    );
    assert_eq!(diff.removed[0].reason.as_deref(), Some("context-level when returned false"));
    assert_eq!(diff.first_difference.and_then(|it| it.byte), Some("Own.\n\n".len()));
    assert!(Explanation::diff(&before, &before).is_empty());
}

#[test]
fn equal_requests_have_equal_fingerprints() {
    let one = pass(&volatile(), ResolveOptions::new(json!({"v": 1})));
    let same = pass(&volatile(), ResolveOptions::new(json!({"v": 1})));
    let other = pass(&volatile(), ResolveOptions::new(json!({"v": 2})));
    assert_eq!(one.fingerprint(), same.fingerprint());
    assert_ne!(one.fingerprint(), other.fingerprint());
}

#[test]
fn a_part_that_moved_is_named_alone() {
    let prompt = |cached: &str| {
        ["a", "b", "c", "d"].iter().fold(Prompt::builder("p"), |prompt, id| {
            let context = Context::text(*id, *id);
            prompt.include(if *id == cached { context.cached() } else { context })
        })
    };
    let explain = |cached| pass(&prompt(cached), ResolveOptions::default()).explain();
    let diff = Explanation::diff(&explain(""), &explain("d"));
    let moved: Vec<&str> = diff.moved.iter().map(|it| it.source.as_str()).collect();
    assert_eq!(moved, ["context:d"]);
}

#[test]
fn a_partial_that_reads_nothing_leaves_the_text_static() {
    struct Tone;
    impl contexture_template::Partials for Tone {
        fn partial(&self, name: &str) -> Option<contexture_template::Template> {
            let source = if name == "tone" { "Be kind." } else { "Hi {{ input.v }}" };
            contexture_template::Template::parse(source).ok()
        }
    }
    let volatility = |source: &str| {
        let template = contexture_template::Template::parse(source).expect("a template");
        Text::from_template(template, Some(std::sync::Arc::new(Tone))).volatility()
    };
    assert_eq!(volatility("{% render 'tone' %}"), contexture_compose::Volatility::Static);
    assert_eq!(volatility("{% render 'greeting' %}"), contexture_compose::Volatility::Turn);
}
