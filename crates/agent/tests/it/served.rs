//! Whole turns over real HTTP: a server on loopback in each dialect, and the local model where one is served.

use contexture_agent::{Agent, RunRequest};
use contexture_compose::Prompt;
use contexture_message::{Delta, Settings};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{Client, ClientConfig, ModelProvider, Retries};
use contexture_wire::Dialect;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use crate::stage::{Counting, Stage, TestTime, calls, echo, hi, says, told};

fn client(dialect: Dialect, url: &str) -> Client {
    let retries = Retries { base: Duration::from_millis(1), ..Retries::default() };
    let providers = [("test".to_owned(), ModelProvider::new(dialect).at(url))].into();
    Client::new(ClientConfig { providers, retries, ..ClientConfig::default() }).unwrap()
}

fn agent(client: Client) -> Agent {
    Agent::builder(client, Arc::new(TestTime), Counting::default()).tool(echo("echo")).build().unwrap()
}

fn prompt() -> Prompt {
    Prompt::builder("p").model("test/model").system("Be brief.").build().unwrap()
}

#[tokio::test]
async fn a_turn_with_tools_runs_in_every_dialect() {
    for dialect in Dialect::ALL {
        let script = [
            Reply::status(429).header("retry-after", "0"),
            Reply::answer(dialect, &calls([("a", "echo", json!({"x": 1})), ("b", "echo", json!({"x": 2}))])),
            Reply::status(503),
            Reply::answer(dialect, &says("Done.")),
        ];
        let server = MockModel::start(script).await;
        let stage = Stage::new().await;
        let agent = agent(client(dialect, &format!("{}/v1", server.url())));
        let outcome = agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
        assert_eq!((outcome.text().as_str(), outcome.steps), ("Done.", 2), "{dialect:?}");
        let log = stage.log().await;
        assert_eq!(log.matches("->{\"type\":\"json\"").count(), 2, "{dialect:?}: {log}");
        // The last request carries both calls and both results.
        let body = server.received().last().unwrap().body.to_string();
        assert!(body.matches("echo").count() >= 3, "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_keeps_what_was_said() {
    for dialect in Dialect::ALL {
        // Without the last piece the stream ends early, and a stream that ends early was cut.
        let pieces = [Delta::Text("A rather long ".to_owned()), Delta::Text("answer.".to_owned())];
        let reply = Reply::deltas(dialect, &pieces);
        let bytes = reply.body().len();
        let server = MockModel::start([reply.then_cut(bytes)]).await;
        let stage = Stage::new().await;
        let agent = agent(client(dialect, &format!("{}/v1", server.url())));
        let (_, outcome) = told(agent.run(&prompt(), &stage.thread, hi())).await;
        let code = outcome.unwrap_err().code().as_str();
        assert!(["model_unreachable", "model_malformed"].contains(&code), "{dialect:?}: {code}");
        let log = stage.log().await;
        assert!(log.contains("t1 assistant: A rather long answer."), "{dialect:?}: {log}");
        assert!(log.contains("\"status\":\"failed\""), "{dialect:?}: {log}");
    }
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "whoever reads the tests' output should know what was not tested")]
async fn the_local_model_answers_two_turns_with_tools_offered() {
    let Some(url) = std::env::var("CONTEXTURE_TEST_MODEL_URL").ok().filter(|it| !it.is_empty()) else {
        println!("skipped: there is no `CONTEXTURE_TEST_MODEL_URL`; `cargo xtask model` serves one");
        return;
    };
    for dialect in [Dialect::Openai, Dialect::OpenaiResponses, Dialect::Anthropic] {
        let stage = Stage::new().await;
        let agent = agent(client(dialect, &format!("{url}/v1")));
        let settings = Settings { max_tokens: Some(16), temperature: Some(0.into()), ..Settings::default() };
        let tool = crate::stage::echo("weather");
        let prompt =
            Prompt::builder("p").model("test/smollm2").tool(tool).settings(settings).build().unwrap();
        for text in ["My name is Ada.", "What is my name?"] {
            let outcome = agent.run(&prompt, &stage.thread, RunRequest::user(text)).outcome().await.unwrap();
            assert!(outcome.usage.output_tokens > 0, "{dialect:?}");
        }
        assert_eq!(stage.log().await.matches("\"status\":\"completed\"").count(), 2, "{dialect:?}");
    }
}
