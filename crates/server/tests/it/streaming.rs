//! Events: told once each, in order, and from any place on.

use contexture_message::Delta;
use contexture_model::Step;
use serde_json::json;

use crate::scene::{Ground, answering, frames, json_of, resumes, told};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_told_as_it_happens() {
    let scene = answering(&["Hello there."]).await;
    scene.session("demo").await;
    let turn = scene.post("/v1/sessions/demo/turns", json!({"user": "hi"}));
    let answer = turn.header("accept", "text/event-stream").send().await.unwrap();
    insta::assert_snapshot!(told(&frames(answer, 100).await), @r"
    turn.start
    text.delta Hello there.
    context_usage
    turn.end completed
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_exactly_behind_an_event() {
    let scene = answering(&["One.", "Two."]).await;
    scene.session("demo").await;
    scene.turn("demo", "a").await;
    scene.turn("demo", "b").await;
    let path = "/v1/sessions/demo/events";
    let all = frames(scene.get(path).send().await.unwrap(), 8).await;
    assert_eq!(all.iter().filter(|it| it.event == "turn.end").count(), 2);
    resumes(&scene, path, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_are_none_are_refused() {
    let scene = answering(&["One."]).await;
    scene.session("demo").await;
    scene.turn("demo", "a").await;
    for id in ["-1", "x", "1.5", "99999999999999999999999", "77"] {
        let answer = scene.get("/v1/sessions/demo/events").header("last-event-id", id).send().await.unwrap();
        let (status, problem) = json_of(answer).await;
        assert_eq!((status, problem["code"].as_str()), (400, Some("header_invalid")), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_again_is_told_the_same_from_the_log() {
    let piece = Delta::Text("Slowly".into());
    let scene = Ground::memory().instance(vec![Step::Pieces(vec![piece], None)]).await;
    scene.session("demo").await;
    let send = async || {
        let turn =
            scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header("idempotency-key", "k");
        turn.header("accept", "text/event-stream").send().await.unwrap()
    };
    // The first client is gone before the end; the turn runs on.
    let first = frames(send().await, 2).await;
    let (again, stopped) = tokio::join!(async { frames(send().await, 100).await }, async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        scene.post("/v1/sessions/demo/turns/t1/cancel", json!({})).send().await.unwrap().status()
    });
    assert_eq!(stopped, 202);
    assert_eq!(again[..2], first[..]);
    assert_eq!(told(&again), "turn.start\ntext.delta Slowly\nerror\nturn.end interrupted");
    assert_eq!(told(&frames(send().await, 100).await), told(&again), "and once more when it is over");
}
