//! Gemini's generateContent.

use contexture_message::{Answer, Part, Request, StopReason, Thinking, ToolOutput};
use contexture_wire::{
    Dialect, Frame, ProviderErrorKind, StreamEncoder, StreamError, Target, decode_answer, decode_request,
    encode_answer, encode_request,
};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::arbitrary::{self, MARKER, words};
use crate::golden::shows;
use crate::streams;

fn target() -> Target {
    Target::new(Dialect::Gemini, "gemini", "gemini-2.5-flash")
}

/// Shows a request as it is read, and what is lost.
fn read(body: &Value) -> String {
    let decoded = decode_request(&target(), body).expect("it can be read");
    let losses = decoded.losses.iter().map(|it| format!("\n{}: {}", it.at, it.reason));
    format!("{}{}", serde_json::to_string(&decoded.value).expect("plain data"), losses.collect::<String>())
}

#[test]
fn the_model_never_begins() {
    for messages in [json!([]), json!([{"role": "assistant", "content": "How can I help?"}])] {
        let request: Request = serde_json::from_value(json!({"messages": messages})).expect("a request");
        let encoded = encode_request(&target(), &request);
        assert_eq!(encoded.body["contents"][0], json!({"role": "user", "parts": [{"text": "Go ahead."}]}));
        assert_eq!(encoded.losses[0].reason, "the user must speak first: a short text was put before");
    }
}

#[test]
fn a_request_of_an_sdk_is_read() {
    let body = json!({
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}, {"inline_data": {"mime_type": "image/png", "data": "iVBO"}}]},
            {"role": "model", "parts": [
                {"text": "Hm.", "thought": true},
                {"functionCall": {"name": "weather", "args": {"city": "Bern"}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "clock"}},
                {"functionCall": {"name": "weather", "args": {"city": "Basel"}, "id": "call_0"}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "clock", "response": {"result": "noon"}}},
                {"functionResponse": {"name": "weather", "response": {"output": "rain"}}},
                {"functionResponse": {"name": "weather", "id": "call_0", "response": {"error": {"code": 4}}}},
            ]},
            {"role": "model", "parts": [{"text": "Rain."}, {"text": "", "thoughtSignature": "ZW5k"}, {"executableCode": {}}]},
        ],
        "tools": [
            {"functionDeclarations": [{"name": "weather", "description": "Looks.", "parameters": {
                "type": "OBJECT", "properties": {"city": {"type": "STRING"}}}}]},
            {"googleSearch": {}},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "generationConfig": {"topK": 40.0, "candidateCount": 1, "thinkingConfig": {"thinkingBudget": -1}},
        "safetySettings": [],
    });
    insta::assert_snapshot!(read(&body), @r#"
    {"model":"gemini/gemini-2.5-flash","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Weather?"},{"type":"image","media_type":"image/png","data":"iVBO"}]},{"role":"assistant","content":[{"type":"thinking","text":"Hm.","provider":"gemini"},{"type":"thinking","text":"","signature":"c2ln","provider":"gemini"},{"type":"tool_call","id":"call_1","name":"weather","arguments":{"city":"Bern"}},{"type":"tool_call","id":"call_2","name":"clock","arguments":{}},{"type":"tool_call","id":"call_0","name":"weather","arguments":{"city":"Basel"}}]},{"role":"tool","content":[{"type":"tool_result","call_id":"call_2","name":"clock","output":{"type":"json","value":{"result":"noon"}}},{"type":"tool_result","call_id":"call_1","name":"weather","output":{"type":"text","value":"rain"}},{"type":"tool_result","call_id":"call_0","name":"weather","output":{"type":"error-json","value":{"code":4}}}]},{"role":"assistant","content":[{"type":"thinking","text":"","signature":"ZW5k","provider":"gemini"},{"type":"text","text":"Rain."}]}],"tools":[{"name":"weather","description":"Looks.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}],"tool_choice":{"tool":"weather"},"settings":{"top_k":40,"provider":{"gemini":{"safetySettings":[],"generationConfig":{"candidateCount":1,"thinkingConfig":{"thinkingBudget":-1}}}}}}
    contents[3].parts[2]: left out: this kind of part is not known
    tools[1].googleSearch: left out: it has no place here
    "#);
}

#[test]
fn an_error_says_where() {
    let error = |body: Value| decode_request(&target(), &body).expect_err("it is wrong").to_string();
    insta::assert_snapshot!(error(json!({})), @"contents: is missing");
    insta::assert_snapshot!(error(json!({"contents": [{"parts": [{"text": 1}]}]})), @"contents[0].parts[0].text: expected a string, found a number");
    insta::assert_snapshot!(error(json!({"contents": [{"parts": [{"functionCall": {}}]}]})), @"contents[0].parts[0].functionCall.name: is missing");
}

#[test]
fn calls_without_ids_are_named_after_their_answer() {
    let ids = |body: Value| {
        let answer = decode_answer(&target(), &body).expect("it can be read").value;
        answer.calls().map(|it| it.id.clone()).collect::<Vec<_>>().join(" ")
    };
    let call = |city: &str| json!({"functionCall": {"name": "weather", "args": {"city": city}}});
    let body = json!({"candidates": [{"content": {"parts": [call("Bern"), call("Basel")]}, "finishReason": "STOP"}]});
    insta::assert_snapshot!(ids(body.clone()), @"call_5e7a39d3_0 call_5e7a39d3_1");
    let mut named = body;
    named["responseId"] = "r1".into();
    insta::assert_snapshot!(ids(named), @"r1_0 r1_1");
}

#[test]
fn refusals_are_answers() {
    let stop = |body: Value| decode_answer(&target(), &body).expect("it can be read").value.stop;
    assert_eq!(stop(json!({"promptFeedback": {"blockReason": "SAFETY"}})), StopReason::Refused);
    assert_eq!(stop(json!({"candidates": [{"finishReason": "SPII"}]})), StopReason::Refused);
    let word = "MALFORMED_FUNCTION_CALL";
    assert_eq!(stop(json!({"candidates": [{"finishReason": word}]})), StopReason::Other(word.to_owned()));
    let err = decode_answer(&target(), &json!({})).expect_err("nothing is there");
    assert_eq!(err.to_string(), "candidates: is missing");
}

#[test]
fn an_error_in_a_stream_is_the_providers() {
    let data =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let err = streams::read(&target(), &[Frame::data(data.to_string())]).expect_err("it failed");
    assert!(
        matches!(err, StreamError::Provider(ref it) if it.kind == ProviderErrorKind::Overloaded),
        "{err}"
    );
}

fn thinking(text: &str, signature: Option<String>) -> Part {
    let provider = Some("gemini".to_owned());
    Part::Thinking(Thinking { text: text.to_owned(), signature, provider, redacted: false })
}

/// A thought, and a signature for what follows.
fn thoughts() -> impl Strategy<Value = Vec<Part>> + Clone {
    (option::of(words()), option::of("[A-Za-z0-9+/=]{1,9}")).prop_map(|(thought, signature)| {
        let thought = thought.map(|it| thinking(&it, None));
        thought.into_iter().chain(signature.map(|it| thinking("", Some(it)))).collect()
    })
}

fn outputs() -> impl Strategy<Value = ToolOutput> + Clone {
    let image = json!({"type": "image", "data": MARKER, "media_type": "image/png"});
    let image: Part = serde_json::from_value(image).expect("an image");
    prop_oneof![
        words().prop_map(ToolOutput::Text),
        words().prop_map(|it| ToolOutput::Json(json!({"found": it, "n": 1}))),
        words().prop_map(ToolOutput::ErrorText),
        words().prop_map(|it| ToolOutput::ErrorJson(json!({"error": it}))),
        option::of(words()).prop_map(|reason| ToolOutput::ExecutionDenied { reason }),
        words().prop_map(move |it| ToolOutput::Content(vec![Part::text(it), image.clone()])),
    ]
}

/// Every result stands in the content directly behind its call, and once.
fn pairs(body: &Value) -> bool {
    let ids = |content: &Value, kind: &str| -> Vec<String> {
        let parts = content["parts"].as_array().into_iter().flatten();
        parts.filter_map(|it| it[kind]["id"].as_str()).map(str::to_owned).collect()
    };
    let contents = body["contents"].as_array().expect("a list");
    contents.iter().enumerate().all(|(index, content)| {
        let next = contents.get(index + 1).unwrap_or(&Value::Null);
        ids(content, "functionCall") == ids(next, "functionResponse")
    })
}

proptest! {
    #[test]
    fn any_request_is_written(request in arbitrary::request()) {
        let body = encode_request(&target(), &request).body;
        prop_assert!(!shows(&body, MARKER), "{body}");
        prop_assert_eq!(&encode_request(&target(), &request).body, &body);
        decode_request(&target(), &body).expect("what we write can be read");
    }

    #[test]
    fn every_call_has_its_result(request in arbitrary::paired()) {
        let body = encode_request(&target(), &request).body;
        prop_assert!(pairs(&body), "{body}");
        prop_assert!(arbitrary::goes_on(&target(), &request, "contents"));
    }

    #[test]
    fn what_is_written_without_a_loss_is_read_again(request in arbitrary::plain(thoughts(), outputs())) {
        let request = Request { model: Some("gemini/gemini-2.5-flash".to_owned()), ..request };
        let encoded = encode_request(&target(), &request);
        prop_assert_eq!(encoded.losses, []);
        let decoded = decode_request(&target(), &encoded.body).expect("what we write can be read");
        prop_assert_eq!(decoded.losses, []);
        prop_assert_eq!(decoded.value, request);
    }

    #[test]
    fn an_answer_is_written_and_read(answer in arbitrary::streamed(thoughts(), "call")) {
        let answer = Answer { id: Some("r".to_owned()), model: Some("m".to_owned()), ..answer };
        let encoded = encode_answer(&target(), &answer);
        prop_assert_eq!(encoded.losses, []);
        prop_assert_eq!(decode_answer(&target(), &encoded.body).expect("it can be read").value, answer);
    }

    #[test]
    fn a_stream_is_written_and_read(answer in arbitrary::streamed(thoughts(), "call"), live in any::<bool>()) {
        let answer = Answer { id: Some("r".to_owned()), model: Some("m".to_owned()), ..answer };
        let deltas = arbitrary::deltas(&answer);
        let from = if live { 0 } else { deltas.len() - 1 };
        let mut encoder = StreamEncoder::new(&target());
        let frames: Vec<Frame> = deltas[from..].iter().flat_map(|it| encoder.push(it)).collect();
        let read = streams::read(&target(), &frames).expect("what we write can be read");
        prop_assert_eq!(streams::answer(&read), &answer);
    }
}
