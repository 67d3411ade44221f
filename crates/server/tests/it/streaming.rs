//! Events: told once each, in order, and from any place on.

use contexture_message::{Answer, Delta};
use contexture_model::Step;
use serde_json::json;

use crate::scene::{Frame, Ground, Listener, Scene, answering, frames, json_of, resumes, told};

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

/// How many large answers are given: together they fill the buffers of a connection several times.
const N_LARGE: usize = 12;

fn large(answer: usize) -> String {
    format!("answer {answer}. ").repeat(100_000)
}

/// Returns a follower that has read nothing of the large answers, each in a thread of its own.
async fn stalled(scene: &Scene) -> Listener {
    scene.session("demo").await;
    scene.turn("demo", "hi").await;
    let mut follower = Listener::new(scene.get("/v1/sessions/demo/events").send().await.unwrap());
    follower.hear(|it| it.last().is_some_and(|it| it.event == "turn.end")).await;
    for _ in 0..N_LARGE {
        let thread = scene.post("/v1/sessions/demo/threads", json!({})).send().await.unwrap();
        let thread = json_of(thread).await.1["id"].clone();
        let turn = json!({"user": "Tell me all.", "thread": thread});
        let turn = scene.post("/v1/sessions/demo/turns", turn).send().await.unwrap();
        assert_eq!(json_of(turn).await.1["status"], "completed");
    }
    follower
}

async fn answering_at_length() -> Scene {
    let texts = ["Hello.".to_owned()].into_iter().chain((0..N_LARGE).map(large));
    let steps = texts.map(|it| Step::Answer(Answer::text(it))).collect();
    Ground::memory().instance_with(steps, &[("server.heartbeat_seconds", "1")]).await
}

fn n_ended(frames: &[Frame]) -> usize {
    frames.iter().filter(|it| it.event == "turn.end").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stalls_misses_nothing() {
    let scene = answering_at_length().await;
    let mut follower = stalled(&scene).await;
    let frames = follower.hear(|it| n_ended(it) == N_LARGE).await;
    let mut texts: Vec<String> = Vec::new();
    for frame in frames {
        match frame.event.as_str() {
            "turn.start" => texts.push(String::new()),
            "text.delta" => texts.last_mut().unwrap().push_str(frame.data["text"].as_str().unwrap()),
            _ => {}
        }
    }
    assert!(texts == (0..N_LARGE).map(large).collect::<Vec<_>>(), "{} turns", texts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stalls_is_not_told_what_was_deleted_since() {
    let scene = answering_at_length().await;
    let mut follower = stalled(&scene).await;
    let deleted = scene.client.delete(format!("{}/v1/sessions/demo", scene.url)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    // What its connection holds is all that follows.
    let frames = follower.hear(|_| false).await;
    assert!(n_ended(&frames) < N_LARGE, "{}", n_ended(&frames));
}
