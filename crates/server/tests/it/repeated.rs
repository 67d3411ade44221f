//! Requests that come again with their key while the first one runs, or to another thread than the first one ran on.

use std::time::Duration;

use contexture_message::{Answer, Delta, Part, ToolCall};
use contexture_model::Step;
use serde_json::{Value, json};

use crate::puppet::{Voice, puppet};
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

/// Runs a call of the client's tool up to its results; the key is `first`.
async fn until_results(scene: &Scene, voice: &Voice) -> Value {
    let call = ToolCall { id: "c1".to_owned(), name: "see".to_owned(), arguments: json!({}) };
    voice.done(vec![Part::ToolCall(call)]);
    let tool = json!({"type": "function", "function": {"name": "see", "parameters": {"type": "object"}}});
    let mut body = json!({
        "model": "chat", "tools": [tool], "messages": [{"role": "user", "content": "Look."}],
    });
    let (status, answer) = chat(scene, &body, Some("first")).await;
    assert_eq!(status, 200, "{answer}");
    let said = answer["choices"][0]["message"].clone();
    let results = [said, json!({"role": "tool", "tool_call_id": "c1", "content": "a hill"})];
    body["messages"].as_array_mut().unwrap().extend(results);
    body
}

async fn chat(scene: &Scene, body: &Value, key: Option<&str>) -> (u16, Value) {
    let request = scene.post("/v1/chat/completions", body.clone()).header("x-contexture-session", "demo");
    let request = key.into_iter().fold(request, |it, key| it.header("idempotency-key", key));
    json_of(request.send().await.unwrap()).await
}

/// Returns what each thread says, and the number of its turns.
async fn threads(scene: &Scene) -> Vec<(u64, String)> {
    let (_, session) = json_of(scene.get("/v1/sessions/demo").send().await.unwrap()).await;
    let mut all = Vec::new();
    for thread in session["threads"].as_array().unwrap() {
        let path = format!("/v1/sessions/demo/items?view=history&thread={}", thread["id"].as_str().unwrap());
        let (_, items) = json_of(scene.get(&path).send().await.unwrap()).await;
        let messages = items["items"].as_array().unwrap().iter().flat_map(|it| it["messages"].as_array());
        let texts: Vec<&str> = messages.flatten().filter_map(|it| it["content"].as_str()).collect();
        all.push((thread["turns"].as_u64().unwrap(), texts.join(" ")));
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_come_again_while_their_turn_runs_never_run_a_turn_of_nothing() {
    let ground = Ground::memory();
    let (model, [call, answer, branch]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    let body = until_results(&one, &call).await;
    branch.done(vec![Part::text("From a branch.")]);
    let second = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let ends = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            answer.done(vec![Part::text("A hill.")]);
        };
        tokio::join!(chat(&two, &body, None), ends).0
    };
    let (first, second) = tokio::join!(chat(&one, &body, None), second);
    assert_eq!((first.0, second.0), (200, 200), "{first:?} {second:?}");
    assert_eq!(second.1["choices"][0]["message"]["content"], "From a branch.");
    let said = threads(&one).await;
    assert_eq!(said, [(1, "Look. A hill.".to_owned()), (1, "Look. From a branch.".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_with_a_key_that_come_twice_at_once_have_one_answer() {
    let ground = Ground::memory();
    let (model, [call, answer]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    let body = until_results(&one, &call).await;
    answer.done(vec![Part::text("A hill.")]);
    let key = Some("r");
    let all = tokio::join!(chat(&one, &body, key), chat(&two, &body, key), chat(&one, &body, key));
    for (status, answer) in [all.0, all.1, all.2] {
        assert_eq!((status, answer["choices"][0]["message"]["content"].as_str()), (200, Some("A hill.")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_question_twice_at_once_is_never_twice_on_one_thread() {
    let ground = Ground::memory();
    let (model, [first, second]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    first.done(vec![Part::text("One.")]);
    second.done(vec![Part::text("Two.")]);
    let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
    let (a, b) = tokio::join!(chat(&one, &body, None), chat(&two, &body, None));
    assert_eq!((a.0, b.0), (200, 200), "{a:?} {b:?}");
    assert_eq!(threads(&one).await, [(1, "hi One.".to_owned()), (1, "hi Two.".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_made_once_for_a_key() {
    let ground = Ground::memory();
    let (model, [voice, of_copy]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut main = begin(&one, json!({"user": "What is on the main thread?"})).await;
    of_copy.done(vec![Part::text("A copy.")]);
    let send = async |scene: &Scene| {
        let request = scene.post("/v1/sessions/demo/turns", json!({"user": "hi", "policy": "fork"}));
        json_of(request.header("idempotency-key", "f").send().await.unwrap()).await
    };
    let all = tokio::join!(send(&one), send(&two), send(&one), send(&two));
    let answers = [all.0, all.1, all.2, all.3];
    for (status, answer) in &answers {
        assert_eq!((*status, answer["text"].as_str()), (200, Some("A copy.")), "{answer}");
        assert_eq!(answer["thread"], answers[0].1["thread"]);
    }
    voice.done(vec![Part::text("Main.")]);
    to_end(&mut main, 1).await;
    assert_eq!(threads(&one).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_turn_adds_no_messages() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let scene = instance(&ground, &model).await;
    scene.session("demo").await;
    voice.done(vec![Part::text("Hello.")]);
    let key = ("idempotency-key", "k");
    let turn = scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header(key.0, key.1);
    assert_eq!(turn.send().await.unwrap().status(), 200);
    let messages = json!({"messages": [{"role": "user", "content": "By the way."}]});
    let add = scene.post("/v1/threads/demo/messages", messages).header(key.0, key.1);
    let (status, problem) = json_of(add.send().await.unwrap()).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("idempotency_key_used")), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_result_leaves_nothing() {
    let ground = Ground::memory();
    let (model, [first, second]) = puppet();
    let scene = instance(&ground, &model).await;
    let mut messages = vec![json!({"role": "user", "content": "hi"})];
    for (voice, text) in [(first, "One."), (second, "Two.")] {
        voice.done(vec![Part::text(text)]);
        let body = json!({"model": "chat", "messages": messages});
        assert_eq!(chat(&scene, &body, None).await.0, 200);
        messages.push(json!({"role": "assistant", "content": text}));
        messages.push(json!({"role": "user", "content": "and then?"}));
    }
    let forged = json!({"role": "tool", "tool_call_id": "no", "content": "x"});
    for n_known in [2, 4] {
        let known = messages[..n_known].iter().chain([&forged]).collect::<Vec<_>>();
        let (status, answer) = chat(&scene, &json!({"model": "chat", "messages": known}), None).await;
        let code = &answer["error"]["code"];
        assert_eq!((status, code.as_str()), (409, Some("tool_result_unexpected")), "{answer}");
        assert_eq!(threads(&scene).await.len(), 1, "{n_known}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_words_with_a_key_run_once() {
    let ground = Ground::memory();
    let (model, [call, answer, spare]) = puppet();
    let scene = instance(&ground, &model).await;
    let mut body = until_results(&scene, &call).await;
    body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "And a lake?"}));
    answer.done(vec![Part::text("No lake.")]);
    spare.done(vec![Part::text("It ran again.")]);
    for _ in 0..2 {
        let (status, answer) = chat(&scene, &body, Some("k")).await;
        assert_eq!((status, answer["choices"][0]["message"]["content"].as_str()), (200, Some("No lake.")));
    }
    // The first request still has its own answer, although its turn was left.
    body["messages"].as_array_mut().unwrap().truncate(1);
    let (_, first) = chat(&scene, &body, Some("first")).await;
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls", "{first}");
    assert_eq!(threads(&scene).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_request_with_a_key_that_comes_twice_at_once_branches_once() {
    let ground = Ground::memory();
    let (model, [first, second, edited]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    let mut messages = vec![json!({"role": "user", "content": "hi"})];
    for (voice, text) in [(first, "One."), (second, "Two.")] {
        voice.done(vec![Part::text(text)]);
        assert_eq!(chat(&one, &json!({"model": "chat", "messages": messages}), None).await.0, 200);
        messages.push(json!({"role": "assistant", "content": text}));
        messages.push(json!({"role": "user", "content": "and then?"}));
    }
    edited.done(vec![Part::text("Edited.")]);
    messages.truncate(2);
    messages.push(json!({"role": "user", "content": "Or else?"}));
    let body = json!({"model": "chat", "messages": messages});
    let (a, b) = tokio::join!(chat(&one, &body, Some("e")), chat(&two, &body, Some("e")));
    for (status, answer) in [a, b] {
        assert_eq!((status, answer["choices"][0]["message"]["content"].as_str()), (200, Some("Edited.")));
    }
    assert_eq!(threads(&one).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_comes_twice_at_once_is_stored_once() {
    let ground = Ground::memory();
    let (model, [first, second]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    first.done(vec![Part::text("One.")]);
    second.done(vec![Part::text("Two.")]);
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "and then?"},
    ]);
    let body = json!({"model": "chat", "messages": messages});
    let (a, b) = tokio::join!(chat(&one, &body, None), chat(&two, &body, None));
    assert_eq!((a.0, b.0), (200, 200), "{a:?} {b:?}");
    let said: Vec<String> = threads(&one).await.into_iter().map(|it| it.1).collect();
    assert_eq!(said, ["hi Hello. and then? One.", "hi Hello. and then? Two."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_does_not_wait_for_a_turn_of_a_deleted_thread() {
    let ground = Ground::memory();
    let answer = |text: &str| Step::Answer(Answer::text(text));
    let endless = Step::Pieces(vec![Delta::Text("Wait".into())], None);
    let steps = vec![answer("One."), answer("Two."), endless];
    let scene = ground.instance_with(steps, &[("server.heartbeat_seconds", "1")]).await;
    let user = |text: &str| json!({"role": "user", "content": text});
    let mut messages = vec![user("hi")];
    for text in ["One.", "Two."] {
        assert_eq!(chat(&scene, &json!({"model": "chat", "messages": messages}), None).await.0, 200);
        messages.extend([json!({"role": "assistant", "content": text}), user("and then?")]);
    }
    messages.truncate(2);
    messages.push(user("Or else?"));
    let body = json!({"model": "chat", "messages": messages});
    let late = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        chat(&scene, &body, Some("k")).await
    };
    let deletes = async {
        tokio::time::sleep(Duration::from_millis(1000)).await;
        let (_, session) = json_of(scene.get("/v1/sessions/demo").send().await.unwrap()).await;
        let ids = session["threads"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap());
        let branch = ids.into_iter().find(|it| *it != "demo").unwrap().replace('/', "%2F");
        scene.client.delete(format!("{}/v1/threads/{branch}", scene.url)).send().await.unwrap().status()
    };
    let all = async { tokio::join!(chat(&scene, &body, Some("k")), late, deletes) };
    let all = tokio::time::timeout(Duration::from_secs(60), all).await.expect("nobody waits for ever");
    assert_eq!(all.2, 204);
    assert_ne!(all.0.0, 200, "{:?}", all.0);
}
