//! Several instances on one store behave as one.

use contexture_message::{Answer, Delta};
use contexture_model::Step;
use serde_json::json;

use crate::scene::{Ground, frames, json_of, resumes, told};

fn endless(text: &str) -> Step {
    Step::Pieces(vec![Delta::Text(text.into())], None)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_followed_stopped_and_tried_again_on_another_instance() {
    let ground = Ground::memory();
    let one = ground.instance(vec![endless("Wait")]).await;
    let two = ground.instance(vec![Step::Answer(Answer::text("Here."))]).await;
    one.session("demo").await;
    let follow = two.get("/v1/sessions/demo/events?after=latest").send().await.unwrap();
    let turn =
        one.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header("accept", "text/event-stream");
    let mine = turn.send().await.unwrap();
    // It is still running there when it is heard here.
    let heard = frames(two.get("/v1/sessions/demo/events").send().await.unwrap(), 2).await;
    assert_eq!(told(&heard), "turn.start\ntext.delta Wait");

    let stop = async |turn: &str| {
        let path = format!("/v1/sessions/demo/turns/{turn}/cancel");
        json_of(two.post(&path, json!({})).send().await.unwrap()).await.0
    };
    assert_eq!(stop("t2").await, 404);
    assert_eq!(stop("t1").await, 202);
    let whole = "turn.start\ntext.delta Wait\nerror\nturn.end interrupted";
    assert_eq!(told(&frames(mine, 100).await), whole);
    assert_eq!(told(&frames(follow, 4).await), whole);
    assert_eq!(stop("t1").await, 404, "it runs no more");

    let again = two.post("/v1/sessions/demo/turns/t1/retry", json!({})).send().await.unwrap();
    let (status, again) = json_of(again).await;
    assert_eq!((status, again["text"].as_str(), again["turn"].as_str()), (200, Some("Here."), Some("t2")));
    let all = frames(one.get("/v1/sessions/demo/events").send().await.unwrap(), 8).await;
    resumes(&two, "/v1/sessions/demo/events", &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_of_one_session_on_two_instances_come_one_after_the_other() {
    let ground = Ground::memory();
    let answers = || (1..=8).map(|it| Step::Answer(Answer::text(format!("Answer {it}.")))).collect();
    let (one, two) = (ground.instance(answers()).await, ground.instance(answers()).await);
    one.session("demo").await;
    let turns = (0..16).map(|idx| {
        let scene = if idx % 2 == 0 { &one } else { &two };
        scene.turn("demo", "hi")
    });
    let turns = futures::future::join_all(turns).await;
    assert!(turns.iter().all(|it| it["status"] == "completed"), "{turns:?}");
    let all = frames(two.get("/v1/sessions/demo/events").send().await.unwrap(), 16 * 4).await;
    resumes(&one, "/v1/sessions/demo/events", &all).await;
    let of_turn = |it: &crate::scene::Frame| it.data["turn"].as_str().unwrap_or_default().to_owned();
    let ends = all.iter().filter(|it| it.event == "turn.end").map(of_turn);
    let mut ends: Vec<String> = ends.collect();
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), 16);
}
