//! Memories over HTTP: written with a version, forgotten with a receipt, and never shared between tenants.

use std::sync::Arc;

use contexture_message::Answer;
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project};
use serde_json::{Value, json};

use crate::door::{key, of_tenant};
use crate::scene::{Ground, Scene, json_of};

const FILES: [(&str, &str); 2] = [
    ("contexture.toml", "[server]\nshutdown_grace_seconds = 1\n"),
    ("prompts/chat.md", "---\nmodel: openai/gpt-5-mini\nuse:\n  - memory: true\n---\nYou are helpful.\n"),
];

async fn scene(ground: &Ground, model: &Scripted) -> Scene {
    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let model = model.clone();
    ground.instance_of(project, Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())))).await
}

/// Asks a server, as the owner of a key if there is one.
struct Asker<'a> {
    scene: &'a Scene,
    token: Option<String>,
}

impl Asker<'_> {
    async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.scene.client.request(method, format!("{}{path}", self.scene.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.json(&body);
        }
        json_of(request.send().await.unwrap()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_write_is_a_conflict_with_the_current_value() {
    let scene = scene(&Ground::memory(), &Scripted::new([])).await;
    let asker = Asker { scene: &scene, token: None };
    let (status, new) = asker.ask("POST", "/v1/memories?user=ada", json!({"text": "Due in May."})).await;
    assert_eq!((status, &new["version"], &new["layer"]), (201, &json!(1), &json!("facts")), "{new}");
    let path = format!("/v1/memories/{}?user=ada", new["id"].as_str().unwrap());
    let (status, next) = asker.ask("PATCH", &path, json!({"version": 1, "text": "Due in June."})).await;
    assert_eq!((status, &next["version"]), (200, &json!(2)), "{next}");
    let (status, problem) = asker.ask("PATCH", &path, json!({"version": 1, "text": "Due in July."})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("version_conflict")), "{problem}");
    assert_eq!(
        (&problem["current"]["version"], &problem["current"]["text"]),
        (&json!(2), &json!("Due in June."))
    );
    let (status, shown) = asker.ask("GET", &path, Value::Null).await;
    assert_eq!((status, shown["history"].as_array().unwrap().len()), (200, 2));
    let (status, _) = asker.ask("PATCH", "/v1/memories/m-none?user=ada", json!({"version": 1})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_says_in_a_turn_is_remembered_in_the_next_session_and_forgotten_on_request() {
    let model = Scripted::new((0..3).map(|_| Step::Answer(Answer::text("Gut."))));
    let scene = scene(&Ground::memory(), &model).await;
    let asker = Asker { scene: &scene, token: None };
    let rule = "From now on, answer in German.";
    let turn = |session: &str, text: &str| {
        let path = format!("/v1/sessions/{session}/turns");
        (path, json!({"prompt": "chat", "user": text, "user_id": "ada"}))
    };
    for (session, text) in [("one", rule), ("two", "Hello")] {
        let (path, body) = turn(session, text);
        let (_, _) = asker.ask("POST", "/v1/sessions", json!({"id": session})).await;
        let (status, answer) = asker.ask("POST", &path, body).await;
        assert_eq!(status, 200, "{answer}");
    }
    let system = model.requests()[1].messages[0].joined_text();
    assert!(system.contains(&format!("<core-memory>\n- {rule}\n</core-memory>")), "{system}");
    let (_, found) = asker.ask("POST", "/v1/memories/search?user=ada", json!({"query": "German"})).await;
    assert_eq!(found["hits"][0]["text"], rule, "{found}");
    let (_, all) = asker.ask("GET", "/v1/memories?user=ada&layer=rules", Value::Null).await;
    let id = all["memories"][0]["id"].as_str().unwrap().to_owned();
    let forget = json!({"what": {"record": id}});
    let (status, receipt) = asker.ask("POST", "/v1/memories/forget?user=ada", forget).await;
    assert_eq!((status, &receipt["receipt"]["records"]), (200, &json!([id])), "{receipt}");
    let (_, found) = asker.ask("POST", "/v1/memories/search?user=ada", json!({"query": "German"})).await;
    assert_eq!(found["hits"], json!([]));
    // No list of knowledge bases shows it, and no document can be added to it.
    let (_, bases) = asker.ask("GET", "/v1/knowledge", Value::Null).await;
    assert_eq!(bases["bases"], json!([]));
    let (status, _) = asker.ask("PUT", "/v1/knowledge/__memory-1", json!({})).await;
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_flow_has_the_memory_of_the_runs_user_and_tenant() {
    let ground = Ground::memory();
    let (_, one) = key(&ground, of_tenant("one")).await;
    let (_, two) = key(&ground, of_tenant("two")).await;
    let model = Scripted::always(Answer::text("Gut."));
    let files = FILES.into_iter().chain([("flows/once.yaml", include_str!("files/once.yaml"))]);
    let project = Project::from_files(Arc::new(InMemory::new(files))).unwrap();
    let given = model.clone();
    let agent = Arc::new(move |_: &Project| Ok(contexture::agent(given.clone())));
    let scene = ground.instance_of(project, agent).await;
    let [one, two] = [one, two].map(|it| Asker { scene: &scene, token: Some(it) });
    let rules =
        [(&one, "ada", "Always rule1x."), (&one, "bob", "Always rule2x."), (&two, "ada", "Always rule3x.")];
    for (asker, user, rule) in &rules {
        let path = format!("/v1/memories?user={user}");
        let (status, new) = asker.ask("POST", &path, json!({"text": rule, "layer": "rules"})).await;
        assert_eq!(status, 201, "{new}");
    }
    for (asker, user, rule) in &rules {
        let told = format!("From now on, say {}.", rule.replace("Always ", "w"));
        let body = json!({"input": {"text": told}, "user_id": user, "wait": true});
        let (status, run) = asker.ask("POST", "/v1/flows/once/runs", body).await;
        assert_eq!((status, &run["status"]), (201, &json!("completed")), "{run}");
        let read = format!("{:?}", model.requests().last().unwrap());
        for (_, _, other) in &rules {
            assert_eq!(read.contains(other), other == rule, "{user}: {read}");
        }
        let (_, all) = asker.ask("GET", &format!("/v1/memories?user={user}&layer=rules"), Value::Null).await;
        assert!(all.to_string().contains(&told), "{all}");
    }
    // Without a user there is no memory of one.
    let body = json!({"input": {"text": "Hello"}, "wait": true});
    one.ask("POST", "/v1/flows/once/runs", body).await;
    assert!(!format!("{:?}", model.requests().last().unwrap()).contains("Always rule"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_tenant_is_visible_to_another() {
    let ground = Ground::memory();
    let (_, one) = key(&ground, of_tenant("one")).await;
    let (_, two) = key(&ground, of_tenant("two")).await;
    let scene = scene(&ground, &Scripted::new([])).await;
    let [one, two] = [one, two].map(|it| Asker { scene: &scene, token: Some(it) });
    let (_, new) = one.ask("POST", "/v1/memories?user=ada", json!({"text": "The secret is blue."})).await;
    let id = new["id"].as_str().unwrap();
    for asker in [&one, &two] {
        let is_owner = asker.token == one.token;
        let (_, all) = asker.ask("GET", "/v1/memories?user=ada", Value::Null).await;
        assert_eq!(all["memories"].as_array().unwrap().len(), usize::from(is_owner));
        let (status, _) = asker.ask("GET", &format!("/v1/memories/{id}?user=ada"), Value::Null).await;
        assert_eq!(status == 200, is_owner);
        let (_, spaces) = asker.ask("GET", "/v1/memories/namespaces", Value::Null).await;
        assert_eq!(spaces["namespaces"].as_array().unwrap().len(), usize::from(is_owner));
    }
    let (status, _) = two.ask("POST", "/v1/memories/forget?user=ada", json!({"what": {"record": id}})).await;
    assert_eq!(status, 404);
    let (_, lines) = one.ask("GET", "/v1/memories/audit?user=ada", Value::Null).await;
    assert_eq!(lines["findings"], json!([]));
}
