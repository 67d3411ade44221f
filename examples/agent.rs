//! An agent with a tool that is a Rust function. `cargo run --example agent` uses a model that follows a script;
//! `cargo run --example agent -- http://127.0.0.1:8171/v1 smollm2` calls a real one that speaks like OpenAI.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;

use contexture::prelude::*;
use contexture::{SystemTime, session_ports};
use futures::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The order's number.
    number: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let find_order =
        AgentTool::of("find_order", "Finds out where an order is.", |order: Order| async move {
            Ok(json!({"number": order.number, "state": "shipped", "arrives": "Friday"}))
        })?;
    let mut args = std::env::args().skip(1);
    let (model, name) = match args.next() {
        Some(url) => (served(&url)?, format!("served/{}", args.next().as_deref().unwrap_or("default"))),
        None => (scripted(), "script/model".to_owned()),
    };
    let agent = contexture::agent(model).tool(find_order).build()?;
    let prompt = Prompt::builder("orders").system("You track orders. Be brief.").model(name).build()?;

    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let sessions = Sessions::new(store, session_ports(None), SessionConfig::default());
    let session = sessions.create(SessionStart::default()).await?;

    let mut run = agent.run(&prompt, session.main(), RunRequest::user("Where is order 1042?"));
    while let Some(event) = run.next().await {
        println!("{}", serde_json::to_string(&event)?);
    }
    let outcome = run.outcome().await?;
    println!("{} steps, {} tokens: {}", outcome.steps, outcome.usage.total(), outcome.text());
    Ok(())
}

fn served(url: &str) -> Result<Arc<dyn Model>, Box<dyn Error>> {
    let providers = [("served".to_owned(), Provider::new(Dialect::Openai).at(url))].into();
    Ok(Arc::new(Client::new(ClientConfig { providers, ..ClientConfig::default() })?))
}

fn scripted() -> Arc<dyn Model> {
    let call = ToolCall { id: "c1".into(), name: "find_order".into(), arguments: json!({"number": 1042}) };
    let first = Answer::parts(vec![Part::ToolCall(call)]);
    Arc::new(Scripted::new([
        Step::Answer(first),
        Step::Answer(Answer::text("It was shipped and arrives on Friday.")),
    ]))
}
