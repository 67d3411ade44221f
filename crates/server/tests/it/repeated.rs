//! Requests that come again with their key while the first one runs, or to another thread than the first one ran on.

use std::time::Duration;

use contexture_message::Part;
use serde_json::{Value, json};

use crate::puppet::puppet;
use crate::resuming::{begin, instance, to_end};
use crate::scene::{Ground, Scene, json_of};

async fn complete(scene: &Scene, stream: bool) -> (u16, String) {
    complete_with(scene, stream, "k").await
}

/// Sends a chat completion with a key, and returns its status and text.
async fn complete_with(scene: &Scene, stream: bool, key: &str) -> (u16, String) {
    let body = json!({
        "model": "chat", "stream": stream, "messages": [{"role": "user", "content": "hi"}],
    });
    let request = scene.post("/v1/chat/completions", body);
    let request = request.header("x-contexture-session", "demo").header("idempotency-key", key);
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let chunks =
        text.lines().filter_map(|it| serde_json::from_str(it.strip_prefix("data: ").unwrap_or(it)).ok());
    let said = |it: Value| {
        let choice = &it["choices"][0];
        let text = choice["delta"]["content"].as_str().or(choice["message"]["content"].as_str());
        text.unwrap_or_default().to_owned()
    };
    (status, chunks.map(said).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_is_asked_for_again_gets_the_first_answer() {
    for is_first_streamed in [true, false] {
        let ground = Ground::memory();
        let (model, [voice]) = puppet();
        let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
        let requests = async {
            tokio::join!(
                complete(&one, is_first_streamed),
                complete(&one, true),
                complete(&two, true),
                complete(&two, false),
                async {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    complete(&one, true).await
                },
                async {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    complete(&two, true).await
                },
            )
        };
        let says = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            voice.say("Hello");
            tokio::time::sleep(Duration::from_millis(400)).await;
            voice.done(vec![Part::text("Hello there.")]);
        };
        let ((a, b, c, d, e, f), ()) = tokio::join!(requests, says);
        for answer in [a, b, c, d, e, f] {
            assert_eq!(answer, (200, "Hello there.".to_owned()));
        }
        let (_, session) = json_of(one.get("/v1/sessions/demo").send().await.unwrap()).await;
        assert_eq!(session["threads"].as_array().map(Vec::len), Some(1), "{session}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_question_with_another_key_is_another_request() {
    let ground = Ground::memory();
    let (model, [first, second, third]) = puppet();
    let scene = instance(&ground, &model).await;
    first.done(vec![Part::text("One.")]);
    second.done(vec![Part::text("Two.")]);
    third.done(vec![Part::text("Three.")]);
    for (key, text) in [("a", "One."), ("b", "Two."), ("c", "Three."), ("c", "Three.")] {
        assert_eq!(complete_with(&scene, false, key).await, (200, text.to_owned()), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_failed_fails_again() {
    let ground = Ground::memory();
    // Nothing runs twice, or it would say this.
    let (model, [voice, spare]) = puppet();
    spare.done(vec![Part::text("Again.")]);
    let scene = instance(&ground, &model).await;
    let stops = async {
        voice.say("Half of");
        // The turn may not have begun yet.
        while scene.post("/v1/sessions/demo/turns/t1/cancel", json!({})).send().await.unwrap().status() != 202
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (first, ()) = tokio::join!(complete(&scene, false), stops);
    let again = complete(&scene, false).await;
    assert_ne!(first.0, 200, "{first:?}");
    assert_ne!(again.0, 200, "{again:?}");
    assert_ne!(complete(&scene, true).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_whose_client_went_away_goes_on_only_with_a_key() {
    let ground = Ground::memory();
    let (model, [kept, stopped, next]) = puppet();
    let scene = instance(&ground, &model).await;
    let send = async |session: &str, header: (&str, &str)| {
        let body = json!({
            "model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}],
        });
        let request = scene.post("/v1/chat/completions", body).header("x-contexture-session", session);
        request.header(header.0, header.1).send().await.unwrap()
    };
    let (key, retry) = (("idempotency-key", "k"), ("x-stainless-retry-count", "1"));
    for (session, voice) in [("with-key", &kept), ("without", &stopped)] {
        let header = if session == "with-key" { key } else { ("x-stainless-retry-count", "0") };
        let (mut answer, ()) = tokio::join!(send(session, header), async { voice.say("Half") });
        assert!(answer.chunk().await.unwrap().is_some());
    }
    kept.done(vec![Part::text("Half and half.")]);
    next.done(vec![Part::text("Another.")]);
    let answer = send("with-key", key).await.text().await.unwrap();
    assert!(answer.contains("Half and half."), "{answer}");
    let answer = send("without", retry).await.text().await.unwrap();
    assert!(answer.contains("Another."), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ran_on_a_copy_is_told_from_there_again() {
    let ground = Ground::memory();
    let (model, [voice, of_copy]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut main = begin(&one, json!({"user": "What is on the main thread?"})).await;
    voice.say("Main");
    main.hear_of("Main").await;
    let forked = json!({"user": "And on the copy?", "policy": "fork"});
    let send = async |scene: &Scene, accept: &str, path: &str| {
        let request = scene.post(path, forked.clone()).header("idempotency-key", "f");
        request.header("accept", accept).send().await.unwrap()
    };
    of_copy.done(vec![Part::text("A copy.")]);
    let path = "/v1/sessions/demo/turns";
    let (_, first) = json_of(send(&one, "application/json", path).await).await;
    assert_ne!(first["thread"], "demo", "{first}");
    for scene in [&one, &two] {
        let (_, again) = json_of(send(scene, "application/json", path).await).await;
        assert_eq!((&again["thread"], &again["text"]), (&first["thread"], &first["text"]));
        let mut told = crate::scene::Listener::new(send(scene, "text/event-stream", path).await);
        let frames = to_end(&mut told, 1).await;
        assert!(frames.iter().all(|it| it.data["thread"] == first["thread"]), "{frames:?}");
        assert!(frames.iter().any(|it| it.data["text"] == "A copy."), "{frames:?}");
    }
    voice.done(vec![Part::text("Main.")]);
    to_end(&mut main, 1).await;
}
