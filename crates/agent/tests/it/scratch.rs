//! Calls on a scratch thread: the same bytes as on the thread itself, and no trace in it.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{CompactRequest, RunRequest};
use contexture_compose::{Block, Prompt};
use contexture_message::{Message, Request};
use contexture_model::Scripted;
use contexture_session::Thread;
use serde_json::json;

use crate::scene::{Summaries, words};
use crate::stage::{Stage, agent, calls, echo, says};

/// A prompt whose frozen block says something else each time it is evaluated.
fn prompt() -> Prompt {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let block = Block::dynamic("frozen", move |_| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move { Ok(format!("evaluated {number}")) }
    });
    Prompt::builder("p")
        .model("test/model")
        .system("Be brief.")
        .tool(echo("echo").definition().clone())
        .include(block)
        .build()
        .unwrap()
}

async fn request_on(thread: &Thread, prompt: &Prompt) -> Arc<Request> {
    let model = Scripted::always(says("Fine."));
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    agent.run(prompt, thread, RunRequest::user("next")).outcome().await.unwrap();
    model.requests().remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_request_on_a_scratch_thread_is_the_request_on_the_thread() {
    let (stage, prompt) = (Stage::new().await, prompt());
    let thread = &stage.thread;
    thread.set_system_instructions(Some("Be kind.")).await.unwrap();
    for turn in 0..6 {
        let said = [Message::user(words(&format!("{turn}"), 200)), Message::assistant("Well.")];
        thread.add_messages(said.into()).await.unwrap();
    }
    let model = Scripted::new([
        contexture_model::Step::Answer(calls([("c1", "echo", json!({"text": words("result", 4_000)}))])),
        contexture_model::Step::Answer(says("Done.")),
    ]);
    let runner = agent(&model).tool(echo("echo")).summarizer(Summaries::faithful()).build().unwrap();
    runner.run(&prompt, thread, RunRequest::user("echo it")).outcome().await.unwrap();
    for is_compacted in [false, true] {
        if is_compacted {
            let report = runner.compact(&prompt, thread, CompactRequest::default()).await;
            assert!(report.unwrap().archive.is_some());
            // The prefix is pinned anew.
            request_on(thread, &prompt).await;
        }
        tokio::time::advance(Duration::from_secs(20)).await;
        let before = stage.log().await;
        let tried = request_on(&thread.scratch(), &prompt).await;
        assert_eq!(stage.log().await, before, "nothing is written");
        let again = request_on(&stage.elsewhere().await.scratch(), &prompt).await;
        let done = request_on(thread, &prompt).await;
        assert_eq!((&tried, &again), (&done, &done));
    }
}
