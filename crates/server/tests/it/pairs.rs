//! Features that meet in one stream of events.

use std::sync::Arc;

use contexture_agent::{AgentConfig, CompactionConfig, tool};
use contexture_message::{Part, Thinking, Tokens};
use contexture_project::{InMemory, Project, ProjectError};
use serde_json::{Value, json};

use crate::puppet::{Puppet, puppet};
use crate::resuming::{EVENTS, Nothing, assembled, begin, call, continues, follow, to_end};
use crate::scene::{FILES, Frame, Ground, Listener, Scene, json_of, saved};

const MORE: [(&str, &str); 3] = [
    ("prompts/sort.md", "---\nmodel: openai/gpt-5-mini\noutput: {queue: string}\n---\nSort.\n"),
    (
        "prompts/guarded.md",
        "---\nmodel: openai/gpt-5-mini\nguardrails: [{id: secret, not_contains: hunter2, action: rewrite, replacement: '***'}]\n---\nBe quiet.\n",
    ),
    (
        "prompts/blocked.md",
        "---\nmodel: openai/gpt-5-mini\nguardrails: [{id: secret, not_contains: hunter2}]\n---\nBe quiet.\n",
    ),
];

/// Starts an instance whose tool `look` needs approval.
async fn instance(ground: &Ground, model: &Puppet) -> Scene {
    instance_with(ground, model, CompactionConfig::default()).await
}

async fn instance_with(ground: &Ground, model: &Puppet, compaction: CompactionConfig) -> Scene {
    let overrides = vec![("server.lease_seconds".to_owned(), "2".to_owned())];
    let files = Arc::new(InMemory::new(FILES.into_iter().chain(MORE)));
    let project = Project::load(files, |_| Ok::<_, ProjectError>(overrides)).unwrap();
    let model = model.clone();
    let agent = Arc::new(move |_: &Project| {
        let look = tool("look", "Looks.", |_: Nothing| async { Ok("a tree") });
        let config = AgentConfig { compaction: compaction.clone(), ..AgentConfig::default() };
        Ok(contexture::agent(model.clone()).config(config).tool(look.needs_approval()))
    });
    ground.instance_of(project, agent).await
}

async fn stream(scene: &Scene, path: &str, body: Value) -> Listener {
    Listener::new(scene.post(path, body).send().await.unwrap())
}

/// Begins a turn with an idempotency key, or listens to the one that it began.
async fn keyed(scene: &Scene, body: Value) -> Listener {
    let post = scene.post("/v1/sessions/demo/turns/stream", body).header("idempotency-key", "k");
    Listener::new(post.send().await.unwrap())
}

/// Returns all frames to the end of the stream.
async fn whole(mut listener: Listener) -> Vec<Frame> {
    listener.hear(|_| false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_tells_a_turn_that_went_on_after_an_approval_to_its_last_end() {
    let ground = Ground::memory();
    let (model, [asks, answers]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let mine = keyed(&one, json!({"user": "hi"})).await;
    asks.say("May I?");
    asks.done(vec![Part::text("May I?"), call("c1")]);
    let first = whole(mine).await;
    let asked = first.iter().find(|it| it.event == "approval.required").unwrap();
    let approval = &asked.data["approval"];
    let waits =
        "turn.start\ntext.delta May I?\ntool.call c1\ncontext_usage\napproval.required\nturn.end suspended";
    assert_eq!(assembled(&first), waits);
    // Who asks again while it waits hears the same, without the token.
    let again = whole(keyed(&one, json!({"user": "hi"})).await).await;
    assert_eq!(assembled(&again), waits);
    assert!(!format!("{again:?}").contains(approval["token"].as_str().unwrap()));

    let path = format!("/v1/approvals/{}/stream", approval["id"].as_str().unwrap());
    let mut goes_on = stream(&one, &path, json!({"token": approval["token"], "verdict": "approve"})).await;
    answers.say("A t");
    let mut second = goes_on.hear_of("A t").await;
    let running = keyed(&one, json!({"user": "hi"})).await;
    let running = tokio::spawn(whole(running));
    answers.say("ree.");
    answers.done(vec![Part::text("A tree.")]);
    second.extend(whole(goes_on).await);
    let rest = "turn.start\ntool.result c1\ntext.delta A tree.\ncontext_usage\nturn.end completed";
    assert_eq!(assembled(&second), rest);
    let both = format!("{waits}\n{rest}");
    assert_eq!(assembled(&running.await.unwrap()), both, "asked while it went on");
    assert_eq!(assembled(&whole(keyed(&one, json!({"user": "hi"})).await).await), both, "asked afterwards");
    let all: Vec<Frame> = first.iter().chain(&second).cloned().collect();
    continues(&[&one], EVENTS, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_a_client_are_streamed_and_resumed() {
    let ground = Ground::memory();
    let (model, [asks, answers]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let see = json!({"name": "see", "description": "Sees.", "parameters": {"type": "object"}});
    let mine = begin(&one, json!({"user": "hi", "client_tools": [see], "reminders": ["Be brief."]})).await;
    let see = |id: &str| match call(id) {
        Part::ToolCall(it) => Part::ToolCall(contexture_message::ToolCall { name: "see".to_owned(), ..it }),
        other => other,
    };
    asks.done(vec![see("c1"), see("c2")]);
    let mut heard = whole(mine).await;
    assert_eq!(heard.iter().filter(|it| it.data["runs"] == "client").count(), 2, "{heard:?}");
    let end = heard.last().unwrap();
    assert_eq!(end.data["client_calls"].as_array().map(Vec::len), Some(2), "{end:?}");
    let results = |ids: &[&str]| {
        let results: Vec<Value> = ids.iter().map(|it| json!({"call_id": it, "output": "tree"})).collect();
        json!({"results": results})
    };
    // One is still missing.
    let path = "/v1/sessions/demo/turns/t1/results/stream";
    let half = whole(stream(&one, path, results(&["c1"])).await).await;
    assert_eq!(assembled(&half), "turn.start\ntool.result c1\nturn.end suspended", "only what is new");
    let missing = half.last().unwrap().data["client_calls"].as_array().unwrap();
    assert_eq!(missing.iter().map(|it| &it["id"]).collect::<Vec<_>>(), ["c2"]);
    let mut goes_on = stream(&one, path, results(&["c2"])).await;
    answers.say("Tree.");
    let mut second = goes_on.hear_of("Tree").await;
    answers.done(vec![Part::text("Tree.")]);
    second.extend(whole(goes_on).await);
    assert_eq!(second.last().map(|it| it.data["status"].clone()), Some(json!("completed")));
    let all = follow(&one, EVENTS, "0").await.hear_of("completed").await;
    heard.extend(second);
    assert!(assembled(&all).ends_with("text.delta Tree.\ncontext_usage\nturn.end completed"));
    assert_eq!(assembled(&all).matches("tool.result").count(), 2, "{}", assembled(&all));
    continues(&[&one], EVENTS, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_is_taken_back_for_whoever_comes_back() {
    let ground = Ground::memory();
    let (model, [wrong, right]) = puppet();
    let one = instance(&ground, &model).await;
    one.session("demo").await;
    let mut mine = begin(&one, json!({"prompt": "sort", "user": "hi"})).await;
    wrong.say("Into the ");
    let mut heard = mine.hear_of("Into").await;
    wrong.say("first.");
    heard.extend(mine.hear_of("first").await);
    wrong.done(vec![Part::text("Into the first.")]);
    heard.extend(mine.hear_of("attempt.discarded").await);
    right.say("{\"queue\":");
    heard.extend(mine.hear_of("queue").await);
    right.say("\"a\"}");
    right.done(vec![Part::text("{\"queue\":\"a\"}")]);
    heard.extend(to_end(&mut mine, 1).await);
    let fits = assembled(&heard);
    assert!(fits.contains("text.delta {\"queue\":\"a\"}\n") && !fits.contains("Into"), "{fits}");
    continues(&[&one], EVENTS, &heard).await;
    let all = to_end(&mut follow(&one, EVENTS, "0").await, 1).await;
    assert_eq!(assembled(&all), fits);
    continues(&[&one], EVENTS, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_guardrail_holds_back_is_told_to_nobody() {
    for (prompt, expected) in [
        ("guarded", "turn.start\ntext.delta It is ***.\ncontext_usage\nturn.end completed"),
        ("blocked", "turn.start\ncontext_usage\nerror\nturn.end failed"),
    ] {
        let ground = Ground::memory();
        let (model, [voice]) = puppet();
        let one = instance(&ground, &model).await;
        one.session("demo").await;
        let mine = begin(&one, json!({"prompt": prompt, "user": "hi"})).await;
        let mut all = follow(&one, EVENTS, "0").await;
        voice.think("The password is hunter2.");
        voice.say("It is hunter2.");
        let thinking = Thinking { text: "The password is hunter2.".to_owned(), ..Thinking::default() };
        voice.done(vec![Part::Thinking(thinking), Part::text("It is hunter2.")]);
        let mine = whole(mine).await;
        let all = to_end(&mut all, 1).await;
        let said = mine.iter().chain(&all).filter(|it| it.event.ends_with(".delta"));
        assert!(!format!("{:?}", said.collect::<Vec<_>>()).contains("hunter2"), "{mine:?}");
        assert_eq!(assembled(&mine), expected);
        assert_eq!(assembled(&all), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_streamed_and_stopped_while_the_first_turn_runs_on() {
    let ground = Ground::memory();
    let (model, [first, second]) = puppet();
    let (one, two) = (instance(&ground, &model).await, instance(&ground, &model).await);
    one.session("demo").await;
    let mut mine = begin(&one, json!({"user": "hi"})).await;
    first.say("One");
    let mut heard = mine.hear_of("One").await;
    let mut forked = begin(&two, json!({"user": "ho", "policy": "fork"})).await;
    second.say("Two");
    let mut of_fork = forked.hear_of("Two").await;
    let thread = of_fork[0].data["thread"].as_str().unwrap().to_owned();
    let turn = of_fork[0].data["turn"].as_str().unwrap().to_owned();
    assert_ne!(thread, "demo");
    let encoded = thread.replace('/', "%2F");
    let stop = format!("/v1/sessions/demo/turns/{turn}/cancel?thread={encoded}");
    assert_eq!(one.post(&stop, json!({})).send().await.unwrap().status(), 202);
    of_fork.extend(whole(forked).await);
    assert_eq!(assembled(&of_fork), "turn.start\ntext.delta Two\nerror\nturn.end interrupted");
    first.done(vec![Part::text("One")]);
    heard.extend(whole(mine).await);
    assert_eq!(assembled(&heard), "turn.start\ntext.delta One\ncontext_usage\nturn.end completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_instance_was_lost_tells_the_same_turn_to_its_end() {
    let ground = Ground::memory();
    let (model, [voice]) = puppet();
    let process = tokio::runtime::Runtime::new().unwrap();
    let (there, its_model) = (ground.clone(), model.clone());
    let one = process.spawn(async move { instance(&there, &its_model).await }).await.unwrap();
    one.session("demo").await;
    let mut mine = keyed(&one, json!({"user": "hi"})).await;
    voice.say("Wait");
    mine.hear_of("Wait").await;
    saved(&ground, "demo", "Wait").await;
    process.shutdown_background();
    let two = instance(&ground, &model).await;
    let kept = "turn.start\ntext.delta Wait\nturn.end interrupted";
    assert_eq!(assembled(&whole(keyed(&two, json!({"user": "hi"})).await).await), kept);
    assert_eq!(assembled(&whole(keyed(&two, json!({"user": "hi"})).await).await), kept, "once more");
    let retry = two.post("/v1/sessions/demo/turns/t2/retry", json!({})).send().await.unwrap();
    assert_eq!(retry.status(), 404, "nothing else was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_for_which_room_is_made_tells_it_to_its_client() {
    let ground = Ground::memory();
    let (model, [summary, answer]) = puppet();
    let small = CompactionConfig { trigger_tokens: Some(Tokens(600)), ..CompactionConfig::default() };
    let one = instance_with(&ground, &model, small).await;
    one.session("demo").await;
    for n in 0..12 {
        let long = format!("Word {n} is long enough to be worth it. ").repeat(10);
        let said =
            json!({"messages": [{"role": "user", "content": long}, {"role": "assistant", "content": long}]});
        let (status, said) = json_of(one.post("/v1/threads/demo/messages", said).send().await.unwrap()).await;
        assert_eq!(status, 200, "{said}");
    }
    let mut all = follow(&one, EVENTS, "latest").await;
    let mine = begin(&one, json!({"user": "hi"})).await;
    summary.done(vec![Part::text("## Facts\nWords.\n")]);
    answer.say("Well.");
    answer.done(vec![Part::text("Well.")]);
    let mine = whole(mine).await;
    let story = assembled(&mine);
    assert!(story.contains("compaction") && story.contains("text.delta Well."), "{story}");
    assert_eq!(assembled(&to_end(&mut all, 1).await), story);
    continues(&[&one], EVENTS, &mine).await;
}
