//! What models saw can be listed, shown, compared and sent again.

use std::sync::Arc;

use contexture_message::{Answer, Part, ToolCall, Usage};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{Client, ClientConfig, ModelError, ModelErrorKind, ModelProvider, Step};
use contexture_project::{InMemory, Project};
use contexture_wire::Dialect;
use serde_json::{Value, json};

use crate::scene::{FILES, Ground, Scene, answering, json_of};

async fn get(scene: &Scene, path: &str) -> (u16, Value) {
    json_of(scene.get(path).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_kept_and_two_can_be_compared() {
    let scene = answering(&["One.", "Two."]).await;
    scene.session("my.demo").await;
    scene.turn("my.demo", "first").await;
    scene.turn("my.demo", "second").await;
    let (_, page) = get(&scene, "/v1/sessions/my.demo/passes").await;
    let list = page["passes"].as_array().unwrap();
    let line = |it: &Value| format!("{} {} {}", it["id"], it["turn"], it["result"]["stop"]);
    let lines: Vec<String> = list.iter().map(line).collect();
    assert_eq!(lines, [r#""my.demo.2" "t2" "end""#, r#""my.demo.1" "t1" "end""#]);

    let (_, pass) = get(&scene, "/v1/passes/my.demo.2").await;
    let said = pass["request"]["messages"].as_array().unwrap().iter().map(|it| it["content"].clone());
    assert_eq!(said.collect::<Vec<_>>(), ["You are helpful.", "first", "One.", "second"]);
    assert_eq!(pass["explanation"]["fingerprint"], pass["fingerprint"]);
    assert_eq!(pass["explanation"]["total_tokens"], pass["total_tokens"]);

    let (_, diff) = get(&scene, "/v1/passes/my.demo.1/diff/my.demo.2").await;
    assert_eq!(diff["equal"], false);
    assert_eq!(diff["added"][0]["source"], "history:t1");
    let (_, same) = get(&scene, "/v1/passes/my.demo.1/diff/my.demo.1").await;
    assert_eq!(same["equal"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_has_its_answer_and_what_that_cost() {
    let usage = Usage { input_tokens: 20, output_tokens: 3, ..Usage::default() };
    let call = ToolCall { id: "c1".into(), name: "pick_color".into(), arguments: json!({}) };
    let asks = Answer { usage, ..Answer::parts(vec![Part::ToolCall(call)]) };
    let done = Answer { usage: Usage { cache_read_tokens: Some(0), ..usage }, ..Answer::text("Blue it is.") };
    let failure = ModelError::new(ModelErrorKind::Overloaded, "busy");
    let steps = vec![Step::Answer(asks), Step::Answer(done), Step::Fail(failure)];
    let scene = Ground::memory().instance(steps).await;
    scene.session("demo").await;
    let tool = json!({"name": "pick_color", "description": "Asks.", "parameters": {"type": "object"}});
    let turn = json!({"user": "a color?", "client_tools": [tool]});
    scene.post("/v1/sessions/demo/turns", turn).send().await.unwrap();
    let results = json!({"results": [{"call_id": "c1", "output": "blue"}]});
    scene.post("/v1/sessions/demo/turns/t1/results", results).send().await.unwrap();
    scene.turn("demo", "again").await;

    let mut answers = Vec::new();
    for number in 1..=3 {
        let (_, pass) = get(&scene, &format!("/v1/passes/demo.{number}")).await;
        answers.push(format!("{} {}", pass["result"]["error"], pass["answer"]));
    }
    insta::assert_snapshot!(answers.join("\n"), @r#"
    null {"message":{"role":"assistant","content":[{"type":"tool_call","id":"c1","name":"pick_color","arguments":{}}]},"stop":"tool_calls","usage":{"input_tokens":20,"output_tokens":3,"reasoning_tokens":0}}
    null {"message":{"role":"assistant","content":"Blue it is."},"stop":"end","usage":{"input_tokens":20,"cache_read_tokens":0,"output_tokens":3,"reasoning_tokens":0}}
    "model_overloaded" null
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_is_not_there_is_not_found() {
    let scene = answering(&["One."]).await;
    scene.session("demo").await;
    scene.turn("demo", "hi").await;
    for (path, code) in [
        ("/v1/passes/demo.7", "not_found"),
        ("/v1/passes/other.1", "not_found"),
        ("/v1/passes/demo.0", "path_invalid"),
        ("/v1/passes/demo", "path_invalid"),
        ("/v1/passes/demo.1/body", "not_found"),
        ("/v1/sessions/none/passes", "not_found"),
    ] {
        assert_eq!(get(&scene, path).await.1["code"], code, "{path}");
    }
}

/// Starts a server whose model is behind a wire.
async fn wired(model: &MockModel) -> Scene {
    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let provider = ModelProvider {
        base_url: Some(format!("{}/v1", model.url())),
        ..ModelProvider::new(Dialect::Openai)
    };
    let providers = [("openai".to_owned(), provider)].into();
    let client = Client::new(ClientConfig { providers, ..ClientConfig::default() }).unwrap();
    let agent = Arc::new(move |_: &Project| Ok(contexture::agent(client.clone())));
    Ground::memory().instance_of(project, agent).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_kept_to_the_byte_and_sent_again() {
    let answer = |text: &str| Reply::answer(Dialect::Openai, &Answer::text(text));
    let model = MockModel::start(["One.", "Two.", "Again."].map(answer)).await;
    let scene = wired(&model).await;
    scene.session("demo").await;
    scene.turn("demo", "a number: 0.1, 1e-7, ü, \u{1f600}").await;
    scene.turn("demo", "second").await;
    for (idx, received) in model.received().into_iter().enumerate() {
        let path = format!("/v1/passes/demo.{}/body", idx + 1);
        let body = scene.get(&path).send().await.unwrap().text().await.unwrap();
        assert_eq!(body, received.text);
    }
    let replay = scene.post("/v1/passes/demo.1/replay", json!({})).send().await.unwrap();
    let (status, replayed) = json_of(replay).await;
    assert_eq!((status, replayed["answer"]["message"]["content"].as_str()), (200, Some("Again.")));
    let received = model.received();
    assert_eq!(received[2].text, received[0].text);
    let (_, shown) = get(&scene, "/v1/sessions/demo").await;
    assert_eq!(shown["turns"], 2, "a replay is kept nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_session_takes_its_passes_and_events_with_it() {
    let scene = answering(&["One.", "Two."]).await;
    scene.session("demo").await;
    scene.turn("demo", "hi").await;
    let removed = scene.client.delete(format!("{}/v1/sessions/demo", scene.url)).send().await.unwrap();
    assert_eq!(removed.status(), 204);
    assert_eq!(get(&scene, "/v1/passes/demo.1").await.1["code"], "not_found");
    assert_eq!(get(&scene, "/v1/sessions/demo/events").await.1["code"], "not_found");
    scene.session("demo").await;
    assert_eq!(get(&scene, "/v1/passes/demo.1").await.1["code"], "not_found");
    let turn = scene.turn("demo", "hi").await;
    assert_eq!((turn["text"].as_str(), turn["turn"].as_str()), (Some("Two."), Some("t1")));
    let (_, pass) = get(&scene, "/v1/passes/demo.1").await;
    assert_eq!(pass["request"]["messages"].as_array().unwrap().len(), 2, "it is there whole");
}
