//! Flows over HTTP: runs are started, followed, answered and stopped, on any instance.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use contexture::SystemTime;
use contexture_history::Timestamp;
use contexture_message::{Answer, Delta};
use contexture_model::{ModelError, ModelErrorKind};
use contexture_model::{Scripted, Step};
use contexture_project::{InMemory, Project, ProjectError};
use contexture_session::Time;
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::door::{Door, key, of_tenant};
use crate::scene::{FILES, Frame, Ground, Listener, Scene, answering, frames, json_of, resumes, saved, told};

/// A call of a model that says something and never ends.
fn endless() -> Step {
    Step::Pieces(vec![Delta::Text("Wait".into())], None)
}

fn answer(text: &str) -> Step {
    Step::Answer(Answer::text(text))
}

/// What an instance is told so that others notice soon that it is gone, and never while it is only slow.
const SHORT: [(&str, &str); 1] = [("server.lease_seconds", "3")];

/// Starts a run and returns its document.
async fn started(scene: &Scene, flow: &str, body: Value) -> Value {
    let answer = scene.post(&format!("/v1/flows/{flow}/runs"), body).send().await.unwrap();
    let location = answer.headers().get("location").map(|it| it.to_str().unwrap().to_owned());
    let (status, run) = json_of(answer).await;
    assert_eq!(status, 201, "{run}");
    assert_eq!(location, Some(format!("/v1/runs/{}", run["run"].as_str().unwrap())));
    run
}

async fn show(scene: &Scene, run: &str) -> Value {
    json_of(scene.get(&format!("/v1/runs/{run}")).send().await.unwrap()).await.1
}

/// Shows a run when it has that status.
async fn until(scene: &Scene, run: &str, status: &str) -> Value {
    for _ in 0..1200 {
        let shown = show(scene, run).await;
        if shown["status"] == status {
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("run `{run}` never is {status}: {}", show(scene, run).await)
}

async fn say(scene: &Scene, run: &str, wait: &str, value: Value) -> (u16, Value) {
    let path = format!("/v1/runs/{run}/waits/{wait}");
    json_of(scene.post(&path, json!({"value": value})).send().await.unwrap()).await
}

async fn follow(scene: &Scene, run: &str, after: &str) -> Response {
    let get = scene.get(&format!("/v1/runs/{run}/events")).header("accept", "text/event-stream");
    get.header("last-event-id", after).send().await.unwrap()
}

async fn delete(client: &Client, url: &str, run: &str) -> (u16, Value) {
    json_of(client.delete(format!("{url}/v1/runs/{run}")).send().await.unwrap()).await
}

/// Returns what the frames say, one line each; pieces of text are left out.
fn story(frames: &[Frame]) -> String {
    let line = |it: &Frame| {
        let what = [&it.data["node"], &it.data["value"], &it.data["status"], &it.data["waits"][0]];
        let what = what.map(|it| it.as_str().unwrap_or_default()).join(" ");
        let words = what.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{} {words}", it.event).trim_end().to_owned()
    };
    let told = frames.iter().filter(|it| it.event != "node.event");
    told.map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_answered_once_however_many_answer() {
    let scene = answering(&["Hello.", "Bye."]).await;
    let start = scene.post("/v1/flows/talk/runs", json!({"session": "demo"}));
    let first = frames(start.header("accept", "text/event-stream").send().await.unwrap(), 100).await;
    insta::assert_snapshot!(story(&first), @r"
    run.start
    node.start start
    node.end start
    node.start ask
    node.wait ask
    run.wait ask.1
    ");
    let run = first[0].data["run"].as_str().unwrap().to_owned();
    let shown = show(&scene, &run).await;
    assert_eq!((shown["status"].as_str(), shown["session"].as_str()), (Some("waiting"), Some("demo")));
    assert_eq!(shown["waits"][0]["message"], "You?");
    assert_eq!(shown["waits"][0]["schema"], json!({"type": "string"}));

    let eight = (0..8).map(|it| say(&scene, &run, "ask.1", json!(format!("hi {it}"))));
    let mut codes: Vec<_> = futures::future::join_all(eight).await;
    codes.sort_by_key(|it| it.0);
    let statuses: Vec<u16> = codes.iter().map(|it| it.0).collect();
    assert_eq!(statuses, [202, 409, 409, 409, 409, 409, 409, 409]);
    assert!(codes[1..].iter().all(|it| it.1["code"] == "wait_answered"), "{codes:?}");

    let mut shown = until(&scene, &run, "waiting").await;
    while shown["waits"][0]["id"] != "ask.2" {
        shown = show(&scene, &run).await;
    }
    let (status, wrong) = say(&scene, &run, "ask.2", json!(7)).await;
    assert_eq!((status, wrong["code"].as_str()), (422, Some("answer_invalid")));
    let (status, none) = say(&scene, &run, "ask.9", json!("x")).await;
    assert_eq!((status, none["code"].as_str()), (404, Some("not_found")));

    let (status, _) = delete(&scene.client, &scene.url, &run).await;
    assert_eq!(status, 202);
    until(&scene, &run, "cancelled").await;
    let (status, over) = say(&scene, &run, "ask.2", json!("x")).await;
    assert_eq!((status, over["code"].as_str()), (409, Some("run_over")));
    assert_eq!(delete(&scene.client, &scene.url, &run).await.0, 200);
    let resumed = scene.post(&format!("/v1/runs/{run}/resume"), json!({})).send().await.unwrap();
    assert_eq!(resumed.status(), 200);

    let all = frames(follow(&scene, &run, "0").await, 1000).await;
    assert_eq!(all.iter().filter(|it| it.event == "node.answer").count(), 1);
    assert_eq!(all.last().map(|it| it.event.as_str()), Some("run.end"));
    resumes(&scene, &format!("/v1/runs/{run}/events"), &all).await;
    let end = all.last().and_then(|it| it.id.as_deref()).unwrap();
    assert_eq!(follow(&scene, &run, end).await.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_waited_for_and_read_page_by_page() {
    let scene = answering(&["Hello.", "Again."]).await;
    let run = started(&scene, "once", json!({"input": {"text": "hi"}, "wait": true})).await;
    assert_eq!(
        (run["status"].as_str(), run["outputs"]["text"].as_str()),
        (Some("completed"), Some("Hello."))
    );
    let id = run["run"].as_str().unwrap();
    let page = async |after: u64, limit: usize| {
        let path = format!("/v1/runs/{id}/events?after={after}&limit={limit}");
        json_of(scene.get(&path).send().await.unwrap()).await.1
    };
    let (mut after, mut types) = (0, Vec::new());
    loop {
        let page = page(after, 2).await;
        types.extend(page["events"].as_array().unwrap().iter().map(|it| it["data"]["type"].clone()));
        match page["after"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!((types.first(), types.last()), (Some(&json!("run.start")), Some(&json!("run.end"))));
    let frames = frames(follow(&scene, id, "0").await, 1000).await;
    let own = frames.iter().filter(|it| it.event != "node.event");
    assert_eq!(types, own.map(|it| json!(it.event)).collect::<Vec<_>>());

    let metrics = scene.get("/metrics").send().await.unwrap().text().await.unwrap();
    for line in [
        "contexture_flow_runs_started_total 1",
        r#"contexture_flow_runs_ended_total{status="completed"} 1"#,
        r#"contexture_flow_nodes_total{kind="llm_request",outcome="done"} 1"#,
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_are_listed_shown_and_drawn() {
    let scene = answering(&[]).await;
    let get = async |path: &str| json_of(scene.get(path).send().await.unwrap()).await;
    let (_, list) = get("/v1/flows").await;
    let ids: Vec<&str> =
        list["flows"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["once", "talk"]);
    let (_, once) = get("/v1/flows/once").await;
    assert_eq!(once["inputs"], json!({"text": {"type": "string"}}));
    assert_eq!(once["nodes"]["answer"]["type"], "llm_request");
    assert_eq!(once["edges"], json!(["start.text -> answer.user"]));
    assert_eq!(once["outputs"], json!({"text": "answer.text"}));
    assert_eq!(once["fingerprint"], list["flows"][0]["fingerprint"]);
    let drawn = get("/v1/flows/once/graph").await.1;
    assert!(drawn.as_str().unwrap().starts_with("flowchart"), "{drawn}");
    let drawn = scene.get("/v1/flows/once/graph?format=svg").send().await.unwrap();
    assert_eq!(drawn.headers()["content-type"], "image/svg+xml");
    assert_eq!(get("/v1/flows/once/graph?format=png").await.0, 400);
    assert_eq!(get("/v1/flows/none").await.1["code"], "unknown_flow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_while_its_model_is_silent() {
    let scene = Ground::memory().instance(vec![endless()]).await;
    let run = started(&scene, "once", json!({"session": "demo", "input": {"text": "hi"}})).await;
    let run = run["run"].as_str().unwrap();
    let told = follow(&scene, run, "0").await;
    says(&scene, run).await;
    assert_eq!(delete(&scene.client, &scene.url, run).await.0, 202);
    let told = frames(told, 1000).await;
    assert!(story(&told).ends_with("run.end cancelled"), "{}", story(&told));
    // The session is free: another turn goes on behind what was said.
    assert_eq!(show(&scene, run).await["status"], "cancelled");
}

/// Waits until the model of a run says something.
async fn says(scene: &Scene, run: &str) {
    let heard = Listener::new(follow(scene, run, "0").await).hear_of("text.delta").await;
    assert_eq!(heard.last().map(|it| it.event.as_str()), Some("node.event"));
}

async fn show_events(scene: &Scene, run: &str) -> String {
    scene.get(&format!("/v1/runs/{run}/events")).send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begun_here_is_answered_there_and_followed_here() {
    let ground = Ground::memory();
    let one = ground.instance(vec![answer("From one.")]).await;
    let two = ground.instance(vec![answer("From two.")]).await;
    let run = started(&one, "talk", json!({"session": "demo", "wait": true})).await;
    assert_eq!(run["status"], "waiting");
    let run = run["run"].as_str().unwrap();
    let told = follow(&one, run, "0").await;
    assert_eq!(say(&two, run, "ask.1", json!("hi")).await.0, 202);
    let heard = async {
        let mut shown = show(&one, run).await;
        while shown["waits"][0]["id"] != "ask.2" {
            tokio::time::sleep(Duration::from_millis(20)).await;
            shown = show(&one, run).await;
        }
        delete(&one.client, &one.url, run).await
    };
    let (told, _) = tokio::join!(frames(told, 1000), heard);
    resumes(&two, &format!("/v1/runs/{run}/events"), &told).await;
    assert_eq!(told.iter().filter(|it| it.event == "node.answer").count(), 1);
    assert!(story(&told).ends_with("run.end cancelled"), "{}", story(&told));
    assert_eq!(frames(follow(&two, run, "0").await, 1000).await, told);
}

#[test]
fn a_run_whose_instance_is_killed_goes_on_on_another_one() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
    let (here, there) = (runtime().unwrap(), runtime().unwrap());
    let ground = Ground::memory();
    let run = there.block_on(async {
        let doomed = ground.instance_with(vec![endless()], &SHORT).await;
        let run = started(&doomed, "once", json!({"session": "demo", "input": {"text": "hi"}})).await;
        let run = run["run"].as_str().unwrap().to_owned();
        says(&doomed, &run).await;
        saved(&ground, "demo", "Wait").await;
        // Nothing of it is stopped in good order.
        std::mem::forget(doomed);
        run
    });
    there.shutdown_background();
    here.block_on(async {
        let scene = ground.instance_with(vec![answer("Here.")], &SHORT).await;
        let shown = until(&scene, &run, "completed").await;
        assert_eq!(shown["outputs"]["text"], "Here.");
        let told = frames(follow(&scene, &run, "0").await, 1000).await;
        resumes(&scene, &format!("/v1/runs/{run}/events"), &told).await;
        let story = story(&told);
        assert!(story.contains("run.resume") && story.contains("node.repeat answer"), "{story}");
        let session = shown["session"].as_str().unwrap();
        // The run's next driver continues the turn as it was: it has one end, and what was not whole is not kept.
        let heard = told_to(&scene, session, 5).await;
        let again = "turn.start\ntext.delta Here.\ncontext_usage\nturn.end completed";
        assert_eq!(heard, format!("turn.start\n{again}"));
    });
}

/// Returns what those hear who listen to a session.
async fn told_to(scene: &Scene, session: &str, n_events: usize) -> String {
    let events = scene.get(&format!("/v1/sessions/{session}/events")).header("accept", "text/event-stream");
    told(&frames(events.send().await.unwrap(), n_events).await)
}

/// Who listens to a session hears of all its turns, also of those that flows run.
#[tokio::test(flavor = "multi_thread")]
async fn turns_of_runs_are_told_to_the_session() {
    let broken = ModelError::new(ModelErrorKind::Refused, "no");
    let pieces = Step::Pieces(vec![Delta::Text("Well".into())], Some(broken));
    let scene = Ground::memory().instance(vec![answer("Yes."), pieces, answer("Again.")]).await;
    let once = |text: &str| json!({"session": "demo", "input": {"text": text}, "wait": true});
    assert_eq!(started(&scene, "once", once("hi")).await["status"], "completed");
    assert_eq!(started(&scene, "once", once("and?")).await["status"], "failed");
    let turn = scene.post("/v1/sessions/demo/turns", json!({"user": "well?"})).send().await.unwrap();
    assert_eq!(json_of(turn).await.1["text"], "Again.");
    insta::assert_snapshot!(told_to(&scene, "demo", 12).await, @r"
    turn.start
    text.delta Yes.
    context_usage
    turn.end completed
    turn.start
    text.delta Well
    error
    turn.end failed
    turn.start
    text.delta Again.
    context_usage
    turn.end completed
    ");
    let events = scene.get("/v1/sessions/demo/events").header("accept", "text/event-stream");
    let events = frames(events.send().await.unwrap(), 5).await;
    let turns: Vec<&Value> = events.iter().map(|it| &it.data["turn"]).collect();
    assert_eq!(turns, ["t1", "t1", "t1", "t1", "t2"]);
    assert!(events.iter().all(|it| it.data["thread"] == "demo"));
}

/// A clock that is put forward, as if the machine had slept.
#[derive(Debug, Default)]
struct Jumping(AtomicI64);

impl Time for Jumping {
    fn now(&self) -> Timestamp {
        Timestamp(SystemTime.now().0 + self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemTime.sleep(duration)
    }
}

/// Signs of life that come too late, because the machine is busy, are no reason to take a run away from oneself.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_does_not_take_over_its_own_runs() {
    let time = Arc::new(Jumping::default());
    let overrides = vec![("server.lease_seconds".into(), "1".into())];
    let files = Arc::new(InMemory::new(FILES));
    let project = Project::load(files, |_| Ok::<_, ProjectError>(overrides)).unwrap();
    let model = Scripted::new(vec![endless(), answer("Again.")]);
    let agent = Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())));
    let scene = Ground::memory().instance_at(project, agent, time.clone()).await;
    let run = started(&scene, "once", json!({"input": {"text": "hi"}})).await;
    let run = run["run"].as_str().unwrap();
    says(&scene, run).await;
    // Each time there is a moment in which the last sign of life is old; several of them meet the search for such runs.
    for _ in 0..20 {
        time.0.fetch_add(10_000, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(show(&scene, run).await["status"], "running");
    // The same at such a moment, for a request: the driver that is there hears of it.
    time.0.fetch_add(10_000, Ordering::Relaxed);
    delete(&scene.client, &scene.url, run).await;
    let story = story(&frames(follow(&scene, run, "0").await, 1000).await);
    assert!(!story.contains("run.resume") && story.ends_with("run.end cancelled"), "{story}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_leaves_its_runs_to_others() {
    let ground = Ground::memory();
    let one = ground.instance_with(vec![endless()], &SHORT).await;
    let run = started(&one, "once", json!({"input": {"text": "hi"}})).await;
    let run = run["run"].as_str().unwrap();
    says(&one, run).await;
    one.server.stop().await;
    let refused = one.post("/v1/flows/once/runs", json!({"input": {"text": "hi"}})).send().await.unwrap();
    assert_eq!(json_of(refused).await.1["code"], "shutting_down");
    assert_eq!(show(&one, run).await["status"], "running");
    drop(one);
    let two = ground.instance_with(vec![answer("Here.")], &SHORT).await;
    assert_eq!(until(&two, run, "completed").await["outputs"]["text"], "Here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_beyond_the_limit_come_when_there_is_a_place() {
    let steps = vec![endless(), answer("Two.")];
    let scene = Ground::memory().instance_with(steps, &[("server.max_flow_runs", "1")]).await;
    let one = started(&scene, "once", json!({"input": {"text": "hi"}})).await;
    let one = one["run"].as_str().unwrap();
    says(&scene, one).await;
    let two = started(&scene, "once", json!({"input": {"text": "hi"}})).await;
    let two = two["run"].as_str().unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!show_events(&scene, two).await.contains("node.start"));
    delete(&scene.client, &scene.url, one).await;
    assert_eq!(until(&scene, two, "completed").await["outputs"]["text"], "Two.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_again_gives_the_first_run() {
    let scene = answering(&["One.", "Two."]).await;
    let start = async |flow: &str| {
        let body =
            json!({"input": if flow == "once" { json!({"text": "hi"}) } else { json!({}) }, "wait": true});
        let post = scene.post(&format!("/v1/flows/{flow}/runs"), body).header("idempotency-key", "k");
        json_of(post.send().await.unwrap()).await
    };
    let (one, two) = tokio::join!(start("once"), start("once"));
    assert_eq!((one.0, &one.1["run"]), (201, &two.1["run"]));
    assert_eq!(start("once").await.1, one.1);
    let other = start("talk").await;
    assert_eq!((other.0, other.1["code"].as_str()), (409, Some("already_exists")));
    let list = json_of(scene.get("/v1/runs").send().await.unwrap()).await.1;
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_by_flow_status_and_session() {
    let scene = answering(&["One.", "Two.", "Three."]).await;
    for session in ["a", "b", "c"] {
        let body = json!({"session": session, "input": {"text": "hi"}, "wait": true});
        started(&scene, "once", body).await;
    }
    started(&scene, "talk", json!({"session": "b", "wait": true})).await;
    let list = async |query: &str| {
        let (status, list) = json_of(scene.get(&format!("/v1/runs{query}")).send().await.unwrap()).await;
        assert_eq!(status, 200, "{list}");
        let runs = list["runs"].as_array().unwrap().iter();
        let runs =
            runs.map(|it| format!("{} {}", it["session"].as_str().unwrap(), it["flow"].as_str().unwrap()));
        (runs.collect::<Vec<_>>(), list["after"].as_str().map(str::to_owned))
    };
    assert_eq!(list("?flow=once").await.0, ["a once", "b once", "c once"]);
    assert_eq!(list("?status=waiting").await.0, ["b talk"]);
    assert_eq!(list("?session=b&status=completed").await.0, ["b once"]);
    let (first, after) = list("?flow=once&limit=2").await;
    assert_eq!(first, ["a once", "b once"]);
    assert_eq!(
        list(&format!("?flow=once&limit=2&after={}", after.unwrap())).await,
        (vec!["c once".into()], None)
    );
    for wrong in ["?status=gone", "?limit=0", "?after=x", "?session=a%2Fb", "?x=1"] {
        let answer = scene.get(&format!("/v1/runs{wrong}")).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused() {
    let scene = answering(&[]).await;
    let code = async |flow: &str, body: Value| {
        let post = scene.post(&format!("/v1/flows/{flow}/runs"), body);
        let (status, problem) = json_of(post.send().await.unwrap()).await;
        format!("{status} {}", problem["code"].as_str().unwrap_or_default())
    };
    assert_eq!(code("none", json!({})).await, "404 unknown_flow");
    assert_eq!(code("once", json!({})).await, "422 input_invalid");
    assert_eq!(code("once", json!({"input": {"text": 7}})).await, "422 input_invalid");
    assert_eq!(code("once", json!({"input": []})).await, "422 input_invalid");
    assert_eq!(code("talk", json!({"session": "a/b"})).await, "400 id_invalid");
    assert_eq!(code("talk", json!({"sesion": "a"})).await, "400 body_invalid");
    let no_value = scene.post("/v1/runs/demo.7/waits/ask.1", json!({})).send().await.unwrap();
    assert_eq!(no_value.status(), 400);
    for run in ["demo", "..%2F..%2Fx.1", "demo.%00", "a%2Fb.1", ".", "x.a%20b"] {
        let answer = scene.get(&format!("/v1/runs/{run}")).send().await.unwrap();
        assert_eq!(json_of(answer).await.0 / 100, 4, "{run}");
    }
    for wait in ["%00", "a%0Ab", &"x".repeat(400), "..%2F..%2Fask.1"] {
        let post = scene.post(&format!("/v1/runs/demo.7/waits/{wait}"), json!({"value": 1}));
        assert_eq!(json_of(post.send().await.unwrap()).await.0 / 100, 4, "{wait}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_sees_nothing_of_a_run() {
    let ground = Ground::memory();
    let (_, mine) = key(&ground, of_tenant("mine")).await;
    let (_, theirs) = key(&ground, of_tenant("theirs")).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    let body = json!({"session": "demo", "wait": true});
    let start = door.ask("POST", "/v1/flows/talk/runs").bearer_auth(&mine).json(&body);
    let run = json_of(start.send().await.unwrap()).await.1["run"].as_str().unwrap().to_owned();
    let paths = [
        ("GET", String::new()),
        ("DELETE", String::new()),
        ("GET", "/events".to_owned()),
        ("POST", "/waits/ask.1".to_owned()),
        ("POST", "/resume".to_owned()),
    ];
    for (method, rest) in paths {
        let ask = || door.ask(method, &format!("/v1/runs/{run}{rest}")).json(&json!({"value": "x"}));
        assert_eq!(door.code(ask().bearer_auth(&theirs)).await, "404 not_found", "{method} {rest}");
        assert_eq!(door.code(ask()).await, "401 unauthorized", "{method} {rest}");
    }
    let list = async |key: &str| {
        let list = door.ask("GET", "/v1/runs?session=demo").bearer_auth(key).send().await.unwrap();
        json_of(list).await.1["runs"].as_array().unwrap().len()
    };
    assert_eq!((list(&theirs).await, list(&mine).await), (0, 1));
    let same = door.ask("POST", "/v1/flows/talk/runs").bearer_auth(&theirs).json(&body);
    let same = json_of(same.send().await.unwrap()).await.1;
    assert_ne!(same["run"], run.as_str(), "the same name of a session is another session");
    assert_eq!(door.code(door.ask("GET", &format!("/v1/runs/{run}")).bearer_auth(&mine)).await, "200 -");
}
