//! What the provider should read from its cache, and how that turned out.

use std::sync::Arc;
use std::time::Duration;

use contexture_compose::{
    Context, Forecast, MissCause, Pass, Price, Prompt, PromptBuilder, ResolveOptions, Sent, Text, Turn,
};
use contexture_message::tokens::{counter_for, message_tokens};
use contexture_message::{Message, Tokens, ToolDefinition, Usage};
use contexture_testkit::{prose, resolve, text};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

fn pass(prompt: &PromptBuilder, options: ResolveOptions) -> Pass {
    resolve(&prompt.clone().build().expect("it builds"), options).expect("it resolves")
}

/// Resolves a prompt after something was sent.
fn forecast(prompt: &PromptBuilder, mut options: ResolveOptions, before: &Arc<Sent>) -> Forecast {
    options.cache.previous = Some(Arc::clone(before));
    pass(prompt, options).explain().cache.forecast.expect("a forecast")
}

/// What is left of a request in the log of a thread.
fn kept(pass: &Pass) -> Arc<Sent> {
    let json = serde_json::to_string(&*pass.sent()).expect("plain data");
    Arc::new(serde_json::from_str(&json).expect("what was written"))
}

fn of_input(key: &'static str) -> Text {
    Text::of(move |it: &Value| format!("{key} {}", it[key]))
}

fn long(word: &str) -> String {
    format!("{word} ").repeat(1_200)
}

fn turn(id: &str, question: &str) -> Turn {
    Turn::new(id, vec![Message::user(question), Message::assistant("a")])
}

fn gpt(v: u32) -> ResolveOptions {
    ResolveOptions::new(json!({"v": v})).model("openai/gpt-5")
}

fn idle(mut options: ResolveOptions, seconds: u64) -> ResolveOptions {
    options.cache.idle = Some(Duration::from_secs(seconds));
    options
}

/// A prompt of which a part changes with the input.
fn varied() -> PromptBuilder {
    Prompt::builder("p").system(long("own")).include(Context::text("v", of_input("v"))).user("Now.")
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
    let seen = counter_for(Some("gpt-5"));
    let whole: u32 = first.request().messages.iter().skip(1).map(|it| message_tokens(&*seen, it).0).sum();
    assert_eq!(forecast.read_tokens.0, seen.count(&long("own")).0 + whole);
}

#[test]
fn a_message_that_changed_is_found_to_the_byte() {
    let prompt = Prompt::builder("p").system(long("own")).tool(ToolDefinition::new("find", "Finds."));
    let turns = |word: &str| vec![turn("t1", "q1"), turn("t2", &format!("q2 {word} end")), turn("t3", "q3")];
    let before = pass(&prompt, gpt(1).history(turns("old")).user_message("q4"));
    let found = forecast(&prompt, gpt(1).history(turns("odd")).user_message("q4"), &before.sent());
    let change = found.changed.expect("a change");
    let tool = serde_json::to_string(&*before.request().tools[0]).expect("plain data");
    let same = r#"user [{"type":"text","text":"q1"}]assistant [{"type":"text","text":"a"}]user [{"type":"text","text":"q2 o"#;
    assert_eq!(
        (change.source.as_str(), change.byte),
        ("history:t2", tool.len() + long("own").len() + same.len())
    );
    let counter = counter_for(Some("gpt-5"));
    let lost = before.request().messages[3..].iter().map(|it| message_tokens(&*counter, it)).sum::<Tokens>();
    assert_eq!(change.lost_tokens, lost);
}

#[test]
fn the_order_of_keys_is_seen() {
    let prompt = |schema: &str| {
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        Prompt::builder("p").tool(ToolDefinition::new("find", "Finds.").parameters(schema))
    };
    let (one, other) = (r#"{"type":"object","title":"x"}"#, r#"{"title":"x","type":"object"}"#);
    let before = pass(&prompt(one), gpt(1)).sent();
    assert_eq!(forecast(&prompt(one), gpt(1), &before).changed, None);
    let change = forecast(&prompt(other), gpt(1), &before).changed.expect("a change");
    assert_eq!(
        (change.source.as_str(), change.byte),
        ("prompt", r#"{"name":"find","description":"Finds.","parameters":{"t"#.len())
    );
}

#[test]
fn another_model_reads_nothing() {
    let before = pass(&varied(), gpt(1)).sent();
    let found = forecast(&varied(), gpt(1).model("openai/gpt-5-mini"), &before);
    let change = found.changed.expect("a change");
    assert_eq!((found.read_tokens, change.source.as_str(), change.byte), (Tokens(0), "model", 0));
    assert!(change.lost_tokens > Tokens(1_200));
}

#[test]
fn a_cache_that_was_not_read_for_too_long_is_gone() {
    let before = pass(&varied(), gpt(1)).sent();
    let after = |s| forecast(&varied(), idle(gpt(2), s), &before);
    assert_eq!(after(301), Forecast { expired: true, ..Forecast::default() });
    assert!(!after(300).expired && after(300).changed.is_some());
}

#[test]
fn a_change_costs_what_the_cached_price_would_have_saved() {
    let before = pass(&varied(), gpt(1)).sent();
    let cost = |price| {
        let mut options = gpt(2);
        options.target.price = price;
        forecast(&varied(), options, &before).changed.and_then(|it| it.cost)
    };
    let price = Price { input: Some(2.0), cache_read: Some(0.5), ..Price::default() };
    let lost = forecast(&varied(), gpt(2), &before).changed.expect("a change").lost_tokens;
    let expected = f64::from(lost.0) * 1.5 / 1e6;
    assert!(cost(Some(price)).is_some_and(|it| (it - expected).abs() < 1e-12));
    assert_eq!((cost(None), cost(Some(Price::default()))), (None, None));
}

#[test]
fn what_a_thread_kept_is_assumed_to_be_unchanged() {
    let first = pass(&varied(), gpt(1).history(vec![turn("t1", "q1")]));
    let next = || gpt(1).history(vec![turn("t1", "q1"), turn("t2", "Now.")]);
    let (known, assumed) =
        (forecast(&varied(), next(), &first.sent()), forecast(&varied(), next(), &kept(&first)));
    assert_eq!(assumed, Forecast { assumed: true, ..known });
    let changed = forecast(&varied(), gpt(2), &kept(&first)).changed.expect("a change");
    assert_eq!((changed.source.as_str(), changed.byte), ("context:v", long("own").len() + "\n\nv ".len()));
    // The window may begin later now; nobody knows.
    let shorter = forecast(&varied(), gpt(1), &kept(&first));
    assert!(shorter.assumed && shorter.changed.is_none());
}

#[test]
fn the_forecast_is_reconciled_once_and_explained() {
    let read = |tokens| Usage { cache_read_tokens: Some(tokens), ..Usage::default() };
    let before = pass(&varied(), gpt(1));
    assert_eq!(before.reconcile(read(9)), None, "there was no forecast");
    let cause = |options: ResolveOptions, tokens| {
        let pass = pass(&varied(), options.previous(&before));
        let told = pass.reconcile(read(tokens)).expect("there was a forecast");
        assert_eq!(pass.reconcile(read(tokens + 1)).as_ref(), Some(&told), "the first report counts");
        assert_eq!(pass.explain().cache.reconciliation.as_ref(), Some(&told));
        (told.broken, told.cause)
    };
    assert_eq!(cause(gpt(1), 1_210), (false, None));
    assert_eq!(cause(gpt(1), 0), (true, Some(MissCause::Unknown)));
    assert_eq!(cause(gpt(2), 1_210), (false, Some(MissCause::Changed("context:v".into()))));
    assert_eq!(cause(idle(gpt(1), 3_600), 0), (false, Some(MissCause::Expired)));

    let small = Prompt::builder("p").system("Own.");
    let pass_of = |options| pass(&small, options);
    let told = pass_of(gpt(1).previous(&pass_of(gpt(1)))).reconcile(read(0)).expect("there was a forecast");
    assert_eq!((told.broken, told.cause), (false, Some(MissCause::BelowMinimum)));
}

/// What a provider reads, one after the other.
fn written(pass: &Pass) -> String {
    let request = pass.request();
    let tools = request.tools.iter().map(|it| serde_json::to_string(&**it).expect("plain data"));
    let n_system = usize::from(pass.sent().n_messages() < request.messages.len());
    let system = request.messages[..n_system].iter().filter_map(|it| it.as_text()).map(str::to_owned);
    let messages = request.messages[n_system..].iter().map(|it| {
        format!("{} {}", it.role.as_str(), serde_json::to_string(&it.content).expect("plain data"))
    });
    tools.chain(system).chain(messages).collect()
}

proptest! {
    #[test]
    fn the_byte_is_where_two_requests_begin_to_differ(
        own in vec(prose(), 1..3), turns in vec(text(), 0..6), more in vec(text(), 0..3),
        edit in any::<Option<(u8, bool)>>(), page in text(), said in text(),
    ) {
        let prompt = own.iter().enumerate().fold(Prompt::builder("p").tool(ToolDefinition::new("find", "Finds.")), |it, (n, text)| {
            it.include(Context::text(format!("c{n}"), text.as_str()))
        });
        let listed = |texts: &[String]| texts.iter().enumerate().map(|(n, it)| turn(&format!("t{n}"), it)).collect::<Vec<_>>();
        let options = |texts: &[String]| ResolveOptions::default().history(listed(texts)).user_message(said.as_str()).block("page", page.as_str());
        let before = pass(&prompt, options(&turns));
        let mut later = turns.clone();
        if let Some((at, grows)) = edit && let Some(text) = later.get_mut(usize::from(at) % turns.len().max(1)) {
            if grows { text.push('!') } else { text.pop(); }
        }
        later.extend(more);
        let now = pass(&prompt, options(&later).previous(&before));
        let found = now.explain().cache.forecast.expect("a forecast");
        let (old, new) = (written(&before), written(&now));
        match found.changed {
            Some(change) => {
                prop_assert!(old.as_bytes().get(..change.byte) == new.as_bytes().get(..change.byte), "{change:?}\n{old}\n{new}");
                prop_assert!(!new.starts_with(&old), "{change:?}\n{old}\n{new}");
            }
            None => prop_assert!(new.starts_with(&old), "{old}\n{new}"),
        }
        let again = pass(&prompt, options(&turns).previous(&before)).explain();
        let tokens: Tokens = again.parts.iter().filter(|it| it.slot != "tools" && it.slot != "system").map(|it| it.tokens).sum();
        let whole = again.cache.forecast.expect("a forecast");
        prop_assert_eq!(whole.changed, None);
        prop_assert!(whole.read_tokens >= tokens && whole.read_tokens <= again.total_tokens);
    }
}
