//! Clients that mean harm, or do not know better.

use contexture_message::Answer;
use contexture_model::Step;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::door::{Door, document, rest};
use crate::scene::Ground;

async fn door(overrides: &[(&str, &str)]) -> Door {
    Door::open(&Ground::memory(), Vec::new(), overrides).await
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_problems_with_the_id_of_the_request() {
    let door = door(&[]).await;
    let unknown = door.ask("GET", "/v2/x?secret=1").header("x-request-id", "mine-1").send().await.unwrap();
    assert_eq!(unknown.headers()["x-request-id"], "mine-1");
    assert_eq!(unknown.headers()["content-type"], "application/problem+json");
    assert_eq!(unknown.headers()["x-content-type-options"], "nosniff");
    let text = unknown.text().await.unwrap();
    assert!(text.contains("route_unknown") && text.contains(r#""request_id":"mine-1""#), "{text}");
    let wrong = door.ask("PUT", "/v1/sessions").header("x-request-id", "no good").send().await.unwrap();
    let allowed = wrong.headers()["allow"].to_str().unwrap().to_owned();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    assert_ne!(wrong.headers()["x-request-id"], "no good");
    assert!(wrong.text().await.unwrap().contains("method_not_allowed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_look_like_paths_are_only_names() {
    let door = door(&[]).await;
    let api = document(door.ask("GET", "/openapi.json")).await;
    for name in ["..%2f..%2fetc%2fpasswd", "%2e%2e", "..%5c..%5cx", "%00", "a%0ab", "%ff", &"x".repeat(3000)]
    {
        for (path, methods) in api["paths"].as_object().unwrap() {
            if !path.contains('{') {
                continue;
            }
            let parts = path.split('/').map(|it| if it.starts_with('{') { name } else { it });
            let path = parts.collect::<Vec<_>>().join("/");
            for method in methods.as_object().unwrap().keys().map(|it| it.to_uppercase()) {
                let request = door.ask(&method, &path).json(&json!({}));
                let status = request.send().await.unwrap().status().as_u16();
                assert!((400..500).contains(&status), "{method} {path}: {status}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_json_are_told_so() {
    let door = door(&[]).await;
    for body in ["{", "[]", "nul", "\u{0}", "{\"id\": \"\\ud800\"}", &"[".repeat(100_000)] {
        let post = door.ask("POST", "/v1/sessions").header("content-type", "application/json");
        assert_eq!(door.code(post.body(body.to_owned())).await, "400 body_invalid", "{}", &body[..1]);
    }
    let post = door.ask("POST", "/v1/sessions").header("content-type", "text/plain").body("{}");
    assert_eq!(door.code(post).await, "415 media_type_unsupported");
    let post = door.ask("POST", "/v1/sessions").body("{}");
    assert_eq!(door.code(post).await, "415 media_type_unsupported");
    assert_eq!(door.code(door.ask("POST", "/v1/sessions")).await, "201 -", "no body has no type");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_no_web_page_comes_in_that_nobody_allowed() {
    let overrides = [("server.cors_origins", "https://app.example")];
    let ground = Ground::memory();
    let door = Door::open(&ground, Vec::new(), &overrides).await;
    let ask = |headers: &[(&str, &str)]| {
        let mut request = door.ask("POST", "/v1/sessions").json(&json!({}));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        door.code(request)
    };
    assert_eq!(ask(&[("host", "evil.example:4747")]).await, "403 host_forbidden");
    assert_eq!(ask(&[("origin", "https://evil.example")]).await, "403 origin_forbidden");
    assert_eq!(ask(&[("origin", "null")]).await, "403 origin_forbidden");
    assert_eq!(ask(&[("origin", "https://app.example")]).await, "201 -");
    assert_eq!(ask(&[("origin", &door.url)]).await, "201 -");
    assert_eq!(ask(&[("host", "localhost")]).await, "201 -");
    // A caller with a key is no web page that happens to be open.
    let (_, token) = crate::door::key(&ground, contexture_server::NewKey::default()).await;
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    let request = door.ask("GET", "/v1/sessions").header("host", "app.internal").bearer_auth(&token);
    assert_eq!(door.code(request.header("origin", "https://other.example")).await, "200 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_not_read() {
    let door = door(&[("server.max_body_bytes", "1000")]).await;
    // Nothing of the hundred megabytes is ever sent.
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let answer = door.raw(format!("{head}content-length: 100000000\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("body_too_large"), "{answer}");
    let chunks = format!("{head}transfer-encoding: chunked\r\n\r\n5dc\r\n{}\r\n", "x".repeat(1500));
    let answer = door.raw(chunks.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(door.code(door.ask("POST", "/v1/sessions").json(&json!({"id": "a"}))).await, "201 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_dawdles_is_hung_up_on() {
    let door = door(&[("server.request_timeout_seconds", "1")]).await;
    // Nothing at all; what both versions of HTTP begin with; half a head.
    for begin in ["", "P", "GET /v1/prompts HTTP/1.1\r\nhost: localhost\r\nx-slow: "] {
        let mut stream = door.connect().await;
        stream.write_all(begin.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{begin}: {answer}");
    }
    // Half a body.
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let answer = door.raw(format!("{head}content-length: 50\r\n\r\n{{\"id\"").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"), "{answer}");
    assert_eq!(door.code(door.ask("GET", "/v1/prompts")).await, "200 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused() {
    let door = door(&[]).await;
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-large: {}\r\n\r\n", "x".repeat(200_000));
    let mut stream = door.connect().await;
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = [0; 12];
    // A client that still writes may meet a reset before the answer.
    if stream.read_exact(&mut answer).await.is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_call_only_if_their_origin_may() {
    let door = door(&[("server.cors_origins", "https://app.example")]).await;
    let preflight = |origin: &str| {
        let request = door.ask("OPTIONS", "/v1/sessions").header("origin", origin);
        request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization")
            .send()
    };
    let allowed = preflight("https://app.example").await.unwrap();
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://app.example");
    assert_eq!(allowed.headers()["access-control-allow-headers"], "authorization");
    let refused = preflight("https://evil.example").await.unwrap();
    assert!(refused.headers().get("access-control-allow-origin").is_none());
    let answer = door.ask("GET", "/v1/prompts").header("origin", "https://app.example").send().await.unwrap();
    let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("x-request-id") && exposed.contains("x-contexture-session"), "{exposed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_measured() {
    let ground = Ground::memory();
    let steps = vec![Step::Answer(Answer::text("Hello."))];
    let door = Door::open(&ground, steps, &[]).await;
    let post = |path: &str, body: Value| door.ask("POST", path).json(&body).send();
    assert_eq!(post("/v1/sessions", json!({"id": "demo"})).await.unwrap().status(), 201);
    assert_eq!(post("/v1/sessions/demo/turns", json!({"user": "hi"})).await.unwrap().status(), 200);
    let answer = door.ask("GET", "/metrics").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text().await.unwrap();
    for line in [
        r#"contexture_http_requests_total{method="POST",route="/v1/sessions/{id}/turns",status="200"} 1"#,
        r#"contexture_turns_total{status="completed"} 1"#,
        r#"contexture_model_calls_total{provider="openai",outcome="end"} 1"#,
        "contexture_sse_connections 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    for name in [
        r#"contexture_prompt_tokens_total{source="prompt"}"#,
        r#"contexture_prompt_tokens_total{source="in_flight"}"#,
        r#"contexture_tokens_total{kind="input"}"#,
    ] {
        assert!(text.contains(name), "{name}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_lets_a_turn_end_and_ends_streams() {
    let ground = Ground::memory();
    let steps = vec![Step::Answer(Answer::text("Hello."))];
    let mut door = Door::open(&ground, steps, &[]).await;
    assert_eq!(door.code(door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"}))).await, "201 -");
    let stream = door.ask("GET", "/v1/sessions/demo/events").send().await.unwrap();
    door.stop();
    // The stream ends in good order.
    assert_eq!(stream.text().await.unwrap(), "");
    (&mut door.task).await.unwrap();
    assert!(door.ask("GET", "/healthz").send().await.is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_give_way_to_those_who_ask() {
    let door = door(&[("server.max_connections", "8")]).await;
    assert_eq!(door.code(door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"}))).await, "201 -");
    let mut stream = door.ask("GET", "/v1/sessions/demo/events").send().await.unwrap();
    // Many more than there are places for, and all of them only say hello.
    let mut idle = Vec::new();
    for _ in 0..40 {
        let mut connection = door.connect().await;
        connection.write_all(b"GET /v1/prompts HTTP/1.1\r\nhost: ").await.unwrap();
        idle.push(connection);
    }
    // A client of its own has no connection to use again.
    let client = contexture_model::http_client(Vec::new(), None).unwrap();
    let asked = client.get(format!("{}/v1/prompts", door.url)).send();
    let answer =
        tokio::time::timeout(std::time::Duration::from_secs(20), asked).await.expect("it is its turn");
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(rest(&mut idle[0]).await, "", "the first is hung up on");
    // The stream is no idle connection, however little it says.
    let more = tokio::time::timeout(std::time::Duration::from_millis(300), stream.chunk()).await;
    assert!(!matches!(more, Ok(Ok(None) | Err(_))), "{more:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_a_client_that_is_none_is_a_bad_request() {
    let door = door(&[]).await;
    let wrong = json!({"type": "nonsense"});
    let bomb = json!({"allOf": [{"$ref": "#"}]});
    for schema in [wrong, bomb] {
        let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
        let tool = json!({"type": "function", "function": {"name": "x", "parameters": schema}});
        for (param, more) in [("response_format", json!(format)), ("tools", json!([tool]))] {
            let mut body = json!({"model": "chat", "messages": [{"role": "user", "content": "go"}]});
            body[param] = more;
            let answer = door.ask("POST", "/v1/chat/completions").json(&body).send().await.unwrap();
            assert_eq!(answer.status(), 400, "{param} {schema}");
            let error: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            assert_eq!(error["error"]["param"], param, "{error}");
        }
        let tool = json!({"name": "x", "description": "x", "parameters": schema});
        let body = json!({"prompt": "chat", "user": "x", "client_tools": [tool]});
        assert_eq!(
            door.code(door.ask("POST", "/v1/prompts/chat/run").json(&body)).await,
            "400 body_invalid",
            "{schema}"
        );
    }
}
