//! Each rule by a small conversation with the cache.

use std::sync::Arc;
use std::time::Duration;

use contexture_message::{Encoding, Tokens};
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{AnthropicRules, CacheRules, OpenaiRules, PromptCache};

/// One word is one token, so that cases can be checked by eye; a frame is added to each block.
fn words() -> Arc<dyn contexture_message::TokenCounter> {
    Arc::new(|text: &str| Tokens(u32::try_from(text.split_whitespace().count()).unwrap()))
}

fn frame() -> u64 {
    u64::from(words().profile().framing.message)
}

fn openai() -> PromptCache {
    PromptCache::new(CacheRules::Openai(OpenaiRules::default()), words())
}

fn anthropic() -> PromptCache {
    PromptCache::new(CacheRules::Anthropic(AnthropicRules::default()), words())
}

/// Sends a body and returns its usage: `read / written / uncached`.
fn sent(cache: &mut PromptCache, seconds: u64, body: &Value) -> String {
    match cache.request(body, Duration::from_secs(seconds)) {
        Ok(it) => format!("{} / {} / {}", it.cache_read_tokens, it.cache_write_tokens, it.input_tokens),
        Err(err) => err.to_string(),
    }
}

/// A text that costs exactly `tokens` as a block, and differs by its name.
fn text(name: &str, tokens: u64) -> String {
    vec![name; usize::try_from(tokens - frame()).unwrap()].join(" ")
}

/// A body of the Messages API; each block is a name and what it costs, `!` behind the name marks it, `!1h` for an hour.
fn messages(tools: &[&str], blocks: &[(&str, u64)]) -> Value {
    let content = blocks.iter().map(|(name, tokens)| {
        let (name, ttl) = match name.split_once('!') {
            Some((name, ttl)) => (name, Some(ttl)),
            None => (*name, None),
        };
        let mut block = json!({"type": "text", "text": text(name, *tokens)});
        match ttl {
            Some("") => block["cache_control"] = json!({"type": "ephemeral"}),
            Some(ttl) => block["cache_control"] = json!({"type": "ephemeral", "ttl": ttl}),
            None => {}
        }
        block
    });
    let content: Vec<Value> = content.collect();
    let tools: Vec<Value> = tools.iter().map(|it| json!({"name": it})).collect();
    json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": content}]})
}

/// A body of Chat Completions with a message for each name and cost.
fn chat(said: &[(&str, u64)]) -> Value {
    // The role is a word of its own.
    let message = |(name, tokens): &(&str, u64)| json!({"role": "user", "content": text(name, *tokens - 1)});
    json!({"model": "m", "messages": said.iter().map(message).collect::<Vec<_>>()})
}

#[test]
fn openai_reads_nothing_below_1024_tokens() {
    let mut cache = openai();
    sent(&mut cache, 0, &chat(&[("a", 1023)]));
    assert_eq!(sent(&mut cache, 1, &chat(&[("a", 1023)])), "0 / 0 / 1023");
    sent(&mut cache, 2, &chat(&[("b", 1024)]));
    assert_eq!(sent(&mut cache, 3, &chat(&[("b", 1024)])), "1024 / 0 / 0");
}

#[test]
fn openai_reads_in_steps_of_128_tokens() {
    let mut cache = openai();
    assert_eq!(sent(&mut cache, 0, &chat(&[("a", 1151)])), "0 / 0 / 1151");
    assert_eq!(sent(&mut cache, 1, &chat(&[("a", 1151), ("b", 100)])), "1024 / 0 / 227");
    assert_eq!(sent(&mut cache, 2, &chat(&[("a", 1151), ("b", 100)])), "1152 / 0 / 99");
}

#[test]
fn openai_reads_up_to_the_first_difference_inside_a_message() {
    let mut cache = openai();
    let said = |end: &str| json!({"model": "m", "messages": [{"role": "user", "content": format!("{} {end}", text("a", 2000))}]});
    sent(&mut cache, 0, &said("first"));
    // The role, the words and no frame, in whole steps.
    assert_eq!(sent(&mut cache, 1, &said("second")), "1920 / 0 / 82");
}

#[test]
fn openai_forgets_what_was_unused_for_five_minutes() {
    let mut cache = openai();
    let body = chat(&[("a", 1024)]);
    sent(&mut cache, 0, &body);
    assert_eq!(sent(&mut cache, 300, &body), "1024 / 0 / 0");
    assert_eq!(sent(&mut cache, 600, &body), "1024 / 0 / 0", "use keeps it alive");
    assert_eq!(sent(&mut cache, 901, &body), "0 / 0 / 1024");
}

#[test]
fn openai_compares_tools_and_schema_before_messages() {
    let mut cache = openai();
    let mut body = chat(&[("a", 2048)]);
    sent(&mut cache, 0, &body);
    body["tools"] = json!([{"type": "function", "function": {"name": "new"}}]);
    assert!(sent(&mut cache, 1, &body).starts_with("0 /"));
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"schema": {"type": "object"}}});
    assert!(sent(&mut cache, 2, &body).starts_with("0 /"));
    assert!(sent(&mut cache, 3, &body).starts_with("2048 /"));
}

#[test]
fn openai_reads_the_bodies_of_responses_too() {
    let mut cache = openai();
    let body = json!({"model": "m", "instructions": text("a", 1024), "input": "hi"});
    sent(&mut cache, 0, &body);
    assert!(sent(&mut cache, 1, &body).starts_with("1024 /"));
}

#[test]
fn models_share_nothing() {
    let mut cache = openai();
    let mut body = chat(&[("a", 1024)]);
    sent(&mut cache, 0, &body);
    body["model"] = json!("another");
    assert_eq!(sent(&mut cache, 1, &body), "0 / 0 / 1024");
}

#[test]
fn anthropic_writes_at_marks_and_reads_what_was_written() {
    let mut cache = anthropic();
    assert_eq!(sent(&mut cache, 0, &messages(&[], &[("a!", 2000), ("b", 50)])), "0 / 2000 / 50");
    assert_eq!(sent(&mut cache, 1, &messages(&[], &[("a!", 2000), ("c", 60)])), "2000 / 0 / 60");
    // The mark moves on: what lies between is written.
    assert_eq!(sent(&mut cache, 2, &messages(&[], &[("a", 2000), ("c", 60), ("d!", 70)])), "2000 / 130 / 0");
    // Without a mark nothing is looked for.
    assert_eq!(sent(&mut cache, 3, &messages(&[], &[("a", 2000), ("c", 60)])), "0 / 0 / 2060");
}

#[test]
fn anthropic_writes_no_prefix_below_the_minimum() {
    let mut cache = anthropic();
    assert_eq!(sent(&mut cache, 0, &messages(&[], &[("a!", 1023)])), "0 / 0 / 1023");
    assert_eq!(sent(&mut cache, 1, &messages(&[], &[("a!", 1023)])), "0 / 0 / 1023");
    assert_eq!(sent(&mut cache, 2, &messages(&[], &[("a!", 1023), ("b!", 10)])), "0 / 1033 / 0");
    let rules = AnthropicRules { min_tokens: 4096, ..AnthropicRules::default() };
    let mut cache = PromptCache::new(CacheRules::Anthropic(rules), words());
    assert_eq!(sent(&mut cache, 0, &messages(&[], &[("a!", 4000)])), "0 / 0 / 4000");
}

#[test]
fn anthropic_looks_at_twenty_places_for_each_mark() {
    let grown = |n_more: usize, mark_first: bool| {
        let first = if mark_first { "a!" } else { "a" };
        let mut blocks = vec![(first, 2000)];
        blocks.extend(vec![("more", 10); n_more - 1]);
        blocks.push(("last!", 10));
        messages(&[], &blocks)
    };
    let read = |n_more: usize, mark_first: bool| {
        let mut cache = anthropic();
        sent(&mut cache, 0, &messages(&[], &[("a!", 2000)]));
        sent(&mut cache, 1, &grown(n_more, mark_first))
    };
    assert_eq!(read(19, false), "2000 / 190 / 0");
    assert_eq!(read(20, false), "0 / 2200 / 0");
    assert_eq!(read(20, true), "2000 / 200 / 0", "a second mark looks from its own place");
}

#[test]
fn anthropic_takes_four_marks() {
    let blocks = [("a!", 2000), ("b!", 9), ("c!", 9), ("d!", 9), ("e!", 9)];
    assert_eq!(sent(&mut anthropic(), 0, &messages(&[], &blocks[..4])), "0 / 2027 / 0");
    assert_eq!(
        sent(&mut anthropic(), 0, &messages(&[], &blocks)),
        "the request has 5 cache marks, the limit is 4"
    );
}

#[test]
fn anthropic_entries_live_for_five_minutes_after_their_last_use() {
    let mut cache = anthropic();
    let body = messages(&[], &[("a!", 2000), ("b!", 100)]);
    sent(&mut cache, 0, &body);
    assert_eq!(sent(&mut cache, 300, &body), "2100 / 0 / 0");
    assert_eq!(sent(&mut cache, 600, &body), "2100 / 0 / 0", "use keeps it alive");
    // The shorter prefix was used with the longer one.
    assert_eq!(sent(&mut cache, 900, &messages(&[], &[("a!", 2000)])), "2000 / 0 / 0");
    assert_eq!(sent(&mut cache, 901, &body), "2000 / 100 / 0", "the longer one was not");
}

#[test]
fn anthropic_entries_of_an_hour_live_for_an_hour() {
    let mut cache = anthropic();
    let body = messages(&[], &[("a!1h", 2000), ("b!", 100)]);
    sent(&mut cache, 0, &body);
    assert_eq!(sent(&mut cache, 3600, &body), "2000 / 100 / 0");
    assert_eq!(sent(&mut cache, 7201, &body), "0 / 2100 / 0");
    assert_eq!(
        sent(&mut cache, 7202, &messages(&[], &[("a!", 2000), ("b!1h", 100)])),
        "a cache mark of an hour follows one of minutes"
    );
}

#[test]
fn a_changed_tool_changes_everything_behind_it() {
    let mut cache = anthropic();
    let read = |cache: &mut PromptCache, tools: &[&str]| {
        sent(cache, 0, &messages(tools, &[("a!", 2000)])).split(' ').next().unwrap().to_owned()
    };
    assert_eq!(read(&mut cache, &["x", "y"]), "0");
    assert_ne!(read(&mut cache, &["x", "y"]), "0");
    assert_eq!(read(&mut cache, &["x"]), "0");
    assert_eq!(read(&mut cache, &["y", "x"]), "0");
}

#[test]
fn tool_choice_and_thinking_change_the_messages_but_not_the_system() {
    let mut cache = anthropic();
    let mark = json!({"type": "ephemeral"});
    let mut body = messages(&["x"], &[("a!", 2000)]);
    body["system"] = json!([{"type": "text", "text": text("s", 3000), "cache_control": mark}]);
    sent(&mut cache, 0, &body);
    assert!(sent(&mut cache, 1, &body).ends_with("/ 0 / 0"));
    for field in ["tool_choice", "thinking"] {
        body[field] = json!({"type": "enabled"});
        assert!(sent(&mut cache, 2, &body).ends_with("/ 2000 / 0"), "{field}");
    }
}

#[test]
fn a_mark_is_not_compared() {
    let mut cache = anthropic();
    sent(&mut cache, 0, &messages(&[], &[("a!", 2000), ("b", 10)]));
    assert_eq!(sent(&mut cache, 1, &messages(&[], &[("a", 2000), ("b!", 10)])), "2000 / 10 / 0");
}

#[test]
fn what_the_model_reads_is_counted_and_not_the_json_around_it() {
    let mut cache =
        PromptCache::new(CacheRules::Openai(OpenaiRules::default()), Arc::new(Encoding::O200kBase));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "\"\n\"\n"}]});
    let total = cache.request(&body, Duration::ZERO).unwrap().total();
    assert!(total < 12, "{total}");
}

/// A request as the pieces it is made of: at each place one of a few texts, marked or not.
fn requests() -> impl Strategy<Value = Vec<(u64, Vec<(&'static str, u64)>)>> {
    let name = prop_oneof![Just("a"), Just("a!"), Just("b"), Just("b!")];
    let block = (name, prop_oneof![Just(40_u64), Just(700), Just(1500)]);
    let request = (0_u64..400, proptest::collection::vec(block, 1..8));
    proptest::collection::vec(request, 1..12)
}

/// How many tokens two prompts have in common at their beginning.
fn common(a: &[(&str, u64)], b: &[(&str, u64)]) -> u64 {
    let plain = |it: &(&str, u64)| (it.0.trim_end_matches('!').to_owned(), it.1);
    let pairs = a.iter().map(plain).zip(b.iter().map(plain));
    pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.1).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_read_that_was_not_sent_before(requests in requests()) {
        let (mut marked, mut automatic) = (anthropic(), openai());
        let (mut now, mut before): (u64, Vec<Vec<(&str, u64)>>) = (0, Vec::new());
        for (pause, blocks) in requests {
            now += pause;
            let total: u64 = blocks.iter().map(|it| it.1).sum();
            let known = before.iter().map(|it| common(it, &blocks)).max().unwrap_or(0);
            if let Ok(it) = marked.request(&messages(&[], &blocks), Duration::from_secs(now)) {
                assert!(it.total() == total && it.cache_read_tokens <= known, "{it:?}, known {known}");
                let plain: Vec<_> = blocks.iter().map(|it| (it.0.trim_end_matches('!'), it.1)).collect();
                let it = automatic.request(&chat(&plain), Duration::from_secs(now)).unwrap();
                // The next message may begin with the same words.
                assert!(it.total() == total && it.cache_read_tokens <= known + 1500, "{it:?}, known {known}");
                assert_eq!(it.cache_read_tokens % 128, 0);
                before.push(blocks);
            }
        }
    }
}
