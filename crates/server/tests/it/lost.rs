//! Instances that are lost, and files that change.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture::session_ports;
use contexture_message::{Answer, Delta, Message};
use contexture_model::{Scripted, Step};
use contexture_project::{Files, FilesError, InMemory, Project, ProjectError};
use contexture_session::{Begun, SessionConfig, SessionId, SessionStart, Sessions, TurnConfig};
use serde_json::json;

use crate::scene::{FILES, Ground, frames, json_of, resumes, saved, told};

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_a_lost_instance_is_interrupted_told_and_tried_again() {
    let ground = Ground::memory();
    // Short, but a busy machine is not taken for a lost one.
    let short = [("server.lease_seconds", "3")];
    let endless = Step::Pieces(vec![Delta::Text("Wait".into())], None);
    // Whatever runs on it stops with it, like in a process that is killed: nothing is given back.
    let process = tokio::runtime::Runtime::new().unwrap();
    let there = ground.clone();
    let one = process.spawn(async move { there.instance_with(vec![endless], &short).await }).await.unwrap();
    one.session("demo").await;
    let turn =
        one.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header("accept", "text/event-stream");
    let begun = frames(turn.send().await.unwrap(), 2).await;
    assert_eq!(told(&begun), "turn.start\ntext.delta Wait");
    saved(&ground, "demo", "Wait").await;
    process.shutdown_background();
    let two = ground.instance_with(vec![Step::Answer(Answer::text("Here."))], &short).await;
    let seen = frames(two.get("/v1/sessions/demo/events").send().await.unwrap(), 3).await;
    assert_eq!(told(&seen), "turn.start\ntext.delta Wait\nturn.end interrupted");
    let again = two.post("/v1/sessions/demo/turns/t1/retry", json!({})).send().await.unwrap();
    let (status, again) = json_of(again).await;
    assert_eq!((status, again["text"].as_str(), again["turn"].as_str()), (200, Some("Here."), Some("t2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_streamed_before_a_kill_is_kept_once() {
    for asks_again in [false, true] {
        let ground = Ground::memory();
        let short = [("server.lease_seconds", "2")];
        let pieces = ["Wait", " for", " me"].map(|it| Delta::Text(it.into())).into();
        let process = tokio::runtime::Runtime::new().unwrap();
        let there = ground.clone();
        let steps = vec![Step::Pieces(pieces, None)];
        let one = process.spawn(async move { there.instance_with(steps, &short).await }).await.unwrap();
        one.session("demo").await;
        let turn = one
            .post("/v1/sessions/demo/turns", json!({"user": "hi"}))
            .header("idempotency-key", "k")
            .header("accept", "text/event-stream");
        let mut heard = String::new();
        let mut answer = turn.send().await.unwrap();
        while !heard.contains(" me") {
            heard += std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap();
        }
        saved(&ground, "demo", "Wait for me").await;
        process.shutdown_background();
        let two = ground.instance_with(vec![Step::Answer(Answer::text("Here."))], &short).await;
        if asks_again {
            // It waits for the lost turn's lease, and closes that turn itself.
            let next = two.post("/v1/sessions/demo/turns", json!({"user": "and?"})).send().await.unwrap();
            assert_eq!(json_of(next).await.1["text"], "Here.");
        }
        let mut seen = two.get("/v1/sessions/demo/events").send().await.unwrap();
        let mut heard = String::new();
        while !heard.contains("interrupted") {
            let chunk = tokio::time::timeout(Duration::from_secs(60), seen.chunk()).await.unwrap();
            heard += std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap();
        }
        let items = two.get("/v1/sessions/demo/items?view=all").send().await.unwrap();
        let items = json_of(items).await.1["items"].as_array().unwrap().clone();
        let of_first = items.iter().filter(|it| it["turn"] == "t1");
        let kinds = of_first.clone().filter_map(|it| it["kind"].as_str());
        let kinds: Vec<&str> = kinds.filter(|it| *it != "application").collect();
        assert_eq!(kinds, ["turn_began", "user", "assistant", "turn_ended"], "asks again: {asks_again}");
        let said: Vec<&serde_json::Value> = of_first
            .filter(|it| it["kind"] == "assistant")
            .map(|it| &it["body"]["message"]["content"])
            .collect();
        assert!(said[0].to_string().contains("Wait for me"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_interrupts_what_does_not_end() {
    let ground = Ground::memory();
    let endless = Step::Pieces(vec![Delta::Text("Wait".into())], None);
    let scene = ground.instance(vec![endless]).await;
    scene.session("demo").await;
    let turn =
        scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).header("accept", "text/event-stream");
    let answer = turn.send().await.unwrap();
    // Stopping gives a turn little time: by then it has said something.
    frames(scene.get("/v1/sessions/demo/events").send().await.unwrap(), 2).await;
    let stopping = scene.server.clone();
    let (frames, ()) = tokio::join!(frames(answer, 100), async move { stopping.stop().await });
    assert_eq!(told(&frames), "turn.start\ntext.delta Wait\nerror\nturn.end interrupted");
    let refused = scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).send().await.unwrap();
    let (status, problem) = json_of(refused).await;
    assert_eq!((status, problem["code"].as_str()), (503, Some("shutting_down")));
}

/// Files that can be changed.
#[derive(Clone, Debug)]
struct Changing(Arc<Mutex<InMemory>>);

impl Changing {
    fn set(&self, prompt: &str) {
        let files = FILES.map(|(path, text)| match path {
            "prompts/chat.md" => (path, prompt),
            _ => (path, text),
        });
        *self.0.lock().unwrap() = InMemory::new(files);
    }
}

impl Files for Changing {
    fn list(&self) -> Result<Vec<String>, FilesError> {
        self.0.lock().unwrap().list()
    }

    fn read(&self, path: &str) -> Result<String, FilesError> {
        self.0.lock().unwrap().read(path)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_prompts_are_loaded_and_broken_ones_keep_their_last_good_version() {
    let files = Changing(Arc::new(Mutex::new(InMemory::new(FILES))));
    let overrides = vec![("server.reload_seconds".into(), "1".into())];
    let project = Project::load(Arc::new(files.clone()), |_| Ok::<_, ProjectError>(overrides)).unwrap();
    let model = Scripted::always(Answer::text("Yes."));
    let agent = Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())));
    let scene = Ground::memory().instance_of(project, agent).await;
    let resolved = async || {
        let answer = scene.post("/v1/prompts/chat/resolve", json!({"user": "hi"})).send().await.unwrap();
        json_of(answer).await.1["request"]["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
    };
    let until = async |text: &str| {
        for _ in 0..600 {
            if resolved().await == text {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the prompt is not loaded");
    };
    assert_eq!(resolved().await, "You are helpful.");
    files.set("---\nmodel: openai/gpt-5-mini\n---\nYou are brief.\n");
    until("You are brief.").await;
    files.set("---\nmodell: x\n---\nYou are broken.\n");
    for _ in 0..600 {
        let (_, list) = json_of(scene.get("/v1/prompts").send().await.unwrap()).await;
        if list["prompts"][0]["faults"][0]["code"] == "unknown_field" {
            assert_eq!(resolved().await, "You are brief.");
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the fault is not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asked_hears_why_a_turn_was_stopped() {
    let endless = || Step::Pieces(vec![Delta::Text("Wait".into())], None);
    let late = [("server.turn_timeout_seconds", "3")];
    let scene = Ground::memory().instance_with(vec![endless(), endless()], &late).await;
    scene.session("demo").await;
    let turn = || scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).send();
    let (status, problem) = json_of(turn().await.unwrap()).await;
    assert_eq!(
        (status, problem["code"].as_str(), problem["turn"].as_str()),
        (504, Some("turn_timeout"), Some("t1"))
    );

    let scene = Ground::memory().instance(vec![endless()]).await;
    scene.session("demo").await;
    let cancel = || scene.post("/v1/sessions/demo/turns/t1/cancel", json!({})).send();
    let turn = || scene.post("/v1/sessions/demo/turns", json!({"user": "hi"})).send();
    let (answer, ()) = tokio::join!(turn(), async {
        while cancel().await.unwrap().status() != 202 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let (status, problem) = json_of(answer.unwrap()).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_instance_wrote_is_told() {
    let ground = Ground::memory();
    let sessions = Sessions::new(ground.store.clone(), session_ports(None), SessionConfig::default());
    let id = SessionId::parse("demo").unwrap();
    let session = sessions.create(SessionStart { id: Some(id.clone()), label: None }).await.unwrap();
    let items = vec![Message::user("hi").into()];
    let begun = session.main().begin(TurnConfig { items, ..TurnConfig::default() }).await.unwrap();
    let Begun::Running(turn) = begun else { panic!("nobody had the turn before") };
    turn.complete(vec![Message::assistant("Hello there.").into()]).await.unwrap();
    let scene = ground.instance_with(Vec::new(), &[("server.lease_seconds", "1")]).await;
    let path = "/v1/sessions/demo/events";
    let seen = frames(scene.get(path).send().await.unwrap(), 3).await;
    assert_eq!(told(&seen), "turn.start\ntext.delta Hello there.\nturn.end completed");
    resumes(&scene, path, &seen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_tells_its_own_turn_and_nothing_of_the_next() {
    let ground = Ground::memory();
    let scene =
        ground.instance(vec![Step::Answer(Answer::text("One.")), Step::Answer(Answer::text("Two."))]).await;
    scene.session("demo").await;
    let turn = async |key: &str| {
        let turn = scene.post("/v1/sessions/demo/turns", json!({"user": key})).header("idempotency-key", key);
        turn.send().await.unwrap()
    };
    assert_eq!(json_of(turn("first").await).await.1["turn"], "t1");
    assert_eq!(json_of(turn("second").await).await.1["turn"], "t2");
    let again = scene.post("/v1/sessions/demo/turns", json!({"user": "first"}));
    let again = again.header("idempotency-key", "first").header("accept", "text/event-stream");
    let seen = told(&frames(again.send().await.unwrap(), 100).await);
    assert_eq!(seen, "turn.start\ntext.delta One.\ncontext_usage\nturn.end completed");
}
