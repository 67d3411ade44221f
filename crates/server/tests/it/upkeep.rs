//! Runs that are damaged, and runs that are forgotten.

use std::time::Duration;

use contexture_history::{Item, Seq, Timestamp};
use contexture_message::Answer;
use contexture_model::Step;
use contexture_session::{
    Append, Guard, Journal, LogHead, LogKind, LogList, LogState, NewSession, SessionId, SessionKey, Tenant,
    record_item,
};
use serde_json::{Value, json};

use crate::scene::{Ground, Scene, json_of};

/// Starts a run that waits, and returns its id.
async fn waiting(scene: &Scene, session: &str) -> String {
    let post = scene.post("/v1/flows/talk/runs", json!({"session": session, "wait": true}));
    let (status, run) = json_of(post.send().await.unwrap()).await;
    assert_eq!((status, run["status"].as_str()), (201, Some("waiting")), "{run}");
    run["run"].as_str().unwrap().to_owned()
}

async fn get(scene: &Scene, path: &str) -> (u16, Value) {
    json_of(scene.get(path).send().await.unwrap()).await
}

/// Returns the logs of all runs.
async fn runs(ground: &Ground) -> Vec<LogHead> {
    let (kind, max) = (LogKind::Run, 1000);
    ground.store.logs(LogList { kind, tenant: None, session: None, after: None, max }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_run_is_listed_as_such_beside_the_others() {
    let ground = Ground::memory();
    let scene = ground.instance(Vec::new()).await;
    let (one, two) = (waiting(&scene, "a").await, waiting(&scene, "b").await);
    let head = runs(&ground).await.remove(0);
    let key = head.key();
    let end = Seq(head.info.items);
    let items = vec![Item { seq: end.plus(1), ..record_item("note", Value::Null, head.info.updated) }];
    let state = LogState { end: end.plus(1), json: "{}".to_owned(), ..LogState::default() };
    let (expected, state, guard) = (Some(end), Some(state), Guard::Any);
    let append =
        Append { expected, nonce: String::new(), items, state, guard, keys: Vec::new(), lazy: false };
    ground.store.append(key, append).await.unwrap();

    let (status, list) = get(&scene, "/v1/runs").await;
    assert_eq!((status, list["runs"].as_array().unwrap().len()), (200, 1), "{list}");
    assert_eq!(list["runs"][0]["run"], *two);
    assert_eq!(
        (&list["damaged"][0]["run"], &list["damaged"][0]["error"]["code"]),
        (&json!(one), &json!("store_damaged"))
    );
    let (status, problem) = get(&scene, &format!("/v1/runs/{one}")).await;
    assert_eq!((status, problem["code"].as_str()), (500, Some("store_damaged")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(&one), "{problem}");
}

/// Runs `once` to its end, with an idempotency key, and returns the run's id.
async fn completed(scene: &Scene, session: &str, key: &str) -> String {
    let body = json!({"session": session, "input": {"text": "hi"}, "wait": true});
    let post = scene.post("/v1/flows/once/runs", body).header("idempotency-key", key);
    let (status, run) = json_of(post.send().await.unwrap()).await;
    assert_eq!((status, run["status"].as_str()), (201, Some("completed")), "{run}");
    run["run"].as_str().unwrap().to_owned()
}

fn answers(n: usize) -> Vec<Step> {
    (0..n).map(|_| Step::Answer(Answer::text("Yes."))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_are_over_are_forgotten_when_their_time_is_over() {
    let ground = Ground::memory();
    let scene = ground.instance(answers(2)).await;
    let over = completed(&scene, "a", "k").await;
    let waits = waiting(&scene, "a").await;
    assert_eq!(get(&scene, &format!("/v1/runs/{over}")).await.0, 200, "usually they stay for long");
    // Another instance keeps them for no time at all.
    let _other = ground.instance_with(Vec::new(), &[("server.runs_retention_hours", "0")]).await;
    while get(&scene, &format!("/v1/runs/{over}")).await.0 == 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(get(&scene, &format!("/v1/runs/{over}")).await.1["code"], "not_found");
    assert_eq!(get(&scene, &format!("/v1/runs/{waits}")).await.1["status"], "waiting");
    assert_eq!(runs(&ground).await.len(), 1);
    assert_ne!(completed(&scene, "a", "k").await, over);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_takes_its_runs_and_their_keys_along() {
    let ground = Ground::memory();
    let scene = ground.instance(answers(2)).await;
    let run = completed(&scene, "a", "k").await;
    let deleted = scene.client.delete(format!("{}/v1/sessions/a", scene.url)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    assert_eq!(runs(&ground).await, []);
    assert_eq!(get(&scene, &format!("/v1/runs/{run}")).await.0, 404);
    assert_ne!(completed(&scene, "a", "k").await, run);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_is_forgotten_soon_after_the_start() {
    let ground = Ground::memory();
    let session = SessionKey { tenant: Tenant::default(), session: SessionId::parse("demo").unwrap() };
    let new = NewSession { key: session.clone(), label: None, at: Timestamp(0) };
    ground.store.create_session(new).await.unwrap();
    let passes = Journal::new(ground.store.clone(), session, "passes");
    passes.append(&json!({}), Timestamp(0), false).await.unwrap();
    let _scene = ground.instance(Vec::new()).await;
    let start = std::time::Instant::now();
    while !passes.newest(None, 1).await.unwrap().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is forgotten");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
