//! Sessions and turns.

use serde_json::json;

use crate::scene::{Ground, answering, json_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_kept() {
    let scene = answering(&["Hello.", "You said hi."]).await;
    scene.session("demo").await;
    assert_eq!(scene.turn("demo", "hi").await["text"], "Hello.");
    let second = scene.turn("demo", "what did I say?").await;
    assert_eq!(
        (second["text"].as_str(), second["turn"].as_str(), second["status"].as_str()),
        (Some("You said hi."), Some("t2"), Some("completed"))
    );
    let (_, items) = json_of(scene.get("/v1/sessions/demo/items?view=history").send().await.unwrap()).await;
    assert_eq!(items["items"].as_array().unwrap().len(), 2);
    let (_, shown) = json_of(scene.get("/v1/sessions/demo").send().await.unwrap()).await;
    assert_eq!(shown["turns"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_again_runs_nothing() {
    let scene = answering(&["Once.", "Twice."]).await;
    scene.session("demo").await;
    let send = async || {
        let turn =
            scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header("idempotency-key", "k1");
        json_of(turn.send().await.unwrap()).await.1
    };
    assert_eq!(send().await["text"], "Once.");
    let again = send().await;
    assert_eq!((again["text"].as_str(), again["ended"].as_str()), (Some("Once."), Some("replayed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_in_a_problem_document() {
    let scene = answering(&[]).await;
    scene.session("demo").await;
    let code = async |path: &str, body: serde_json::Value| {
        let (status, problem) = json_of(scene.post(path, body).send().await.unwrap()).await;
        format!(
            "{status} {} {}",
            problem["code"].as_str().unwrap_or("?"),
            problem["at"].as_str().unwrap_or("-")
        )
    };
    assert_eq!(code("/v1/sessions/none/turns", json!({"user": "hi"})).await, "404 not_found -");
    assert_eq!(code("/v1/sessions/demo/turns", json!({"usr": "hi"})).await, "400 body_invalid usr");
    assert_eq!(code("/v1/sessions/demo/turns", json!({"user": 7})).await, "422 message_invalid user");
    assert_eq!(code("/v1/sessions/demo/turns", json!({"prompt": "x"})).await, "404 unknown_prompt -");
    assert_eq!(code("/v1/sessions", json!({"id": "demo"})).await, "409 already_exists -");
    assert_eq!(code("/v1/sessions", json!({"id": "../x"})).await, "400 id_invalid -");
    assert_eq!(
        code("/v1/prompts/greet/resolve", json!({})).await,
        "422 template_error prompts/greet.md:10:9"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_has_the_reminders_and_the_budget_that_are_asked_for() {
    let scene = answering(&[]).await;
    let body = json!({"user": "hi", "reminders": ["Be brief."], "blocks": [{"name": "page", "body": "Cart"}], "input_budget": 3000});
    let (status, resolved) =
        json_of(scene.post("/v1/prompts/chat/resolve", body.clone()).send().await.unwrap()).await;
    assert_eq!(status, 200, "{resolved}");
    let parts = resolved["request"]["messages"][1]["content"].as_array().unwrap();
    let texts: Vec<&str> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(texts.len(), 3, "{resolved}");
    assert!(texts[1].contains("Cart") && texts[2].contains("Be brief."), "{texts:?}");
    let (_, explained) = json_of(scene.post("/v1/prompts/chat/inspect", body).send().await.unwrap()).await;
    assert_eq!(explained["budget"]["input_budget"], 3000, "{explained}");
    let small = json!({"user": "hi", "input_budget": 1});
    let (status, refused) =
        json_of(scene.post("/v1/prompts/chat/inspect", small).send().await.unwrap()).await;
    assert_eq!((status, &refused["code"]), (422, &json!("budget_exceeded")), "{refused}");
    let (status, refused) =
        json_of(scene.post("/v1/prompts/chat/inspect", json!({"budgte": 1})).send().await.unwrap()).await;
    assert_eq!(status, 400, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_that_do_not_exist_are_refused() {
    let scene = answering(&[]).await;
    scene.session("demo").await;
    let turn = json!({"prompt": "chat", "user": "hi", "skills": ["none"]});
    let (status, problem) = json_of(scene.post("/v1/sessions/demo/turns", turn).send().await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (422, &json!("unknown_entry")), "{problem}");
    let pass = json!({"user": "hi", "skills": ["none"]});
    let (status, problem) = json_of(scene.post("/v1/prompts/chat/resolve", pass).send().await.unwrap()).await;
    assert_eq!((status, &problem["at"]), (422, &json!("skills")), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_of_a_session_is_what_its_next_turn_sends() {
    let scene = answering(&["Hello.", "You said hi."]).await;
    scene.session("demo").await;
    scene.turn("demo", "hi").await;
    let image = json!({"type": "image", "media_type": "image/png", "data": "aGk="});
    let user = json!([{"type": "text", "text": "what did I say?"}, image]);
    let body = json!({"session": "demo", "user": user, "reminders": ["Be brief."]});
    let (status, resolved) =
        json_of(scene.post("/v1/prompts/chat/resolve", body.clone()).send().await.unwrap()).await;
    assert_eq!(status, 200, "{resolved}");
    let (_, explained) = json_of(scene.post("/v1/prompts/chat/inspect", body).send().await.unwrap()).await;
    assert_eq!(explained, resolved["explanation"]);
    let turn = json!({"prompt": "chat", "user": user, "reminders": ["Be brief."]});
    let (status, ran) = json_of(scene.post("/v1/sessions/demo/turns", turn).send().await.unwrap()).await;
    assert_eq!(status, 200, "{ran}");
    let (_, sent) = json_of(scene.get("/v1/passes/demo.2").send().await.unwrap()).await;
    assert_eq!(resolved["request"]["messages"], sent["request"]["messages"], "{sent}");
    let refused = async |body: serde_json::Value| {
        let (status, problem) =
            json_of(scene.post("/v1/prompts/chat/resolve", body).send().await.unwrap()).await;
        format!("{status} {}", problem["code"].as_str().unwrap_or("?"))
    };
    assert_eq!(refused(json!({"session": "none"})).await, "404 not_found");
    assert_eq!(refused(json!({"session": "../x"})).await, "400 id_invalid");
    assert_eq!(refused(json!({"session": "demo", "input_budget": 9})).await, "422 input_invalid");
    assert_eq!(refused(json!({"session": "demo", "thread": "other:x"})).await, "404 not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_listed_with_what_their_files_say_and_by_tag() {
    let files = [
        ("prompts/a.md", "---\ndescription: Sorts.\ntags: [mail]\noutput: {queue: string}\n---\nSort."),
        ("prompts/b.md", "Be kind."),
    ];
    let project = contexture_project::Project::from_files(std::sync::Arc::new(
        contexture_project::InMemory::new(files),
    ))
    .unwrap();
    let model = contexture_model::Scripted::new([]);
    let scene = Ground::memory()
        .instance_of(project, std::sync::Arc::new(move |_| Ok(contexture::agent(model.clone()))))
        .await;
    let (_, all) = json_of(scene.get("/v1/prompts").send().await.unwrap()).await;
    let first = &all["prompts"][0];
    assert_eq!((&first["description"], &first["tags"]), (&json!("Sorts."), &json!(["mail"])), "{all}");
    assert_eq!(all["prompts"].as_array().unwrap().len(), 2);
    let (_, tagged) = json_of(scene.get("/v1/prompts?tag=mail").send().await.unwrap()).await;
    assert_eq!(tagged["prompts"].as_array().unwrap().len(), 1, "{tagged}");
    assert_eq!(scene.get("/v1/prompts?tga=mail").send().await.unwrap().status(), 400);
}
