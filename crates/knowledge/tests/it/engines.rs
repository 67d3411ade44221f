//! Other engines over HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_compose::ports::{HttpCaller, HttpReply, HttpRequest, ManualClock, StoppedClock};
use contexture_compose::{BoxError, BoxFuture};
use contexture_knowledge::embed::{Embedder, HashEmbedder, HttpEmbedder};
use contexture_knowledge::retrieve::{HttpRetrieverConfig, HttpRetrieverPorts};
use contexture_knowledge::{HttpRetriever, Query, RetrieveError, Retriever};
use futures::executor::block_on;
use serde_json::{Value, json};

/// Answers as it was told, and remembers what it was asked.
#[derive(Default)]
struct Engine {
    replies: Mutex<VecDeque<Option<(u16, Value)>>>,
    requests: Mutex<Vec<HttpRequest>>,
}

impl Engine {
    /// `None` is a connection that breaks.
    fn with(replies: Vec<Option<(u16, Value)>>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into()), requests: Mutex::default() })
    }

    fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl HttpCaller for Engine {
    fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>> {
        self.requests.lock().unwrap().push(request);
        let reply = self.replies.lock().unwrap().pop_front();
        Box::pin(async move {
            match reply {
                Some(Some((status, body))) => {
                    Ok(HttpReply { status, content_type: None, body: body.to_string().into_bytes() })
                }
                Some(None) => Err("the connection broke".into()),
                // No more replies: it never answers.
                None => std::future::pending().await,
            }
        })
    }
}

fn config() -> HttpRetrieverConfig {
    HttpRetrieverConfig {
        url: "https://search.example.com/docs/_search".to_owned(),
        request: json!({"query": {"match": {"text": "{{ query }}"}}, "size": "{{ top_k }}", "track": true}),
        headers: BTreeMap::new(),
        header_env: [("authorization".to_owned(), "SEARCH_KEY".to_owned())].into(),
        hits: "/hits/hits".to_owned(),
        id: "/_id".to_owned(),
        text: "/_source/text".to_owned(),
        score: Some("/_score".to_owned()),
        title: Some("/_source/title".to_owned()),
        origin: None,
        timeout_ms: 1_000,
        retries: 2,
        max_bytes: 1_000_000,
    }
}

fn retriever(engine: &Arc<Engine>, config: HttpRetrieverConfig) -> Result<HttpRetriever, RetrieveError> {
    let http: Arc<dyn HttpCaller> = Arc::clone(engine) as _;
    let ports = HttpRetrieverPorts { http, clock: Arc::new(StoppedClock), embedder: None };
    HttpRetriever::new("docs", config, ports)
}

fn hits(hits: Value) -> Option<(u16, Value)> {
    Some((200, json!({"hits": {"hits": hits}})))
}

/// Asks an engine with these replies; shows the hits or the reason.
fn asked(replies: Vec<Option<(u16, Value)>>) -> String {
    let engine = Engine::with(replies);
    let shown = match block_on(retriever(&engine, config()).unwrap().retrieve(Query::new("a question", 2))) {
        Ok(found) => {
            let hit = |it: &contexture_knowledge::Hit| format!("{} {:.1} {}", it.source(), it.score, it.text);
            found.hits.iter().map(hit).collect::<Vec<_>>().join(", ")
        }
        Err(err) => err.to_string(),
    };
    format!("{shown} ({} calls)", engine.requests().len())
}

#[test]
fn hits_are_read_by_their_pointers() {
    let two = json!([
        {"_id": "x", "_score": 1.0, "_source": {"text": "lower"}},
        {"_id": 17, "_score": 2.5, "_source": {"text": "higher", "title": "T"}},
        {"_id": "z", "_score": 0.5, "_source": {"text": "beyond"}},
    ]);
    insta::assert_snapshot!(asked(vec![hits(two)]), @"knowledge:docs#17 2.5 higher, knowledge:docs#x 1.0 lower (1 calls)");
    insta::assert_snapshot!(asked(vec![hits(json!([]))]), @" (1 calls)");
}

#[test]
fn failures_are_typed_reasons() {
    let bad = |value: Value| asked(vec![Some((200, value))]);
    insta::assert_snapshot!(bad(json!({"hits": 1})), @"the answer of the engine of base `docs` is not as configured: there is no list at `/hits/hits` (1 calls)");
    insta::assert_snapshot!(asked(vec![hits(json!([{"_id": "x"}]))]), @"the answer of the engine of base `docs` is not as configured: hit 0 has nothing at `/_score` (1 calls)");
    insta::assert_snapshot!(asked(vec![Some((403, json!({})))]), @"the engine of base `docs` answered with status 403 (1 calls)");
    insta::assert_snapshot!(asked(vec![Some((302, json!({})))]), @"the engine of base `docs` redirected with status 302; redirects are not followed (1 calls)");
    insta::assert_snapshot!(asked(vec![None, None, None]), @"the engine of base `docs` can't be reached: the connection broke (3 calls)");
    insta::assert_snapshot!(asked(vec![Some((503, json!({}))), None, hits(json!([]))]), @" (3 calls)");
}

#[test]
fn a_slow_engine_times_out() {
    let (engine, clock) = (Engine::with(Vec::new()), ManualClock::default());
    let http: Arc<dyn HttpCaller> = Arc::clone(&engine) as _;
    let ports = HttpRetrieverPorts { http, clock: Arc::new(clock.clone()), embedder: None };
    let retriever = HttpRetriever::new("docs", config(), ports).unwrap();
    let waiting = std::thread::spawn(move || block_on(retriever.retrieve(Query::new("q", 1))));
    while engine.requests().is_empty() {
        std::thread::yield_now();
    }
    while !waiting.is_finished() {
        clock.advance(Duration::from_millis(100));
        std::thread::yield_now();
    }
    let failed = waiting.join().unwrap();
    assert!(matches!(failed, Err(RetrieveError::TimedOut { .. })), "{failed:?}");
}

#[test]
fn a_query_changes_neither_the_address_nor_the_structure() {
    let hostile = [
        "\", \"size\": 1000000, \"x\": \"",
        "{{ top_k }}{% for i in (1..9) %}x{% endfor %}",
        "https://evil.example.com/#@",
        "../../admin?x=1",
        "\r\nhost: evil.example.com",
        "\u{0}\u{202e}",
    ];
    for query in hostile {
        let engine = Engine::with(vec![hits(json!([]))]);
        block_on(retriever(&engine, config()).unwrap().retrieve(Query::new(query, 3))).unwrap();
        let request = &engine.requests()[0];
        assert_eq!(request.url, "https://search.example.com/docs/_search");
        assert_eq!(request.headers, BTreeMap::new());
        assert_eq!(request.secret_headers["authorization"], "SEARCH_KEY");
        let body = json!({"query": {"match": {"text": query}}, "size": 3, "track": true});
        assert_eq!(request.body, Some(body));
    }
}

#[test]
fn wrong_configurations_are_refused_at_once() {
    let refused = |change: fn(&mut HttpRetrieverConfig)| {
        let mut config = config();
        change(&mut config);
        retriever(&Engine::with(Vec::new()), config).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refused(|it| it.url = "file:///etc/passwd".to_owned()), @"the request template of base `docs` is invalid: `file:///etc/passwd` does not begin with http:// or https://");
    insta::assert_snapshot!(refused(|it| it.id = "_id".to_owned()), @"the request template of base `docs` is invalid: `_id` is not a JSON Pointer: it must begin with `/`");
    insta::assert_snapshot!(refused(|it| it.request = json!({"vector": "{{ vector }}"})), @"the request template of base `docs` is invalid: it has `{{ vector }}`, and there is no embedder");
}

#[test]
fn vectors_can_be_part_of_a_request() {
    let engine = Engine::with(vec![hits(json!([]))]);
    let http: Arc<dyn HttpCaller> = Arc::clone(&engine) as _;
    let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new("m", 3));
    let ports = HttpRetrieverPorts { http, clock: Arc::new(StoppedClock), embedder: Some(embedder) };
    let config =
        HttpRetrieverConfig { request: json!({"vector": "{{ vector }}", "limit": "{{top_k}}"}), ..config() };
    block_on(HttpRetriever::new("docs", config, ports).unwrap().retrieve(Query::new("word", 4))).unwrap();
    let body = engine.requests()[0].body.clone().unwrap();
    assert_eq!((body["vector"].as_array().map(Vec::len), &body["limit"]), (Some(3), &json!(4)));
}

#[test]
fn an_embeddings_endpoint_is_called_as_openai_has_it() {
    let data =
        json!({"data": [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}]});
    let engine =
        Engine::with(vec![Some((200, data)), Some((200, json!({"data": []}))), Some((500, json!({})))]);
    let embedder = HttpEmbedder::new(
        "http://127.0.0.1:1/v1/",
        "small",
        Some("KEY".to_owned()),
        Arc::clone(&engine) as _,
    );
    let texts = || vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(block_on(embedder.embed(texts())).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    let request = &engine.requests()[0];
    assert_eq!(
        (request.url.as_str(), &request.secret_headers["authorization"][..]),
        ("http://127.0.0.1:1/v1/embeddings", "KEY")
    );
    assert_eq!(request.body.as_ref().unwrap()["input"], json!(["a", "b"]));
    insta::assert_snapshot!(block_on(embedder.embed(texts())).unwrap_err(), @"embedder `small` returned 0 vectors for 2 texts");
    insta::assert_snapshot!(block_on(embedder.embed(texts())).unwrap_err(), @"embedder `small` is not available: it answered with status 500");
}
