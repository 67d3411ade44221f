//! The frozen prefix: said once, pinned in the thread, and evaluated anew only when the cache is lost anyway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contexture_agent::{Agent, CompactRequest, RunRequest};
use contexture_compose::{Block, Prompt};
use contexture_message::{Message, Request};
use contexture_model::Scripted;
use contexture_session::{Thread, TurnConfig};

use crate::bytes::changed_system;
use crate::scene::{Summaries, words};
use crate::stage::{Counting, Stage, TestTime, says};

/// A prompt whose frozen block counts how often it was evaluated.
fn counting(count: &Arc<AtomicUsize>, name: &'static str) -> Prompt {
    let count = Arc::clone(count);
    let block = Block::dynamic("frozen", move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("{name} {number}")) }
    });
    Prompt::builder("p").model("test/model").system("Be brief.").include(block).build().unwrap()
}

struct Scene {
    stage: Stage,
    model: Scripted,
    agent: Agent,
    count: Arc<AtomicUsize>,
    prompt: Prompt,
}

impl Scene {
    async fn new() -> Self {
        let model = Scripted::always(says("Fine."));
        let agent = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default())
            .summarizer(Summaries::faithful())
            .build()
            .unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let prompt = counting(&count, "block");
        Self { stage: Stage::new().await, model, agent, count, prompt }
    }

    async fn turn(&self, request: RunRequest) {
        self.turn_on(&self.stage.thread, &self.prompt, request).await;
    }

    async fn turn_on(&self, thread: &Thread, prompt: &Prompt, request: RunRequest) {
        self.agent.run(prompt, thread, request).outcome().await.unwrap();
    }

    fn evaluated(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether the newest request has another system message than the one before.
    fn is_changed(&self) -> bool {
        let requests = self.model.requests();
        let [.., before, now]: &[Arc<Request>] = &requests else { panic!("two requests") };
        changed_system(before, now).is_some()
    }
}

fn hi() -> RunRequest {
    RunRequest::user("hi")
}

/// A request with everything that makes a turn resolve its prompt twice.
fn reminded() -> RunRequest {
    RunRequest { reminders: vec!["Be quick.".to_owned()], ..hi() }
}

#[tokio::test(start_paused = true)]
async fn neither_its_ttl_nor_another_definition_changes_it() {
    let scene = Scene::new().await;
    scene.turn(hi()).await;
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(120)).await;
        scene.turn(reminded()).await;
        assert!(!scene.is_changed());
    }
    assert_eq!(scene.evaluated(), 1);
    // Edited, and in another process.
    let edited = counting(&scene.count, "edited");
    scene.turn_on(&scene.stage.elsewhere().await, &edited, hi()).await;
    assert!(!scene.is_changed());
    assert_eq!(scene.evaluated(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_longer_than_the_cache_lives_changes_it_once() {
    let scene = Scene::new().await;
    scene.turn(hi()).await;
    tokio::time::advance(Duration::from_secs(301)).await;
    scene.turn(reminded()).await;
    assert!(scene.is_changed());
    scene.turn(hi()).await;
    assert!(!scene.is_changed());
    assert_eq!(scene.evaluated(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_model_changes_it_once() {
    let scene = Scene::new().await;
    scene.turn(hi()).await;
    let other = || reminded().model("test/other");
    scene.turn(other()).await;
    scene.turn(other()).await;
    assert_eq!(scene.evaluated(), 2);
    assert!(!scene.is_changed());
    scene.stage.thread.set_provider_model("test", "third").await.unwrap();
    scene.turn(hi()).await;
    scene.turn(hi()).await;
    assert_eq!(scene.evaluated(), 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_gets_it_anew_once() {
    let scene = Scene::new().await;
    scene.turn(hi()).await;
    for request in [hi(), reminded()] {
        let before = scene.evaluated();
        scene.turn(RunRequest { refresh: true, ..request }).await;
        assert!(scene.is_changed());
        scene.turn(hi()).await;
        assert!(!scene.is_changed());
        assert_eq!(scene.evaluated(), before + 1);
    }
    let before = scene.evaluated();
    scene.agent.refresh(&scene.stage.thread).await.unwrap();
    scene.turn(reminded()).await;
    assert!(scene.is_changed());
    scene.turn(hi()).await;
    assert!(!scene.is_changed());
    assert_eq!(scene.evaluated(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_gets_it_anew_also_while_it_is_remembered() {
    let mut scene = Scene::new().await;
    let count = Arc::clone(&scene.count);
    let block = Block::dynamic("frozen", move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("block {number}")) }
    });
    let block = block.ttl(Duration::from_secs(3600));
    scene.prompt = Prompt::builder("p").model("test/model").include(block).build().unwrap();
    scene.turn(hi()).await;
    scene.turn(RunRequest { refresh: true, ..hi() }).await;
    assert!(scene.is_changed());
    scene.agent.refresh(&scene.stage.thread).await.unwrap();
    scene.turn(hi()).await;
    assert!(scene.is_changed());
    scene.turn(hi()).await;
    assert!(!scene.is_changed());
    assert_eq!(scene.evaluated(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_lost_before_makes_no_difference() {
    let scene = Scene::new().await;
    scene.turn(hi()).await;
    for (refresh, pause) in [(false, 0), (true, 0), (false, 301)] {
        let lost = TurnConfig { items: vec![Message::user("lost").into()], ..TurnConfig::default() };
        drop(scene.stage.thread.begin(lost).await.unwrap());
        tokio::time::advance(Duration::from_secs(pause)).await;
        let before = scene.evaluated();
        scene.turn(RunRequest { refresh, ..hi() }).await;
        assert_eq!(scene.evaluated(), before + usize::from(refresh || pause > 0), "{refresh} {pause}");
        assert_eq!(scene.is_changed(), refresh || pause > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_compaction_changes_it_once() {
    let scene = Scene::new().await;
    for turn in 0..6 {
        let said = [Message::user(words(&format!("{turn}"), 200)), Message::assistant("Well.")];
        scene.stage.thread.add_messages(said.into()).await.unwrap();
    }
    scene.turn(hi()).await;
    let before = scene.evaluated();
    let report = scene.agent.compact(&scene.prompt, &scene.stage.thread, CompactRequest::default()).await;
    assert!(report.unwrap().archive.is_some());
    scene.turn(hi()).await;
    assert!(scene.is_changed());
    scene.turn(hi()).await;
    assert!(!scene.is_changed());
    assert_eq!(scene.evaluated(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_has_not_looked_for_long_does_not_change_it() {
    // Both know the thread from before its first turn; only the other one has spoken since.
    let scene = Scene::new().await;
    let other = scene.stage.elsewhere().await;
    scene.turn_on(&other, &scene.prompt, hi()).await;
    scene.turn(hi()).await;
    assert!(!scene.is_changed(), "the first turn's prefix is pinned");
    // The other one goes on, so the cache is warm all the time.
    for _ in 0..4 {
        tokio::time::advance(Duration::from_secs(200)).await;
        scene.turn_on(&other, &scene.prompt, hi()).await;
        assert!(!scene.is_changed());
    }
    scene.turn(hi()).await;
    assert!(!scene.is_changed(), "the cache was read a moment ago");
}
