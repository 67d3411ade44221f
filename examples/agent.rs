//! An agent with a tool that is a Rust function. `cargo run --example agent` uses a model that follows a script;
//! `cargo run --example agent -- http://127.0.0.1:8171/v1 smollm2` calls a real one that speaks like OpenAI.
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use contexture::message::{Answer, ToolCall};
use contexture::model::{ModelProvider, Step};
use contexture::prelude::*;
use contexture::serde_json::{json, to_string};
use contexture::wire::Dialect;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// The order's number.
    number: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let find_order = tool("find_order", "Finds out where an order is.", |order: Order| async move {
        Ok(json!({"number": order.number, "state": "shipped", "arrives": "Friday"}))
    });
    let mut args = std::env::args().skip(1);
    let (model, name): (Arc<dyn Model>, String) = match args.next() {
        Some(url) => {
            let client = Client::of("served", ModelProvider::new(Dialect::Openai).at(url))?;
            (Arc::new(client), format!("served/{}", args.next().as_deref().unwrap_or("default")))
        }
        None => (Arc::new(scripted()), "script/model".to_owned()),
    };
    let system = "You track orders. Be brief.";
    let prompt = Prompt::builder("orders").system(system).tool(find_order).model(name).build()?;
    let session = contexture::sessions_in_memory().create(Default::default()).await?;

    let agent = contexture::agent(model).build()?;
    let mut run = agent.run(&prompt, session.main(), RunRequest::user("Where is order 1042?"));
    while let Some(event) = run.next_event().await {
        println!("{}", to_string(&event)?);
    }
    let outcome = run.outcome().await?;
    println!("{} steps, {} tokens: {}", outcome.steps, outcome.usage.total(), outcome.text());
    Ok(())
}

fn scripted() -> Scripted {
    let call = ToolCall { id: "c1".into(), name: "find_order".into(), arguments: json!({"number": 1042}) };
    let answers = [Answer::parts(vec![Part::ToolCall(call)]), Answer::text("It arrives on Friday.")];
    Scripted::new(answers.map(Step::Answer))
}
