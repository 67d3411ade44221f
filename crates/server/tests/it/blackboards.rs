//! Blackboards over HTTP: written with a version, followed as a stream, and never shared between tenants.

use std::sync::Arc;

use contexture_model::Scripted;
use contexture_project::{InMemory, Project};
use serde_json::{Value, json};

use crate::door::{key, of_tenant};
use crate::scene::{Ground, Scene, json_of};

const FILES: [(&str, &str); 2] = [
    ("contexture.toml", "[server]\nshutdown_grace_seconds = 1\n"),
    (
        "prompts/chat.md",
        "---\nmodel: openai/gpt-5-mini\nuse:\n  - blackboard:\n      id: plan\n      scope: user\n      schema: \
        {properties: {goal: {type: string}, done: {type: integer, x-merge: counter}}}\n  - blackboard: {id: own, schema: \
        {properties: {goal: {type: string}}}}\n  - memory: {working: {schema: {properties: {step: {type: \
        integer}}}}}\n---\nYou are helpful.\n",
    ),
];

async fn scene(ground: &Ground) -> Scene {
    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let model = Scripted::new([]);
    ground.instance_of(project, Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())))).await
}

/// Asks a server, as the owner of a key if there is one.
struct Asker<'a> {
    scene: &'a Scene,
    token: Option<String>,
}

impl Asker<'_> {
    async fn send(&self, method: &str, path: &str, body: Value) -> reqwest::Response {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.scene.client.request(method, format!("{}{path}", self.scene.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.json(&body);
        }
        request.send().await.unwrap()
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        json_of(self.send(method, path, body).await).await
    }
}

const ADA: &str = "/v1/blackboards/plan?user=ada";

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_write_is_a_conflict_with_the_current_value() {
    let scene = scene(&Ground::memory()).await;
    let asker = Asker { scene: &scene, token: None };
    let (status, new) =
        asker.ask("PUT", ADA, json!({"path": "/goal", "value": "a", "reason": "first"})).await;
    assert_eq!((status, &new["value"]), (200, &json!("a")), "{new}");
    let version = new["version"].as_u64().unwrap();
    let (status, next) =
        asker.ask("PUT", ADA, json!({"path": "/goal", "value": "b", "version": version})).await;
    assert_eq!(status, 200, "{next}");
    let (status, stale) =
        asker.ask("PUT", ADA, json!({"path": "/goal", "value": "c", "version": version})).await;
    assert_eq!((status, &stale["code"]), (409, &json!("version_conflict")), "{stale}");
    assert_eq!(stale["current"], json!({"path": "/goal", "version": next["version"], "value": "b"}));
    let (status, counted) = asker.ask("PUT", ADA, json!({"path": "/done", "value": 2})).await;
    assert_eq!((status, &counted["value"]), (200, &json!(2)));
    let (status, refused) = asker.ask("PUT", ADA, json!({"path": "/color", "value": 2})).await;
    assert_eq!((status, &refused["code"]), (422, &json!("input_invalid")), "{refused}");
    let operations = json!([{"op": "test", "path": "/goal", "value": "b"}, {"op": "replace", "path": "/goal", "value": "d"}]);
    let (status, patched) = asker.ask("PATCH", ADA, json!({"operations": operations})).await;
    assert_eq!((status, &patched["value"]), (200, &json!({"goal": "d", "done": 2})), "{patched}");
    let (status, shown) = asker.ask("GET", &format!("{ADA}&path=/goal"), Value::Null).await;
    assert_eq!((status, &shown["value"], &shown["path_version"]), (200, &json!("d"), &patched["version"]));
    let clear = format!("{ADA}&version={}", patched["version"]);
    let (status, cleared) = asker.ask("DELETE", &clear, Value::Null).await;
    assert_eq!((status, &cleared["value"]), (200, &json!({})), "{cleared}");
    let (_, records) = asker.ask("GET", "/v1/blackboards/plan/records?user=ada", Value::Null).await;
    let records = records["records"].as_array().unwrap();
    assert_eq!(
        (records.len(), &records[0]["reason"], &records[0]["author"]),
        (5, &json!("first"), &json!("application"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_streamed_and_a_stream_continues() {
    let scene = scene(&Ground::memory()).await;
    let asker = Asker { scene: &scene, token: None };
    for _ in 0..2 {
        asker.ask("PUT", ADA, json!({"path": "/done", "value": 1})).await;
    }
    let path = "/v1/blackboards/plan/events?user=ada&after=2";
    let mut stream = asker.send("GET", path, Value::Null).await;
    asker.ask("PUT", ADA, json!({"path": "/done", "value": 1})).await;
    let mut text = String::new();
    while text.matches("\n\n").count() < 2 {
        text.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    let ids: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix("id: ")).collect();
    assert_eq!(ids, ["3", "4"], "{text}");
    assert!(text.contains("event: blackboard.write\n") && text.contains(r#""after":3"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_of_others_are_not_there() {
    let ground = Ground::memory();
    let scene = scene(&ground).await;
    let (a, b) = (key(&ground, of_tenant("a")).await.1, key(&ground, of_tenant("b")).await.1);
    let (a, b) = (Asker { scene: &scene, token: Some(a) }, Asker { scene: &scene, token: Some(b) });
    a.ask("PUT", ADA, json!({"path": "/goal", "value": "secret"})).await;
    for (asker, path) in [(&b, ADA), (&a, "/v1/blackboards/plan?user=bob")] {
        let (status, shown) = asker.ask("GET", path, Value::Null).await;
        assert_eq!((status, &shown["value"], &shown["version"]), (200, &json!({}), &json!(0)), "{shown}");
    }
    for (path, expected) in [
        ("/v1/blackboards/other", "404 not_found"),
        ("/v1/blackboards/plan", "400 query_invalid"),
        ("/v1/blackboards/own?session=none", "404 not_found"),
        ("/v1/blackboards/plan?user=ada&path=x", "400 path_invalid"),
    ] {
        let (status, problem) = a.ask("GET", path, Value::Null).await;
        assert_eq!(format!("{status} {}", problem["code"].as_str().unwrap()), expected, "{path}: {problem}");
    }
    let (_, sessions) = a.ask("GET", "/v1/sessions", Value::Null).await;
    assert_eq!(sessions["sessions"], json!([]), "the session that keeps boards is not listed");
    let (status, _) = a.ask("GET", "/v1/sessions/~boards", Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_working_state_of_a_memory_is_checked() {
    let scene = scene(&Ground::memory()).await;
    let asker = Asker { scene: &scene, token: None };
    let (status, _) = asker.ask("POST", "/v1/sessions", json!({"id": "s"})).await;
    assert_eq!(status, 201);
    let path = "/v1/blackboards/working?session=s";
    let (status, problem) = asker.ask("PUT", path, json!({"path": "/step", "value": "two"})).await;
    assert_eq!((status, &problem["code"]), (422, &json!("input_invalid")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("/step: \"two\" is not of type"), "{problem}");
    let (status, written) = asker.ask("PUT", path, json!({"path": "/step", "value": 2})).await;
    assert_eq!((status, &written["value"]), (200, &json!(2)), "{written}");
}
