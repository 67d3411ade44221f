//! Runs that wait for a blackboard.

use std::time::Duration;

use contexture_agent::CancellationToken;
use contexture_flow::{Flow, RunStatus};
use serde_json::{Value, json};

use crate::scene::Scene;

fn waiting(scene: &Scene, fields: Value) -> Flow {
    let mut wait = json!({"type": "blackboard_wait", "board": "plan", "condition": "board.done >= 2"});
    wait.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    scene.flow(json!({
        "nodes": {"wait": wait},
        "edges": ["start -> wait"],
        "outputs": {"board": "wait.board", "late": "wait.timeout"},
    }))
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_until_a_board_fits_a_condition() {
    let scene = Scene::new();
    *scene.library.board.lock().unwrap() = json!({"done": 1});
    let flow = waiting(&scene, json!({}));
    let run = scene.start(&flow, "s", json!({})).await;
    let driven = tokio::spawn({
        let (scene, run) = (scene.clone(), run.clone());
        async move { scene.drive(&run).await }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!driven.is_finished(), "nothing has changed yet");
    *scene.library.board.lock().unwrap() = json!({"done": 2});
    let info = driven.await.unwrap();
    assert_eq!(info.status, RunStatus::Completed);
    assert_eq!(info.outputs["board"], json!({"done": 2}));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_driver_waits_on() {
    let scene = Scene::new();
    *scene.library.board.lock().unwrap() = json!({"done": 0});
    let run = scene.start(&waiting(&scene, json!({})), "s", json!({})).await;
    let stop = CancellationToken::new();
    let (first, stopped) = (scene.clone(), stop.clone());
    let of_first = run.clone();
    let driven = tokio::spawn(async move { first.runtime.drive(&of_first, stopped).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.cancel();
    let _ = driven.await.unwrap();
    *scene.library.board.lock().unwrap() = json!({"done": 5});
    assert_eq!(scene.drive(&run).await.outputs["board"], json!({"done": 5}));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_time() {
    let scene = Scene::new();
    *scene.library.board.lock().unwrap() = json!({"done": 0});
    let flow = waiting(&scene, json!({"wait_seconds": 60}));
    let info = scene.run(&flow, "s", json!({})).await;
    assert_eq!((info.status, &info.outputs["late"]), (RunStatus::Completed, &json!(true)));
    assert!(!info.outputs.contains_key("board"));
}

#[tokio::test(start_paused = true)]
async fn a_board_that_does_not_exist_fails_the_node() {
    let scene = Scene::new();
    let info = scene.run(&waiting(&scene, json!({"board": "other"})), "s", json!({})).await;
    assert_eq!(info.status, RunStatus::Failed);
}
