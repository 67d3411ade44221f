//! Knowledge bases over HTTP: filled, searched, cited, and never shared between tenants.

use std::sync::Arc;

use contexture_message::Answer;
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project};
use serde_json::{Value, json};

use crate::door::{key, of_tenant};
use crate::scene::{Ground, Scene, json_of};

const FILES: [(&str, &str); 5] = [
    (
        "contexture.toml",
        "[server]\nshutdown_grace_seconds = 1\n\n[knowledge.notes]\ndescription = \"Notes\"\n",
    ),
    ("prompts/chat.md", "---\nmodel: openai/gpt-5-mini\n---\nYou are helpful.\n"),
    (
        "prompts/ask.md",
        "---\nmodel: openai/gpt-5-mini\nuse:\n  - grounding: {bases: [notes]}\n---\nAnswer from the notes.\n",
    ),
    ("knowledge/handbook/refunds.md", "# Refunds\n\nRefunds take 30 days.\n"),
    (
        "flows/ask.yaml",
        "nodes:\n  ask: {type: transform, template: How long do refunds take?}\n  answer: {type: llm_request, prompt: ask}\nedges: [start -> ask, ask.value -> answer.user]\n",
    ),
];

async fn scene(ground: &Ground, answers: &[&str]) -> Scene {
    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let model = Scripted::new(answers.iter().map(|it| Step::Answer(Answer::text(*it))).collect::<Vec<_>>());
    let agent =
        move |project: &Project| Ok(contexture::agent(model.clone()).knowledge(project.knowledge().clone()));
    ground.instance_of(project, Arc::new(agent)).await
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

    /// Returns the status and the code, or `-`.
    async fn code(&self, method: &str, path: &str, body: Value) -> String {
        let (status, document) = self.ask(method, path, body).await;
        format!("{status} {}", document["code"].as_str().unwrap_or("-"))
    }

    /// Makes a base with one document.
    async fn fill(&self, base: &str, id: &str, text: &str) {
        assert_eq!(self.ask("PUT", &format!("/v1/knowledge/{base}"), json!({})).await.0, 200);
        let path = format!("/v1/knowledge/{base}/documents");
        let (status, document) = self.ask("POST", &path, json!({"id": id, "text": text})).await;
        assert_eq!(status, 201, "{document}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_is_filled_searched_and_emptied() {
    let scene = scene(&Ground::memory(), &[]).await;
    let asker = Asker { scene: &scene, token: None };
    let about = json!({"description": "Rules", "language": "english"});
    let (status, base) = asker.ask("PUT", "/v1/knowledge/rules", about).await;
    assert_eq!((status, &base["description"], &base["documents"]), (200, &json!("Rules"), &json!(0)));
    let new = json!({
        "id": "shop/refunds.md", "text": "# Refunds\n\nRefunds take 30 days.\n\n## Exceptions\n\nGift cards are final.",
        "url": "https://shop.example/refunds", "metadata": {"owner": "support"},
    });
    let post = scene.post("/v1/knowledge/rules/documents", new.clone()).send().await.unwrap();
    assert_eq!(post.headers()["location"], "/v1/knowledge/rules/documents/shop%2Frefunds.md");
    let (status, first) = json_of(post).await;
    assert_eq!(
        (status, &first["title"], &first["metadata"]["owner"]),
        (201, &json!("Refunds"), &json!("support"))
    );
    let html = json!({"title": "Shipping", "text": "<p>Parcels leave on <b>Mondays</b>.</p>", "media_type": "text/html"});
    let (status, named) = asker.ask("POST", "/v1/knowledge/rules/documents", html).await;
    assert_eq!(status, 201);
    assert!(named["id"].as_str().is_some_and(|it| !it.is_empty()));
    // The same again changes nothing.
    let (_, again) = asker.ask("POST", "/v1/knowledge/rules/documents", new).await;
    assert_eq!(again["version"], first["version"]);

    let (_, bases) = asker.ask("GET", "/v1/knowledge", Value::Null).await;
    let names: Vec<&str> =
        bases["bases"].as_array().unwrap().iter().filter_map(|it| it["base"].as_str()).collect();
    assert_eq!(names, ["handbook", "rules"]);
    let (_, listed) = asker.ask("GET", "/v1/knowledge/rules/documents?limit=1", Value::Null).await;
    let after = listed["after"].as_str().unwrap().replace('/', "%2F");
    let (_, rest) =
        asker.ask("GET", &format!("/v1/knowledge/rules/documents?after={after}"), Value::Null).await;
    assert_eq!(
        listed["documents"].as_array().unwrap().len() + rest["documents"].as_array().unwrap().len(),
        2
    );

    let search = json!({"query": "How long do refunds take?", "top_k": 1});
    let (status, found) = asker.ask("POST", "/v1/knowledge/rules/search", search).await;
    assert_eq!(status, 200, "{found}");
    let hit = &found["hits"][0];
    assert!(hit["text"].as_str().unwrap().contains("Refunds take 30 days."), "{found}");
    assert_eq!(
        (&hit["document"], &hit["url"]),
        (&json!("shop/refunds.md"), &json!("https://shop.example/refunds"))
    );
    let shares: f64 = hit["shares"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    assert!((shares - hit["score"].as_f64().unwrap()).abs() < 1e-6, "{hit}");
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    let (_, found) = asker.ask("POST", "/v1/knowledge/rules/search", json!({"query": "mondays"})).await;
    assert_eq!(found["hits"][0]["text"], "Parcels leave on Mondays.");
    let (_, none) =
        asker.ask("POST", "/v1/knowledge/rules/search", json!({"query": "refunds", "min_score": 1.0})).await;
    assert!(none["hits"].as_array().unwrap().is_empty() && none["notes"][0].is_string(), "{none}");

    let path = "/v1/knowledge/rules/documents/shop%2Frefunds.md";
    let (_, details) = asker.ask("GET", path, Value::Null).await;
    let chunk = &details["chunks"][0];
    assert!(chunk["text"].as_str().unwrap().starts_with("# Refunds"), "{details}");
    assert_eq!(details["next"], Value::Null);
    assert_eq!(asker.code("DELETE", path, Value::Null).await, "204 -");
    assert_eq!(asker.code("GET", path, Value::Null).await, "404 not_found");
    assert_eq!(asker.code("DELETE", path, Value::Null).await, "404 not_found");
    let (_, gone) = asker.ask("POST", "/v1/knowledge/rules/search", json!({"query": "refunds"})).await;
    assert_eq!(gone["hits"], json!([]));
    assert_eq!(asker.code("DELETE", "/v1/knowledge/rules", Value::Null).await, "204 -");
    assert_eq!(asker.code("GET", "/v1/knowledge/rules", Value::Null).await, "404 not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tenant_reaches_anything_of_another() {
    let ground = Ground::memory();
    let (_, ours) = key(&ground, of_tenant("ours")).await;
    let (_, theirs) = key(&ground, of_tenant("theirs")).await;
    let scene = scene(&ground, &[]).await;
    let ours = Asker { scene: &scene, token: Some(ours) };
    let theirs = Asker { scene: &scene, token: Some(theirs) };
    ours.fill("notes", "plan", "The launch is on Friday.").await;
    ours.fill("secret", "plan", "The launch is on Friday.").await;

    let search = json!({"query": "launch friday"});
    let new = json!({"id": "plan", "text": "The launch is cancelled."});
    for base in ["notes", "secret"] {
        for (method, path, body) in [
            ("GET", "", Value::Null),
            ("DELETE", "", Value::Null),
            ("GET", "/documents", Value::Null),
            ("POST", "/documents", new.clone()),
            ("GET", "/documents/plan", Value::Null),
            ("DELETE", "/documents/plan", Value::Null),
            ("POST", "/search", search.clone()),
        ] {
            let code = theirs.code(method, &format!("/v1/knowledge/{base}{path}"), body).await;
            assert_eq!(code, "404 not_found", "{method} {base}{path}");
        }
    }
    let (_, list) = theirs.ask("GET", "/v1/knowledge", Value::Null).await;
    assert!(!list.to_string().contains("secret") && !list.to_string().contains("notes"), "{list}");
    // A base of the same name is another base.
    theirs.fill("notes", "other", "Nothing is planned.").await;
    let (_, found) = theirs.ask("POST", "/v1/knowledge/notes/search", search.clone()).await;
    assert_eq!(found["hits"], json!([]));
    assert_eq!(theirs.code("GET", "/v1/knowledge/notes/documents/plan", Value::Null).await, "404 not_found");
    assert_eq!(theirs.code("DELETE", "/v1/knowledge/notes", Value::Null).await, "204 -");
    let (_, found) = ours.ask("POST", "/v1/knowledge/notes/search", search).await;
    assert_eq!(found["hits"][0]["text"], "The launch is on Friday.");
    // Nor do turns see it.
    let turn = json!({"user": "When is the launch?", "knowledge": {"bases": ["notes"]}});
    let (status, seen) = ours.ask("POST", "/v1/prompts/chat/resolve", turn.clone()).await;
    assert!(status == 200 && seen["request"].to_string().contains("on Friday"), "{seen}");
    let (status, seen) = theirs.ask("POST", "/v1/prompts/chat/resolve", turn).await;
    assert!(status == 200 && !seen.to_string().contains("on Friday"), "{seen}");
    let anyone = Asker { scene: &scene, token: None };
    assert_eq!(anyone.code("GET", "/v1/knowledge", Value::Null).await, "401 unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_serves_every_tenant_and_only_its_files_change_it() {
    let ground = Ground::memory();
    let (_, token) = key(&ground, of_tenant("ours")).await;
    let scene = scene(&ground, &[]).await;
    let asker = Asker { scene: &scene, token: Some(token) };
    let (_, base) = asker.ask("GET", "/v1/knowledge/handbook", Value::Null).await;
    assert_eq!((&base["is_folder"], &base["documents"]), (&json!(true), &json!(1)));
    let (_, found) = asker.ask("POST", "/v1/knowledge/handbook/search", json!({"query": "refunds"})).await;
    assert_eq!(found["hits"][0]["url"], "file:refunds.md");
    let document = json!({"id": "refunds.md", "text": "Refunds take forever."});
    for (method, path, body) in [
        ("PUT", "", json!({})),
        ("DELETE", "", Value::Null),
        ("POST", "/documents", document),
        ("DELETE", "/documents/refunds.md", Value::Null),
    ] {
        let code = asker.code(method, &format!("/v1/knowledge/handbook{path}"), body).await;
        assert_eq!(code, "409 base_read_only", "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_its_place() {
    let scene = scene(&Ground::memory(), &[]).await;
    let asker = Asker { scene: &scene, token: None };
    asker.fill("notes", "a", "A text.").await;
    let told = async |path: &str, body: Value| {
        let (status, it) = asker.ask("POST", &format!("/v1/knowledge/notes/{path}"), body).await;
        format!("{status} {} at {}: {}", it["code"], it["at"], it["detail"]).replace('"', "")
    };
    let mut lines = Vec::new();
    for body in [
        json!({}),
        json!({"text": ""}),
        json!({"text": "x", "titel": "y"}),
        json!({"text": "x", "title": ""}),
        json!({"text": "x", "title": "t".repeat(1001)}),
        json!({"text": "x", "id": ""}),
        json!({"text": "x", "url": "file:secret.md"}),
        json!({"text": "x", "url": "https://a b"}),
        json!({"text": "x", "media_type": "application/pdf"}),
        json!({"text": "{\"a\": 1}\n{", "media_type": "application/jsonl"}),
        json!({"text": "a\u{0}b"}),
        json!({"text": "x", "metadata": []}),
    ] {
        lines.push(told("documents", body).await);
    }
    for body in [
        json!({}),
        json!({"query": ""}),
        json!({"query": "x", "top_k": 0}),
        json!({"query": "x", "top_k": 101}),
        json!({"query": "x", "min_score": 1.5}),
    ] {
        lines.push(told("search", body).await);
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    400 body_invalid at null: the body can't be read: missing field `text` at line 1 column 2
    400 body_invalid at text: the text is empty
    400 body_invalid at titel: the body can't be read: unknown field `titel`, expected one of `id`, `title`, `text`, `media_type`, `url`, `metadata` at line 1 column 19
    400 body_invalid at title: the title is empty
    400 body_invalid at title: `title` has 1001 characters; it has at most 1000
    400 id_invalid at null: invalid document id ``: it is empty
    400 body_invalid at url: the URL must begin with `http://` or `https://`, without spaces
    400 body_invalid at url: the URL must begin with `http://` or `https://`, without spaces
    422 input_invalid at media_type: documents of the type `application/pdf` can't be indexed
    422 input_invalid at text: the text can't be indexed: line 2 is not valid JSON: EOF while parsing an object at line 1 column 1
    422 input_invalid at text: the text can't be indexed: it is a binary file
    400 body_invalid at metadata: the body can't be read: invalid type: sequence, expected a map at line 1 column 23
    400 body_invalid at null: the body can't be read: missing field `query` at line 1 column 2
    400 body_invalid at query: the query is empty
    400 body_invalid at top_k: `top_k` is 0; it goes from 1 to 100
    400 body_invalid at top_k: `top_k` is 101; it goes from 1 to 100
    400 body_invalid at min_score: `min_score` is 1.5; it goes from 0 to 1
    ");
    for (method, path) in [
        ("GET", "/v1/knowledge/.hidden"),
        ("PUT", "/v1/knowledge/a%2Fb"),
        ("GET", "/v1/knowledge?limit=0"),
        ("GET", "/v1/knowledge/notes/documents/a?max=0"),
    ] {
        let (status, it) = asker.ask(method, path, Value::Null).await;
        assert_eq!(status, 400, "{method} {path}: {it}");
    }
    assert_eq!(
        asker.code("POST", "/v1/knowledge/none/documents", json!({"text": "x"})).await,
        "404 not_found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_is_too_large_is_refused() {
    let scene = Ground::memory().instance_with(Vec::new(), &[("server.max_body_bytes", "100000")]).await;
    let asker = Asker { scene: &scene, token: None };
    asker.fill("notes", "a", "A text.").await;
    let body = json!({"id": "b", "text": "word ".repeat(30_000)});
    assert_eq!(asker.code("POST", "/v1/knowledge/notes/documents", body).await, "413 body_too_large");
    let (_, base) = asker.ask("GET", "/v1/knowledge/notes", Value::Null).await;
    assert_eq!(base["documents"], 1);
    // One line without a space is a document, too.
    let body = json!({"id": "b", "text": "x".repeat(90_000)});
    assert_eq!(asker.code("POST", "/v1/knowledge/notes/documents", body).await, "201 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grounded_answer_carries_its_citations() {
    let answer = "Refunds take 30 days [notes:1].";
    let scene = scene(&Ground::memory(), &[answer, answer]).await;
    let asker = Asker { scene: &scene, token: None };
    asker.fill("notes", "refunds", "Refunds take 30 days.").await;
    scene.session("s").await;
    let turn = json!({"prompt": "ask", "user": "How long do refunds take?"});
    let (_, kept) = asker.ask("POST", "/v1/sessions/s/turns", turn).await;
    let once = json!({"user": "How long do refunds take?"});
    let (_, once) = asker.ask("POST", "/v1/prompts/ask/run", once).await;
    for result in [kept, once] {
        assert_eq!(result["status"], "completed", "{result}");
        let citation = &result["citations"][0];
        assert_eq!(
            (&citation["chunk"], &citation["origin"]),
            (&json!("notes:1"), &json!("text")),
            "{result}"
        );
        let span = &citation["answer_span"];
        let (start, end) = (span["start"].as_u64().unwrap() as usize, span["end"].as_u64().unwrap() as usize);
        assert!(answer[start..end].contains("[notes:1]"), "{citation}");
        assert_eq!(result["reports"][0]["source"], "constraint:grounding:notes", "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_may_name_what_it_searches() {
    let scene = scene(&Ground::memory(), &["In 30 days."]).await;
    let asker = Asker { scene: &scene, token: None };
    scene.session("s").await;
    let turn = json!({"prompt": "chat", "user": "And?", "knowledge": {"bases": ["handbook"], "query": "refunds", "top_k": 1}});
    let (status, result) = asker.ask("POST", "/v1/sessions/s/turns", turn).await;
    assert_eq!((status, &result["text"]), (200, &json!("In 30 days.")), "{result}");
    let (_, pass) = asker.ask("GET", "/v1/passes/s.1", Value::Null).await;
    assert!(pass["request"].to_string().contains("Refunds take 30 days."), "{pass}");
    let unknown = json!({"prompt": "chat", "user": "And?", "knowledge": {"bases": ["nowhere"]}});
    assert_eq!(asker.code("POST", "/v1/sessions/s/turns", unknown).await, "422 unknown_entry");
    let wrong = json!({"prompt": "chat", "user": "And?", "knowledge": {"base": "handbook"}});
    assert_eq!(asker.code("POST", "/v1/sessions/s/turns", wrong).await, "400 body_invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_and_added_documents_get_vectors_in_the_background() {
    use contexture::knowledge::embed::HashEmbedder;
    use contexture_project::KnowledgePorts;

    let project = Project::from_files(Arc::new(InMemory::new(FILES))).unwrap();
    let embedder = Arc::new(HashEmbedder::new("hashes", 64));
    project.provide_knowledge(KnowledgePorts { embedder: Some(embedder), ..KnowledgePorts::default() });
    let agent = |_: &Project| Ok(contexture::agent(Scripted::new(Vec::new())));
    let scene = Ground::memory().instance_of(project, Arc::new(agent)).await;
    let asker = Asker { scene: &scene, token: None };
    for n in 0..20 {
        asker.fill("notes", &format!("n{n}"), &format!("Refunds of kind {n}.")).await;
    }
    for base in ["handbook", "notes"] {
        let path = format!("/v1/knowledge/{base}/search");
        // Until its vectors are there, a base is ranked without them.
        for _ in 0..500 {
            let (_, found) = asker.ask("POST", &path, json!({"query": "refunds"})).await;
            if found["hits"][0]["shares"]["dense"].is_number() {
                assert_eq!(found.get("notes"), None);
                break;
            }
            assert!(
                found["notes"][0].as_str().is_some_and(|it| it.contains("ranked without vectors")),
                "{found}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let (_, found) = asker.ask("POST", &path, json!({"query": "refunds"})).await;
        assert!(found["hits"][0]["shares"]["dense"].is_number(), "{base}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_searches_the_bases_of_its_tenant() {
    let ground = Ground::memory();
    let (_, ours) = key(&ground, of_tenant("ours")).await;
    let (_, theirs) = key(&ground, of_tenant("theirs")).await;
    let scene = scene(&ground, &["They take 7 days [notes:1]."; 6]).await;
    let (ours, theirs) =
        (Asker { scene: &scene, token: Some(ours) }, Asker { scene: &scene, token: Some(theirs) });
    ours.fill("notes", "n", "Refunds take 7 days.").await;
    for (asker, expected) in [(&ours, "completed"), (&theirs, "failed")] {
        let (status, run) = asker.ask("POST", "/v1/flows/ask/runs", json!({})).await;
        assert_eq!(status, 201, "{run}");
        let path = format!("/v1/runs/{}", run["run"].as_str().unwrap());
        let mut shown = Value::Null;
        for _ in 0..500 {
            shown = asker.ask("GET", &path, Value::Null).await.1;
            if ["completed", "failed"].iter().any(|it| shown["status"] == *it) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(shown["status"], expected, "{shown}");
    }
}
