//! Messages before the history: the model reads them first, also after a compaction, and the frozen prefix stays.

use std::sync::Arc;

use contexture_agent::{Agent, CompactRequest, RunRequest};
use contexture_message::{Message, Request};
use contexture_model::Scripted;

use crate::bytes::changed_system;
use crate::scene::{Summaries, words};
use crate::stage::{Stage, agent, prompt, says};

struct Scene {
    stage: Stage,
    model: Scripted,
    summaries: Summaries,
    agent: Agent,
}

impl Scene {
    async fn new() -> Self {
        let (model, summaries) = (Scripted::always(says("Fine.")), Summaries::faithful());
        let agent = agent(&model).summarizer(summaries.clone()).build().unwrap();
        Self { stage: Stage::new().await, model, summaries, agent }
    }

    async fn turn(&self, text: &str) -> Arc<Request> {
        self.agent.run(&prompt(), &self.stage.thread, RunRequest::user(text)).outcome().await.unwrap();
        self.model.requests().pop().unwrap()
    }
}

fn texts(request: &Request) -> Vec<&str> {
    request.messages.iter().filter_map(|it| it.as_text()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_model_reads_it_first_and_the_system_message_stays() {
    let scene = Scene::new().await;
    let before = scene.turn("hi").await;
    let messages = vec![Message::user("I am Ada."), Message::assistant("Welcome.")];
    assert!(scene.stage.thread.prepend_once("k", messages).await.unwrap());
    let after = scene.turn("again").await;
    assert_eq!(texts(&after), ["Be brief.", "I am Ada.", "Welcome.", "hi", "Fine.", "again"]);
    assert_eq!(changed_system(&before, &after), None);
    let later = scene.turn("more").await;
    assert_eq!(later.messages[..after.messages.len()], after.messages[..]);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_leaves_it_where_it_is() {
    let scene = Scene::new().await;
    let thread = &scene.stage.thread;
    thread.prepend_once("k", vec![Message::user("I am Ada.")]).await.unwrap();
    for turn in 0..6 {
        let said = [Message::user(words(&format!("{turn}"), 200)), Message::assistant("Well.")];
        thread.add_messages(said.into()).await.unwrap();
    }
    let report = scene.agent.compact(&prompt(), thread, CompactRequest::default()).await;
    assert!(report.unwrap().archive.is_some());
    let asked = scene.summaries.calls().remove(0);
    assert_eq!(texts(&asked.request)[..2], ["Be brief.", "I am Ada."], "as the conversation begins");
    assert!(!asked.messages.contains(&Arc::new(Message::user("I am Ada."))), "it is not summarised");
    let after = scene.turn("next").await;
    assert_eq!(texts(&after)[..2], ["Be brief.", "I am Ada."]);
    assert!(after.messages[2].joined_text().contains("What happened so far."));
}
