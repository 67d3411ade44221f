//! Rules that change while a thread keeps its core block: the next turn is told once.

use contexture_agent::RunRequest;
use contexture_capabilities::memory::{
    Forget, ForgetOptions, Layer, MemorySpace, NewRecord, RecordEdit, RecordFilter, Status, memory,
};
use contexture_compose::{Prompt, Scope};
use contexture_message::Request;
use contexture_model::Scripted;
use contexture_session::Thread;
use serde_json::json;

use super::Process;
use crate::stage::{agent, calls, says, script};

struct Scene {
    process: Process,
    prompt: Prompt,
    thread: Thread,
}

impl Scene {
    /// Begins a conversation under a rule.
    async fn new() -> (Self, MemorySpace, String) {
        let process = Process::new();
        let space = process.ada();
        let rule = space.add(NewRecord::new(Layer::Rules, "Always answer in German.")).await.unwrap();
        let prompt = Prompt::builder("p").system("You help.").include(memory(process.memories.clone()));
        let thread = process.create("s").await;
        let scene = Self { prompt: prompt.model("test/m").build().unwrap(), process, thread };
        assert_eq!(events(&scene.say("Hello").await).len(), 0);
        (scene, space, rule.id)
    }

    async fn run(&self, model: &Scripted, text: &str) {
        let session = Some("s".to_owned());
        let scope = Scope { user: Some("ada".into()), session, ..Scope::default() };
        let request = RunRequest::user(text).scope(scope);
        agent(model).build().unwrap().run(&self.prompt, &self.thread, request).outcome().await.unwrap();
    }

    async fn say(&self, text: &str) -> Request {
        let model = script([says("Fine.")]);
        self.run(&model, text).await;
        Request::clone(&model.requests()[0])
    }
}

/// Returns the events about memory in a request.
fn events(request: &Request) -> Vec<String> {
    let texts = request.messages.iter().map(|it| it.joined_text());
    texts.filter(|it| it.starts_with("<system-event name=\"memory.")).collect()
}

#[tokio::test]
async fn a_rule_that_others_change_is_told_once_and_the_prefix_stays() {
    let (scene, space, id) = Scene::new().await;
    let before = scene.say("Still there?").await;
    assert_eq!(events(&before), [] as [&str; 0]);
    space
        .edit(
            &id,
            None,
            RecordEdit { text: Some("Always answer in French.".into()), ..RecordEdit::default() },
        )
        .await
        .unwrap();
    space.add(NewRecord::new(Layer::Rules, "Use metric units.")).await.unwrap();
    let told = scene.say("And now?").await;
    assert_eq!(told.messages[0], before.messages[0]);
    insta::assert_snapshot!(events(&told).join("\n"), @r#"
    <system-event name="memory.updated">
    The rules in `core-memory` have changed. From now on these apply in their place:
    - Always answer in French.
    - Use metric units.
    </system-event>
    "#);
    // It stands before the words of the user, and is part of the log.
    let last = told.messages.last().unwrap().joined_text();
    assert_eq!(last, "And now?");
    let next = scene.say("Go on.").await;
    assert_eq!(events(&next), events(&told), "it is told once");
    assert_eq!(next.messages[..told.messages.len()], told.messages[..], "the bytes stay");
    // What is taken back is told as well.
    for rule in space.list(&RecordFilter::default()).await.unwrap() {
        space.decide(&rule.id, Status::Rejected, None).await.unwrap();
    }
    let emptied = events(&scene.say("And now?").await);
    assert!(emptied.len() == 2 && emptied[1].contains("None of them applies any more."), "{emptied:?}");
}

#[tokio::test]
async fn what_this_conversation_says_itself_is_not_told_again() {
    let (scene, space, _) = Scene::new().await;
    scene.say("From now on, use metric units.").await;
    let rules = space.list(&RecordFilter::default()).await.unwrap();
    assert_eq!(rules.len(), 2, "{rules:?}");
    assert_eq!(events(&scene.say("Thanks.").await), [] as [&str; 0]);
}

#[tokio::test]
async fn a_proposal_that_is_approved_is_told() {
    let (scene, space, _) = Scene::new().await;
    let proposal = json!({"text": "Never use tabs.", "layer": "rules"});
    scene.run(&script([calls("remember", proposal), says("Done.")]), "Go.").await;
    assert_eq!(events(&scene.say("And?").await), [] as [&str; 0], "it waits for approval");
    let filter = RecordFilter { status: Some(Status::Proposed), ..RecordFilter::default() };
    let proposed = space.list(&filter).await.unwrap().remove(0);
    space.decide(&proposed.id, Status::Accepted, None).await.unwrap();
    let told = events(&scene.say("And now?").await);
    assert!(told.len() == 1 && told[0].contains("- Never use tabs."), "{told:?}");
}

#[tokio::test]
async fn what_is_forgotten_leaves_the_prefix_and_the_events() {
    let (scene, space, id) = Scene::new().await;
    let secret = space.add(NewRecord::new(Layer::Rules, "Always greet with bluebird99.")).await.unwrap();
    let told = scene.say("And now?").await;
    assert!(events(&told)[0].contains("bluebird99"), "{told:?}");
    space.forget(&Forget::Record(secret.id), ForgetOptions::default()).await.unwrap();
    let scene = Scene { thread: scene.process.open("s").await, ..scene };
    let after = scene.say("And now?").await;
    assert!(!format!("{after:?}").contains("bluebird99"), "{after:?}");
    assert_eq!(events(&after).len(), 1, "there is nothing new to tell: {after:?}");
    space.forget(&Forget::Record(id), ForgetOptions::default()).await.unwrap();
    let scene = Scene { thread: scene.process.open("s").await, ..scene };
    let after = scene.say("And now?").await;
    assert!(!format!("{after:?}").contains("German"), "{after:?}");
    assert_eq!(events(&after).len(), 1, "{after:?}");
}
