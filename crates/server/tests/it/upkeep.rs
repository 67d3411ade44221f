//! Runs that are damaged, and runs that are forgotten.

use contexture_session::{Document, DocumentList, Records, Writes};
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

/// Returns all documents of a kind.
async fn documents(records: &dyn Records, kind: &str) -> Vec<Document> {
    let list = DocumentList { kind: kind.to_owned(), tenant: None, session: None, after: None, max: 1000 };
    records.list(list).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_run_is_listed_as_such_beside_the_others() {
    let ground = Ground::memory();
    let scene = ground.instance(Vec::new()).await;
    let (one, two) = (waiting(&scene, "a").await, waiting(&scene, "b").await);
    let book = documents(&*ground.records, "flow.run").await.remove(0);
    let puts = vec![Document { data: "{}".to_owned(), ..book }];
    ground.records.write(Writes { puts, ..Writes::default() }).await.unwrap();

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
