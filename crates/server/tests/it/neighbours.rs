//! A tenant that means harm, beside one that does not: the turns of the other end, and the server stops when it is told to.
//!
//! What the turns of the friendly tenant take is printed, alone and beside the hostile one
//! (`cargo nextest run -p contexture-server neighbours --no-capture`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contexture_message::Answer;
use contexture_model::Scripted;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::door::{Door, key, of_tenant};
use crate::scene::Ground;

/// How many references each lead to the next two.
const LEVELS: usize = 30;
/// How many turns are measured.
const TURNS: usize = 100;
/// What no turn may take, on any machine.
const FOREVER: Duration = Duration::from_secs(60);
/// How long a hostile client waits for an answer.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// Returns a schema that applies to a value in 2^`LEVELS` ways.
fn doubling(last: &Value) -> Value {
    let mut all: serde_json::Map<String, Value> = (0..LEVELS)
        .map(|it| {
            let next = json!({"$ref": format!("#/$defs/d{}", it + 1)});
            (format!("d{it}"), json!({"anyOf": [next, next]}))
        })
        .collect();
    all.insert(format!("d{LEVELS}"), last.clone());
    json!({"$ref": "#/$defs/d0", "$defs": all})
}

/// Returns schemas that are small and cost a lot, or would.
fn bombs() -> Vec<Value> {
    let twice = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]});
    let names: Vec<Value> = (0..40).map(|it| json!({"pattern": format!("^(?=(a+)+${it})b")})).collect();
    vec![
        doubling(&json!({"type": "integer"})),
        doubling(&json!({"unevaluatedProperties": false, "type": "integer"})),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": twice, "type": ["array", "integer"]}}}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"type": "string", "pattern": "((a{1,100}){1,100}){1,100}!"}),
        json!({"type": "string", "pattern": "^(?=(a|aa)+$)(a+)+$"}),
        json!({"allOf": names}),
        json!({"enum": (0..20_000).collect::<Vec<_>>()}),
        json!({"$ref": "file:///etc/passwd"}),
    ]
}

struct Attack {
    url: String,
    token: String,
    is_over: AtomicBool,
    n_sent: AtomicU64,
}

impl Attack {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    async fn post(&self, client: &reqwest::Client, path: &str, body: &Value) {
        self.n_sent.fetch_add(1, Ordering::Relaxed);
        let post = client.post(format!("{}{path}", self.url)).bearer_auth(&self.token).json(body);
        // Whatever comes of it: the client leaves.
        let _ = tokio::time::timeout(IMPATIENCE, post.send()).await;
    }

    /// Sends one bomb after the other.
    async fn schemas(self: Arc<Self>) {
        let client = contexture_model::http_client(Vec::new(), None).unwrap();
        while self.goes_on() {
            for schema in bombs() {
                let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
                let messages = json!([{"role": "user", "content": "go"}]);
                let body = json!({"model": "chat", "messages": messages, "response_format": format});
                self.post(&client, "/v1/chat/completions", &body).await;
            }
        }
    }

    /// Sends texts that look like templates, deep values, large values, and tools with bombs for parameters.
    async fn bodies(self: Arc<Self>) {
        let client = contexture_model::http_client(Vec::new(), None).unwrap();
        let template = "{% for i in (1..1000000000) %}{{ i }}{% endfor %}".repeat(200);
        let deep = (0..100).fold(json!(1), |it, _| json!([it]));
        let wide: Vec<Value> = (0..50_000).map(|it| json!({"a": it})).collect();
        let tool =
            json!({"name": "x", "description": "x", "parameters": doubling(&json!({"type": "integer"}))});
        while self.goes_on() {
            for body in [
                json!({"prompt": "greet", "input": {"name": template}}),
                json!({"prompt": "chat", "user": "x", "blocks": [{"name": "b", "body": template}]}),
                json!({"prompt": "greet", "input": {"name": deep}}),
                json!({"prompt": "greet", "input": {"name": "x", "rows": wide}}),
                json!({"prompt": "chat", "user": "x", "client_tools": [tool]}),
            ] {
                self.post(&client, "/v1/sessions/theirs/turns", &body).await;
            }
            let said = json!({"messages": [{"role": "tool", "content": [{"type": "tool_result", "call_id": "c", "name": "x",
                "output": {"type": "text", "value": "[".repeat(200_000)}}]}]});
            self.post(&client, "/v1/threads/theirs/messages", &said).await;
        }
    }

    /// Opens connections and says half a word on them.
    async fn connections(self: Arc<Self>) {
        let address = self.url.trim_start_matches("http://").to_owned();
        let mut idle = Vec::new();
        while self.goes_on() {
            if let Ok(mut stream) = TcpStream::connect(&address).await {
                let _ = stream.write_all(b"POST /v1/sessions HTTP/1.1\r\nhost: ").await;
                idle.push(stream);
            }
            if idle.len() > 300 {
                idle.drain(..100);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Runs friendly turns, one after the other, and returns what each took.
async fn friendly(door: &Door, token: &str, session: &str) -> Vec<Duration> {
    let post = |path: String, body: Value| door.ask("POST", &path).bearer_auth(token).json(&body);
    let made = post("/v1/sessions".to_owned(), json!({"id": session})).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let mut took = Vec::new();
    for _ in 0..TURNS {
        let start = Instant::now();
        let turn = post(format!("/v1/sessions/{session}/turns"), json!({"prompt": "chat", "user": "hi"}));
        let answer = tokio::time::timeout(FOREVER, turn.send()).await.expect("a turn ends").unwrap();
        assert_eq!(answer.status(), 200);
        let _ = answer.text().await;
        took.push(start.elapsed());
    }
    took.sort();
    took
}

fn shown(took: &[Duration]) -> String {
    let at = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
    format!("p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), took[took.len() - 1])
}

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

/// The server and its clients have threads of their own, so that a server that stands still is noticed.
#[test]
fn a_hostile_tenant_does_not_stand_in_the_way_of_a_friendly_one() {
    let (served, clients) = (runtime(2), runtime(2));
    let ground = Ground::memory();
    // A text that fits none of the schemas, and on which patterns are slow.
    let model = Scripted::always(Answer::text(format!("\"{}!\"", "a".repeat(5000))));
    let tokens = clients.block_on(async {
        let (_, ours) = key(&ground, of_tenant("ours")).await;
        let (_, theirs) = key(&ground, of_tenant("theirs")).await;
        (ours, theirs)
    });
    let mut door = served.block_on(async { Door::with_model(&ground, model, &[]).await });
    clients.block_on(async {
        let alone = friendly(&door, &tokens.0, "alone").await;
        let attack = Arc::new(Attack {
            url: door.url.clone(),
            token: tokens.1.clone(),
            is_over: AtomicBool::new(false),
            n_sent: AtomicU64::new(0),
        });
        attack
            .post(
                &contexture_model::http_client(Vec::new(), None).unwrap(),
                "/v1/sessions",
                &json!({"id": "theirs"}),
            )
            .await;
        let tasks: Vec<_> = (0..4)
            .map(|_| tokio::spawn(Arc::clone(&attack).schemas()))
            .chain([
                tokio::spawn(Arc::clone(&attack).bodies()),
                tokio::spawn(Arc::clone(&attack).connections()),
            ])
            .collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let beside = friendly(&door, &tokens.0, "beside").await;
        let n_sent = attack.n_sent.load(Ordering::Relaxed);
        eprintln!("friendly alone: {}", shown(&alone));
        eprintln!("friendly beside a hostile tenant ({n_sent} requests): {}", shown(&beside));
        // It stops while the attack goes on. The grace is a second.
        let start = Instant::now();
        door.stop();
        tokio::time::timeout(FOREVER, &mut door.task).await.expect("the server stops").unwrap();
        eprintln!("stopped after {:?}", start.elapsed());
        attack.is_over.store(true, Ordering::Relaxed);
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    });
    // Nothing that runs on a thread of its own stands in the way of the end.
    let start = Instant::now();
    served.shutdown_timeout(FOREVER);
    assert!(start.elapsed() < FOREVER / 2, "the process can't end");
}
