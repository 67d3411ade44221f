//! Over HTTP, only the memory that a request names is in its answer, whatever the names look like.

use std::sync::Arc;

use contexture_model::Scripted;
use contexture_project::{InMemory, Project};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::door::{key, of_tenant};
use crate::scene::{Ground, Scene, json_of};

const FILES: [(&str, &str); 2] = [
    ("contexture.toml", "[server]\nshutdown_grace_seconds = 1\n"),
    ("prompts/chat.md", "---\nmodel: openai/gpt-5-mini\nuse:\n  - memory: true\n---\nYou are helpful.\n"),
];

/// Whose memory a request names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    tenant: usize,
    user: Option<&'static str>,
    agent: Option<&'static str>,
    custom: Option<&'static str>,
}

fn named() -> impl Strategy<Value = Named> {
    // Each could be taken for a part of another, or of a query.
    let name = || {
        let names = vec!["ada", "bob", "Ada", "ada&agent=x", "ada\"}", "ada,agent=x", "x", "%61da"];
        prop::option::of(prop::sample::select(names))
    };
    (0..2_usize, name(), name(), name()).prop_map(|(tenant, user, agent, custom)| Named {
        tenant,
        user,
        agent,
        custom,
    })
}

struct Asker<'a> {
    scene: &'a Scene,
    tokens: &'a [String; 2],
}

impl Asker<'_> {
    async fn ask(&self, method: &str, path: &str, named: &Named, body: Value) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let parts = [("user", named.user), ("agent", named.agent), ("custom", named.custom)];
        let query: Vec<String> =
            parts.iter().filter_map(|(key, it)| Some(format!("{key}={}", encoded((*it)?)))).collect();
        let url = format!("{}{path}?{}", self.scene.url, query.join("&"));
        let request = self.scene.client.request(method, url).bearer_auth(&self.tokens[named.tenant]);
        let request = if body.is_null() { request } else { request.json(&body) };
        json_of(request.send().await.unwrap()).await
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|it| format!("%{it:02X}")).collect()
}

async fn check(mut spaces: Vec<Named>) {
    spaces.sort();
    spaces.dedup();
    let ground = Ground::memory();
    let tokens = [key(&ground, of_tenant("one")).await.1, key(&ground, of_tenant("two")).await.1];
    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let model = Scripted::new([]);
    let agent = Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())));
    let scene = ground.instance_of(project, agent).await;
    let asker = Asker { scene: &scene, tokens: &tokens };
    let mut ids = Vec::new();
    for (no, space) in spaces.iter().enumerate() {
        let body = json!({"text": format!("The harbour secret is fact{no}x.")});
        let (status, new) = asker.ask("POST", "/v1/memories", space, body).await;
        assert_eq!(status, 201, "{new}");
        ids.push(new["id"].as_str().unwrap().to_owned());
    }
    for (no, space) in spaces.iter().enumerate() {
        let (_, listed) = asker.ask("GET", "/v1/memories", space, Value::Null).await;
        let search = json!({"query": "harbour secret"});
        let (_, found) = asker.ask("POST", "/v1/memories/search", space, search).await;
        let (_, exported) = asker.ask("GET", "/v1/memories/transfer", space, Value::Null).await;
        let (_, audited) = asker.ask("GET", "/v1/memories/audit", space, Value::Null).await;
        let shown = format!("{listed}{found}{exported}{audited}");
        for other in 0..spaces.len() {
            assert_eq!(shown.contains(&format!("fact{other}x.")), other == no, "{space:?}: {shown}");
        }
        for (other, id) in ids.iter().enumerate().filter(|(other, _)| *other != no) {
            let path = format!("/v1/memories/{id}");
            let edit = json!({"version": 1, "text": "taken over"});
            assert_eq!(asker.ask("GET", &path, space, Value::Null).await.0, 404, "{other}");
            assert_eq!(asker.ask("PATCH", &path, space, edit).await.0, 404, "{other}");
            let what = json!({"what": {"record": id}, "erase": false});
            assert_eq!(asker.ask("POST", "/v1/memories/forget", space, what).await.0, 404, "{other}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn only_the_memory_that_a_request_names_is_in_its_answer(spaces in prop::collection::vec(named(), 2..5)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check(spaces));
    }
}
