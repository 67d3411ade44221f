//! A real model, where one is served: `cargo xtask model`, with its address in `CONTEXTURE_TEST_MODEL_URL`.
//!
//! The model is tiny, so nothing here looks at what it says, only at how it arrives.

use std::sync::Arc;

use contexture_message::{Message, Request, Settings, StopReason, ToolDefinition};
use contexture_model::{Client, ClientConfig, ModelCall, ModelErrorKind, ModelProvider};
use contexture_wire::Dialect;
use serde_json::{Value, json};

use crate::{Heard, client_with, hear};

const DIALECTS: [Dialect; 3] = [Dialect::Openai, Dialect::OpenaiResponses, Dialect::Anthropic];

/// Returns the model's address, or nothing after it has said so.
#[allow(clippy::print_stdout, reason = "whoever reads the tests' output should know what was not tested")]
fn address() -> Option<String> {
    let address = std::env::var("CONTEXTURE_TEST_MODEL_URL").ok().filter(|it| !it.is_empty());
    if address.is_none() {
        println!("skipped: there is no `CONTEXTURE_TEST_MODEL_URL`; `cargo xtask model` serves one");
    }
    address
}

fn client(dialect: Dialect, address: &str) -> Client {
    client_with(ModelProvider::new(dialect).at(format!("{address}/v1")), ClientConfig::default())
}

fn request(messages: Vec<Message>, max_tokens: u32) -> Request {
    Request {
        model: Some("mock/smollm2".to_owned()),
        messages: messages.into_iter().map(Arc::new).collect(),
        // Without chance: the same answer each time.
        settings: Settings {
            max_tokens: Some(max_tokens),
            temperature: Some(0.into()),
            ..Settings::default()
        },
        ..Request::default()
    }
}

async fn ask(client: &Client, request: Request) -> Heard {
    hear(client, ModelCall { request: Arc::new(request), ..ModelCall::default() }).await
}

#[tokio::test]
async fn text_streams() {
    let Some(address) = address() else { return };
    for dialect in DIALECTS {
        let messages = vec![Message::system("You are brief."), Message::user("Tell me about the sea.")];
        let heard = ask(&client(dialect, &address), request(messages, 24)).await;
        assert!(heard.deltas.len() > 3, "{dialect:?}: {heard:?}");
        assert_eq!(heard.text(), heard.answer().joined_text(), "{dialect:?}");
        let usage = heard.answer().usage;
        assert!(usage.input_tokens > 0 && (1..=24).contains(&usage.output_tokens), "{dialect:?}: {usage:?}");
        // The responses of llama.cpp are complete whatever ended them.
        let stop = &heard.answer().stop;
        assert!(matches!(stop, StopReason::MaxTokens | StopReason::End), "{dialect:?}: {stop:?}");
    }
}

#[tokio::test]
async fn a_conversation_continues() {
    let Some(address) = address() else { return };
    for dialect in DIALECTS {
        let client = client(dialect, &address);
        let mut messages = vec![Message::user("My name is Ada.")];
        let first = ask(&client, request(messages.clone(), 16)).await;
        messages.extend([first.answer().message.clone(), Message::user("What is my name?")]);
        let second = ask(&client, request(messages, 16)).await;
        assert!(!second.text().is_empty(), "{dialect:?}: {second:?}");
        let (before, after) = (first.answer().usage.input_tokens, second.answer().usage.input_tokens);
        assert!(after > before, "{dialect:?}: {before} and then {after}");
    }
}

#[tokio::test]
async fn tools_are_taken() {
    let Some(address) = address() else { return };
    for dialect in DIALECTS {
        let schema =
            json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        let tool = ToolDefinition::new("weather", "Tells the weather of a city.").parameters(schema);
        let messages = vec![Message::user("How is the weather in Paris?")];
        let request = Request { tools: vec![Arc::new(tool)], ..request(messages, 32) };
        let heard = ask(&client(dialect, &address), request).await;
        assert!(heard.answer().usage.output_tokens > 0, "{dialect:?}: {heard:?}");
    }
}

#[tokio::test]
async fn structured_answers_are_json() {
    let Some(address) = address() else { return };
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    let messages = vec![Message::user("Ada is 36 years old. Answer with her name and age.")];
    let request = Request { output: Some(Arc::new(schema)), ..request(messages, 64) };
    let heard = ask(&client(Dialect::Openai, &address), request).await;
    let answer: Value = serde_json::from_str(&heard.text()).unwrap();
    assert!(answer["name"].is_string() && answer["age"].is_i64(), "{answer}");
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_refused() {
    let Some(address) = address() else { return };
    for dialect in DIALECTS {
        let messages = vec![Message::user("word ".repeat(9_000))];
        let heard = ask(&client(dialect, &address), request(messages, 8)).await;
        assert_eq!(heard.error().kind(), ModelErrorKind::PromptTooLong, "{dialect:?}: {}", heard.error());
    }
}

/// Returns which call the model works on, and how many tokens it has said; nothing if it has nothing to do.
async fn works_on(address: &str) -> Option<(i64, i64)> {
    let http = contexture_model::http_client(Vec::new(), None).unwrap();
    let text = http.get(format!("{address}/slots")).send().await.unwrap().text().await.unwrap();
    let slots: Value = serde_json::from_str(&text).unwrap();
    let slot = &slots[0];
    let said = slot["next_token"][0]["n_decoded"].as_i64()?;
    slot["is_processing"].as_bool()?.then_some((slot["id_task"].as_i64()?, said))
}

#[tokio::test]
async fn a_dropped_stream_frees_the_model() {
    let Some(address) = address() else { return };
    use contexture_model::Model;
    use futures::StreamExt;
    let client = client(Dialect::Openai, &address);
    let long = request(vec![Message::user("Tell me a very long story.")], 1_000);
    let mut deltas = client.stream(ModelCall { request: Arc::new(long), ..ModelCall::default() });
    assert!(deltas.next().await.unwrap().is_ok());
    // The model answers one call at a time, so it is this one.
    let (call, mut said) = works_on(&address).await.unwrap();
    drop(deltas);
    while let Some((_, more)) = works_on(&address).await.filter(|it| it.0 == call) {
        said = more;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(said < 500, "it went on, and said {said} of 1000 tokens");
    let next = ask(&client, request(vec![Message::user("Hi.")], 4)).await;
    assert!(!next.text().is_empty());
}
