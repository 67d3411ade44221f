//! The local model, where one is served: a conversation that runs past its window several times keeps working.

use std::sync::Arc;

use contexture_agent::{Agent, AgentConfig, CompactionConfig, RunRequest};
use contexture_compose::Prompt;
use contexture_message::{Settings, Tokens};
use contexture_model::{Client, ClientConfig, ModelProvider};
use contexture_wire::{Catalogue, Dialect, ModelFacts};

use crate::scene::words;
use crate::stage::{Counting, Stage, TestTime};

const WINDOW: u32 = 768;
const ANSWER: u32 = 8;

fn agent(url: &str) -> Agent {
    let provider = ModelProvider::new(Dialect::Openai).at(format!("{url}/v1"));
    let providers = [("test".to_owned(), provider)].into();
    let client = Client::new(ClientConfig { providers, ..ClientConfig::default() }).unwrap();
    let facts = ModelFacts { context_window: Some(Tokens(WINDOW)), ..ModelFacts::default() };
    // So small a model summarises badly and slowly: most of its summaries are refused, and excerpts take their place.
    let compaction =
        CompactionConfig { min_messages: 6, summary_timeout_s: 2, ..CompactionConfig::default() };
    Agent::builder(client, Arc::new(TestTime), Counting::default())
        .config(AgentConfig { compaction, ..AgentConfig::default() })
        .catalogue(Catalogue::standard().with_models([("test/smollm2".to_owned(), facts)].into()))
        .build()
        .unwrap()
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "whoever reads the tests' output should know what was not tested")]
async fn a_conversation_past_its_window_keeps_working() {
    let Some(url) = std::env::var("CONTEXTURE_TEST_MODEL_URL").ok().filter(|it| !it.is_empty()) else {
        println!("skipped: there is no `CONTEXTURE_TEST_MODEL_URL`; `cargo xtask model` serves one");
        return;
    };
    let (stage, agent) = (Stage::new().await, agent(&url));
    let settings = Settings { max_tokens: Some(ANSWER), temperature: Some(0.into()), ..Settings::default() };
    let prompt = Prompt::builder("p").model("test/smollm2").system("You are a helpful assistant.");
    let prompt = prompt.settings(settings).build().unwrap();
    let mut usage = Vec::new();
    for number in 0..8 {
        let text = format!("Note {number}: {} Say ok.", words(&format!("note {number}"), 110));
        let outcome = agent.run(&prompt, &stage.thread, RunRequest::user(text)).outcome().await.unwrap();
        assert!(outcome.usage.output_tokens > 0, "turn {number} has no answer");
        let pass = outcome.passes.last().unwrap();
        assert!(pass.total_tokens().0 + ANSWER <= WINDOW, "turn {number}: {}", pass.total_tokens());
        usage.push(pass.total_tokens().0);
    }
    let archives = stage.thread.archives().await.unwrap();
    assert!(archives.last().is_some_and(|it| it.archived.number >= 2), "{usage:?} {archives:?}");
    let full = stage.thread.full_history().await.unwrap();
    let all = format!("{full:?}");
    assert!((0..8).all(|it| all.contains(&format!("Note {it}:"))), "everything is still there");
}
