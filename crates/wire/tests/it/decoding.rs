//! Requests and answers as other programs write them.

use contexture_message::Usage;
use contexture_wire::{DecodeError, Decoded, Dialect, Target, decode_answer, decode_request, encode_answer};
use serde::Serialize;
use serde_json::{Value, json};

/// Reads a request and shows its messages one a line, then everything else. The only caller of the API here.
fn request(dialect: Dialect, body: Value) -> String {
    shown(decode_request(&Target::new(dialect, "openai", "gpt-5"), &body))
}

/// Reads an answer. The only caller of the API here.
fn answer(dialect: Dialect, body: Value) -> String {
    shown(decode_answer(&Target::new(dialect, "openai", "gpt-5"), &body))
}

fn shown<T: Serialize>(decoded: Result<Decoded<T>, DecodeError>) -> String {
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(err) => return format!("error: {err}"),
    };
    let value = serde_json::to_value(decoded.value).unwrap();
    let mut lines = Vec::new();
    for (name, value) in value.as_object().unwrap() {
        match value {
            Value::Array(items) if name == "messages" => {
                lines.extend(
                    items.iter().map(|it| format!("{}: {}", it["role"].as_str().unwrap(), it["content"])),
                );
            }
            value if *value == json!([]) || *value == json!({}) => {}
            value => lines.push(format!("{name} = {value}")),
        }
    }
    lines.extend(decoded.losses.iter().map(|it| format!("loss: {}: {}", it.at, it.reason)));
    lines.join("\n")
}

#[test]
fn a_chat_request_of_an_sdk() {
    insta::assert_snapshot!(request(Dialect::Openai, json!({
        "model": "gpt-5",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "See:"},
                {"type": "image_url", "image_url": {"url": "data:image/webp;base64,UklG", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "auto"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
                {"type": "file", "file": {"file_id": "file-1"}},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            ]},
            {"role": "assistant", "content": "", "refusal": null, "audio": null, "annotations": [], "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Bern\"}"}},
                {"id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "12"}, {"type": "text", "text": "degrees"}]},
            {"role": "tool", "tool_call_id": "call_2", "content": "a.txt"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "function", "name": "old", "content": "x"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": true}},
            {"type": "custom", "custom": {"name": "shell"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {"type": "json_object"},
        "max_completion_tokens": 100, "temperature": 1, "stop": "END", "seed": 7, "reasoning_effort": "xhigh",
        "stream": true, "stream_options": {"include_usage": true}, "n": 2, "logit_bias": {}, "user": "ann",
        "functions": [{"name": "old"}],
    })), @r#"
    model = "gpt-5"
    system: "Be brief."
    user: [{"type":"text","text":"See:"},{"type":"image","media_type":"image/webp","data":"UklG"},{"type":"image","url":"https://example.org/a.png"},{"type":"file","media_type":"application/pdf","name":"a.pdf","data":"JVBE"},{"type":"file","id":"file-1"}]
    assistant: [{"type":"tool_call","id":"call_1","name":"weather","arguments":{"city":"Bern"}},{"type":"tool_call","id":"call_2","name":"shell","arguments":"ls"}]
    tool: [{"type":"tool_result","call_id":"call_1","name":"weather","output":{"type":"content","value":[{"type":"text","text":"12"},{"type":"text","text":"degrees"}]}}]
    tool: [{"type":"tool_result","call_id":"call_2","name":"shell","output":{"type":"text","value":"a.txt"}}]
    assistant: "No."
    tools = [{"name":"weather","description":"","parameters":{"type":"object"}}]
    tool_choice = {"tool":"weather"}
    output = {"type":"object"}
    settings = {"temperature":1,"max_tokens":100,"stop":["END"],"seed":7,"reasoning":{"effort":"high"}}
    loss: messages[1].content[1].image_url.detail: `high` is not supported, left out
    loss: messages[1].content[5]: a part of type `input_audio` is not supported, left out
    loss: messages[2].tool_calls[1]: a custom tool's call is read as a function's
    loss: messages[5].content[0]: a refusal is read as text
    loss: messages[6]: legacy functions are not supported, left out
    loss: tools[0].function.strict: tools are never strict here
    loss: tools[1]: only functions are tools here, left out
    loss: response_format: `json_object` is read as the schema of any object
    loss: reasoning_effort: the effort `xhigh` is read as `high`
    loss: n: left out: it has no place here
    loss: logit_bias: left out: it has no place here
    loss: user: left out: it has no place here
    loss: functions: left out: it has no place here
    "#);
}

#[test]
fn a_responses_request_of_an_sdk() {
    insta::assert_snapshot!(request(Dialect::OpenaiResponses, json!({
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [
                {"type": "input_text", "text": "See:"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "low"},
                {"type": "input_image", "file_id": "file-2", "detail": "auto"},
                {"type": "input_file", "file_url": "https://example.org/a.pdf"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "JVBE"},
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "x"},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "I'll look.", "annotations": []},
            ]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{\"city\":\"Bern\"}", "status": "completed"},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "12 degrees"}]},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "item_reference", "id": "msg_0"},
            {"role": "developer", "content": "In German."},
        ],
        "tools": [
            {"type": "function", "name": "weather", "description": "Looks.", "parameters": {"type": "object"}, "strict": true},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "weather"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": true}, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "max_output_tokens": 100, "store": true, "previous_response_id": "resp_1", "truncation": "auto",
    })), @r#"
    model = "gpt-5"
    system: "Be brief."
    user: [{"type":"text","text":"See:"},{"type":"image","media_type":"image/png","data":"iVBO"},{"type":"file","id":"file-2"},{"type":"file","url":"https://example.org/a.pdf"},{"type":"file","name":"a.pdf","data":"JVBE"}]
    assistant: [{"type":"thinking","text":"Hm.","signature":"{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"Hm.\"}],\"encrypted_content\":\"x\"}","provider":"openai"},{"type":"text","text":"I'll look."},{"type":"tool_call","id":"call_1","name":"weather","arguments":{"city":"Bern"}}]
    tool: [{"type":"tool_result","call_id":"call_1","name":"weather","output":{"type":"text","value":"12 degrees"}}]
    system: "In German."
    tools = [{"name":"weather","description":"Looks.","parameters":{"type":"object"}}]
    tool_choice = {"tool":"weather"}
    output = {"type":"object"}
    settings = {"max_tokens":100,"reasoning":{"effort":"high"}}
    loss: input[0].content[1].detail: `low` is not supported, left out
    loss: input[0].content[2]: an image by its id is read as a file
    loss: input[5]: an item of type `web_search_call` is not supported, left out
    loss: input[6]: an item of type `item_reference` is not supported, left out
    loss: tools[0].strict: tools are never strict here
    loss: tools[1]: a tool of type `web_search` is not supported, left out
    loss: text.verbosity: left out: it has no place here
    loss: previous_response_id: left out: it has no place here
    loss: truncation: left out: it has no place here
    "#);
    insta::assert_snapshot!(request(Dialect::OpenaiResponses, json!({"model": "gpt-5", "input": "Hi."})), @r#"
    model = "gpt-5"
    user: "Hi."
    "#);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let chat = |message: Value| request(Dialect::Openai, json!({"messages": [message]}));
    insta::assert_snapshot!(request(Dialect::Openai, json!([])), @"error: body: expected an object, found a list");
    insta::assert_snapshot!(request(Dialect::Openai, json!({})), @"error: messages: is missing");
    insta::assert_snapshot!(chat(json!({"role": "robot", "content": "x"})), @"error: messages[0].role: unknown role `robot`");
    insta::assert_snapshot!(chat(json!({"role": "user", "content": [{"type": "text", "text": 3}]})), @"error: messages[0].content[0].text: expected a string, found a number");
    insta::assert_snapshot!(chat(json!({"role": "tool", "content": "x"})), @"error: messages[0].tool_call_id: is missing");
    insta::assert_snapshot!(chat(json!({"role": "assistant", "tool_calls": {}})), @"error: messages[0].tool_calls: expected a list, found an object");
    let item = |item: Value| request(Dialect::OpenaiResponses, json!({"input": [item]}));
    insta::assert_snapshot!(item(json!({"type": "function_call", "name": "x"})), @"error: input[0].call_id: is missing");
    insta::assert_snapshot!(item(json!("x")), @"error: input[0]: expected an object, found a string");
    let body = json!({"input": "x", "max_output_tokens": -1});
    insta::assert_snapshot!(request(Dialect::OpenaiResponses, body), @"error: max_output_tokens: expected a whole number of 32 bits, found a number");
}

#[test]
fn chat_answers() {
    let chat = |message: Value, finish: &str| {
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        answer(Dialect::Openai, json!({"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": null}))
    };
    insta::assert_snapshot!(chat(json!({"role": "assistant", "content": "Hi.", "refusal": null}), "stop"), @r#"
    message = {"role":"assistant","content":"Hi."}
    stop = "end"
    usage = {"input_tokens":0,"output_tokens":0,"reasoning_tokens":0}
    model = "m"
    id = "chatcmpl-1"
    "#);
    insta::assert_snapshot!(chat(json!({"content": "\n\n4.", "reasoning_content": "2+2"}), "length"), @r#"
    message = {"role":"assistant","content":[{"type":"thinking","text":"2+2","provider":"openai"},{"type":"text","text":"\n\n4."}]}
    stop = "max_tokens"
    usage = {"input_tokens":0,"output_tokens":0,"reasoning_tokens":0}
    model = "m"
    id = "chatcmpl-1"
    "#);
    insta::assert_snapshot!(chat(json!({"content": null, "refusal": "No."}), "stop"), @r#"
    message = {"role":"assistant","content":"No."}
    stop = "refused"
    usage = {"input_tokens":0,"output_tokens":0,"reasoning_tokens":0}
    model = "m"
    id = "chatcmpl-1"
    "#);
    insta::assert_snapshot!(chat(json!({"content": "", "tool_calls": [
        {"id": "", "type": "function", "function": {"name": "a", "arguments": {"x": 1}}},
        {"type": "function", "function": {"name": "b", "arguments": "{oops"}},
    ]}), "stop"), @r#"
    message = {"role":"assistant","content":[{"type":"tool_call","id":"call_chatcmpl-1_0","name":"a","arguments":{"x":1}},{"type":"tool_call","id":"call_chatcmpl-1_1","name":"b","arguments":"{oops"}]}
    stop = "tool_calls"
    usage = {"input_tokens":0,"output_tokens":0,"reasoning_tokens":0}
    model = "m"
    id = "chatcmpl-1"
    "#);
    insta::assert_snapshot!(answer(Dialect::Openai, json!({"choices": []})), @"error: choices: is empty");
    let error = json!({"error": {"message": "Provider returned error", "code": 502}});
    insta::assert_snapshot!(answer(Dialect::Openai, error), @r#"error: error: the answer is an error: {"message":"Provider returned error","code":502}"#);
}

#[test]
fn responses_answers() {
    insta::assert_snapshot!(answer(Dialect::OpenaiResponses, json!({
        "id": "resp_1", "model": "m", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "web_search_call", "id": "ws_1"},
            {"type": "message", "content": [{"type": "output_text", "text": "A", "annotations": []}, {"type": "output_text", "text": "B"}]},
        ],
        "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}},
    })), @r#"
    message = {"role":"assistant","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]}
    stop = "max_tokens"
    usage = {"input_tokens":5,"cache_read_tokens":4,"output_tokens":3,"reasoning_tokens":2}
    model = "m"
    id = "resp_1"
    loss: output[1]: an item of type `web_search_call` is not supported, left out
    "#);
    let failed =
        json!({"status": "failed", "error": {"code": "server_error", "message": "Oops."}, "output": []});
    insta::assert_snapshot!(answer(Dialect::OpenaiResponses, failed), @r#"error: error: the answer is an error: {"code":"server_error","message":"Oops."}"#);
}

/// Reads the usage of an answer, and writes and reads it again.
fn usage(dialect: Dialect, usage: Value) -> Usage {
    let body = match dialect {
        Dialect::Openai => json!({"choices": [{"message": {"content": "Hi."}}], "usage": usage}),
        Dialect::OpenaiResponses => json!({"status": "completed", "output": [], "usage": usage}),
        Dialect::Anthropic => json!({"content": [], "stop_reason": "end_turn", "usage": usage}),
        Dialect::Gemini => json!({"candidates": [{"content": {"parts": []}}], "usageMetadata": usage}),
    };
    let target = Target::new(dialect, "openai", "gpt-5");
    let read = decode_answer(&target, &body).unwrap().value;
    let again = decode_answer(&target, &encode_answer(&target, &read).body).unwrap().value;
    let Usage { cache_read_tokens: cached, cache_write_tokens: written, .. } = read.usage;
    // Two dialects can't say that a figure is missing.
    let can_say = match dialect {
        Dialect::Gemini => cached.is_some(),
        Dialect::OpenaiResponses => cached.is_some() && written.is_some(),
        Dialect::Openai | Dialect::Anthropic => true,
    };
    if can_say {
        assert_eq!(again.usage, read.usage, "{dialect:?}");
    }
    read.usage
}

#[test]
fn cache_figures_that_are_not_reported_are_not_zero() {
    let read = |dialect, it| usage(dialect, it).cache_read_tokens;
    let silent = [
        (Dialect::Openai, json!({"prompt_tokens": 9, "completion_tokens": 1})),
        (Dialect::Openai, json!({"prompt_tokens": 9, "prompt_tokens_details": null})),
        (Dialect::Openai, json!({"prompt_tokens": 9, "prompt_tokens_details": {"audio_tokens": 0}})),
        (Dialect::OpenaiResponses, json!({"input_tokens": 9, "output_tokens": 1})),
        (Dialect::Anthropic, json!({"input_tokens": 9, "output_tokens": 1})),
        (Dialect::Anthropic, json!({"input_tokens": 9, "cache_read_input_tokens": null})),
        (Dialect::Gemini, Value::Null),
    ];
    for (dialect, it) in silent {
        let shown = it.to_string();
        assert_eq!(read(dialect, it), None, "{dialect:?} {shown}");
    }
    let zero = [
        (Dialect::Openai, json!({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}})),
        (Dialect::Openai, json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 0})),
        (Dialect::OpenaiResponses, json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}})),
        (Dialect::Anthropic, json!({"input_tokens": 9, "cache_read_input_tokens": 0})),
        // Counts of 0 are left out by this API.
        (Dialect::Gemini, json!({"promptTokenCount": 9, "candidatesTokenCount": 1})),
    ];
    for (dialect, it) in zero {
        let shown = it.to_string();
        assert_eq!(read(dialect, it), Some(0), "{dialect:?} {shown}");
    }
}
