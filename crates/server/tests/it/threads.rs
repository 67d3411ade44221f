//! Isolated threads, compaction, and what changes under a running server.

use serde_json::{Value, json};

use crate::scene::{Ground, Scene, answering, json_of};

async fn post(scene: &Scene, path: &str, body: Value) -> (u16, Value) {
    json_of(scene.post(path, body).send().await.unwrap()).await
}

async fn get(scene: &Scene, path: &str) -> (u16, Value) {
    json_of(scene.get(path).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_thread_never_leaks_into_the_main_one() {
    let scene = answering(&["Main.", "Aside."]).await;
    scene.session("demo").await;
    scene.turn("demo", "hello").await;
    let (status, thread) = post(&scene, "/v1/sessions/demo/threads", json!({"label": "aside"})).await;
    assert_eq!((status, thread["kind"].as_str()), (201, Some("isolated")));
    let id = thread["id"].as_str().unwrap();
    let encoded = id.replace('/', "%2F");
    let said =
        json!({"messages": [{"role": "user", "content": "psst"}, {"role": "assistant", "content": "yes?"}]});
    let (status, stands) = post(&scene, &format!("/v1/threads/{encoded}/messages"), said).await;
    assert_eq!((status, stands["turn"].as_str()), (200, Some("t1")));
    let (_, turn) = post(&scene, "/v1/sessions/demo/turns", json!({"user": "tell", "thread": id})).await;
    assert_eq!((turn["text"].as_str(), turn["thread"].as_str()), (Some("Aside."), Some(id)));
    let (_, main) = get(&scene, "/v1/sessions/demo/items?view=history").await;
    assert!(!main.to_string().contains("psst"));
    let (_, session) = get(&scene, "/v1/sessions/demo").await;
    let labels: Vec<Value> =
        session["threads"].as_array().unwrap().iter().map(|it| it["label"].clone()).collect();
    assert_eq!(labels, [Value::Null, json!("aside")], "threads are listed with their labels");
    let gone = scene.client.delete(format!("{}/v1/threads/{encoded}", scene.url)).send().await.unwrap();
    assert_eq!(gone.status(), 204);
    let kept = scene.client.delete(format!("{}/v1/threads/demo", scene.url)).send().await.unwrap();
    assert_eq!(json_of(kept).await.1["code"], "main_thread");
    assert_eq!(get(&scene, &format!("/v1/threads/{encoded}")).await.1["code"], "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_compacted_searched_and_restored() {
    let summary = "## Facts\nThe boat is called Marie.\n";
    let texts: Vec<String> =
        (0..12).map(|n| format!("Answer {n} is long enough to be worth it. ").repeat(20)).collect();
    let mut all: Vec<&str> = texts.iter().map(String::as_str).collect();
    all.push(summary);
    let scene = answering(&all).await;
    scene.session("demo").await;
    for n in 0..12 {
        scene.turn("demo", &format!("question {n}: the boat is called Marie")).await;
    }
    let (_, before) = get(&scene, "/v1/sessions/demo/items?view=client&limit=1000").await;
    let (status, report) = post(&scene, "/v1/sessions/demo/compact", json!({})).await;
    assert_eq!((status, report["archive"].as_str()), (200, Some("a1")), "{report}");
    let (_, archives) = get(&scene, "/v1/sessions/demo/archives").await;
    assert_eq!(
        (archives["archives"][0]["number"].as_u64(), archives["archives"][0]["holds"].as_bool()),
        (Some(1), Some(true))
    );
    let (_, archive) = get(&scene, "/v1/sessions/demo/archives/1").await;
    assert!(archive["items"].as_array().unwrap().len() > 10);
    let (_, hits) = get(&scene, "/v1/sessions/demo/search?q=Marie&limit=3").await;
    assert_eq!(hits["hits"].as_array().unwrap().len(), 3);
    assert_eq!(get(&scene, "/v1/sessions/demo/archives/2").await.0, 404);
    let (status, _) = post(&scene, "/v1/sessions/demo/compactions/1/undo", json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(post(&scene, "/v1/sessions/demo/compactions/1/undo", json!({})).await.0, 404);
    let (_, after) = get(&scene, "/v1/sessions/demo/items?view=client&limit=1000").await;
    assert_eq!(before, after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_failed_is_tried_again() {
    let scene = answering(&[]).await;
    scene.session("demo").await;
    let failed = scene.turn("demo", "hi").await;
    assert_eq!((failed["turn"].as_str(), failed["thread"].as_str()), (Some("t1"), Some("demo")), "{failed}");
    let (status, again) = post(&scene, "/v1/sessions/demo/turns/t1/retry", json!({})).await;
    assert_eq!((status, again["turn"].as_str()), (failed["status"].as_u64().unwrap() as u16, Some("t2")));
    assert_eq!(post(&scene, "/v1/sessions/demo/turns/t9/retry", json!({})).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_with_a_key_are_appended_once() {
    let ground = Ground::memory();
    let (scene, other) = (ground.instance(Vec::new()).await, ground.instance(Vec::new()).await);
    scene.session("demo").await;
    let said = |text: &str| {
        json!({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And?"}]})
    };
    let post = async |scene: &Scene, key: &str, text: &str| {
        let post = scene.post("/v1/threads/demo/messages", said(text)).header("idempotency-key", key);
        json_of(post.send().await.unwrap()).await
    };
    let (status, first) = post(&scene, "k1", "one").await;
    assert_eq!((status, first["turn"].as_str()), (200, Some("t2")), "{first}");
    assert_eq!(post(&scene, "k1", "one").await, (200, first.clone()));
    assert_eq!(post(&other, "k1", "one").await, (200, first.clone()));
    let twice = tokio::join!(post(&scene, "k2", "two"), post(&other, "k2", "two"));
    assert_eq!(((twice.0).0, (twice.1).0), (200, 200));
    assert_eq!((twice.0).1["turn"], "t4");
    let items =
        json_of(scene.get("/v1/sessions/demo/items?view=client").send().await.unwrap()).await.1.to_string();
    assert_eq!(
        (items.matches("one").count(), items.matches("two").count(), items.matches("And?").count()),
        (1, 1, 2),
        "{items}"
    );
    assert_eq!(post(&scene, "", "three").await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_have_a_cursor_and_the_history_is_what_the_window_holds() {
    let scene =
        crate::scene::Ground::memory().instance_with(Vec::new(), &[("history_window.turns", "2")]).await;
    scene.session("demo").await;
    for n in 0..5 {
        let said = json!({"messages": [{"role": "user", "content": format!("word {n}")}]});
        post(&scene, "/v1/threads/demo/messages", said).await;
    }
    let (_, history) = get(&scene, "/v1/sessions/demo/items?view=history&limit=100").await;
    assert_eq!(history["items"].as_array().unwrap().len(), 2, "{history}");
    for view in ["client", "all"] {
        let (_, whole) = get(&scene, &format!("/v1/sessions/demo/items?view={view}&limit=1000")).await;
        assert!(whole.get("before").is_none(), "{whole}");
        let (mut pages, mut before) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/sessions/demo/items?view={view}&limit=3{before}");
            let (_, page) = get(&scene, &path).await;
            pages.splice(0..0, page["items"].as_array().unwrap().clone());
            match page.get("before") {
                Some(it) => before = format!("&before={it}"),
                None => break,
            }
        }
        assert_eq!(json!(pages), whole["items"], "{view}");
    }
    let (status, wrong) = get(&scene, "/v1/sessions/demo/items?view=history&before=3").await;
    assert_eq!((status, wrong["code"].as_str()), (422, Some("input_invalid")));
}

#[tokio::test]
async fn a_blank_message_of_the_user_is_not_stored() {
    let scene = crate::scene::Ground::memory().instance_with(Vec::new(), &[]).await;
    scene.session("demo").await;
    for content in [json!(""), json!(" \n"), json!([]), json!([{"type": "text", "text": ""}])] {
        let said =
            json!({"messages": [{"role": "user", "content": "word"}, {"role": "user", "content": content}]});
        let (status, problem) = post(&scene, "/v1/threads/demo/messages", said).await;
        assert_eq!(
            (status, problem["code"].as_str()),
            (422, Some("message_invalid")),
            "{content}: {problem}"
        );
    }
    let (_, items) = get(&scene, "/v1/sessions/demo/items?view=all").await;
    assert!(!items.to_string().contains("word"), "{items}");
}
