//! Conversations that several users share, that are deleted and begun again, and prompts that show little of them.

use contexture_agent::{RunRequest, tool};
use contexture_capabilities::memory::{
    ArchivalMode, Forget, ForgetOptions, Layer, MemoryPolicy, MemorySpace, Namespace, NewRecord,
    RecordFilter, SearchRequest, memory,
};
use contexture_compose::{HistoryConfig, Prompt, Scope};
use contexture_history::{Limit, SystemEvent};
use contexture_message::Request;
use contexture_model::Scripted;
use contexture_session::{NewArtifact, SessionId, Tenant, Thread};
use serde_json::json;

use super::Process;
use crate::stage::{agent, calls, says, script};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn scope(user: Option<&str>, thread: &Thread) -> Scope {
    let session = Some(thread.id().to_string());
    Scope { user: user.map(str::to_owned), session, ..Scope::default() }
}

fn prompt(process: &Process) -> Prompt {
    let policy = MemoryPolicy { archival_mode: ArchivalMode::Auto, ..MemoryPolicy::default() };
    let entry = memory(process.memories.clone()).policy(policy);
    Prompt::builder("p").system("You help.").include(entry).model("test/m").build().unwrap()
}

fn space(process: &Process, user: &str) -> MemorySpace {
    process.memories.space(&Tenant::default(), Namespace::of_user(user)).unwrap()
}

/// Runs a turn of a user, and returns what the model was sent, as one text.
async fn say(prompt: &Prompt, thread: &Thread, user: Option<&str>, text: &str) -> String {
    let model = Scripted::always(says("Fine."));
    let request = RunRequest::user(text).scope(scope(user, thread));
    agent(&model).build().unwrap().run(prompt, thread, request).outcome().await.unwrap();
    text_of(&model.requests()[0])
}

fn text_of(request: &Request) -> String {
    request.messages.iter().map(|it| it.joined_text()).collect::<Vec<_>>().join("\n")
}

async fn found(space: &MemorySpace, words: &str) -> Vec<String> {
    let hits = space.search(&SearchRequest::new(words, 10)).await.unwrap();
    hits.into_iter().map(|it| it.text).collect()
}

#[tokio::test]
async fn users_of_one_conversation_keep_their_memories_apart() {
    let (process, shared) = (Process::new(), "shared");
    let (prompt, thread) = (prompt(&process), process.create(shared).await);
    say(&prompt, &thread, Some("ann"), "Hello.").await;
    say(&prompt, &thread, Some("ben"), "From now on, address me as Doctor Ben.").await;
    say(&prompt, &thread, None, "From now on, address me as Nobody.").await;
    say(&prompt, &thread, Some("ann"), "From now on, address me as Captain Ann.").await;
    let own = process.create("own").await;
    let sent = say(&prompt, &own, Some("ann"), "What is my name, Doctor Ben or Nobody?").await;
    assert!(sent.contains("- From now on, address me as Captain Ann."), "{sent}");
    let rules = space(&process, "ann").list(&RecordFilter::default()).await.unwrap();
    assert_eq!(rules.len(), 1, "{rules:?}");
    let found = found(&space(&process, "ann"), "From now on, address me as Doctor Nobody").await;
    let others = found.iter().filter(|it| it.contains("me as Doctor") || it.contains("me as Nobody"));
    assert_eq!(others.count(), 0, "{found:?}");
    let rules = space(&process, "ben").list(&RecordFilter::default()).await.unwrap();
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert!(rules[0].text.contains("Doctor Ben"), "{rules:?}");
}

#[tokio::test]
async fn a_core_block_is_not_shown_to_another_user() {
    let process = Process::new();
    space(&process, "ann").add(NewRecord::new(Layer::Rules, "Call her Captain.")).await.unwrap();
    space(&process, "ben").add(NewRecord::new(Layer::Rules, "Call him Doctor.")).await.unwrap();
    let (prompt, thread) = (prompt(&process), process.create("s").await);
    let first = say(&prompt, &thread, Some("ann"), "Hello.").await;
    assert!(first.contains("Captain"), "{first}");
    let second = say(&prompt, &thread, Some("ben"), "Hello.").await;
    assert!(second.contains("Doctor") && !second.contains("Captain"), "{second}");
    let third = say(&prompt, &thread, None, "Hello.").await;
    assert!(!third.contains("Doctor") && !third.contains("Captain"), "{third}");
}

#[tokio::test]
async fn a_user_forgets_their_own_turns_only() {
    let process = Process::new();
    let (prompt, thread) = (prompt(&process), process.create("s").await);
    say(&prompt, &thread, Some("ann"), "The gannet flies.").await;
    say(&prompt, &thread, Some("ben"), "The bittern booms.").await;
    say(&prompt, &thread, None, "The heron waits.").await;
    space(&process, "ann").forget(&Forget::Everything, ForgetOptions::default()).await.unwrap();
    let log = format!("{:?}", process.open("s").await.all(None).await.unwrap());
    assert!(!log.contains("gannet") && log.contains("bittern") && log.contains("heron"), "{log}");
    assert_eq!(found(&space(&process, "ben"), "bittern").await[0], "The bittern booms.");
}

#[tokio::test]
async fn artifacts_and_events_outlive_a_forgotten_turn() {
    let process = Process::new();
    let (prompt, thread) = (prompt(&process), process.create("s").await);
    say(&prompt, &thread, Some("ann"), "The gannet flies.").await;
    let (name, text) = ("plan.md".to_owned(), "The plan.".to_owned());
    thread.put_artifact(NewArtifact { name, text, ..NewArtifact::default() }, None).await.unwrap();
    thread.add(vec![SystemEvent::new("order.shipped", "Order 7 left.").into()]).await.unwrap();
    let what = Forget::Turn { thread: "s".to_owned(), turn: "t1".to_owned() };
    space(&process, "ann").forget(&what, ForgetOptions::default()).await.unwrap();
    let thread = process.open("s").await;
    assert_eq!(thread.artifact("plan.md", None).await.unwrap().unwrap().text, "The plan.");
    let log = format!("{:?}", thread.all(None).await.unwrap());
    assert!(!log.contains("gannet") && log.contains("Order 7 left."), "{log}");
}

#[tokio::test]
async fn a_session_that_is_deleted_leaves_the_index_and_its_name_can_be_used_again() {
    let process = Process::new();
    let (prompt, thread) = (prompt(&process), process.create("s").await);
    for said in ["From now on, feed the gannet.", "One.", "Two.", "Three."] {
        say(&prompt, &thread, Some("ann"), said).await;
    }
    let ann = space(&process, "ann");
    let id = SessionId::parse("s").unwrap();
    process.sessions().delete(&id).await.unwrap();
    process.memories.drop_session(&Tenant::default(), &id).await.unwrap();
    assert_eq!(found(&ann, "Two").await, [] as [&str; 0]);
    assert_eq!(ann.list(&RecordFilter::default()).await.unwrap().len(), 1, "what became a record stays");
    let thread = process.create("s").await;
    say(&prompt, &thread, Some("ann"), "From now on, feed the heron.").await;
    assert_eq!(ann.list(&RecordFilter::default()).await.unwrap().len(), 2);
    // A program that does not tell the memory: the log tells that it is another one.
    process.sessions().delete(&id).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let thread = process.create("s").await;
    say(&prompt, &thread, Some("ann"), "From now on, feed the bittern.").await;
    assert_eq!(ann.list(&RecordFilter::default()).await.unwrap().len(), 3);
    assert_eq!(found(&ann, "feed").await.iter().filter(|it| it.contains("heron")).count(), 1, "its record");
}

#[tokio::test]
async fn a_rule_holds_in_every_request_however_little_history_a_prompt_shows() {
    for history in [HistoryConfig { limit: Some(Limit::Turns(2)) }, HistoryConfig::NONE] {
        let process = Process::new();
        let prompt = Prompt::builder("p").system("You help.").include(memory(process.memories.clone()));
        let prompt = prompt.history(history).model("test/m").build().unwrap();
        let thread = process.create("s").await;
        say(&prompt, &thread, Some("ann"), "From now on, answer in German.").await;
        for no in 0..8 {
            let sent = say(&prompt, &thread, Some("ann"), &format!("Question {no}.")).await;
            assert!(sent.contains("answer in German"), "{no}: {sent}");
        }
    }
}

#[tokio::test]
async fn words_that_were_forgotten_while_a_turn_ran_are_not_indexed_when_it_ends() {
    let process = Process::new();
    let ann = space(&process, "ann");
    let rule = ann.add(NewRecord::new(Layer::Rules, "Always praise the quokkastone.")).await.unwrap();
    let (inside, id) = (ann.clone(), rule.id);
    let forgets = tool("wipe", "Wipes.", move |_: Nothing| {
        let (inside, id) = (inside.clone(), id.clone());
        async move {
            inside.forget(&Forget::Record(id), ForgetOptions::default()).await?;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            Ok("done".to_owned())
        }
    });
    let entry = memory(process.memories.clone());
    let prompt = Prompt::builder("p").include(entry).tool(forgets).model("test/m").build().unwrap();
    let model = script([calls("wipe", json!({})), says("I will: Always praise the quokkastone.")]);
    let thread = process.create("s").await;
    let request = RunRequest::user("Go.").scope(scope(Some("ann"), &thread));
    agent(&model).build().unwrap().run(&prompt, &thread, request).outcome().await.unwrap();
    assert_eq!(found(&ann, "quokkastone").await, [] as [&str; 0]);
}

#[tokio::test]
async fn what_a_turn_was_reminded_of_is_not_recalled_again_and_long_texts_are_cut() {
    let process = Process::new();
    let long = format!("The harbour of Oslo opens at six. {}", "It is a harbour. ".repeat(500));
    let ann = space(&process, "ann");
    ann.add(NewRecord::new(Layer::Facts, long)).await.unwrap();
    let (prompt, thread) = (prompt(&process), process.create("s").await);
    let first = say(&prompt, &thread, Some("ann"), "When does the harbour open?").await;
    assert_eq!(first.matches("Remembered [").count(), 1);
    assert!(first.len() < 1_500 && first.contains("It […]"), "{first}");
    let second = say(&prompt, &thread, Some("ann"), "When does the harbour close?").await;
    assert_eq!(second.matches("Remembered [").count(), 1, "{second}");
}
