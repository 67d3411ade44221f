//! Runs whose document nobody can read stand in nobody's way.

use std::sync::Arc;

use contexture_agent::CancellationToken;
use contexture_flow::{RunError, RunId, RunList, RunPage, RunStatus};
use contexture_session::MemoryStore;
use contexture_session::conformance::SystemTime;
use serde_json::{Value, json};

use crate::scene::{Scene, rewrite};

fn open() -> (Arc<MemoryStore>, Scene) {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    (Arc::clone(&store), Scene::on(store.clone(), store))
}

/// What a version that does not exist yet may write.
fn newer(data: String) -> String {
    let mut run_record: Value = serde_json::from_str(&data).unwrap();
    run_record["status"] = json!("dreaming");
    run_record.to_string()
}

/// Shows a page, a run a word; those that can't be read in brackets.
fn shown(page: &RunPage) -> String {
    let runs = page.runs.iter().map(|it| it.session.to_string());
    let damaged = page.damaged.iter().map(|it| {
        assert_eq!(it.error.code, "store_damaged");
        assert!(it.error.message.contains(&it.run.to_string()), "{}", it.error);
        format!("[{}]", it.run.session())
    });
    let next = page.after.iter().map(|it| format!("then {}", it.session()));
    runs.chain(damaged).chain(next).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_damaged_run_hides_no_other_one() {
    let (store, scene) = open();
    let flow = scene.flow(json!({"nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]}));
    let mut runs = Vec::new();
    for session in ["a", "b", "c", "d", "e"] {
        runs.push(scene.run(&flow, session, json!({})).await.run);
    }
    rewrite(&*store, &runs[1], |_| "{".to_owned()).await;
    rewrite(&*store, &runs[3], newer).await;

    let list = async |after: Option<&RunId>, max, status| {
        let list = RunList { after: after.cloned(), max, status, ..RunList::default() };
        scene.runtime.list(&list).await.unwrap()
    };
    assert_eq!(shown(&list(None, 10, None).await), "a c e [b] [d]");
    assert_eq!(shown(&list(None, 10, Some(RunStatus::Waiting)).await), "a c e [b] [d]");
    assert_eq!(shown(&list(None, 10, Some(RunStatus::Failed)).await), "[b] [d]");
    assert_eq!(shown(&list(None, 2, None).await), "a [b] then b");
    assert_eq!(shown(&list(Some(&runs[1]), 2, None).await), "c [d] then d");
    assert_eq!(shown(&list(Some(&runs[3]), 2, None).await), "e");
    assert_eq!(shown(&list(None, 0, None).await), "");

    let err = scene.runtime.info(&runs[1]).await.unwrap_err();
    assert!(err.to_string().contains(&runs[1].to_string()), "{err}");
    assert_eq!(err.code(), "store_damaged");
}

#[tokio::test]
async fn a_damaged_run_that_is_due_leaves_the_others_due() {
    let (store, scene) = open();
    let flow = scene.flow(json!({"nodes": {"ask": {"type": "user_input"}}, "edges": ["start -> ask"]}));
    let bad = scene.start(&flow, "a", json!({})).await;
    let good = scene.start(&flow, "b", json!({})).await;
    rewrite(&*store, &bad, |_| String::new()).await;
    let due: Vec<RunId> = scene.runtime.due(None, 10).await.unwrap().into_iter().map(|it| it.1).collect();
    assert_eq!(due, [bad.clone(), good.clone()]);
    let driven = scene.runtime.drive(&bad, CancellationToken::new()).await;
    assert!(matches!(driven, Err(RunError::Damaged { .. })), "{driven:?}");
    assert_eq!(scene.drive(&good).await.status, RunStatus::Waiting);
}
