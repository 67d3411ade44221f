//! Keys: who comes in, whose data they see, and how often they may ask.

use contexture::SystemTime;
use contexture_history::Timestamp;
use contexture_server::{Keys, NewKey};
use contexture_session::documents::{Document, DocumentKey};
use contexture_session::{Tenant, Time};
use serde_json::json;

use crate::door::{Door, document, key, of_tenant, refusal};
use crate::scene::Ground;

#[tokio::test(flavor = "multi_thread")]
async fn beyond_this_machine_nobody_listens_without_keys() {
    let ground = Ground::memory();
    let open = [("server.listen", "0.0.0.0:0")];
    let refused = refusal(&ground, &open).await;
    assert_eq!(refused.code(), "keys_missing");
    assert!(refused.hint().is_some_and(|it| it.contains("contexture keys create")));
    key(&ground, NewKey::default()).await;
    Door::open(&ground, Vec::new(), &open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_needs_both_files() {
    let ground = Ground::memory();
    let text = |err: contexture_server::ListenError| err.to_string();
    assert_eq!(
        text(refusal(&ground, &[("server.tls_cert", "c.pem")]).await),
        "`server.tls_cert` is set, and `server.tls_key` is not"
    );
    let both = [("server.tls_cert", "c.pem"), ("server.tls_key", "k.pem")];
    assert!(text(refusal(&ground, &both).await).starts_with("`server.tls_cert`: cannot use `c.pem`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_everybody_on_this_machine_is_the_default_tenant() {
    let door = Door::open(&Ground::memory(), Vec::new(), &[]).await;
    assert_eq!(door.code(door.ask("GET", "/v1/prompts")).await, "200 -");
    assert_eq!(door.code(door.ask("GET", "/metrics")).await, "200 -");
    // OpenAI's clients always send a key.
    assert_eq!(door.code(door.ask("GET", "/v1/sessions").bearer_auth("sk-any")).await, "200 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_with_a_key_the_answer_is_the_same() {
    let ground = Ground::memory();
    let (id, good) = key(&ground, NewKey::default()).await;
    let (_, expired) = key(&ground, NewKey { expires: Some(Timestamp(1)), ..NewKey::default() }).await;
    let (revoked_id, revoked) = key(&ground, NewKey::default()).await;
    Keys::new(ground.store.clone(), ground.documents.clone())
        .revoke(&revoked_id, "test", SystemTime.now())
        .await
        .unwrap();
    let door = Door::open(&ground, Vec::new(), &[]).await;
    assert_eq!(door.code(door.ask("GET", "/v1/sessions").bearer_auth(&good)).await, "200 -");
    assert_eq!(door.code(door.ask("GET", "/v1/sessions").header("x-api-key", &good)).await, "200 -");
    let secret = good.rsplit('_').next().unwrap();
    let forged = [
        expired,
        revoked,
        format!("ctx_{id}_{}", "0".repeat(64)),
        format!("ctx_000000000000_{secret}"),
        format!("ctx_{id}_"),
        format!("ctx_{id}"),
        good[..good.len() - 1].to_owned(),
        format!("{good}0"),
        good.to_uppercase(),
        "ctx_../../etc_passwd".to_owned(),
        String::new(),
        "x".repeat(5000),
    ];
    let mut answers = std::collections::BTreeSet::new();
    for wrong in &forged {
        let request = door.ask("GET", "/v1/sessions").bearer_auth(wrong).header("x-request-id", "r");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        answers.insert((answer.status().as_u16(), answer.text().await.unwrap()));
    }
    let none = door.ask("GET", "/v1/sessions").header("x-request-id", "r").send().await.unwrap();
    answers.insert((none.status().as_u16(), none.text().await.unwrap()));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers.first().unwrap().0, 401);
    assert!(answers.first().unwrap().1.contains(r#""code":"unauthorized""#), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_a_key_but_those_that_say_whether_the_server_is_well() {
    let ground = Ground::memory();
    let (_, good) = key(&ground, NewKey::default()).await;
    let (_, admin) = key(&ground, NewKey { admin: true, ..NewKey::default() }).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(door.code(door.ask("GET", path)).await, "200 -");
    }
    let api = document(door.ask("GET", "/openapi.json").bearer_auth(&good)).await;
    let paths = api["paths"].as_object().unwrap();
    assert!(paths.len() > 10);
    for (path, methods) in paths {
        // Any name will do: who has no key learns nothing about it.
        let path: String = path
            .split('/')
            .map(|it| if it.starts_with('{') { "x" } else { it })
            .collect::<Vec<_>>()
            .join("/");
        for method in methods.as_object().unwrap().keys() {
            let answer = door.ask(&method.to_uppercase(), &path).send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 401, "{method} {path}");
        }
    }
    for path in ["/openapi.json", "/nothing", "/v1"] {
        assert_eq!(door.code(door.ask("GET", path)).await, "401 unauthorized", "{path}");
    }
    for path in ["/metrics", "/v1/audit"] {
        assert_eq!(door.code(door.ask("GET", path).bearer_auth(&good)).await, "403 forbidden");
        assert_eq!(door.code(door.ask("GET", path).bearer_auth(&admin)).await, "200 -");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_tenant_is_there_for_another() {
    let ground = Ground::memory();
    let (_, ours) = key(&ground, of_tenant("ours")).await;
    let (_, theirs) = key(&ground, of_tenant("theirs")).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    let new = door.ask("POST", "/v1/sessions").json(&json!({"id": "mine"}));
    assert_eq!(door.code(new.bearer_auth(&ours)).await, "201 -");
    let api = document(door.ask("GET", "/openapi.json").bearer_auth(&ours)).await;
    for (path, methods) in api["paths"].as_object().unwrap() {
        if !path.starts_with("/v1/sessions/{id}") && !path.starts_with("/v1/threads/{id}") {
            continue;
        }
        let path = path.replace("{id}", "mine").replace("{turn}", "t1").replace("{n}", "1");
        for method in methods.as_object().unwrap().keys().map(|it| it.to_uppercase()) {
            let request = door.ask(&method, &path).json(&json!({"user": "hi"}));
            let answer = request.bearer_auth(&theirs).send().await.unwrap();
            let status = answer.status().as_u16();
            let text = answer.text().await.unwrap();
            assert!(matches!(status, 404 | 400 | 422), "{method} {path}: {status} {text}");
        }
    }
    let listed = document(door.ask("GET", "/v1/sessions").bearer_auth(&theirs)).await;
    assert_eq!(listed["sessions"], json!([]));
    assert_eq!(door.code(door.ask("GET", "/v1/sessions/mine").bearer_auth(&ours)).await, "200 -");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_asks_no_more_often_than_it_may() {
    let ground = Ground::memory();
    let (_, slow) = key(&ground, NewKey { requests_per_minute: Some(2), ..NewKey::default() }).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    let ask = || door.ask("GET", "/v1/prompts").bearer_auth(&slow).send();
    assert_eq!(ask().await.unwrap().status(), 200);
    assert_eq!(ask().await.unwrap().status(), 200);
    let refused = ask().await.unwrap();
    assert_eq!(refused.status(), 429);
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert!(refused.text().await.unwrap().contains("rate_limited"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_takes_a_place_until_it_is_over() {
    let ground = Ground::memory();
    let (_, narrow) = key(&ground, NewKey { concurrent: Some(1), ..NewKey::default() }).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    let new = door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"}));
    assert_eq!(door.code(new.bearer_auth(&narrow)).await, "201 -");
    let stream = door.ask("GET", "/v1/sessions/demo/events").bearer_auth(&narrow).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(door.code(door.ask("GET", "/v1/prompts").bearer_auth(&narrow)).await, "429 rate_limited");
    drop(stream);
    // The server hears of it when it next looks at the connection.
    for _ in 0..1200 {
        if door.code(door.ask("GET", "/v1/prompts").bearer_auth(&narrow)).await == "200 -" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the place is never free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_opens_nothing_soon() {
    let ground = Ground::memory();
    let (id, token) = key(&ground, NewKey::default()).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    assert_eq!(door.code(door.ask("GET", "/v1/prompts").bearer_auth(&token)).await, "200 -");
    Keys::new(ground.store.clone(), ground.documents.clone())
        .revoke(&id, "test", SystemTime.now())
        .await
        .unwrap();
    for _ in 0..600 {
        // There is still a key, so no one is let in without one.
        if door.code(door.ask("GET", "/v1/prompts").bearer_auth(&token)).await == "401 unauthorized" {
            assert_eq!(door.code(door.ask("GET", "/v1/prompts")).await, "401 unauthorized");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it opens for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_open_streams_of_a_key_end_when_it_is_revoked_or_expires() {
    let ground = Ground::memory();
    let (id, revoked) = key(&ground, NewKey::default()).await;
    let soon = Timestamp(SystemTime.now().0 + 3000);
    let (_, expiring) = key(&ground, NewKey { expires: Some(soon), ..NewKey::default() }).await;
    let (_, valid) = key(&ground, NewKey::default()).await;
    let door = Door::open(&ground, Vec::new(), &[("server.heartbeat_seconds", "1")]).await;
    let new = door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"})).bearer_auth(&valid);
    assert_eq!(door.code(new).await, "201 -");
    let events = "/v1/sessions/demo/events";
    let mut streams = Vec::new();
    for token in [&revoked, &expiring, &valid] {
        streams.push(door.ask("GET", events).bearer_auth(token).send().await.unwrap());
    }
    let mut stays = streams.pop().unwrap();
    Keys::new(ground.store.clone(), ground.documents.clone())
        .revoke(&id, "test", SystemTime.now())
        .await
        .unwrap();
    for mut stream in streams {
        assert_eq!(stream.status(), 200);
        let ends = async { while stream.chunk().await.unwrap().is_some() {} };
        tokio::time::timeout(std::time::Duration::from_secs(60), ends).await.expect("the stream ends");
    }
    assert_eq!(door.code(door.ask("GET", events).bearer_auth(&revoked)).await, "401 unauthorized");
    // The others go on: what was sent meanwhile is read, and more comes.
    for _ in 0..8 {
        assert!(stays.chunk().await.unwrap().is_some());
    }
}

/// Changes what the store has of a key.
async fn tamper(ground: &Ground, id: &str, data: Option<&str>) {
    let key = DocumentKey::of_tenant(&Tenant::default(), "key", id);
    let changed = match data {
        None => ground.documents.delete(key).await,
        Some(data) => {
            let document = Document { key, at: SystemTime.now(), data: data.to_owned() };
            ground.documents.put(document).await
        }
    };
    changed.unwrap();
}

/// Asks for three seconds, longer than keys are remembered, and returns the different answers.
async fn answers(door: &Door, token: Option<&str>) -> Vec<String> {
    let mut all = std::collections::BTreeSet::new();
    for _ in 0..15 {
        let request = door.ask("GET", "/v1/sessions");
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        all.insert(door.code(request).await);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    all.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_keys_are_gone_lets_nobody_in() {
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let ground = Ground::memory();
        let (id, token) = key(&ground, NewKey { admin: true, ..NewKey::default() }).await;
        // Nothing was requested before the key is gone.
        let door = Door::open(&ground, Vec::new(), &[("server.listen", listen)]).await;
        tamper(&ground, &id, None).await;
        tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
        assert_eq!(answers(&door, None).await, ["401 unauthorized"], "{listen}");
        assert_eq!(answers(&door, Some(&token)).await, ["401 unauthorized"]);
        // A new one opens.
        let (_, token) = key(&ground, NewKey::default()).await;
        tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
        assert_eq!(answers(&door, Some(&token)).await, ["200 -"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_can_t_be_read_closes_the_server() {
    let ground = Ground::memory();
    let (id, token) = key(&ground, NewKey::default()).await;
    let (_, other) = key(&ground, NewKey::default()).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    assert_eq!(door.code(door.ask("GET", "/v1/sessions").bearer_auth(&token)).await, "200 -");
    tamper(&ground, &id, Some("{")).await;
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    assert_eq!(answers(&door, None).await, ["500 store_damaged"]);
    assert_eq!(answers(&door, Some(&token)).await, ["500 store_damaged"]);
    assert_eq!(refusal(&ground, &[]).await.code(), "store_damaged");
    assert_eq!(refusal(&ground, &[("server.listen", "0.0.0.0:0")]).await.code(), "store_damaged");
    // Who looks after it removes what can't be read, and the others open again.
    let removed = Keys::new(ground.store.clone(), ground.documents.clone())
        .revoke(&id, "test", SystemTime.now())
        .await
        .unwrap();
    assert!(removed.is_some());
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    assert_eq!(answers(&door, Some(&other)).await, ["200 -"]);
    assert_eq!(answers(&door, None).await, ["401 unauthorized"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_the_server_is_on_record() {
    let ground = Ground::memory();
    let (id, admin) = key(&ground, NewKey { admin: true, ..NewKey::default() }).await;
    let mut door = Door::open(&ground, Vec::new(), &[]).await;
    let newest = async || contexture_server::audit_log(&ground.store, None, 1).await.unwrap().remove(0);
    // The start is written beside what is served.
    while newest().await.act.act != "server.started" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let new = door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"})).bearer_auth(&admin);
    assert_eq!(door.code(new).await, "201 -");
    let delete = door.ask("DELETE", "/v1/sessions/demo").bearer_auth(&admin);
    assert_eq!(delete.send().await.unwrap().status(), 204);
    let log = document(door.ask("GET", "/v1/audit?limit=2").bearer_auth(&admin)).await;
    let act = |idx: usize| format!("{} {}", log["acts"][idx]["actor"], log["acts"][idx]["act"]);
    assert_eq!(act(0), format!(r#""key:{id}" "session.deleted""#));
    assert_eq!(act(1), r#""server" "server.started""#);
    let before = log["before"].as_u64().unwrap();
    let rest = document(door.ask("GET", &format!("/v1/audit?before={before}")).bearer_auth(&admin)).await;
    assert_eq!(
        (rest["acts"][0]["act"].as_str(), rest["acts"][0]["target"].as_str()),
        (Some("key.created"), Some(&*id))
    );
    assert!(rest["before"].is_null());
    door.stop();
    (&mut door.task).await.unwrap();
    assert_eq!(newest().await.act.act, "server.stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_of_a_tenant_sees_what_is_done_to_it_only() {
    let ground = Ground::memory();
    let admin = |tenant: &str| NewKey { admin: true, ..of_tenant(tenant) };
    let (id, ours) = key(&ground, admin("ours")).await;
    let (_, theirs) = key(&ground, admin("theirs")).await;
    let (_, all) = key(&ground, NewKey { admin: true, ..NewKey::default() }).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    for token in [&ours, &theirs] {
        let new = door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"})).bearer_auth(token);
        assert_eq!(door.code(new).await, "201 -");
        assert_eq!(
            door.ask("DELETE", "/v1/sessions/demo").bearer_auth(token).send().await.unwrap().status(),
            204
        );
    }
    let log = async |token: &str, query: &str| {
        document(door.ask("GET", &format!("/v1/audit{query}")).bearer_auth(token)).await
    };
    let seen = log(&ours, "").await;
    let acts: Vec<&str> =
        seen["acts"].as_array().unwrap().iter().map(|it| it["act"].as_str().unwrap()).collect();
    assert_eq!(acts, ["session.deleted", "key.created"]);
    assert!(!seen.to_string().contains("theirs"), "{seen}");
    let first = log(&ours, "?limit=1").await;
    assert_eq!(first["acts"][0]["actor"], format!("key:{id}"));
    let rest = log(&ours, &format!("?limit=1&before={}", first["before"])).await;
    assert_eq!(rest["acts"][0]["act"], "key.created");
    assert!(log(&all, "").await["acts"].as_array().unwrap().len() >= 6);
}
