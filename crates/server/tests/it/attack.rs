//! Every route, attacked. The routes come from the OpenAPI document, so that a new one is attacked without a word here.

use std::sync::Arc;
use std::time::Duration;

use contexture::{SystemSecrets, SystemTime};
use contexture_agent::tool;
use contexture_message::{Answer, Part, ToolCall};
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project};
use contexture_server::{Keys, NewKey, openapi};
use contexture_session::{Tenant, Time};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scene::{FILES, Ground, Scene, answering};

/// Names that try to be something else, as they stand in a path.
const NAMES: [&str; 26] = [
    "..",
    ".",
    "%2e%2e",
    "..%2F..%2F..%2Fetc%2Fpasswd",
    "%2Fetc%2Fpasswd",
    "..%5C..%5Cboot.ini",
    "demo%2F..%2Fdemo",
    "demo%2F",
    "%00",
    "demo%00",
    "%0d%0aset-cookie:%20a=b",
    "%ff%fe",
    "%c0%ae%c0%ae",
    "%",
    "%zz",
    "%E2%80%AEomed",
    "%F0%9F%92%A9",
    "d%65mo%20",
    "'%20OR%20'1'='1",
    "$%7Bjndi:ldap:x%7D",
    "-1",
    "99999999999999999999999",
    "1e400",
    "null",
    "*",
    ";a=b",
];

/// An operation of the document.
#[derive(Clone)]
struct Operation {
    method: String,
    path: String,
    id: String,
    tag: String,
    takes_body: bool,
    queries: Vec<String>,
}

fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, it) in item.as_object().unwrap() {
            let queries = it["parameters"].as_array().into_iter().flatten().filter(|it| it["in"] == "query");
            all.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                id: it["operationId"].as_str().unwrap().to_owned(),
                tag: it["tags"][0].as_str().unwrap_or_default().to_owned(),
                takes_body: it["requestBody"].is_object(),
                queries: queries.map(|it| it["name"].as_str().unwrap().to_owned()).collect(),
            });
        }
    }
    assert!(all.len() > 30, "the document lists the routes");
    all
}

impl Operation {
    /// Returns a body that the route takes.
    fn body(&self) -> &'static str {
        match self.id.as_str() {
            "decide_approval" | "stream_approval" => r#"{"token": "guess", "verdict": "approve"}"#,
            "append_messages" => r#"{"messages": [{"role": "user", "content": "I was here"}]}"#,
            "set_model" => r#"{"model": "openai/gpt-5-mini"}"#,
            "set_instructions" => r#"{"text": "Obey."}"#,
            "answer_client_tools" | "stream_client_tools" => {
                r#"{"results": [{"call_id": "c1", "output": "x"}]}"#
            }
            "complete_chat" => r#"{"model": "chat", "messages": [{"role": "user", "content": "hi"}]}"#,
            "run_turn" | "stream_turn" => r#"{"prompt": "chat", "user": "I was here"}"#,
            "compact_session" => r#"{"prompt": "chat"}"#,
            _ => "{}",
        }
    }

    /// Returns the names of the variable parts of the path.
    fn places(&self) -> Vec<&str> {
        self.path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}')).collect()
    }

    /// Returns the path with names that are there, for a session of this name.
    fn path_of(&self, session: &str) -> String {
        let filled = self.path.replace("{turn}", "t1").replace("{n}", "1");
        let pass = format!("{session}.1");
        let filled = filled.replace("{a}", &pass).replace("{b}", &pass);
        filled.replace("{id}", &self.name(session))
    }

    fn name(&self, session: &str) -> String {
        match self.tag.as_str() {
            "passes" if !self.path.contains("/sessions/") => format!("{session}.1"),
            "approvals" if !self.path.contains("/sessions/") => format!("{session}:t1:c1"),
            "prompts" | "chat" => "chat".to_owned(),
            _ => session.to_owned(),
        }
    }

    /// Whether what it names belongs to the project, which all tenants share.
    fn is_shared(&self) -> bool {
        ["prompts", "chat", "operations"].contains(&self.tag.as_str())
    }
}

/// An answer to a request that was written by hand.
#[derive(Debug, PartialEq)]
struct Raw {
    status: u16,
    head: String,
    body: String,
}

impl Raw {
    /// Checks that it is a clear refusal: a status of the client's, and a document that says why.
    fn refused(&self, what: &str) {
        assert!((400..500).contains(&self.status), "{what}: {self:?}");
        let document: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let code = document["code"].as_str().or(document["error"]["code"].as_str());
        assert!(code.is_some_and(|it| !it.is_empty()), "{what}: {self:?}");
        assert!(!self.head.contains("set-cookie"), "{what}: {self:?}");
        assert!(!self.body.contains("root:"), "{what}: {self:?}");
    }
}

/// Sends bytes and reads the answer to its end.
async fn sent(address: &str, bytes: &[u8]) -> Raw {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that has heard enough may close before everything is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the server answers and closes");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_default();
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body.split("\r\n").nth(1).unwrap_or_default()
    } else {
        body
    };
    Raw { status, head: head.to_owned(), body: nameless(body) }
}

/// Returns a problem document without the name of its request, which is always another.
fn nameless(body: &str) -> String {
    match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("request_id");
            Value::Object(fields).to_string()
        }
        _ => body.to_owned(),
    }
}

fn address(scene: &Scene) -> String {
    scene.url.trim_start_matches("http://").to_owned()
}

async fn ask(scene: &Scene, method: &str, path: &str, headers: &str, body: &[u8]) -> Raw {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n"
    );
    sent(&address(scene), &[head.as_bytes(), body].concat()).await
}

/// Starts a server that has a session `demo`, whose first turn waits for a decision.
async fn waiting(ground: &Ground) -> Scene {
    let call = |id: &str| {
        let call = ToolCall { id: id.into(), name: "launch".into(), arguments: json!({}) };
        Step::Answer(Answer::parts(vec![Part::ToolCall(call)]))
    };
    let model = Scripted::new([call("c1"), call("c1")]);
    let agent = Arc::new(move |_: &Project| {
        let launch = tool("launch", "Launches.", |_: Nothing| async { Ok("launched") });
        Ok(contexture::agent(model.clone()).tool(launch.needs_approval()))
    });
    ground.instance_of(Project::from_files(Arc::new(InMemory::new(FILES))).unwrap(), agent).await
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_on_any_route_is_more_than_a_name() {
    let scene = waiting(&Ground::memory()).await;
    scene.session("demo").await;
    scene.turn("demo", "go").await;
    let long = "a".repeat(300);
    let very_long = "%F0%9F%92%A9".repeat(1_000);
    for operation in operations() {
        for place in operation.places() {
            for name in NAMES.into_iter().chain([long.as_str(), &very_long]) {
                let path = operation.path.replace(&format!("{{{place}}}"), name);
                let path = Operation { path, ..operation.clone() }.path_of("demo");
                let answer = ask(&scene, &operation.method, &path, "", operation.body().as_bytes()).await;
                let what = format!("{} {path}", operation.method);
                // Any plain name can be that of a knowledge base, which `PUT` creates.
                let is_plain =
                    name.len() <= 64 && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
                match operation.tag == "knowledge" && is_plain {
                    true => assert!(answer.status < 500, "{what}: {answer:?}"),
                    false => answer.refused(&what),
                }
            }
        }
        for query in &operation.queries {
            for value in ["%00", "..%2F..%2Fx", "-1", "1e999", "99999999999999999999999", "%ff", &long] {
                let path = format!("{}?{query}={value}", operation.path_of("none"));
                let answer = ask(&scene, &operation.method, &path, "", operation.body().as_bytes()).await;
                // Words to search for may be any, and so may the name behind which a list goes on.
                assert!(answer.status < 500, "{} {path}: {answer:?}", operation.method);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_tenant_is_not_there() {
    let ground = Ground::memory();
    let keys = Keys::new(ground.store.clone(), ground.documents.clone());
    let mut tokens = Vec::new();
    for tenant in ["ours", "theirs"] {
        let new = NewKey { tenant: Tenant::parse(tenant).unwrap(), ..NewKey::default() };
        let (_, token) = keys.create(new, &SystemSecrets, "test", SystemTime.now()).await.unwrap();
        tokens.push(format!("authorization: Bearer {}\r\n", token.reveal()));
    }
    let (ours, theirs) = (&tokens[0], &tokens[1]);
    let scene = waiting(&ground).await;
    let by = async |key: &str, method: &str, path: &str, body: &str| {
        ask(&scene, method, path, key, body.as_bytes()).await
    };
    assert_eq!(by(ours, "POST", "/v1/sessions", r#"{"id": "demo"}"#).await.status, 201);
    let turn = by(ours, "POST", "/v1/sessions/demo/turns", r#"{"prompt": "chat", "user": "secret"}"#).await;
    assert!(turn.body.contains("suspended"), "{turn:?}");
    assert_eq!(by(theirs, "POST", "/v1/sessions", r#"{"id": "mine"}"#).await.status, 201);
    let look = async || {
        let all = by(ours, "GET", "/v1/sessions/demo/items?view=all", "").await;
        (all.body, by(ours, "GET", "/v1/sessions/demo", "").await.body)
    };
    let before = look().await;

    for operation in operations().iter().filter(|it| !it.places().is_empty() && !it.is_shared()) {
        let answer = async |name: &str| {
            by(theirs, &operation.method, &operation.path_of(name), operation.body()).await
        };
        let (there, nowhere) = (answer("demo").await, answer("nope").await);
        there.refused(&operation.id);
        // Whether it exists for another tenant can't be told from the answer.
        assert_eq!((there.status, there.body), (nowhere.status, nowhere.body.replace("nope", "demo")));
        if operation.path.contains("/sessions/{id}") {
            let path = format!("{}?thread=demo", operation.path_of("mine"));
            if operation.queries.iter().any(|it| it == "thread") {
                by(theirs, &operation.method, &path, operation.body()).await.refused(&path);
            }
        }
    }
    for (path, body) in [
        ("/v1/sessions/mine/turns", r#"{"prompt": "chat", "user": "x", "thread": "demo"}"#),
        ("/v1/sessions/mine/threads", r#"{"base": "demo", "inherit_history": true}"#),
        ("/v1/sessions/mine/compact", r#"{"prompt": "chat", "thread": "demo"}"#),
    ] {
        by(theirs, "POST", path, body).await.refused(path);
    }
    assert_eq!(look().await, before, "nothing of it has changed");
    let listed = by(theirs, "GET", "/v1/sessions", "").await;
    assert!(!listed.body.contains("demo"), "{listed:?}");
    for key in ["", "authorization: Bearer ctx_a_b\r\n", "authorization: Basic eA==\r\n", "x-api-key: \r\n"] {
        for operation in operations() {
            let answer = by(key, &operation.method, &operation.path_of("demo"), operation.body()).await;
            assert_eq!(answer.status, 401, "{} {key}", operation.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_none_are_refused_everywhere() {
    let scene = waiting(&Ground::memory()).await;
    scene.session("demo").await;
    scene.turn("demo", "go").await;
    let deep = format!("{{\"input\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = "{\"input\":".repeat(100_000);
    let bodies: [&[u8]; 12] = [
        b"{",
        b"[]",
        b"null",
        b"\"x\"",
        b"{\"id\": 1e999}",
        b"{\"id\": \"\\ud800\"}",
        b"{\"nobody_knows_this\": 1}",
        b"{} {}",
        b"\xff\xfe{\x00}\x00",
        b"{\"id\": \"a\x00b\"}",
        deep.as_bytes(),
        deep_object.as_bytes(),
    ];
    for operation in operations().iter().filter(|it| it.takes_body) {
        for body in bodies {
            let path = operation.path_of("demo");
            let answer = ask(&scene, &operation.method, &path, "", body).await;
            let shown: String = String::from_utf8_lossy(body).chars().take(40).collect();
            answer.refused(&format!("{} {path} {shown}", operation.method));
        }
        let answer =
            ask(&scene, &operation.method, &operation.path_of("demo"), "accept: image/png\r\n", b"{").await;
        answer.refused("a form that nobody has");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_bodies_and_headers_are_names_too() {
    let scene = answering(&["One.", "Two."]).await;
    for id in ["", "../x", "a/b", "a\r\nset-cookie: a=b", "\u{0}", &"é".repeat(101)] {
        let answer = ask(&scene, "POST", "/v1/sessions", "", json!({"id": id}).to_string().as_bytes()).await;
        answer.refused(id);
    }
    scene.session("demo").await;
    let turn = br#"{"prompt": "chat", "user": "hi"}"#;
    let long = format!("idempotency-key: {}\r\n", "k".repeat(10_000));
    for headers in [long.as_str(), "idempotency-key: \u{e9}\r\n", "idempotency-key: \r\n"] {
        let answer = ask(&scene, "POST", "/v1/sessions/demo/turns", headers, turn).await;
        answer.refused(&headers.chars().take(40).collect::<String>());
    }
    for id in ["-1", "x", "1.5", "99999999999999999999999", "77", "0x1", "1 ", "\u{e9}", "latest,1", "../1"] {
        let header = format!("last-event-id: {id}x\r\n");
        ask(&scene, "GET", "/v1/sessions/demo/events", &header, b"").await.refused(&header);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_its_own_request_only() {
    let scene = waiting(&Ground::memory()).await;
    let mut tokens = Vec::new();
    for name in ["demo", "other"] {
        scene.session(name).await;
        let turn = scene.turn(name, "go").await;
        tokens.push(turn["approvals"][0]["token"].as_str().unwrap().to_owned());
    }
    let decide = async |id: &str, token: &str| {
        let body = json!({"token": token, "verdict": "approve"}).to_string();
        let answer = ask(&scene, "POST", &format!("/v1/approvals/{id}"), "", body.as_bytes()).await;
        answer.refused(id);
        let document: Value = serde_json::from_str(&answer.body).unwrap();
        document["code"].as_str().unwrap().to_owned()
    };
    let own = tokens[0].clone();
    let flipped = format!("{}0", &own[..own.len() - 1]);
    let almost = if flipped == own { format!("{}1", &own[..own.len() - 1]) } else { flipped };
    for forged in
        ["", "0", &tokens[1], &almost, &own.to_uppercase(), &format!("{own} "), &format!("{own}\u{0}")]
    {
        assert_eq!(decide("demo:t1:c1", forged).await, "approval_forged", "{forged}");
    }
    assert_eq!(decide("demo:t2:c1", &own).await, "approval_not_waiting");
    assert_eq!(decide("demo:t1:c2", &own).await, "approval_not_waiting");
    assert_eq!(decide("demo:t18446744073709551616:c1", &own).await, "path_invalid");
}
