//! A memory together with what else a prompt has: skills, boards, approvals, forgetting, and models that fail.

use std::sync::Arc;

use contexture_agent::{
    CancellationToken, CompactRequest, Decision, RunRequest, Summarized, Summarizer, SummaryCall, Verdict,
    tool,
};
use contexture_capabilities::blackboard::{BoardOptions, BoardPorts, BoardScope, Boards, blackboard};
use contexture_capabilities::memory::{
    ArchivalMode, CaptureOptions, ExtractCall, ExtractedFact, Extractor, Forget, ForgetOptions, Layer,
    MemoryPolicy, NewRecord, RecordFilter, SearchRequest, memory,
};
use contexture_capabilities::skills;
use contexture_compose::ports::{FixedSkill, FixedSkills};
use contexture_compose::{BoxError, BoxFuture, Prompt, Scope};
use contexture_history::TurnStatus;
use contexture_message::{Answer, Part, Request, ToolCall};
use contexture_model::Scripted;
use serde_json::{Value, json};

use super::Process;
use crate::blackboard::UniqueNames;
use crate::stage::{TestTime, agent, calls, says, script};

fn scope(session: &str) -> Scope {
    Scope { user: Some("ada".into()), session: Some(session.to_owned()), ..Scope::default() }
}

fn auto() -> MemoryPolicy {
    MemoryPolicy { archival_mode: ArchivalMode::Auto, ..MemoryPolicy::default() }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn call(id: &str, name: &str, arguments: Value) -> Answer {
    Answer::parts(vec![Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments })])
}

fn text_of(request: &Request) -> String {
    request.messages.iter().map(|it| it.joined_text()).collect::<Vec<_>>().join("\n")
}

struct Brief;

impl Summarizer for Brief {
    fn summarize(&self, _: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let text = "They talked.".to_owned();
        Box::pin(async move { Ok(Summarized { text, ..Summarized::default() }) })
    }
}

#[tokio::test]
async fn memory_skills_and_a_board_survive_a_compaction_in_one_prompt() {
    let process = Process::new();
    let source =
        Arc::new(FixedSkills(vec![FixedSkill::new("refunds", "About refunds.", "Refund within a day.")]));
    let ports = BoardPorts {
        store: Arc::clone(&process.store),
        time: Arc::new(TestTime),
        names: Arc::new(UniqueNames),
    };
    let board = BoardOptions::new("plan", json!({"properties": {"title": {"type": "string"}}}));
    let board = blackboard(&Boards::new(ports), board.scope(BoardScope::Session)).unwrap();
    let prompt = Prompt::builder("p")
        .system("You help.")
        .include(memory(process.memories.clone()).policy(auto()))
        .include(skills(source.clone()))
        .include(board)
        .model("test/m")
        .build()
        .unwrap();
    let model = script([
        call("a", "LoadSkill", json!({"name": "refunds"})),
        call("b", "plan_write", json!({"path": "/title", "value": "Kestrel"})),
        says("Ready."),
        says("One."),
        says("Two."),
        says("Three."),
    ]);
    let agent = agent(&model).skills(source).summarizer(Brief).build().unwrap();
    let thread = process.create("s").await;
    let say = async |text: String| {
        agent.run(&prompt, &thread, RunRequest::user(text).scope(scope("s"))).outcome().await.unwrap()
    };
    say("From now on, always sign as Fox. Begin.".to_owned()).await;
    for no in 0..2 {
        say(format!("Part {no}. {}", "It is a long story. ".repeat(40))).await;
    }
    let mut request = CompactRequest::default();
    request.spec.scope = scope("s");
    assert!(agent.compact(&prompt, &thread, request).await.unwrap().archive.is_some());
    say("And now?".to_owned()).await;
    let last = text_of(model.requests().last().unwrap());
    for expected in ["always sign as Fox", "Refund within a day.", "Kestrel"] {
        assert!(last.contains(expected), "no `{expected}` in {last}");
    }
    assert_eq!(last.matches("Refund within a day.").count(), 1, "{last}");
    let system = model.requests().last().unwrap().messages[0].joined_text();
    assert!(system.contains("<core-memory>\n- From now on, always sign as Fox.\n</core-memory>"), "{system}");
}

#[tokio::test]
async fn a_turn_that_waits_for_approval_remembers_once_after_it_was_resumed() {
    let process = Process::new();
    let pay = tool("pay", "Pays.", |_: Nothing| async { Ok("paid".to_owned()) }).needs_approval();
    let prompt = Prompt::builder("p").include(memory(process.memories.clone())).tool(pay).model("test/m");
    let prompt = prompt.build().unwrap();
    let model = script([
        call("a", "remember", json!({"text": "Ada pays on Fridays.", "layer": "working"})),
        call("b", "pay", json!({})),
        call("c", "memory_search", json!({"query": "Fridays"})),
        says("Paid."),
    ]);
    let agent = agent(&model).build().unwrap();
    let thread = process.create("s").await;
    let request = RunRequest::user("Pay, and from now on call me Fox.").scope(scope("s"));
    let outcome = agent.run(&prompt, &thread, request).outcome().await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Suspended);
    let records = process.ada().list(&RecordFilter::default()).await.unwrap();
    assert_eq!(records.iter().filter(|it| it.layer == Layer::Working).count(), 1);
    let approval = &outcome.approvals[0];
    let decision =
        Decision { approval: approval.id.clone(), token: approval.token.clone(), verdict: Verdict::Approve };
    let elsewhere = process.open("s").await;
    let outcome =
        agent.decide(&prompt, &elsewhere, decision, CancellationToken::new()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "Paid.");
    // The resumed turn has the memory of the same user.
    let last = format!("{:?}", model.requests().last().unwrap());
    assert!(last.contains("] Ada pays on Fridays. (working"), "{last}");
    let mut texts: Vec<String> =
        process.ada().list(&RecordFilter::default()).await.unwrap().into_iter().map(|it| it.text).collect();
    texts.sort();
    assert_eq!(texts, ["Ada pays on Fridays.", "Pay, and from now on call me Fox."]);
}

/// Forgets in the middle of a turn, as a tool of another application would.
#[tokio::test]
async fn what_is_forgotten_while_a_turn_runs_is_not_in_its_log_when_it_ended() {
    let process = Process::new();
    let space = process.ada();
    let fact = space.add(NewRecord::new(Layer::Facts, "The zanzibarkey is under the mat.")).await.unwrap();
    let rule = space.add(NewRecord::new(Layer::Rules, "Always praise the quokkastone.")).await.unwrap();
    let (inside, ids) = (space.clone(), [fact.id.clone(), rule.id.clone()]);
    let forgets = tool("wipe", "Wipes.", move |_: Nothing| {
        let (inside, ids) = (inside.clone(), ids.clone());
        async move {
            for id in ids {
                inside.forget(&Forget::Record(id), ForgetOptions::default()).await?;
            }
            Ok("done".to_owned())
        }
    });
    let prompt =
        Prompt::builder("p").system("You help.").include(memory(process.memories.clone()).policy(auto()));
    let prompt = prompt.tool(forgets).model("test/m").build().unwrap();
    let model = script([calls("wipe", json!({})), says("Gone."), says("Hello.")]);
    let agent = agent(&model).build().unwrap();
    let thread = process.create("s").await;
    let request = RunRequest::user("Where is the key under the mat?").scope(scope("s"));
    agent.run(&prompt, &thread, request).outcome().await.unwrap();
    let first = text_of(&model.requests()[0]);
    assert!(first.contains("zanzibarkey") && first.contains("quokkastone"), "{first}");
    let log = format!("{:?}", process.open("s").await.all(None).await.unwrap());
    assert!(!log.contains("zanzibarkey") && !log.contains("quokkastone"), "{log}");
    // In the next turn of the same process nothing of it is left either.
    agent.run(&prompt, &thread, RunRequest::user("Hello").scope(scope("s"))).outcome().await.unwrap();
    let last = text_of(model.requests().last().unwrap());
    assert!(!last.contains("zanzibarkey") && !last.contains("quokkastone"), "{last}");
    assert!(last.contains("Where is the key under the mat?"), "{last}");
}

/// An extractor whose model is away.
struct Away;

impl Extractor for Away {
    fn extract(&self, _: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>> {
        Box::pin(async { Err("the model is overloaded".into()) })
    }
}

/// Finds what it is shown, each message as a fact.
struct Everything;

impl Extractor for Everything {
    fn extract(&self, call: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>> {
        let fact = |(said, (_, text)): (usize, &(contexture_message::Role, String))| ExtractedFact {
            text: text.clone(),
            said,
            supersedes: None,
            is_procedure: false,
        };
        let facts = call.said.iter().enumerate().map(fact).collect();
        Box::pin(async { Ok(facts) })
    }
}

#[tokio::test]
async fn a_failing_extractor_costs_no_turn_and_no_rule_and_is_asked_again() {
    let process = Process::new();
    let thread = process.create("s").await;
    let built = |extractor: Arc<dyn Extractor>| {
        let entry = memory(process.memories.clone()).extractor(extractor).capture(CaptureOptions::default());
        Prompt::builder("p").include(entry).model("test/m").build().unwrap()
    };
    let model = Scripted::always(says("Fine."));
    let agent = agent(&model).build().unwrap();
    let run = async |prompt: &Prompt, text: &str| {
        agent.run(prompt, &thread, RunRequest::user(text).scope(scope("s"))).outcome().await.unwrap()
    };
    let outcome = run(&built(Arc::new(Away)), "From now on, call me Fox.").await;
    assert_eq!(outcome.text(), "Fine.");
    let facts = async || {
        let records = process.ada().list(&RecordFilter::default()).await.unwrap();
        records.into_iter().filter(|it| it.layer == Layer::Facts).map(|it| it.text).collect::<Vec<_>>()
    };
    assert_eq!(process.ada().list(&RecordFilter::default()).await.unwrap().len(), 1, "the rule");
    assert_eq!(facts().await, Vec::<String>::new());
    run(&built(Arc::new(Everything)), "The ferry is blue.").await;
    let mut found = facts().await;
    found.sort();
    assert_eq!(found, ["Fine.", "From now on, call me Fox.", "The ferry is blue."], "of both turns");
}

/// Words that were forgotten are not shown to an extractor: it could tell them in other words.
#[tokio::test]
async fn an_extractor_does_not_learn_forgotten_words_from_the_old_log() {
    let process = Process::new();
    let (space, thread) = (process.ada(), process.create("s").await);
    let said = contexture_message::Message::user("Well, my pin is 47 11, you know. The ferry is blue.");
    thread.add_messages(vec![said, contexture_message::Message::assistant("Yes.")]).await.unwrap();
    let pin = space.add(NewRecord::new(Layer::Facts, "my pin is 47 11")).await.unwrap();
    space.capture(thread.id()).await.unwrap();
    space.forget(&Forget::Record(pin.id), ForgetOptions::default()).await.unwrap();
    space.recapture(thread.id()).await.unwrap();
    space.extract(thread.id(), &Everything, contexture_capabilities::memory::Accept::Auto).await.unwrap();
    let found = format!("{:?}", space.list(&RecordFilter::default()).await.unwrap());
    assert!(!found.contains("47 11"), "{found}");
    let hits = space.search(&SearchRequest::new("pin 47 11", 5)).await.unwrap();
    assert!(hits.iter().all(|it| !it.text.contains("47 11")), "{hits:?}");
}
