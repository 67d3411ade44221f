//! What messages and tools cost. A counter of one token for each byte makes the sums plain.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_message::tokens::{
    CounterProfile, Framing, TokenCounter, Tokens, message_tokens, part_tokens, request_tokens,
    schema_tokens, tool_tokens,
};
use contexture_message::{Message, Part, Request, ToolDefinition};
use proptest::prelude::proptest;
use serde_json::json;

use crate::serde::message;

struct Bytes;

impl TokenCounter for Bytes {
    fn count(&self, text: &str) -> Tokens {
        Tokens(text.len() as u32)
    }

    fn profile(&self) -> CounterProfile {
        let framing = Framing { request: 10_000, message: 100, tool: 1_000, image: 765 };
        CounterProfile { name: Cow::Borrowed("bytes"), exact: true, framing }
    }
}

fn part(part: serde_json::Value) -> u32 {
    let part: Part = serde_json::from_value(part).unwrap();
    part_tokens(&Bytes, &part).0
}

fn result(output: serde_json::Value) -> u32 {
    part(json!({"type": "tool_result", "call_id": "c1", "name": "look", "output": output}))
}

#[test]
fn parts_cost_what_the_model_reads() {
    assert_eq!(part(json!({"type": "text", "text": "hello"})), 5);
    assert_eq!(part(json!({"type": "thinking", "text": "hm", "signature": "AAAA".repeat(100)})), 2);
    assert_eq!(part(json!({"type": "tool_call", "id": "c1", "name": "look", "arguments": {"a": 1}})), 11);
    assert_eq!(part(json!({"type": "tool_call", "id": "c1", "name": "look", "arguments": {}})), 6);
    assert_eq!(result(json!({"type": "text", "value": "hello"})), 5);
    assert_eq!(result(json!({"type": "json", "value": {"a": [1, 2]}})), 11);
    assert_eq!(result(json!({"type": "error-json", "value": {"error": "x"}})), 13);
    assert_eq!(result(json!({"type": "execution-denied", "value": {"reason": "no"}})), 14);
    let evidence =
        json!({"type": "evidence", "chunk": "h:1", "source": "a.md", "title": "A", "text": ["hello", "you"]});
    assert_eq!(part(evidence), 24 + 3 + 4 + 1 + 8);
    let both = json!([{"type": "text", "text": "hi"}, {"type": "image", "url": "https://example.org/a.png"}]);
    assert_eq!(result(json!({"type": "content", "value": both})), 767);
}

#[test]
fn base64_is_never_counted_as_text() {
    let data = "AAAA".repeat(50_000);
    assert_eq!(part(json!({"type": "image", "data": data})), 765);
    assert_eq!(part(json!({"type": "file", "data": data, "media_type": "image/png"})), 765);
    assert_eq!(part(json!({"type": "file", "data": data, "media_type": "application/pdf"})), 6_000);
    assert_eq!(part(json!({"type": "file", "data": data, "name": "a.bin"})), 17);
    let url = format!("data:application/zip;base64,{data}");
    assert_eq!(part(json!({"type": "file", "url": url, "name": "a.zip"})), 17);
    assert_eq!(part(json!({"type": "file", "id": "file-1", "media_type": "application/pdf"})), 2_000);
}

#[test]
fn messages_and_tools_are_framed() {
    assert_eq!(message_tokens(&Bytes, &Message::user("hello")), Tokens(105));
    let calls: Message = serde_json::from_value(json!({"role": "assistant", "content": [
        {"type": "tool_call", "id": "1", "name": "a", "arguments": {}},
        {"type": "tool_call", "id": "2", "name": "b", "arguments": {}},
    ]}))
    .unwrap();
    assert_eq!(message_tokens(&Bytes, &calls), Tokens(206));

    let tool = ToolDefinition::new("look", "Looks.").parameters(json!({"type": "object"}));
    assert_eq!(schema_tokens(&Bytes, &tool.parameters), Tokens(17));
    assert_eq!(tool_tokens(&Bytes, &tool), Tokens(1_027));

    let request = Request {
        messages: vec![Arc::new(Message::user("hello"))],
        tools: vec![Arc::new(tool)],
        output: Some(Arc::new(json!({}))),
        ..Request::default()
    };
    assert_eq!(request_tokens(&Bytes, &request), Tokens(11_134));
}

proptest! {
    #[test]
    fn any_message_has_a_cost(message in message()) {
        let cost = message_tokens(&Bytes, &message);
        let parts: Tokens = message.content.iter().map(|it| part_tokens(&Bytes, it)).sum();
        proptest::prop_assert!(cost >= parts + Tokens(100));
    }
}
