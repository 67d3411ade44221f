//! Sessions and turns.

use serde_json::json;

use crate::scene::{answering, json_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_kept() {
    let scene = answering(&["Hello.", "You said hi."]).await;
    scene.session("demo").await;
    assert_eq!(scene.turn("demo", "hi").await["text"], "Hello.");
    let second = scene.turn("demo", "what did I say?").await;
    assert_eq!(
        (second["text"].as_str(), second["turn"].as_str(), second["status"].as_str()),
        (Some("You said hi."), Some("t2"), Some("completed"))
    );
    let (_, items) = json_of(scene.get("/v1/sessions/demo/items?view=history").send().await.unwrap()).await;
    assert_eq!(items["items"].as_array().unwrap().len(), 2);
    let (_, shown) = json_of(scene.get("/v1/sessions/demo").send().await.unwrap()).await;
    assert_eq!(shown["turns"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_again_runs_nothing() {
    let scene = answering(&["Once.", "Twice."]).await;
    scene.session("demo").await;
    let send = async || {
        let turn =
            scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header("idempotency-key", "k1");
        json_of(turn.send().await.unwrap()).await.1
    };
    assert_eq!(send().await["text"], "Once.");
    let again = send().await;
    assert_eq!((again["text"].as_str(), again["ended"].as_str()), (Some("Once."), Some("replayed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_in_a_problem_document() {
    let scene = answering(&[]).await;
    scene.session("demo").await;
    let code = async |path: &str, body: serde_json::Value| {
        let (status, problem) = json_of(scene.post(path, body).send().await.unwrap()).await;
        format!(
            "{status} {} {}",
            problem["code"].as_str().unwrap_or("?"),
            problem["at"].as_str().unwrap_or("-")
        )
    };
    assert_eq!(code("/v1/sessions/none/turns", json!({"user": "hi"})).await, "404 not_found -");
    assert_eq!(code("/v1/sessions/demo/turns", json!({"usr": "hi"})).await, "400 body_invalid usr");
    assert_eq!(code("/v1/sessions/demo/turns", json!({"user": 7})).await, "422 message_invalid user");
    assert_eq!(code("/v1/sessions/demo/turns", json!({"prompt": "x"})).await, "404 unknown_prompt -");
    assert_eq!(code("/v1/sessions", json!({"id": "demo"})).await, "409 already_exists -");
    assert_eq!(code("/v1/sessions", json!({"id": "../x"})).await, "400 id_invalid -");
    assert_eq!(
        code("/v1/prompts/greet/resolve", json!({})).await,
        "422 template_error prompts/greet.md:10:9"
    );
}
