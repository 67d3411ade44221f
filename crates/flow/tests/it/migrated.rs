//! Runs that earlier versions have begun: their records and the messages to them are read as they are.

use std::sync::Arc;

use contexture_flow::{RunEvent, RunInfo, RunStatus};
use contexture_session::conformance::SystemTime;
use contexture_session::{MemoryStore, Store};
use serde_json::{Value, json};

use crate::scene::{Scene, add, rewrite};

/// Gives a record the fields that it had in version 0.1.
fn old(record: String) -> String {
    let mut record: Value = serde_json::from_str(&record).unwrap();
    let more = json!({"epoch": 3, "is_driven": true, "taken": 1, "key": "once"});
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record.to_string()
}

/// A run of an earlier version that waits for an answer.
async fn waiting() -> (Arc<MemoryStore>, Scene, RunInfo) {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let scene = Scene::on(store.clone(), store.clone());
    let flow = scene.flow(json!({
        "nodes": {
            "ask": {"type": "user_input", "message": "You?"},
            "say": {"type": "llm_request", "prompt": "chat"},
        },
        "edges": ["start -> ask", "ask.value -> say.user"],
        "outputs": {"text": "say.text"},
    }));
    let info = scene.run(&flow, "s", json!({})).await;
    rewrite(&*store, &info.run, old).await;
    let read = scene.runtime.info(&info.run).await.unwrap();
    assert_eq!((read.status, &read.waits), (RunStatus::Waiting, &info.waits));
    (store, scene, info)
}

async fn message(store: &dyn Store, info: &RunInfo, message: Value) {
    add(store, &info.run, "flow.inbox", message, |it| it).await;
}

#[tokio::test]
async fn a_run_of_an_earlier_version_is_answered() {
    let (_, scene, info) = waiting().await;
    let info = scene.say(&info, "me").await;
    assert_eq!((info.status, &info.outputs["text"]), (RunStatus::Completed, &json!("re: me")));
}

#[tokio::test]
async fn an_answer_in_the_inbox_of_a_run_counts() {
    let (store, scene, info) = waiting().await;
    message(&*store, &info, json!({"type": "answer", "wait": "ask.7", "value": "nobody"})).await;
    message(&*store, &info, json!({"type": "answer", "wait": "ask.1", "value": "me"})).await;
    let read = scene.runtime.info(&info.run).await.unwrap();
    assert_eq!((read.status, read.waits.len()), (RunStatus::Running, 0));
    let late = scene.runtime.answer(&info.run, "ask.1", json!("late")).await;
    assert!(late.is_err(), "{late:?}");
    let info = scene.drive(&info.run).await;
    assert_eq!((info.status, &info.outputs["text"]), (RunStatus::Completed, &json!("re: me")));
    let answers = scene.events(&info.run).await;
    let answers = answers.iter().filter(|it| matches!(it, RunEvent::NodeAnswer { .. }));
    assert_eq!(answers.count(), 2, "followers are told as well");
}

#[tokio::test]
async fn a_cancellation_in_the_inbox_of_a_run_counts() {
    let (store, scene, info) = waiting().await;
    message(&*store, &info, json!({"type": "cancel"})).await;
    assert_eq!(scene.drive(&info.run).await.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_run_of_an_earlier_version_is_continued_where_its_log_ends() {
    let (store, scene, info) = waiting().await;
    // Its driver was lost after the first start, and what was said in its turns is in the log.
    let said = json!({"type": "node.event", "node": "say", "event": {"type": "text.delta", "text": "Hm."}});
    add(&*store, &info.run, "flow", said, |record| {
        let mut record: Value = serde_json::from_str(&record).unwrap();
        record["upto"] = json!(1);
        record["status"] = json!("running");
        record["state"] = json!({"nodes": [], "steps": 0, "threads": []});
        record.to_string()
    })
    .await;
    let read = scene.runtime.info(&info.run).await.unwrap();
    assert_eq!((read.status, &read.waits), (RunStatus::Running, &info.waits));
    let info = scene.drive(&info.run).await;
    assert_eq!(scene.log(&info.run).await.iter().filter(|it| *it == "run.resume").count(), 1);
    assert_eq!(scene.say(&info, "me").await.outputs["text"], json!("re: me"));
}
