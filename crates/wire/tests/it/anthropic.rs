//! Anthropic Messages.

use contexture_message::{
    Breakpoint, Citation, CitationOrigin, Evidence, Message, Part, RawCitation, Request, Role, Thinking,
    Tokens, ToolOutput,
};
use contexture_wire::{
    Dialect, Frame, ModelFacts, ProviderErrorKind, StreamEncoder, StreamError, Target, decode_answer,
    decode_request, encode_answer, encode_request,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::arbitrary::{self, MARKER, words};
use crate::golden::shows;
use crate::streams;

fn target() -> Target {
    Target::new(Dialect::Anthropic, "anthropic", "claude-sonnet-4-5")
}

fn request(value: Value) -> Request {
    serde_json::from_value(value).expect("a neutral request")
}

/// Shows what is sent for a request, without what is always there, and what is lost.
fn sent(target: &Target, value: Value) -> String {
    let encoded = encode_request(target, &request(value));
    let mut body = encoded.body;
    body.as_object_mut().expect("an object").shift_remove("model");
    let losses = encoded.losses.iter().map(|it| format!("\n{}: {}", it.at, it.reason));
    format!("{body}{}", losses.collect::<String>())
}

#[test]
fn the_memory_tool_is_the_providers_own_where_the_model_knows_it() {
    let tool = json!({"name": "memory", "description": "Files.", "parameters": {"type": "object"}, "native": "memory"});
    let value = json!({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]});
    let facts = contexture_wire::Catalogue::standard();
    let of = |model: &str| {
        let target = Target { facts: facts.facts(&format!("anthropic/{model}")), ..target() };
        let body = encode_request(&target, &request(value.clone())).body;
        body["tools"].to_string()
    };
    insta::assert_snapshot!(of("claude-sonnet-4-5"), @r#"[{"type":"memory_20250818","name":"memory"}]"#);
    insta::assert_snapshot!(of("claude-3-5-haiku-latest"), @r#"[{"name":"memory","description":"Files.","input_schema":{"type":"object"}}]"#);
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "memory_20250818", "name": "memory"}]});
    let decoded = decode_request(&target(), &body).expect("a request");
    assert_eq!(decoded.value.tools[0].native, Some(contexture_message::NativeTool::Memory));
    assert!(decoded.losses.is_empty(), "{:?}", decoded.losses);
}

#[test]
fn the_assistant_never_begins() {
    let value = json!({"messages": [{"role": "assistant", "content": "Hello, how can I help?"}]});
    insta::assert_snapshot!(sent(&target(), value), @r#"
    {"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"Go ahead."}]},{"role":"assistant","content":[{"type":"text","text":"Hello, how can I help?"}]}]}
    messages: the user must speak first: a short text was put before
    "#);
}

#[test]
fn ids_that_the_api_refuses_are_mapped_alike() {
    let value = json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_call", "id": "call.1/ä", "name": "find", "arguments": [1]}]},
        {"role": "tool", "content": [{"type": "tool_result", "call_id": "call.1/ä", "output": {"type": "text", "value": ""}}]},
    ]});
    insta::assert_snapshot!(sent(&target(), value), @r#"
    {"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"go"}]},{"role":"assistant","content":[{"type":"tool_use","id":"call_1___a55ea169","name":"find","input":{"input":[1]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1___a55ea169","content":""}]}]}
    messages[1].content[0].arguments: wrapped as `input`: arguments are an object
    "#);
}

#[test]
fn marks_stand_on_blocks_that_may_carry_them() {
    let value = json!({
        "messages": [
            {"role": "system", "content": "frozen \n of the turn"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "a"},
                {"type": "thinking", "text": "hm", "signature": "s", "provider": "anthropic"},
            ]},
            {"role": "user", "content": "r"},
        ],
        "breakpoints": [
            "tools", {"text": {"message": 0, "byte": 8}}, {"message": {"message": 2}}, {"message": {"message": 9}},
            {"text": {"message": 3, "byte": 0}},
        ],
    });
    insta::assert_snapshot!(sent(&target(), value), @r#"{"max_tokens":4096,"system":[{"type":"text","text":"frozen \n","cache_control":{"type":"ephemeral"}},{"type":"text","text":" of the turn"}],"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"thinking","thinking":"hm","signature":"s"}]},{"role":"user","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}]}"#);
}

#[test]
fn thinking_decides_about_the_other_settings() {
    let thinking = |settings: Value| {
        json!({
            "messages": [{"role": "user", "content": "q"}], "tools": [{"name": "t"}], "tool_choice": "required",
            "settings": settings,
        })
    };
    let free = thinking(json!({"reasoning": {"budget": 100}, "temperature": 0.5, "top_p": 0.96, "top_k": 5}));
    insta::assert_snapshot!(sent(&target(), free), @r#"
    {"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"top_p":0.96,"thinking":{"type":"enabled","budget_tokens":1024}}
    tool_choice: left to the model: a tool can't be forced while it thinks
    settings.temperature: left out: the model does not take it while it thinks
    settings.top_k: left out: the model does not take it while it thinks
    settings.reasoning: raised from 100 to 1024, the least
    "#);
    let mut small = target();
    small.facts = ModelFacts { max_output: Some(Tokens(4096)), ..ModelFacts::default() };
    insta::assert_snapshot!(sent(&small, thinking(json!({"reasoning": {"effort": "high"}}))), @r#"
    {"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"},"thinking":{"type":"enabled","budget_tokens":2048}}
    tool_choice: left to the model: a tool can't be forced while it thinks
    settings.max_tokens: lowered from 28672 to 4096, the model's most
    settings.reasoning: lowered from 24576 to 2048 to leave room for the answer
    "#);
    small.facts.capabilities.reasoning = Some(false);
    insta::assert_snapshot!(sent(&small, thinking(json!({"reasoning": {"effort": "high"}, "max_tokens": 9999}))), @r#"
    {"max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}
    settings.reasoning: left out: the model does not think
    settings.max_tokens: lowered from 9999 to 4096, the model's most
    "#);
}

#[test]
fn calls_without_thinking_are_answered_without_thinking() {
    let asked = |provider: &str| {
        let thinking = json!({"type": "thinking", "text": "Hm.", "signature": "s", "provider": provider});
        let call = json!({"type": "tool_call", "id": "a", "name": "clock", "arguments": {}});
        let result = json!({"type": "tool_result", "call_id": "a", "name": "clock", "output": {"type": "text", "value": "noon"}});
        let request = request(json!({
            "messages": [{"role": "user", "content": "When?"}, {"role": "assistant", "content": [thinking, call]},
                         {"role": "tool", "content": [result]}],
            "settings": {"reasoning": {"budget": 2000}, "temperature": 0.5},
        }));
        let encoded = encode_request(&target(), &request);
        (encoded.body["thinking"]["type"].clone(), encoded.body.get("temperature").is_some())
    };
    assert_eq!(asked("anthropic"), (json!("enabled"), false));
    assert_eq!(asked("gemini"), (Value::Null, true));
}

#[test]
fn a_text_to_continue_from_ends_without_whitespace() {
    let messages =
        json!([{"role": "user", "content": "Go on:"}, {"role": "assistant", "content": "Once \n"}]);
    let encoded = encode_request(&target(), &request(json!({"messages": messages})));
    assert_eq!(encoded.body["messages"][1]["content"][0]["text"], "Once");
    assert_eq!(encoded.losses.len(), 1);
}

#[test]
fn a_model_that_takes_no_budget_gets_an_effort() {
    let mut target = target();
    target.facts.thinking_budget = Some(false);
    let request = |reasoning: Value| {
        json!({
            "messages": [{"role": "user", "content": "q"}],
            "settings": {"reasoning": reasoning}, "output": {"type": "boolean"},
        })
    };
    insta::assert_snapshot!(sent(&target, request(json!({"effort": "medium"}))), @r#"{"max_tokens":12288,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"thinking":{"type":"adaptive"},"output_config":{"effort":"medium","format":{"type":"json_schema","schema":{"type":"boolean"}}}}"#);
    insta::assert_snapshot!(sent(&target, request(json!({"budget": 20_000}))), @r#"
    {"max_tokens":24096,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}],"thinking":{"type":"adaptive"},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"boolean"}}}}
    settings.reasoning: said as the effort `high`
    "#);
}

#[test]
fn a_request_of_an_sdk_is_read() {
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": true, "metadata": {"user_id": "u"},
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
        "system": [
            {"type": "text", "text": "Rules. ", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            {"type": "text", "text": "Today."},
        ],
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bern"}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{"type": "text", "text": "no"}]},
                {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
            ]},
        ],
        "tools": [{"name": "weather", "input_schema": {"type": "object"}, "strict": true}],
    });
    let decoded = decode_request(&target(), &body).expect("it can be read");
    let losses: Vec<String> = decoded.losses.iter().map(|it| format!("{}: {}", it.at, it.reason)).collect();
    insta::assert_snapshot!(
        format!("{}\n{}", serde_json::to_string(&decoded.value).expect("plain data"), losses.join("\n")), @r#"
    {"model":"anthropic/claude-sonnet-4-5","messages":[{"role":"system","content":"Rules. Today."},{"role":"user","content":"Weather?"},{"role":"assistant","content":[{"type":"tool_call","id":"t1","name":"weather","arguments":{"city":"Bern"}}]},{"role":"tool","content":[{"type":"tool_result","call_id":"t1","name":"weather","output":{"type":"error-text","value":"no"}}]},{"role":"user","content":"And?"}],"tools":[{"name":"weather","description":"","parameters":{"type":"object"}}],"settings":{"max_tokens":1000,"provider":{"anthropic":{"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},"metadata":{"user_id":"u"}}}},"breakpoints":[{"text":{"message":0,"byte":7}},{"message":{"message":4}}]}
    system[0].cache_control.ttl: left out: marks have no lifetime of their own
    messages[1].content[1]: left out: blocks of type `server_tool_use` are not known
    tools[0].strict: left out: it has no place here
    "#);
}

#[test]
fn an_error_says_where() {
    let error = |body: Value| decode_request(&target(), &body).expect_err("it is wrong").to_string();
    insta::assert_snapshot!(error(json!([])), @"body: expected an object, found a list");
    insta::assert_snapshot!(error(json!({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]})), @"messages[0].content[0].text: expected a string, found a number");
    insta::assert_snapshot!(error(json!({"messages": [{"role": "robot", "content": "x"}]})), @"messages[0].role: unknown role `robot`");
    insta::assert_snapshot!(error(json!({"messages": [], "max_tokens": "many"})), @"max_tokens: expected a whole number of 32 bits, found a string");
}

#[test]
fn an_answer_is_read_with_all_its_tokens() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Hi.", "citations": null}], "stop_reason": "stop_sequence",
        "stop_sequence": "END",
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100,
            "cache_creation": {"ephemeral_5m_input_tokens": 5}, "output_tokens": 7, "service_tier": "standard"},
    });
    let decoded = decode_answer(&target(), &body).expect("it can be read");
    assert_eq!(decoded.losses, []);
    insta::assert_snapshot!(serde_json::to_string(&decoded.value).expect("plain data"), @r#"{"message":{"role":"assistant","content":"Hi."},"stop":"stop_text","usage":{"input_tokens":115,"cache_read_tokens":100,"cache_write_tokens":5,"output_tokens":7,"reasoning_tokens":0},"model":"claude-sonnet-4-5","id":"msg_1"}"#);
}

#[test]
fn a_frame_that_is_not_json_is_refused() {
    let frame = Frame::data(format!("<html>{}", "x".repeat(200)));
    let err = streams::read(&target(), &[frame]).expect_err("it is wrong").to_string();
    insta::assert_snapshot!(err, @"frame: is not JSON: `<html>xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`");
}

#[test]
fn an_error_in_a_stream_is_the_providers() {
    let data = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let frame = Frame { event: Some("error".to_owned()), data: data.to_string() };
    let err = streams::read(&target(), &[frame]).expect_err("it failed");
    assert!(
        matches!(err, StreamError::Provider(ref it) if it.kind == ProviderErrorKind::Overloaded),
        "{err}"
    );
}

fn signed() -> impl Strategy<Value = Vec<Part>> + Clone {
    let thought = ("[a-zA-Z ä\\n]{0,9}", "[A-Za-z0-9+/=]{1,9}", any::<bool>()).prop_map(
        |(text, signature, redacted)| {
            let text = if redacted { String::new() } else { text };
            Part::Thinking(Thinking {
                text,
                signature: Some(signature),
                provider: Some("anthropic".to_owned()),
                redacted,
            })
        },
    );
    vec(thought, 0..3)
}

fn outputs() -> impl Strategy<Value = ToolOutput> + Clone {
    prop_oneof![
        words().prop_map(ToolOutput::Text),
        words().prop_map(ToolOutput::ErrorText),
        words().prop_map(|it| ToolOutput::Content(vec![Part::text(it)])),
    ]
}

/// Every result stands in the message directly behind its call, and once.
fn pairs(body: &Value) -> bool {
    let blocks = |message: &Value, kind: &str, key: &str| -> Vec<String> {
        let blocks = message["content"].as_array().into_iter().flatten();
        let own = blocks.filter(|it| it["type"] == kind).filter_map(|it| it[key].as_str());
        own.map(str::to_owned).collect()
    };
    let messages = body["messages"].as_array().expect("a list");
    messages.iter().enumerate().all(|(index, message)| {
        let next = messages.get(index + 1).unwrap_or(&Value::Null);
        blocks(message, "tool_use", "id") == blocks(next, "tool_result", "tool_use_id")
    })
}

proptest! {
    #[test]
    fn any_request_is_written(request in arbitrary::request(), max_output in proptest::option::of(1..5000_u32)) {
        let mut target = target();
        target.facts.max_output = max_output.map(Tokens);
        let body = encode_request(&target, &request).body;
        prop_assert!(!shows(&body, MARKER), "{body}");
        prop_assert!(body.to_string().matches("cache_control").count() <= 4);
        prop_assert_eq!(&body["messages"][0]["role"], "user");
        let budget = body["thinking"]["budget_tokens"].as_u64().unwrap_or(0);
        prop_assert!(body["max_tokens"].as_u64().is_some_and(|it| budget == 0 || it > budget));
        prop_assert_eq!(&encode_request(&target, &request).body, &body);
        decode_request(&target, &body).expect("what we write can be read");
    }

    #[test]
    fn every_call_has_its_result(request in arbitrary::paired()) {
        let body = encode_request(&target(), &request).body;
        prop_assert!(pairs(&body), "{body}");
        prop_assert!(arbitrary::goes_on(&target(), &request, "messages"));
    }

    #[test]
    fn what_is_written_without_a_loss_is_read_again(request in arbitrary::plain(signed(), outputs()), tools in any::<bool>()) {
        let mut request = Request { model: Some("anthropic/claude-sonnet-4-5".to_owned()), ..request };
        if !request.tools.is_empty() && tools {
            request.breakpoints.push(Breakpoint::Tools);
        }
        if let Some(text) = request.messages[0].as_text().filter(|_| request.messages[0].role == Role::System) {
            let first = text.char_indices().nth(1).map(|(at, _)| at).filter(|it| !text[*it..].trim().is_empty());
            request.breakpoints.push(Breakpoint::Text { message: 0, byte: first.unwrap_or(text.len()) });
        }
        // A text that the model goes on from loses its last blanks.
        if request.messages.last().is_some_and(|it| it.role == Role::Assistant) {
            request.messages.push(Message::user("On.").into());
        }
        request.breakpoints.push(Breakpoint::Message { message: request.messages.len() - 1 });
        let encoded = encode_request(&target(), &request);
        prop_assert_eq!(encoded.losses, []);
        let decoded = decode_request(&target(), &encoded.body).expect("what we write can be read");
        prop_assert_eq!(decoded.losses, []);
        prop_assert_eq!(decoded.value, request);
    }

    #[test]
    fn evidence_and_own_citations_are_read_again(
        evidence in proptest::collection::vec((words(), words(), proptest::option::of(words()), words()), 1..4),
        text in words(),
    ) {
        let mut user: Vec<Part> = Vec::new();
        let mut citations = Vec::new();
        for (index, (source, chunk, title, content)) in evidence.into_iter().enumerate() {
            let title = title.filter(|it| *it != source);
            let name = if source == chunk { chunk.clone() } else { format!("{source}#{chunk}") };
            let value = json!({
                "type": "search_result_location", "cited_text": &content, "source": name, "title": &title,
                "search_result_index": index, "start_block_index": 0, "end_block_index": 1,
            });
            // Of two search results with one name, the first is meant.
            if !user.iter().any(|it| matches!(it, Part::Evidence(it) if it.source == source && it.chunk == chunk)) {
                let raw = Some(RawCitation { provider: "anthropic".to_owned(), value });
                let quote = Some(content.clone());
                let citation = Citation::new(&source, &chunk, CitationOrigin::Provider);
                citations.push(Citation { quote, raw, ..citation });
            }
            user.push(Part::Evidence(Evidence { chunk, source, title, text: vec![content], citations: true }));
        }
        let said = Message::parts(Role::Assistant, vec![Part::Text { text, citations }]);
        let messages = vec![Message::parts(Role::User, user).into(), said.into(), Message::user("On.").into()];
        let settings = contexture_message::Settings { max_tokens: Some(9), ..Default::default() };
        let request = Request { model: Some("anthropic/claude-sonnet-4-5".to_owned()), messages, settings, ..Request::default() };
        let encoded = encode_request(&target(), &request);
        prop_assert_eq!(encoded.losses, []);
        prop_assert_eq!(decode_request(&target(), &encoded.body).expect("it can be read").value, request);
    }

    #[test]
    fn an_answer_is_written_and_read(answer in arbitrary::streamed(signed(), "toolu")) {
        let answer = contexture_message::Answer { id: Some("msg_1".to_owned()), model: Some("m".to_owned()), ..answer };
        let encoded = encode_answer(&target(), &answer);
        prop_assert_eq!(encoded.losses, []);
        prop_assert_eq!(decode_answer(&target(), &encoded.body).expect("it can be read").value, answer);
    }

    #[test]
    fn a_stream_is_written_and_read(answer in arbitrary::streamed(signed(), "toolu"), live in any::<bool>()) {
        let mut answer = contexture_message::Answer { id: Some("msg_1".to_owned()), model: Some("claude-sonnet-4-5".to_owned()), ..answer };
        if live {
            // Withheld thinking is told by no delta, so it can't keep its place.
            answer.message.content.retain(|it| !matches!(it, Part::Thinking(it) if it.redacted));
        }
        let deltas = arbitrary::deltas(&answer);
        let from = if live { 0 } else { deltas.len() - 1 };
        let mut encoder = StreamEncoder::new(&target());
        let frames: Vec<Frame> = deltas[from..].iter().flat_map(|it| encoder.push(it)).collect();
        let read = streams::read(&target(), &frames).expect("what we write can be read");
        let read = streams::answer(&read).clone();
        if deltas.len() > 1 && live {
            answer.id = read.id.clone();
        }
        prop_assert_eq!(read, answer);
    }
}
