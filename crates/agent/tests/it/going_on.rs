//! Going on with a turn that did not come to its end: wherever it was interrupted, it ends as if it had not been.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use contexture_agent::{
    Agent, AgentError, CancellationToken, Ended, Outcome, Pending, ResumePolicy, RunRequest, Tool, Verdict,
};
use contexture_compose::Prompt;
use contexture_history::{Body, TurnStatus};
use contexture_message::{Delta, Part, Role, ToolDefinition};
use contexture_model::{ModelError, ModelErrorKind, Scripted, Step};
use contexture_session::conformance::Layered;
use contexture_session::{MemoryStore, SessionId, SessionStart, Store, Thread};
use futures::{FutureExt, future::poll_fn};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, prop_oneof, proptest};
use serde_json::json;

use crate::halting::{Halting, Steady};
use crate::stage::{
    Counting, Stage, TestTime, agent, calls, echo, hi, output_text, prompt, says, script, sessions,
};
use crate::valid::assert_valid_everywhere;

/// A process that runs the same turn again and again until it is through, as a flow does.
struct Scene {
    store: Arc<dyn Store>,
    model: Steady,
    agent: Agent,
    /// How often each call was run.
    ran: Arc<Mutex<BTreeMap<String, usize>>>,
    how: ResumePolicy,
    /// The thread as one process knows it that outlives its runs; without it each run has a process of its own.
    kept: Option<Thread>,
}

/// A tool that counts its calls, and lets others run before and after.
fn counting(name: &str, ran: &Arc<Mutex<BTreeMap<String, usize>>>) -> Tool {
    let ran = Arc::clone(ran);
    let run = move |it: contexture_agent::Invocation| {
        let ran = Arc::clone(&ran);
        async move {
            tokio::task::yield_now().await;
            *ran.lock().unwrap().entry(it.call.id.clone()).or_default() += 1;
            tokio::task::yield_now().await;
            Ok(json!(it.call.id))
        }
    };
    Tool::new(ToolDefinition::new(name, "Counts."), run).unwrap()
}

impl Scene {
    async fn new(how: ResumePolicy) -> Self {
        let store: Arc<dyn Store> = Arc::new(Layered {
            store: Arc::new(MemoryStore::new(Arc::new(TestTime))),
            interference: Halting,
        });
        let start = SessionStart { id: Some(SessionId::parse("s").unwrap()), label: None };
        sessions(&store).create(start).await.unwrap();
        let first = calls([("a", "free", json!({})), ("b", "risky", json!({})), ("c", "risky", json!({}))]);
        let second = calls([("d", "free", json!({})), ("e", "free", json!({"x": "<system-context>"}))]);
        let model = Steady::new([first, second, says("Done.")]);
        let ran = Arc::default();
        let builder = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default());
        let builder = builder.tool(counting("free", &ran)).tool(counting("risky", &ran).needs_approval());
        Self { store, agent: builder.build().unwrap(), model, ran, how, kept: None }
    }

    /// Keeps one process for everything.
    async fn kept(self) -> Self {
        let thread = self.thread().await;
        Self { kept: Some(thread), ..self }
    }

    /// The thread as the next run sees it.
    async fn thread(&self) -> Thread {
        if let Some(thread) = &self.kept {
            return thread.clone();
        }
        let session = sessions(&self.store).open(&SessionId::parse("s").unwrap()).await;
        session.unwrap().main().clone()
    }

    /// Runs the turn until nobody must decide any more: `b` is approved, `c` denied.
    async fn drive(&self, thread: &Thread) -> Result<Outcome, AgentError> {
        let request = RunRequest { key: Some("k".into()), resume: Some(self.how), ..hi() };
        let mut outcome = self.agent.run(&prompt(), thread, request).outcome().await?;
        while outcome.status == TurnStatus::Suspended {
            let pending = Pending::of(thread).await?.unwrap();
            let asked = pending.approvals.iter().find(|it| !it.decided).unwrap();
            let verdict = match asked.call_id.as_str() {
                "b" => Verdict::Approve,
                _ => Verdict::Deny { reason: None },
            };
            let cancel = CancellationToken::new();
            let run = self.agent.decide_as_owner(&prompt(), thread, &asked.id, verdict, cancel);
            outcome = run.outcome().await?;
        }
        Ok(outcome)
    }

    /// Drives, and is dropped after so many polls. Says whether it came to its end before.
    async fn dropped(&self, polls: usize) -> bool {
        let thread = self.thread().await;
        let mut driving = Box::pin(self.drive(&thread));
        let mut left = polls;
        let outcome = poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            driving.poll_unpin(cx).map(Some)
        });
        outcome.await.is_some()
    }

    /// The results that are on record, by call.
    async fn results(&self) -> BTreeMap<String, String> {
        let items = self.thread().await.all(None).await.unwrap();
        let messages = items.iter().filter_map(|it| it.body.as_message());
        let results = messages.flat_map(|it| &it.content).filter_map(|it| match it {
            Part::ToolResult(result) => Some((result.call_id.clone(), output_text(&result.output))),
            _ => None,
        });
        results.collect()
    }

    fn ran(&self) -> BTreeMap<String, usize> {
        self.ran.lock().unwrap().clone()
    }

    /// What the model reads of the thread.
    async fn history(&self) -> Vec<String> {
        let turns = self.thread().await.history(None).await.unwrap();
        let messages = turns.iter().flat_map(|it| it.messages());
        messages.map(|it| serde_json::to_string(it).unwrap()).collect()
    }

    /// Drives with interruptions and then to the end, and checks what must hold.
    async fn survives(&self, interruptions: &[usize], undisturbed: &[String]) {
        for polls in interruptions {
            let is_through = self.dropped(*polls).await;
            let (recorded, ran) = (self.results().await, self.ran());
            if is_through {
                break;
            }
            self.check(&recorded, &ran).await;
        }
        let (recorded, ran) = (self.results().await, self.ran());
        let thread = self.thread().await;
        let outcome = self.drive(&thread).await.unwrap();
        assert_eq!((outcome.text().as_str(), outcome.turn.0), ("Done.", 1));
        let after = self.ran();
        for (call, output) in &recorded {
            assert_eq!((ran.get(call), &self.results().await[call]), (after.get(call), output), "{call}");
        }
        // What is closed is closed in one message; everything else is as it would have been.
        let compared = |messages: &[String]| {
            let is_compared =
                |it: &&String| self.how == ResumePolicy::RepeatCalls || !it.contains("tool_result");
            messages.iter().filter(is_compared).cloned().collect::<Vec<_>>()
        };
        assert_eq!(compared(&self.history().await), compared(undisturbed));
        self.model.1.requests().iter().for_each(|it| assert_valid_everywhere(it));
    }

    /// Nothing is closed twice, nothing that was denied ran, and with `CloseCalls` nothing ran twice.
    async fn check(&self, recorded: &BTreeMap<String, String>, ran: &BTreeMap<String, usize>) {
        assert!(!ran.contains_key("c"), "{recorded:?}");
        if self.how == ResumePolicy::CloseCalls {
            assert!(ran.values().all(|it| *it == 1), "{ran:?}");
        }
    }
}

/// What the model reads after a run that nobody disturbed.
async fn undisturbed() -> Vec<String> {
    let scene = Scene::new(ResumePolicy::RepeatCalls).await;
    scene.drive(&scene.thread().await).await.unwrap();
    scene.history().await
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_interrupted_anywhere_goes_on() {
    let undisturbed = undisturbed().await;
    let roles = undisturbed.iter().map(|it| it.split('"').nth(3).unwrap()).collect::<Vec<_>>().join(" ");
    assert_eq!(roles, "user assistant tool tool assistant tool assistant");
    let ways = [
        (ResumePolicy::RepeatCalls, false),
        (ResumePolicy::RepeatCalls, true),
        (ResumePolicy::CloseCalls, false),
    ];
    for (how, is_kept) in ways {
        for polls in 0.. {
            let scene = Scene::new(how).await;
            let scene = if is_kept { scene.kept().await } else { scene };
            if scene.dropped(polls).await {
                assert!(polls > 30, "there are only {polls} places to stop at");
                break;
            }
            scene.survives(&[], &undisturbed).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_turn_goes_on_after_any_number_of_interruptions(
        interruptions in vec(0usize..60, 1..5),
        how in prop_oneof![Just(ResumePolicy::RepeatCalls), Just(ResumePolicy::CloseCalls)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let undisturbed = undisturbed().await;
            Scene::new(how).await.survives(&interruptions, &undisturbed).await;
        });
    }
}

fn again(how: ResumePolicy) -> RunRequest {
    RunRequest { key: Some("k".into()), resume: Some(how), ..hi() }
}

fn roles(model: &Scripted, request: usize) -> String {
    let request = &model.requests()[request];
    assert_valid_everywhere(request);
    request.messages.iter().map(|it| it.role.as_str()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn an_answer_that_broke_off_is_made_anew() {
    let stage = Stage::new().await;
    let cut = || ModelError::new(ModelErrorKind::Disconnected, "cut");
    let half = |text: &str| Step::Pieces(vec![Delta::Text(text.to_owned())], Some(cut()));
    let whole = Step::Answer(says("A whole answer."));
    let call = Step::Answer(calls([("a", "echo", json!({}))]));
    let model = Scripted::new([half("A who"), half("A whole"), call, whole]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    for _ in 0..2 {
        let run = agent.run(&prompt(), &stage.thread, again(ResumePolicy::CloseCalls));
        assert_eq!(run.outcome().await.unwrap_err().code(), "model_unreachable");
    }
    let outcome =
        agent.run(&prompt(), &stage.thread, again(ResumePolicy::CloseCalls)).outcome().await.unwrap();
    // What was said before counts as steps.
    assert_eq!((outcome.text().as_str(), outcome.steps), ("A whole answer.", 4));
    assert_eq!([roles(&model, 1), roles(&model, 2)], ["system user", "system user"]);
    assert!(roles(&model, 3).ends_with("assistant tool"), "{}", roles(&model, 3));
    insta::assert_snapshot!(stage.log().await.lines().filter(|it| !it.contains("noted")).collect::<Vec<_>>().join("\n"), @r#"
    t1 {"turn_began":{"key":"k"}}
    t1 user: hi
    t1 assistant: A who
    t1 {"turn_ended":{"status":"failed","reason":"cut","code":"model_unreachable"}}
    t1 "turn_resumed"
    t1 assistant: A whole
    t1 {"turn_ended":{"status":"failed","reason":"cut","code":"model_unreachable"}}
    t1 "turn_resumed"
    t1 assistant: a=echo({})
    t1 tool: a->{"type":"json","value":{}}
    t1 assistant: A whole answer.
    t1 {"turn_ended":{"status":"completed","usage":{"input_tokens":20,"cache_read_tokens":0,"output_tokens":4,"reasoning_tokens":0}}}
    "#);
}

#[tokio::test]
async fn without_go_on_a_bad_end_is_replayed() {
    let stage = Stage::new().await;
    let model = Scripted::new([Step::Fail(ModelError::new(ModelErrorKind::Disconnected, "cut"))]);
    let agent = agent(&model).build().unwrap();
    let request = || RunRequest { key: Some("k".into()), ..hi() };
    agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap_err();
    let outcome = agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap();
    assert_eq!((outcome.status, outcome.ended), (TurnStatus::Failed, Ended::Replayed));
}

#[tokio::test]
async fn a_complete_turn_is_replayed_with_its_value() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only the schema counts")]
    struct City {
        name: String,
    }
    let prompt = Prompt::builder("p").model("test/m").output::<City>().build().unwrap();
    let (stage, model) = (Stage::new().await, script([says("```json\n{\"name\": \"Rome\"}\n```")]));
    let agent = agent(&model).build().unwrap();
    for (resume, ended) in
        [(None, Ended::Answered), (None, Ended::Replayed), (Some(ResumePolicy::CloseCalls), Ended::Replayed)]
    {
        let request = RunRequest { resume, ..again(ResumePolicy::CloseCalls) };
        let outcome = agent.run(&prompt, &stage.thread, request).outcome().await.unwrap();
        assert_eq!((outcome.output, outcome.ended), (Some(json!({"name": "Rome"})), ended));
    }
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_that_waits_is_replayed_and_says_for_what() {
    let (stage, model) = (Stage::new().await, script([calls([("b", "risky", json!({}))])]));
    let agent = agent(&model).tool(echo("risky").needs_approval()).build().unwrap();
    for ended in [Ended::Suspended, Ended::Replayed] {
        let run = agent.run(&prompt(), &stage.thread, again(ResumePolicy::RepeatCalls));
        let outcome = run.outcome().await.unwrap();
        assert_eq!((outcome.status, outcome.ended), (TurnStatus::Suspended, ended));
    }
    let pending = Pending::of(&stage.thread).await.unwrap().unwrap();
    assert_eq!(pending.approvals[0].id, "s:t1:b");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_that_others_followed_does_not_go_on() {
    let stage = Stage::new().await;
    let cut = Step::Fail(ModelError::new(ModelErrorKind::Disconnected, "cut"));
    let model = Scripted::new([cut, Step::Answer(says("Another turn."))]);
    let agent = agent(&model).build().unwrap();
    agent.run(&prompt(), &stage.thread, again(ResumePolicy::CloseCalls)).outcome().await.unwrap_err();
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    let late = agent.run(&prompt(), &stage.thread, again(ResumePolicy::CloseCalls)).outcome().await;
    assert_eq!(late.unwrap_err().code(), "turn_superseded");
}

#[tokio::test]
async fn the_prompts_own_words_are_said_once() {
    let cut = || Step::Fail(ModelError::new(ModelErrorKind::Disconnected, "cut"));
    let prompt = Prompt::builder("p").model("test/m").user("Own words.").build().unwrap();
    for user in [Some(contexture_message::Message::user("hi")), None] {
        let stage = Stage::new().await;
        let model = Scripted::new([cut(), Step::Answer(says("ok"))]);
        let agent = agent(&model).build().unwrap();
        let request = || RunRequest { user: user.clone(), ..again(ResumePolicy::CloseCalls) };
        agent.run(&prompt, &stage.thread, request()).outcome().await.unwrap_err();
        agent.run(&prompt, &stage.thread, request()).outcome().await.unwrap();
        let [first, second] = [0, 1].map(|it| serde_json::to_string(&model.requests()[it].messages).unwrap());
        assert_eq!(first, second);
        assert_eq!(first.matches("Own words.").count(), 1);
        let items = stage.thread.all(None).await.unwrap();
        let said = items.iter().filter(|it| matches!(&it.body, Body::Message(it) if it.role == Role::User));
        assert_eq!(said.count(), 1);
    }
}
