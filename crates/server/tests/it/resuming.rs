//! Coming back behind any id, at any moment: nothing is missed, and nothing is heard twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture::SystemTime;
use contexture_agent::tool;
use contexture_message::{Part, Thinking, ToolCall};
use contexture_project::{InMemory, Project};
use contexture_session::MemoryStore;
use contexture_session::conformance::Layered;
use serde_json::{Value, json};

use crate::door::{Door, key, of_tenant};
use crate::puppet::{Mood, Moody, Puppet, puppet};
use crate::scene::{FILES, Frame, Ground, Listener, Scene, answering, json_of, saved};

pub(crate) const EVENTS: &str = "/v1/sessions/demo/events";

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

/// Starts an instance whose model is a puppet.
pub(crate) async fn instance(ground: &Ground, model: &Puppet) -> Scene {
    let overrides = vec![("server.lease_seconds".to_owned(), "2".to_owned())];
    let files = Arc::new(InMemory::new(FILES));
    let project = Project::load(files, |_| Ok::<_, contexture_project::ProjectError>(overrides)).unwrap();
    let model = model.clone();
    let agent = Arc::new(move |_: &Project| {
        let look = tool("look", "Looks.", |_: Nothing| async { Ok("a tree") });
        Ok(contexture::agent(model.clone()).tool(look))
    });
    ground.instance_of(project, agent).await
}

fn moody() -> (Ground, Moody) {
    let (store, moody) = (Arc::new(MemoryStore::new(Arc::new(SystemTime))), Moody::new());
    (Ground::of(Layered { store, interference: moody.clone() }), moody)
}

/// Begins a turn whose events come to who asked.
pub(crate) async fn begin(scene: &Scene, body: Value) -> Listener {
    Listener::new(scene.post("/v1/sessions/demo/turns/stream", body).send().await.unwrap())
}

pub(crate) async fn follow(scene: &Scene, path: &str, after: &str) -> Listener {
    let get = scene.get(path).header("accept", "text/event-stream").header("last-event-id", after);
    Listener::new(get.send().await.unwrap())
}

/// Reads up to the n-th end of a turn.
pub(crate) async fn to_end(listener: &mut Listener, n_ends: usize) -> Vec<Frame> {
    let is_end = |it: &&Frame| it.event == "turn.end" || it.event == "run.end";
    listener.hear(|it| it.iter().filter(is_end).count() >= n_ends).await
}

fn n_ends(frames: &[Frame]) -> usize {
    frames.iter().filter(|it| it.event == "turn.end" || it.event == "run.end").count()
}

/// Returns what a client of a thread has of it in the end: one line an event, text as it was put together.
pub(crate) fn assembled<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for frame in frames {
        let inner = if frame.event == "node.event" { &frame.data["event"] } else { &frame.data };
        let kind = inner["type"].as_str().unwrap_or(&frame.event);
        let text = inner["text"].as_str().or(inner["status"].as_str()).or(inner["id"].as_str());
        let line = text.map_or(kind.to_owned(), |text| format!("{kind} {text}"));
        match lines.last_mut() {
            Some(last) if kind.ends_with(".delta") && last.starts_with(kind) => {
                last.push_str(text.unwrap_or_default());
            }
            _ if kind == "attempt.discarded" => {
                let kept = lines.iter().rposition(|it| !it.contains(".delta")).map_or(0, |it| it + 1);
                lines.truncate(kept);
            }
            _ => lines.push(line),
        }
    }
    lines.join("\n")
}

/// Checks that a follower that continues behind any id that a client got has in the end what the client has.
pub(crate) async fn continues(scenes: &[&Scene], path: &str, all: &[Frame]) {
    for (idx, frame) in all.iter().enumerate().take(all.len() - 1) {
        for scene in scenes {
            let id = frame.id.as_deref().unwrap();
            let rest = to_end(&mut follow(scene, path, id).await, n_ends(&all[idx + 1..])).await;
            assert_eq!(assembled(all[..=idx].iter().chain(&rest)), assembled(all), "behind {id}");
        }
    }
}

fn last_id(frames: &[Frame]) -> &str {
    frames.last().unwrap().id.as_deref().unwrap()
}

pub(crate) fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments: json!({}) })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_resumed_in_its_middle_here_and_elsewhere_and_when_it_is_whole() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    voice.say("Gr\u{fc}\u{df} ");
    let mut heard = mine.hear_of("Gr").await;
    let behind_first = last_id(&heard).to_owned();
    assert!(behind_first.contains('~'), "{behind_first}");
    voice.say("Gott");
    heard.extend(mine.hear_of("Gott").await);
    for scene in [&one, &two] {
        let rest = follow(scene, EVENTS, &behind_first).await.hear_of("Gott").await;
        assert_eq!(assembled(&rest), "text.delta Gott");
    }
    // What was saved comes soon.
    let mut there = follow(&two, EVENTS, last_id(&heard)).await;
    let (said, ()) = (Instant::now(), voice.say(", Welt"));
    assert_eq!(assembled(&there.hear_of("Welt").await), "text.delta , Welt");
    assert!(said.elapsed() < Duration::from_secs(5), "{:?}", said.elapsed());
    voice.done(vec![Part::text("Gr\u{fc}\u{df} Gott, Welt")]);
    heard.extend(to_end(&mut mine, 1).await);
    assert_eq!(
        assembled(&heard),
        "turn.start\ntext.delta Gr\u{fc}\u{df} Gott, Welt\ncontext_usage\nturn.end completed"
    );
    continues(&[&one, &two], EVENTS, &heard).await;
    let rest = to_end(&mut there, 1).await;
    assert_eq!(assembled(&rest), "context_usage\nturn.end completed", "nothing is told twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_text_and_calls_are_resumed_behind_each_of_them() {
    let ground = Ground::memory();
    let (model, [first, second]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    let mut heard = Vec::new();
    for piece in ["Hm", "mm"] {
        first.think(piece);
        heard.extend(mine.hear_of(piece).await);
    }
    first.say("Let me see.");
    heard.extend(mine.hear_of("see").await);
    let thinking = Part::Thinking(Thinking { text: "Hmmm".to_owned(), ..Thinking::default() });
    first.done(vec![thinking, Part::text("Let me see."), call("c1"), call("c2")]);
    heard.extend(mine.hear_of("tool.result").await);
    second.say("A tr");
    heard.extend(mine.hear_of("A tr").await);
    second.say("ee.");
    second.done(vec![Part::text("A tree.")]);
    heard.extend(to_end(&mut mine, 1).await);
    insta::assert_snapshot!(assembled(&heard), @r"
    turn.start
    thinking.delta Hmmm
    text.delta Let me see.
    tool.call c1
    tool.call c2
    context_usage
    tool.result c1
    tool.result c2
    text.delta A tree.
    context_usage
    turn.end completed
    ");
    continues(&[&one, &two], EVENTS, &heard).await;
    let late = to_end(&mut follow(&two, EVENTS, "0").await, 1).await;
    assert_eq!(assembled(&late), assembled(&heard));
    continues(&[&one, &two], EVENTS, &late).await;
}

/// Splits what was heard by thread.
fn by_thread(frames: &[Frame], thread: &str) -> String {
    assembled(frames.iter().filter(|it| it.data["thread"] == thread))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_threads_that_answer_at_once_are_resumed_at_every_id() {
    let ground = Ground::memory();
    let (model, [main, aside]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let (_, thread) = json_of(one.post("/v1/sessions/demo/threads", json!({})).send().await.unwrap()).await;
    let thread = thread["id"].as_str().unwrap();
    let mut all = follow(&one, EVENTS, "0").await;
    let _mine = begin(&one, json!({"user": "hi"})).await;
    main.say("M1");
    let mut heard = all.hear_of("M1").await;
    // The other one answers on another instance.
    let _theirs = begin(&two, json!({"user": "psst", "thread": thread})).await;
    for n in 1..4 {
        aside.say(&format!("A{n}"));
        heard.extend(all.hear_of(&format!("A{n}")).await);
        main.say(&format!("m{n}"));
        heard.extend(all.hear_of(&format!("m{n}")).await);
        // It comes back behind its last id, now here and now there.
        all = follow(if n % 2 == 0 { &one } else { &two }, EVENTS, last_id(&heard)).await;
    }
    aside.done(vec![Part::text("A1A2A3")]);
    heard.extend(to_end(&mut all, 1).await);
    main.done(vec![Part::text("M1m1m2m3")]);
    heard.extend(to_end(&mut all, 1).await);
    let (of_main, of_aside) = (by_thread(&heard, "demo"), by_thread(&heard, thread));
    assert_eq!(of_main, "turn.start\ntext.delta M1m1m2m3\ncontext_usage\nturn.end completed");
    assert_eq!(of_aside, "turn.start\ntext.delta A1A2A3\ncontext_usage\nturn.end completed");
    for (idx, frame) in heard.iter().enumerate().take(heard.len() - 1) {
        let id = frame.id.as_deref().unwrap();
        let rest = to_end(&mut follow(&two, EVENTS, id).await, n_ends(&heard[idx + 1..])).await;
        let whole: Vec<Frame> = heard[..=idx].iter().chain(&rest).cloned().collect();
        assert_eq!(by_thread(&whole, "demo"), of_main, "behind {id}");
        assert_eq!(by_thread(&whole, thread), of_aside, "behind {id}");
    }
}

/// Kills an instance in the middle of an answer, of which only the beginning was saved or all of it.
async fn lost(saves: bool) -> String {
    let (ground, store) = moody();
    let (model, [voice]) = puppet();
    // Whatever runs on it stops with it, like in a process that is killed.
    let process = tokio::runtime::Runtime::new().unwrap();
    let (there, its_model) = (ground.clone(), model.clone());
    let one = process.spawn(async move { instance(&there, &its_model).await }).await.unwrap();
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    voice.say("Wait ");
    let mut heard = mine.hear_of("Wait").await;
    saved(&ground, "demo", "Wait ").await;
    if !saves {
        store.set(Mood::SavesNothing);
    }
    voice.say("for me");
    heard.extend(mine.hear_of("for me").await);
    if saves {
        saved(&ground, "demo", "for me").await;
    }
    process.shutdown_background();
    store.set(Mood::Fine);
    let two = instance(&ground, &model).await;
    let mut told = Vec::new();
    for idx in 0..heard.len() {
        let id = heard[idx].id.as_deref().unwrap();
        let rest = to_end(&mut follow(&two, EVENTS, id).await, 1).await;
        told.push(assembled(heard[..=idx].iter().chain(&rest)));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    told.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_followed_a_lost_instance_has_what_its_turn_keeps() {
    let (all, half) = tokio::join!(lost(true), lost(false));
    assert_eq!(all, "turn.start\ntext.delta Wait for me\nturn.end interrupted");
    assert_eq!(half, "turn.start\ntext.delta Wait\nturn.end interrupted".replace("Wait", "Wait "));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_were_never_told_do_no_harm() {
    let scene = answering(&["Gr\u{fc}\u{df} Gott.", "\u{1f600}."]).await;
    scene.session("demo").await;
    scene.turn("demo", "hi").await;
    scene.turn("demo", "hi").await;
    let all = to_end(&mut follow(&scene, EVENTS, "0").await, 2).await;
    let last = last_id(&all).to_owned();
    let many: Vec<String> = (1..=64).map(|it| format!("{it}.1.1")).collect();
    let many = format!("1~{}", many.join(","));
    for id in ["1~1.3.0", "1~1.99999999999999.0", "1~2.3.3", "1~7.3.3", "1+99", "1+999999999999999", &many] {
        let told = to_end(&mut follow(&scene, EVENTS, id).await, 2).await;
        assert_eq!(told.last().map(|it| it.event.as_str()), Some("turn.end"), "{id}");
    }
    let middle = to_end(&mut follow(&scene, EVENTS, "1~1.3.0").await, 2).await;
    assert!(assembled(&middle).starts_with("text.delta \u{fc}\u{df} Gott."), "{}", assembled(&middle));
    let long = format!("1~{}", "1.1.1,".repeat(2000));
    let too_many = format!("{many},65.1.1");
    for id in ["999999999999999", "1~", "1~1", "1+", "~1.1.1", "1~1.1.1.1", &long, &too_many] {
        let get = scene.get(EVENTS).header("last-event-id", id).send().await.unwrap();
        let (status, problem) = json_of(get).await;
        assert_eq!((status, problem["code"].as_str()), (400, Some("header_invalid")), "{id}");
    }
    for after in [&*format!("{last}1"), "x"] {
        let (status, problem) =
            json_of(scene.get(&format!("{EVENTS}?after={after}")).send().await.unwrap()).await;
        let (code, place) = (problem["code"].as_str(), problem["at"].as_str());
        assert_eq!((status, code, place), (400, Some("query_invalid"), Some("after")), "{after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_another_tenant_s_session_tells_nothing_of_it() {
    let ground = Ground::memory();
    let (_, ours) = key(&ground, of_tenant("ours")).await;
    let (_, theirs) = key(&ground, of_tenant("theirs")).await;
    let door = Door::open(&ground, Vec::new(), &[]).await;
    let new = door.ask("POST", "/v1/sessions").json(&json!({"id": "demo"}));
    assert_eq!(door.code(new.bearer_auth(&ours)).await, "201 -");
    for id in ["0", "1~1.1.1", "latest"] {
        let get = door.ask("GET", EVENTS).header("last-event-id", id).bearer_auth(&theirs);
        assert_eq!(door.code(get).await, "404 not_found", "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_told_while_nothing_can_be_written() {
    let (ground, store) = moody();
    let (model, [voice]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    let mut heard = mine.hear_of("turn.start").await;
    store.set(Mood::Hangs);
    let mut other = follow(&one, EVENTS, "0").await;
    for piece in ["One", ", two", ", three"] {
        voice.say(piece);
        heard.extend(mine.hear_of(piece).await);
        other.hear_of(piece).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let mut late = follow(&one, EVENTS, last_id(&heard)).await;
    store.set(Mood::Fine);
    voice.done(vec![Part::text("One, two, three")]);
    heard.extend(to_end(&mut mine, 1).await);
    assert_eq!(
        assembled(&heard),
        "turn.start\ntext.delta One, two, three\ncontext_usage\nturn.end completed"
    );
    assert_eq!(assembled(&to_end(&mut late, 1).await), "context_usage\nturn.end completed");
    continues(&[&one], EVENTS, &heard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_stopped_from_elsewhere_keeps_what_it_said() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    voice.say("Wait");
    let mut heard = mine.hear_of("Wait").await;
    let stop = two.post("/v1/sessions/demo/turns/t1/cancel", json!({})).send().await.unwrap();
    assert_eq!(stop.status(), 202);
    heard.extend(to_end(&mut mine, 1).await);
    assert_eq!(assembled(&heard), "turn.start\ntext.delta Wait\nerror\nturn.end interrupted");
    continues(&[&one, &two], EVENTS, &heard).await;
}

/// Starts the flow `once` in the session `demo`, and returns its run.
async fn run(scene: &Scene) -> String {
    let body = json!({"session": "demo", "input": {"text": "hi"}});
    let (status, run) = json_of(scene.post("/v1/flows/once/runs", body).send().await.unwrap()).await;
    assert_eq!(status, 201, "{run}");
    run["run"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_the_words_of_its_turns_and_is_resumed_in_their_middle() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let one = instance(&ground, &model).await;
    let run = run(&one).await;
    let path = format!("/v1/runs/{run}/events");
    let mut mine = follow(&one, &path, "0").await;
    voice.say("Hel");
    let mut heard = mine.hear_of("Hel").await;
    voice.say("lo");
    heard.extend(mine.hear_of("lo").await);
    let (no_model, []) = puppet();
    let two = instance(&ground, &no_model).await;
    for scene in [&one, &two] {
        let (before, last) = heard.split_at(heard.len() - 1);
        let rest = follow(scene, &path, last_id(before)).await.hear_of("lo").await;
        assert_eq!(assembled(&rest), assembled(last));
    }
    voice.done(vec![Part::text("Hello")]);
    heard.extend(to_end(&mut mine, 2).await);
    let (own, words) = split(&heard);
    insta::assert_snapshot!(own, @r"
    run.start
    node.start
    node.end
    node.start
    node.turn
    node.end
    run.end completed
    ");
    assert_eq!(words, "turn.start\ntext.delta Hello\ncontext_usage\nturn.end completed");
    for (idx, frame) in heard.iter().enumerate().take(heard.len() - 1) {
        for scene in [&one, &two] {
            let id = frame.id.as_deref().unwrap();
            let rest = follow(scene, &path, id).await.hear(|_| false).await;
            let whole: Vec<Frame> = heard[..=idx].iter().chain(&rest).cloned().collect();
            assert_eq!(split(&whole), (own.clone(), words.clone()), "behind {id}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_the_words_of_a_node_that_skips_the_history() {
    let flow = include_str!("files/once.yaml").replace("prompt: chat", "prompt: chat, skip_history: true");
    let files = FILES.into_iter().chain([("flows/aside.yaml", flow.as_str())]);
    let project = Project::load(Arc::new(InMemory::new(files)), |_| {
        Ok::<_, contexture_project::ProjectError>(Vec::new())
    });
    let (model, [voice]) = puppet();
    let agent = Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())));
    let one = Ground::memory().instance_of(project.unwrap(), agent).await;
    let body = json!({"session": "demo", "input": {"text": "hi"}});
    let mut mine = Listener::new(one.post("/v1/flows/aside/runs/stream", body).send().await.unwrap());
    let mut heard = mine.hear(|it| it.iter().filter(|it| it.event == "node.start").count() >= 2).await;
    voice.say("Hel");
    heard.extend(mine.hear_of("Hel").await);
    voice.say("lo");
    voice.done(vec![Part::text("Hello")]);
    heard.extend(mine.hear(|_| false).await);
    let (own, words) = split(&heard);
    assert_eq!(own, "run.start\nnode.start\nnode.end\nnode.start\nnode.end\nrun.end completed");
    assert!(words.contains("text.delta Hello"), "{words}");
}

/// Returns what a run did, and what was said in it. Their order to each other is that of the commits.
fn split(frames: &[Frame]) -> (String, String) {
    let (words, own): (Vec<&Frame>, Vec<&Frame>) = frames.iter().partition(|it| it.event == "node.event");
    (assembled(own), assembled(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_completion_is_streamed_while_nothing_can_be_written() {
    let (ground, store) = moody();
    let (model, [voice]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let body = json!({"model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let post = one.post("/v1/chat/completions", body).header("x-contexture-session", "demo");
    let posted = tokio::spawn(post.send());
    follow(&one, EVENTS, "0").await.hear_of("turn.start").await;
    store.set(Mood::Hangs);
    voice.say("One");
    let mut answer = posted.await.unwrap().unwrap();
    let mut heard = String::new();
    for piece in ["One", ", two"] {
        if piece != "One" {
            voice.say(piece);
        }
        while !heard.contains(&format!("\"{piece}\"")) {
            let chunk = tokio::time::timeout(Duration::from_secs(20), answer.chunk()).await;
            heard += std::str::from_utf8(&chunk.unwrap().unwrap().unwrap()).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    voice.done(vec![Part::text("One, two")]);
    store.set(Mood::Fine);
    heard += &answer.text().await.unwrap();
    assert!(heard.ends_with("data: [DONE]\n\n"), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_read_from_a_query_where_it_was_not_encoded() {
    let ground = Ground::memory();
    let (model, [first, second]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    first.done(vec![Part::text("Let me see."), call("c1"), call("c2")]);
    second.done(vec![Part::text("A tree.")]);
    to_end(&mut mine, 1).await;
    let all = to_end(&mut follow(&one, EVENTS, "0").await, 1).await;
    assert!(all.iter().any(|it| it.id.as_ref().unwrap().contains('+')));
    for (idx, frame) in all.iter().enumerate().take(all.len() - 1) {
        let path = format!("{EVENTS}?after={}", frame.id.as_ref().unwrap());
        let rest = to_end(&mut Listener::new(one.get(&path).send().await.unwrap()), 1).await;
        assert_eq!(rest, all[idx + 1..], "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_deleted_session_is_told_in_one_of_the_same_name() {
    let ground = Ground::memory();
    let (model, [old, new]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    old.say("Old");
    mine.hear_of("Old").await;
    let deleted = one.client.delete(format!("{}/v1/sessions/demo", one.url)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    one.session("demo").await;
    let mut all = follow(&one, EVENTS, "0").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    new.say("New");
    mine.hear_of("New").await;
    new.done(vec![Part::text("New")]);
    let whole = "turn.start\ntext.delta New\ncontext_usage\nturn.end completed";
    assert_eq!(assembled(&to_end(&mut all, 1).await), whole);
    let late = to_end(&mut follow(&one, EVENTS, "0").await, 1).await;
    assert_eq!(assembled(&late), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_a_session_that_is_created_again_is_sent_away() {
    let ground = Ground::memory();
    let overrides = vec![("server.heartbeat_seconds".to_owned(), "1".to_owned())];
    let files = Arc::new(InMemory::new(FILES));
    let project = Project::load(files, |_| Ok::<_, contexture_project::ProjectError>(overrides)).unwrap();
    let (model, [old, new]) = puppet();
    let one =
        ground.instance_of(project, Arc::new(move |_: &Project| Ok(contexture::agent(model.clone())))).await;
    one.session("demo").await;
    let mut all = follow(&one, EVENTS, "0").await;
    for voice in [&old, &new] {
        let mut mine = begin(&one, json!({"user": "hi"})).await;
        voice.done(vec![Part::text("Hello")]);
        to_end(&mut mine, 1).await;
        if n_ends(&to_end(&mut all, 1).await) == 0 {
            // It ended, and does not wait until the new numbers pass its own.
            return;
        }
        let deleted = one.client.delete(format!("{}/v1/sessions/demo", one.url)).send().await.unwrap();
        assert_eq!(deleted.status(), 204);
        one.session("demo").await;
    }
    panic!("it was told of another session");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_streams_of_a_deleted_session_end() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut turn = begin(&one, json!({"user": "hi"})).await;
    let mut followers = [follow(&one, EVENTS, "0").await, follow(&two, EVENTS, "0").await];
    voice.say("Well");
    turn.hear_of("Well").await;
    for follower in &mut followers {
        follower.hear_of("Well").await;
    }
    let deleted = one.client.delete(format!("{}/v1/sessions/demo", one.url)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    for follower in &mut followers {
        assert_eq!(follower.hear(|_| false).await, []);
    }
    // Its turn is stopped. Its client is told so, although there is no log to record it.
    let rest = turn.hear(|_| false).await;
    assert_eq!(rest.last().map(|it| it.event.as_str()), Some("error"), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_the_client_are_told_as_such_from_any_place() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let scene = instance(&ground, &model).await;
    scene.session("demo").await;
    let fetch = json!({"name": "fetch", "description": "Fetches.", "parameters": {"type": "object"}});
    let mut mine = begin(&scene, json!({"user": "hi", "client_tools": [fetch]})).await;
    let fetch = |id: &str| {
        let (id, name) = (id.to_owned(), "fetch".to_owned());
        Part::ToolCall(ToolCall { id, name, arguments: json!({}) })
    };
    voice.say("Let me see.");
    let mut heard = mine.hear_of("see").await;
    voice.done(vec![Part::text("Let me see."), fetch("c1"), fetch("c2")]);
    heard.extend(to_end(&mut mine, 1).await);
    let late = to_end(&mut follow(&scene, EVENTS, "0").await, 1).await;
    for id in heard.iter().chain(&late[..late.len() - 1]).filter(|it| it.event != "turn.end") {
        let rest = to_end(&mut follow(&scene, EVENTS, id.id.as_deref().unwrap()).await, 1).await;
        for call in rest.iter().filter(|it| it.event == "tool.call") {
            assert_eq!(call.data["runs"], "client", "behind {:?}: {call:?}", id.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_true_for_the_next_request() {
    let (ground, store) = moody();
    let (model, [voice]) = puppet();
    let scene = instance(&ground, &model).await;
    scene.session("demo").await;
    let mut mine = begin(&scene, json!({"user": "hi"})).await;
    voice.say("Hello");
    mine.hear_of("Hello").await;
    let mut follower = follow(&scene, EVENTS, "0").await;
    store.set(Mood::AnswersLate);
    voice.done(vec![Part::text("Hello there.")]);
    to_end(&mut follower, 1).await;
    let (_, session) = json_of(scene.get("/v1/sessions/demo").send().await.unwrap()).await;
    let (_, next) = json_of(
        scene
            .post("/v1/prompts/chat/resolve", json!({"session": "demo", "user": "next"}))
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert!(next.to_string().contains("Hello there."), "{session} {next}");
    to_end(&mut mine, 1).await;
    let event = json!({"name": "seen", "text": "It was seen.", "policy": "reject"});
    let (status, answer) = json_of(scene.post("/v1/threads/demo/events", event).send().await.unwrap()).await;
    assert!(status < 300, "{status} {answer}");
}
