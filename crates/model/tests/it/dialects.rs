//! Each dialect, as our encoders write it and as others do.

use contexture_message::{Answer, Delta, Part, StopReason, Thinking, ToolCall, Usage};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{Model as _, ModelErrorKind};
use contexture_wire::{Dialect, Target, encode_answer};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::{Heard, answered, asked, call, client_with, config, good, parts, provider};

/// Streams of tool calls as the providers' own documents show them.
pub(crate) const TOOLS: [(Dialect, &str); 4] = [
    (Dialect::Openai, include_str!("streams/openai-tools.sse")),
    (Dialect::OpenaiResponses, include_str!("streams/openai-responses-tools.sse")),
    (Dialect::Anthropic, include_str!("streams/anthropic-tools.sse")),
    (Dialect::Gemini, include_str!("streams/gemini-tools.sse")),
];

/// Streams recorded from llama.cpp.
pub(crate) const LOCAL: [(Dialect, &str); 3] = [
    (Dialect::Openai, include_str!("streams/openai-local.sse")),
    (Dialect::OpenaiResponses, include_str!("streams/openai-responses-local.sse")),
    (Dialect::Anthropic, include_str!("streams/anthropic-local.sse")),
];

async fn recorded(dialect: Dialect, stream: &str) -> Heard {
    let (heard, n_requests) = answered(dialect, [Reply::events(stream)]).await;
    assert_eq!(n_requests, 1);
    heard
}

#[tokio::test]
async fn text_arrives_in_pieces() {
    for dialect in Dialect::ALL {
        let (heard, _) = answered(dialect, [good(dialect)]).await;
        assert_eq!(heard.answer().joined_text(), "The answer is 42.", "{dialect:?}");
        assert_eq!(heard.text(), "The answer is 42.", "{dialect:?}");
        assert_eq!(heard.answer().stop, StopReason::End, "{dialect:?}");
    }
}

#[tokio::test]
async fn the_first_piece_comes_alone_and_those_that_are_there_come_together() {
    for dialect in Dialect::ALL {
        let server = MockModel::start([good(dialect)]).await;
        let client = client_with(provider(dialect, &server), config());
        let pieces: Vec<_> = client.stream(call("hello")).map(Result::unwrap).collect().await;
        let texts = pieces.iter().filter(|it| matches!(it, Delta::Text(_))).cloned().collect::<Vec<_>>();
        let expected = ["The ", "answer is 42."].map(|it| Delta::Text(it.to_owned()));
        assert_eq!(texts, expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn thinking_and_calls_come_through() {
    let thinking = Thinking {
        text: "Which city?".to_owned(),
        signature: Some("c2lnbmVk".to_owned()),
        provider: Some("mock".to_owned()),
        redacted: false,
    };
    let call = |id: &str, city: &str| {
        let arguments = json!({"city": city});
        Part::ToolCall(ToolCall { id: id.to_owned(), name: "weather".to_owned(), arguments })
    };
    let said =
        vec![Part::Thinking(thinking), Part::text("Let me look."), call("a", "Zürich"), call("b", "東京")];
    let usage = Usage { input_tokens: 20, cache_read_tokens: Some(16), output_tokens: 9, ..Usage::default() };
    let answer = Answer { usage, ..Answer::parts(said) };
    for dialect in Dialect::ALL {
        let (heard, _) = answered(dialect, [Reply::answer(dialect, &answer)]).await;
        let cities: Vec<&Value> = heard.answer().calls().map(|it| &it.arguments["city"]).collect();
        assert_eq!(cities, ["Zürich", "東京"], "{dialect:?}");
        assert_eq!(heard.answer().stop, StopReason::ToolCalls, "{dialect:?}");
        assert_eq!(heard.answer().joined_text(), "Let me look.", "{dialect:?}");
        let thoughts = heard.deltas.iter().filter_map(|it| match it {
            Delta::Thinking(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(thoughts.collect::<String>(), "Which city?", "{dialect:?}");
        assert_eq!(heard.answer().usage.input_tokens, 20, "{dialect:?}");
        assert_eq!(heard.answer().usage.output_tokens, 9, "{dialect:?}");
    }
}

#[tokio::test]
async fn the_providers_own_streams_are_understood() {
    for (dialect, stream) in TOOLS {
        let heard = recorded(dialect, stream).await;
        assert_eq!(heard.text(), "Grüße aus 東京 🗼.", "{dialect:?}");
        let call = heard.answer().calls().next().unwrap();
        assert_eq!(
            (call.name.as_str(), &call.arguments),
            ("weather", &json!({"city": "Zürich"})),
            "{dialect:?}"
        );
        assert_eq!(heard.answer().stop, StopReason::ToolCalls, "{dialect:?}");
        let usage = heard.answer().usage;
        assert_eq!((usage.input_tokens, usage.cache_read_tokens), (20, Some(16)), "{dialect:?}");
        assert!(usage.output_tokens >= 9, "{dialect:?}");
        assert!(heard.answer().id.is_some() && heard.answer().model.is_some(), "{dialect:?}");
    }
}

#[tokio::test]
async fn llama_cpp_s_streams_are_understood() {
    for (dialect, stream) in LOCAL {
        let heard = recorded(dialect, stream).await;
        assert!(!heard.text().is_empty(), "{dialect:?}");
        assert_eq!(heard.text(), heard.answer().joined_text(), "{dialect:?}");
        assert_eq!(heard.answer().usage.output_tokens, 12, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    for dialect in Dialect::ALL {
        let target = Target::new(dialect, "mock", "model-1");
        let body = encode_answer(&target, &Answer::text("All at once.")).body;
        let (heard, _) = answered(dialect, [Reply::json(200, &body)]).await;
        assert_eq!(heard.text(), "All at once.", "{dialect:?}");
        assert_eq!(parts(&heard), [Part::text("All at once.")], "{dialect:?}");
    }
}

#[tokio::test]
async fn bodies_under_the_wrong_name_are_understood() {
    for dialect in Dialect::ALL {
        let whole = encode_answer(&Target::new(dialect, "mock", "model-1"), &Answer::text("The answer")).body;
        let events = good(dialect).body().to_vec();
        for reply in [
            Reply::events(format!("\n\n{whole}")),
            Reply::status(200).header("content-type", "text/plain").bytes(whole.to_string()),
            Reply::status(200).header("content-type", "application/json").bytes(events),
        ] {
            let (heard, n_requests) = answered(dialect, [reply]).await;
            assert!(heard.answer().joined_text().starts_with("The answer"), "{dialect:?}");
            assert_eq!(n_requests, 1, "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn errors_under_a_good_status_are_understood() {
    let error = json!({"error": {"code": 401, "message": "wrong key"}});
    for body in [json!([error]), json!({"object": "error", "message": "wrong key", "code": 401}), error] {
        for reply in [Reply::json(200, &body), Reply::events(body.to_string())] {
            let (heard, n_requests) = answered(Dialect::Openai, [reply]).await;
            assert_eq!((heard.error().kind(), n_requests), (ModelErrorKind::Auth, 1), "{body}");
        }
    }
}

#[tokio::test]
async fn requests_go_where_the_dialect_wants_them() {
    let mut shown = String::new();
    for dialect in Dialect::ALL {
        let server = MockModel::start([good(dialect)]).await;
        asked(dialect, &server).await;
        let received = server.received().remove(0);
        let keys = ["authorization", "x-api-key", "x-goog-api-key", "anthropic-version"];
        let keys = keys.iter().filter_map(|it| received.headers.get_key_value(*it));
        let keys: Vec<String> = keys.map(|(name, value)| format!("{name}: {value}")).collect();
        let stream = &received.body["stream"];
        shown += &format!("{} {} [{}] stream={stream}\n", received.method, received.path, keys.join(", "));
    }
    let expected = "\
        POST /v1/chat/completions [authorization: Bearer sk-secret-key] stream=true\n\
        POST /v1/responses [authorization: Bearer sk-secret-key] stream=true\n\
        POST /v1/messages [x-api-key: sk-secret-key, anthropic-version: 2023-06-01] stream=true\n\
        POST /v1/models/model-1:streamGenerateContent?alt=sse [x-goog-api-key: sk-secret-key] stream=null\n";
    assert_eq!(shown, expected);
}

/// llama.cpp leaves out the first event if the answer begins with half a character.
#[tokio::test]
async fn a_stream_without_its_first_event_is_understood() {
    for (dialect, stream) in LOCAL {
        let (_, rest) = stream.split_once("\n\n").unwrap();
        let heard = recorded(dialect, rest).await;
        assert!(!heard.text().is_empty(), "{dialect:?}");
        assert_eq!(heard.answer().usage.output_tokens, 12, "{dialect:?}");
    }
}
