//! The cache contract: order, breakpoints, diff.

use std::sync::Arc;

use contexture_compose::{
    Arrangement, CacheConfig, CacheRules, Context, Explanation, Pass, Prompt, PromptBuilder, ResolveOptions,
    Text, Turn, provider,
};
use contexture_message::{
    Breakpoint, Message, Part, Role, Tokens, ToolCall, ToolDefinition, ToolOutput, ToolResult,
};
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
        .tool(ToolDefinition::new("find", long("tool")))
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
    let stable =
        Prompt::builder("p").system(long("own")).tool(ToolDefinition::new("find", long("tool"))).user("Now.");
    assert_eq!(
        claude(&stable),
        [
            Breakpoint::Tools,
            Breakpoint::Text { message: 0, byte: long("own").len() },
            Breakpoint::Message { message: 2 }
        ]
    );
    let small = Prompt::builder("p").system("Own.").tool(ToolDefinition::new("find", ""));
    assert_eq!(claude(&small), [], "below the provider's minimum");
    let openai = ResolveOptions::new(json!({"v": 1})).model("openai/gpt-5");
    assert_eq!(pass(&prompt, openai).request().breakpoints, [], "it finds prefixes by itself");
}

/// A turn in flight: the user asks, the model calls a tool, and is told so many results.
fn running(n_steps: usize) -> Vec<Arc<Message>> {
    let step = |n: usize| {
        let (id, name) = (format!("c{n}"), "find".to_owned());
        let result =
            ToolResult { call_id: id.clone(), name: name.clone(), output: ToolOutput::Text("found".into()) };
        let call = ToolCall { id, name, arguments: json!({}) };
        [
            Message::parts(Role::Assistant, vec![Part::ToolCall(call)]),
            Message::parts(Role::Tool, vec![Part::ToolResult(result)]),
        ]
    };
    let steps = (0..n_steps).flat_map(step);
    [Message::user("q2")].into_iter().chain(steps).map(Arc::new).collect()
}

#[test]
fn a_later_step_of_a_turn_marks_the_end_of_the_request() {
    let prompt = Prompt::builder("p").system(long("own")).tool(ToolDefinition::new("find", long("tool")));
    let history = || vec![Turn::new("t1", vec![Message::user("q"), Message::assistant("a")])];
    let marks = |prompt: &PromptBuilder, in_flight, max_breakpoints| {
        let mut options = ResolveOptions::new(json!({"v": 1})).model("claude").history(history());
        options.conversation.in_flight = in_flight;
        options.target.cache_rules =
            Some(CacheRules { max_breakpoints, min_tokens: Tokens(1024), lifetime_s: 300 });
        let pass = pass(prompt, options.block("page", "7"));
        (pass.request().breakpoints.clone(), pass.request().messages.len())
    };
    let first = [
        Breakpoint::Tools,
        Breakpoint::Text { message: 0, byte: long("own").len() },
        Breakpoint::Message { message: 2 },
    ];
    assert_eq!(marks(&prompt, running(0), 4), (first.to_vec(), 4), "nothing was said yet");
    let last = Breakpoint::Message { message: 7 };
    assert_eq!(marks(&prompt, running(2), 4), ([&first[..], &[last]].concat(), 8));
    assert_eq!(marks(&prompt, running(2), 2).0, [first[2], last], "the latest win");
    // The envelope makes a message of its own, and the prompt's own words do.
    assert_eq!(marks(&prompt, running(2)[1..].to_vec(), 1), (vec![last], 8));
    let last = Breakpoint::Message { message: 8 };
    assert_eq!(marks(&prompt.clone().user("Now."), running(2), 1), (vec![last], 9));
    // Also behind what changes each turn: it does not change with the step.
    let volatile = prompt.include(Context::text("v", of_input("v")));
    assert_eq!(marks(&volatile, running(2), 1).0, [Breakpoint::Message { message: 7 }]);
}

#[test]
fn messages_that_change_each_turn_before_the_history_are_warned_of() {
    let provider = provider("news", |_| async { Ok(vec![Message::system("It rains.")]) });
    let listed = Text::template("Today is {{ input.day }}.").expect("a template");
    let prompt = Prompt::builder("p").include(provider).message(Role::Assistant, listed);
    let warnings = |turns| {
        let options = ResolveOptions::new(json!({"day": "Monday"})).history(turns).user_message("Hi");
        pass(&prompt, options).explain().warnings
    };
    assert_eq!(warnings(Vec::new()), [""; 0]);
    let warned = warnings(vec![Turn::new("t1", vec![Message::user("q"), Message::assistant("a")])]);
    let rest = "changes each turn and stands before the history: 8 history tokens can't be cached; \
                put it into the user's message instead";
    assert_eq!(warned, [format!("prompt {rest}"), format!("provider:news {rest}")]);
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
