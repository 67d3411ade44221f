//! What a request becomes where the model and the target matter; the shapes themselves are in `golden`.

use std::sync::Arc;

use contexture_message::{Message, Request, Tokens};
use contexture_wire::{Capabilities, Dialect, ModelFacts, Target, encode_request};
use serde_json::{Value, json};

/// Encodes a request that says "Go." and shows the fields besides the usual ones, then the losses. The only caller of the
/// API here.
fn encoded(target: &Target, fields: Value) -> String {
    let mut request = json!({"messages": [{"role": "user", "content": "Go."}]});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let request: Request = serde_json::from_value(request).unwrap();
    let encoded = encode_request(target, &request);
    let usual = ["model", "store"];
    let body = encoded.body.as_object().unwrap().iter().filter(|(name, _)| !usual.contains(&name.as_str()));
    let lines = body.map(|(name, value)| format!("{name} = {value}\n"));
    let losses = encoded.losses.iter().map(|it| format!("loss: {}: {}\n", it.at, it.reason));
    lines.chain(losses).collect()
}

fn openai(model: &str) -> Target {
    Target::new(Dialect::Openai, "openai", model)
}

fn responses(model: &str) -> Target {
    Target::new(Dialect::OpenaiResponses, "openai", model)
}

#[test]
fn streams_and_cache_keys_are_asked_for() {
    let target = |it: Target| Target { stream: true, cache_key: Some("thread-1".to_owned()), ..it };
    insta::assert_snapshot!(encoded(&target(openai("gpt-5")), json!({})), @r#"
    messages = [{"role":"user","content":"Go."}]
    stream = true
    stream_options = {"include_usage":true}
    prompt_cache_key = "thread-1"
    "#);
    insta::assert_snapshot!(encoded(&target(responses("gpt-5")), json!({})), @r#"
    input = [{"type":"message","role":"user","content":"Go."}]
    include = ["reasoning.encrypted_content"]
    stream = true
    prompt_cache_key = "thread-1"
    "#);
}

#[test]
fn the_limit_has_the_name_that_the_server_knows() {
    let fields = || json!({"settings": {"max_tokens": 100}});
    insta::assert_snapshot!(encoded(&openai("gpt-4o"), fields()), @r#"
    messages = [{"role":"user","content":"Go."}]
    max_completion_tokens = 100
    "#);
    insta::assert_snapshot!(encoded(&openai("gpt-9"), fields()), @r#"
    messages = [{"role":"user","content":"Go."}]
    max_completion_tokens = 100
    "#);
    insta::assert_snapshot!(encoded(&openai("gpt-oss:20b"), fields()), @r#"
    messages = [{"role":"user","content":"Go."}]
    max_tokens = 100
    "#);
    insta::assert_snapshot!(encoded(&openai("qwen3:8b"), fields()), @r#"
    messages = [{"role":"user","content":"Go."}]
    max_tokens = 100
    "#);
    insta::assert_snapshot!(encoded(&responses("qwen3:8b"), fields()), @r#"
    input = [{"type":"message","role":"user","content":"Go."}]
    max_output_tokens = 100
    include = ["reasoning.encrypted_content"]
    "#);
}

#[test]
fn a_limit_beyond_the_model_is_clipped() {
    let facts = ModelFacts { max_output: Some(Tokens(4096)), ..ModelFacts::default() };
    let target = Target { facts, ..openai("gpt-4o") };
    insta::assert_snapshot!(encoded(&target, json!({"settings": {"max_tokens": 10_000}})), @r#"
    messages = [{"role":"user","content":"Go."}]
    max_completion_tokens = 4096
    loss: settings.max_tokens: 10000 tokens, the model writes at most 4096
    "#);
}

#[test]
fn what_the_model_can_not_do_is_left_out() {
    let capabilities = Capabilities {
        tools: None,
        images: Some(false),
        pdf: Some(false),
        structured_output: Some(false),
        reasoning: Some(false),
        sampling: Some(false),
        memory_tool: Some(false),
    };
    let facts = ModelFacts { capabilities, ..ModelFacts::default() };
    let fields = || {
        json!({
            "messages": [{"role": "user", "content": [
                {"type": "image", "data": "QUJD", "media_type": "image/png"},
                {"type": "file", "data": "QUJD", "media_type": "application/pdf", "name": "a.pdf"},
            ]}],
            "output": {"type": "object"},
            "settings": {"temperature": 1, "top_p": 0.5, "max_tokens": 10, "reasoning": {"effort": "high"}},
        })
    };
    insta::assert_snapshot!(encoded(&Target { facts, ..openai("gpt-4o") }, fields()), @r#"
    messages = [{"role":"user","content":[{"type":"text","text":"[image: image/png, 3 bytes, not shown]"},{"type":"text","text":"[file: a.pdf, application/pdf, 3 bytes, not shown]"}]}]
    max_completion_tokens = 10
    loss: messages[0].content[0]: `gpt-4o` does not accept images, sent as a reference
    loss: messages[0].content[1]: `gpt-4o` does not accept PDF files, sent as a reference
    loss: output: `gpt-4o` does not support structured output, left out
    loss: settings.temperature: `gpt-4o` does not accept it, left out
    loss: settings.top_p: `gpt-4o` does not accept it, left out
    loss: settings.reasoning: `gpt-4o` does not support thinking, left out
    "#);
    insta::assert_snapshot!(encoded(&Target { facts, ..responses("gpt-4o") }, fields()), @r#"
    input = [{"type":"message","role":"user","content":[{"type":"input_text","text":"[image: image/png, 3 bytes, not shown]"},{"type":"input_text","text":"[file: a.pdf, application/pdf, 3 bytes, not shown]"}]}]
    max_output_tokens = 10
    loss: messages[0].content[0]: `gpt-4o` does not accept images, sent as a reference
    loss: messages[0].content[1]: `gpt-4o` does not accept PDF files, sent as a reference
    loss: output: `gpt-4o` does not support structured output, left out
    loss: settings.temperature: `gpt-4o` does not accept it, left out
    loss: settings.top_p: `gpt-4o` does not accept it, left out
    loss: settings.reasoning: `gpt-4o` does not support thinking, left out
    "#);
}

#[test]
fn entries_for_the_provider_win_and_others_are_skipped() {
    let fields = || {
        json!({"settings": {"temperature": 0.2, "reasoning": {"effort": "low"}, "max_tokens": 20_000, "provider": {
            "openai": {"service_tier": "flex"},
            "anthropic": {"thinking": {"type": "enabled"}},
            "reasoning": {"summary": "detailed"},
            "gemini": "a value is not for a dialect",
            "temperature": 0.9,
        }}})
    };
    insta::assert_snapshot!(encoded(&openai("gpt-5"), fields()), @r#"
    messages = [{"role":"user","content":"Go."}]
    temperature = 0.9
    max_completion_tokens = 20000
    reasoning_effort = "low"
    service_tier = "flex"
    reasoning = {"summary":"detailed"}
    gemini = "a value is not for a dialect"
    "#);
    insta::assert_snapshot!(encoded(&responses("gpt-5"), fields()), @r#"
    input = [{"type":"message","role":"user","content":"Go."}]
    temperature = 0.9
    max_output_tokens = 20000
    reasoning = {"effort":"low","summary":"detailed"}
    include = ["reasoning.encrypted_content"]
    service_tier = "flex"
    gemini = "a value is not for a dialect"
    "#);
    let groq = Target::new(Dialect::Openai, "groq", "llama-3.3-70b");
    let fields = json!({"settings": {"provider": {"groq": {"x": 1}, "other": {"y": 2}}}});
    insta::assert_snapshot!(encoded(&groq, fields), @r#"
    messages = [{"role":"user","content":"Go."}]
    x = 1
    other = {"y":2}
    "#);
}

#[test]
fn thinking_that_led_to_nothing_is_not_sent_back() {
    let item =
        json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "x"}).to_string();
    let thinking = json!({"type": "thinking", "text": "", "signature": item, "provider": "openai"});
    let messages =
        json!([{"role": "assistant", "content": [thinking]}, {"role": "user", "content": "Well?"}]);
    insta::assert_snapshot!(encoded(&responses("gpt-5"), json!({"messages": messages})), @r#"
    input = [{"type":"message","role":"user","content":"Well?"}]
    include = ["reasoning.encrypted_content"]
    loss: messages[0].content[0]: nothing follows that it led to, left out
    "#);
}

#[test]
fn a_signature_that_is_not_an_item_is_not_sent_back() {
    let thinking = json!({"type": "thinking", "text": "Hm.", "signature": "EqQB", "provider": "openai"});
    let said = json!({"type": "text", "text": "Yes."});
    let messages = json!([{"role": "assistant", "content": [thinking, said]}]);
    insta::assert_snapshot!(encoded(&responses("gpt-5"), json!({"messages": messages})), @r#"
    input = [{"type":"message","role":"assistant","content":"Yes."}]
    include = ["reasoning.encrypted_content"]
    loss: messages[0].content[0]: not signed as an item of this dialect, left out
    "#);
}

#[test]
fn the_name_of_a_speaker_is_sent_or_reported_as_lost() {
    let named = |name: &str| {
        let message = Message { name: Some(name.to_owned()), ..Message::user("hi") };
        Request { messages: vec![Arc::new(message)], ..Request::default() }
    };
    for dialect in Dialect::ALL {
        let written = encode_request(&Target::new(dialect, "test", "m"), &named("ada"));
        let is_sent = written.body.to_string().contains("\"name\":\"ada\"");
        let is_lost = written.losses.iter().any(|it| it.at.ends_with(".name"));
        assert_eq!(
            (is_sent, is_lost),
            (dialect == Dialect::Openai, dialect != Dialect::Openai),
            "{dialect:?}"
        );
    }
    // What the provider would refuse is not sent.
    let written = encode_request(&Target::new(Dialect::Openai, "test", "m"), &named("<ada>"));
    assert!(!written.body.to_string().contains("<ada>") && written.losses.len() == 1);
}
