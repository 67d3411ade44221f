//! What a turn begins with: the user's words, the prompt's own, and blocks of the conversation.

use contexture_agent::{AgentConfig, CompactionConfig, RunRequest};
use contexture_compose::{Block, HistoryConfig, HistoryLimit, Prompt, PromptBuilder, Text, UserMessage};
use contexture_message::{Message, Part, Request, Role};
use contexture_model::Scripted;
use serde_json::json;

use crate::scene::words;
use crate::stage::{Stage, agent, says};

fn prompt() -> PromptBuilder {
    Prompt::builder("p").model("test/model").system("Be brief.")
}

fn model() -> Scripted {
    Scripted::always(says("Fine."))
}

/// Returns what the users said in a request, a line each.
fn said(request: &Request) -> String {
    let users = request.messages.iter().filter(|it| it.role == Role::User);
    let words = users.map(|it| serde_json::to_string(&it.content).unwrap());
    words.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_turn_with_nothing_to_answer_is_refused() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let (plain, own) = (prompt().build().unwrap(), prompt().user("What is new?").build().unwrap());
    let blank = || RunRequest::user("  ");
    agent.run(&plain, &stage.thread, RunRequest::user("Hi.")).outcome().await.unwrap();
    let before = stage.log().await;
    let refused = agent.run(&plain, &stage.thread, blank()).outcome().await.unwrap_err();
    insta::assert_snapshot!(refused, @"`user` of the request: it is empty, and the thread ends with an answer: there is nothing for the model to answer");
    assert_eq!((stage.log().await, model.requests().len()), (before, 1));
    // What the prompt says, and what the request brings, is something to answer.
    agent.run(&own, &stage.thread, blank()).outcome().await.unwrap();
    let reminded = RunRequest { reminders: vec!["Say goodbye.".to_owned()], ..blank() };
    agent.run(&plain, &stage.thread, reminded).outcome().await.unwrap();
}

#[tokio::test]
async fn an_empty_message_is_neither_stored_nor_sent() {
    for empty in [Message::user(""), Message::user(" \n"), Message::parts(Role::User, Vec::new())] {
        let (stage, model) = (Stage::new().await, model());
        let agent = agent(&model).build().unwrap();
        let request = || RunRequest { user: Some(empty.clone()), ..RunRequest::default() };
        agent.run(&prompt().build().unwrap(), &stage.thread, request()).outcome().await.unwrap();
        assert!(!stage.log().await.contains("user:"), "{}", stage.log().await);
        // The prompt's own words take its place, and are on record.
        let own = prompt().user("What is new?").build().unwrap();
        agent.run(&own, &stage.thread, request()).outcome().await.unwrap();
        assert!(stage.log().await.contains("t2 user: What is new?"), "{}", stage.log().await);
        agent.run(&own, &stage.thread, RunRequest::user("And?")).outcome().await.unwrap();
        let shown = said(&model.requests()[2]);
        assert_eq!(shown.matches("What is new?").count(), 2, "once in t2, once in the slot: {shown}");
    }
}

#[tokio::test]
async fn a_text_for_calls_without_a_message_gives_way_to_the_users() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let prompt = prompt().prompt("What is new?").build().unwrap();
    agent.run(&prompt, &stage.thread, RunRequest::user("A joke, please.")).outcome().await.unwrap();
    agent.run(&prompt, &stage.thread, RunRequest::default()).outcome().await.unwrap();
    insta::assert_snapshot!(said(&model.requests()[1]), @r#"
    [{"type":"text","text":"A joke, please."}]
    [{"type":"text","text":"What is new?"}]
    "#);
}

#[tokio::test]
async fn several_messages_of_the_slot_are_on_record_where_the_user_says_nothing() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let prompt = prompt()
        .user_message(UserMessage::text("One."))
        .user_message(UserMessage::text("Two."))
        .include(Block::text("page", "7").user().turn())
        .build()
        .unwrap();
    for _ in 0..2 {
        agent.run(&prompt, &stage.thread, RunRequest::default()).outcome().await.unwrap();
    }
    insta::assert_snapshot!(said(&model.requests()[0]), @r#"
    [{"type":"text","text":"One."},{"type":"text","text":"<system-context>\n<page>\n7\n</page>\n</system-context>"}]
    [{"type":"text","text":"Two."}]
    "#);
    let [first, second] = [0, 1].map(|it| model.requests()[it].messages.clone());
    assert_eq!(first[..], second[..first.len()], "what was sent before stands at the beginning");
}

#[tokio::test]
async fn a_block_of_the_conversation_is_said_again_when_its_turn_is_gone() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let limited = || prompt().history(HistoryConfig { limit: Some(HistoryLimit::Turns(2)) });
    // A session that was there before the block.
    let before = limited().build().unwrap();
    agent.run(&before, &stage.thread, RunRequest::user("Hello.")).outcome().await.unwrap();
    let with = limited().include(Block::text("rules", "No jokes.").user()).build().unwrap();
    for text in ["One.", "Two.", "Three.", "Four."] {
        agent.run(&with, &stage.thread, RunRequest::user(text)).outcome().await.unwrap();
    }
    for request in &model.requests()[1..] {
        let shown = said(request);
        assert_eq!(shown.matches("No jokes.").count(), 1, "{shown}");
    }
    // It stands in the turn that said it first, and again in the first whose request lacks that.
    let holds = |it: &Message| it.content.len() > 1;
    let place = |it: &Request| it.messages.iter().filter(|it| it.role == Role::User).position(|it| holds(it));
    let places: Vec<_> = model.requests()[1..].iter().map(|it| place(it)).collect();
    assert_eq!(places, [Some(1), Some(1), Some(0), Some(2)]);
}

#[tokio::test]
async fn a_block_may_be_called_role() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let prompt = prompt().include(Block::text("role", "A clerk.")).build().unwrap();
    agent.run(&prompt, &stage.thread, RunRequest::user("Hi.")).outcome().await.unwrap();
    let system = model.requests()[0].messages[0].clone();
    assert_eq!(system.as_text(), Some("Be brief.\n\n<role>\nA clerk.\n</role>"));
}

#[tokio::test]
async fn the_text_of_a_message_with_an_attachment_is_sent_once() {
    let (stage, model) = (Stage::new().await, model());
    let agent = agent(&model).build().unwrap();
    let prompt = prompt().user(Text::template("{{ input.message }}").unwrap()).build().unwrap();
    let image: Part =
        serde_json::from_value(json!({"type": "image", "url": "https://a.example/1.png"})).unwrap();
    let user = Some(Message::parts(Role::User, vec![Part::text("look"), image]));
    let request = RunRequest { user, ..RunRequest::default() }.input(json!({"message": "look"}));
    agent.run(&prompt, &stage.thread, request).outcome().await.unwrap();
    insta::assert_snapshot!(said(&model.requests()[0]), @r#"[{"type":"text","text":"look"},{"type":"image","url":"https://a.example/1.png"}]"#);
}

#[tokio::test]
async fn a_block_of_the_conversation_is_said_again_when_the_budget_drops_its_turn() {
    let (stage, model) = (Stage::new().await, model());
    // Nothing is summarised: turns that do not fit are dropped.
    let compaction = CompactionConfig { enabled: false, ..CompactionConfig::default() };
    let config = AgentConfig { compaction, ..AgentConfig::default() };
    let agent = agent(&model).config(config).build().unwrap();
    let rules = || Block::text("rules", "No jokes.").user();
    let prompt = prompt().input_budget(420).include(rules()).build().unwrap();
    for number in 0..6 {
        let text = words(&format!("turn {number}"), 100);
        agent.run(&prompt, &stage.thread, RunRequest::user(text)).outcome().await.unwrap();
    }
    let n_users = |it: &Request| it.messages.iter().filter(|it| it.role == Role::User).count();
    let requests = model.requests();
    let users: Vec<usize> = requests.iter().map(|it| n_users(it)).collect();
    assert!(users[5] < 6, "turns are dropped: {users:?}");
    for request in &requests {
        let shown = said(request);
        assert_eq!(shown.matches("No jokes.").count(), 1, "{shown}");
    }
}
