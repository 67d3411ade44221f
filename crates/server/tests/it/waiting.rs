//! Turns that wait: for a person, or for the client's tools.

use std::sync::Arc;

use contexture_agent::tool;
use contexture_message::{Answer, Part, ToolCall};
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project};
use serde_json::{Value, json};

use crate::scene::{FILES, Ground, Scene, frames, json_of};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn calling(id: &str, tool: &str) -> Step {
    let call = ToolCall { id: id.into(), name: tool.into(), arguments: json!({}) };
    Step::Answer(Answer::parts(vec![Part::ToolCall(call)]))
}

fn saying(text: &str) -> Step {
    Step::Answer(Answer::text(text))
}

/// Starts a server with a tool that needs approval.
async fn asking(ground: &Ground, steps: Vec<Step>) -> Scene {
    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let model = Scripted::new(steps);
    let agent = Arc::new(move |_: &Project| {
        let launch = tool("launch", "Launches.", |_: Nothing| async { Ok("launched") });
        Ok(contexture::agent(model.clone()).tool(launch.needs_approval()))
    });
    ground.instance_of(project, agent).await
}

async fn post(scene: &Scene, path: &str, body: Value) -> (u16, Value) {
    json_of(scene.post(path, body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_lets_the_turn_go_on_on_another_instance() {
    let ground = Ground::memory();
    let one = asking(&ground, vec![calling("c1", "launch")]).await;
    one.session("demo").await;
    let turn = one.turn("demo", "go").await;
    assert_eq!((turn["status"].as_str(), turn["ended"].as_str()), (Some("suspended"), Some("suspended")));
    let (id, token) = (turn["approvals"][0]["id"].as_str().unwrap(), &turn["approvals"][0]["token"]);
    assert_eq!(id, "demo:t1:c1");

    let two = asking(&ground, vec![saying("It flies.")]).await;
    let (_, waits) = json_of(two.get("/v1/sessions/demo/approvals").send().await.unwrap()).await;
    assert_eq!(waits["approvals"][0]["tool"], "launch");
    assert!(waits["approvals"][0].get("token").is_none(), "the token is told once");

    let path = format!("/v1/approvals/{id}");
    let decide = |token: &Value| json!({"token": token, "verdict": "approve"});
    let forged = post(&two, &path, decide(&json!("guess"))).await;
    assert_eq!((forged.0, forged.1["code"].as_str()), (403, Some("approval_forged")));
    let elsewhere = post(&two, "/v1/approvals/demo:t2:c1", decide(token)).await;
    assert_eq!(elsewhere.1["code"], "approval_not_waiting");
    let (status, done) = post(&two, &path, decide(token)).await;
    assert_eq!(
        (status, done["text"].as_str(), done["status"].as_str()),
        (200, Some("It flies."), Some("completed"))
    );
    let again = post(&two, &path, decide(token)).await;
    assert_eq!(again.1["code"], "approval_not_waiting");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_fails_for_its_prompt_says_so_and_the_turn_waits_on() {
    let ground = Ground::memory();
    let one = asking(&ground, vec![calling("c1", "launch"), saying("It flies.")]).await;
    one.session("demo").await;
    let turn = one.turn("demo", "go").await;
    let decision = json!({"token": turn["approvals"][0]["token"], "verdict": "approve"});
    let without = [("prompts/other.md", "---\nmodel: openai/gpt-5-mini\n---\nHi.\n")];
    let project = Project::from_files(Arc::new(InMemory::new(without))).unwrap();
    let model = Scripted::new(vec![]);
    let two = ground.instance_of(project, Arc::new(move |_| Ok(contexture::agent(model.clone())))).await;
    let (status, problem) = post(&two, "/v1/approvals/demo:t1:c1", decision.clone()).await;
    assert_eq!((status, problem["code"].as_str()), (404, Some("unknown_prompt")), "{problem}");
    let (status, done) = post(&one, "/v1/approvals/demo:t1:c1", decision).await;
    assert_eq!((status, done["text"].as_str()), (200, Some("It flies.")), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_in_the_stream_of_whoever_asked_and_in_no_log() {
    let ground = Ground::memory();
    let scene = asking(&ground, vec![calling("c1", "launch")]).await;
    scene.session("demo").await;
    let turn = scene.post("/v1/sessions/demo/turns", json!({"user": "go"}));
    let mine = frames(turn.header("accept", "text/event-stream").send().await.unwrap(), 100).await;
    let asked = mine.iter().find(|it| it.event == "approval.required").unwrap();
    let token = asked.data["approval"]["token"].as_str().unwrap();
    let theirs = frames(scene.get("/v1/sessions/demo/events").send().await.unwrap(), mine.len()).await;
    let asked = theirs.iter().find(|it| it.event == "approval.required").unwrap();
    assert_eq!(asked.data["approval"]["id"], "demo:t1:c1");
    assert!(!format!("{theirs:?}").contains(token));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_waits_for_the_tools_of_its_client() {
    let ground = Ground::memory();
    let scene = asking(&ground, vec![calling("c1", "look"), saying("A tree.")]).await;
    scene.session("demo").await;
    let look = json!({"name": "look", "description": "Looks.", "parameters": {"type": "object"}});
    let path = "/v1/sessions/demo/turns";
    let (_, turn) = post(&scene, path, json!({"user": "what is there?", "client_tools": [look]})).await;
    assert_eq!(
        (turn["ended"].as_str(), turn["client_calls"][0]["id"].as_str()),
        (Some("client_tools"), Some("c1"))
    );
    let results = |id: &str| json!({"results": [{"call_id": id, "output": "a tree"}]});
    let wrong = post(&scene, "/v1/sessions/demo/turns/t1/results", results("c2")).await;
    assert_eq!((wrong.0, wrong.1["code"].as_str()), (409, Some("tool_result_unexpected")));
    let (status, done) = post(&scene, "/v1/sessions/demo/turns/t1/results", results("c1")).await;
    assert_eq!((status, done["text"].as_str()), (200, Some("A tree.")));
    let late = post(&scene, "/v1/sessions/demo/turns/t1/results", results("c1")).await;
    assert_eq!((late.0, late.1["code"].as_str()), (409, Some("turn_not_suspended")));
}
