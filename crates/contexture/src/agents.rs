//! Agents with the time and the secrets of the machine.

use std::sync::Arc;

use contexture_agent::{Agent, AgentBuilder};
use contexture_model::Model;

use crate::{SystemSecrets, SystemThreads, SystemTime, engine};

/// Starts the making of an agent with the machine's time, secrets and threads. Deadlines and times to live of entries hold.
///
/// ```
/// use std::sync::Arc;
/// use contexture::prelude::*;
/// use contexture::{SystemTime, agent, session_ports};
/// use futures::StreamExt;
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order {
///     /// The order's number.
///     number: u32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A model that says what it was told to; `Client` calls real ones.
/// let call = Part::ToolCall(ToolCall { id: "c1".into(), name: "find_order".into(), arguments: json!({"number": 7}) });
/// let script = [Step::Answer(Answer::parts(vec![call])), Step::Answer(Answer::text("It is on its way."))];
/// let find_order = Tool::of("find_order", "Finds an order.", |order: Order| async move {
///     Ok(format!("Order {} was shipped.", order.number))
/// })?;
/// let agent = agent(Scripted::new(script)).tool(find_order).build()?;
///
/// let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
/// let sessions = Sessions::new(store, session_ports(None), SessionConfig::default());
/// let session = sessions.create(SessionStart::default()).await?;
/// let prompt = Prompt::builder("support").model("openai/gpt-5-mini").system("You track orders.").build()?;
///
/// let mut run = agent.run(&prompt, session.main(), RunRequest::user("Where is order 7?"));
/// let mut tools = Vec::new();
/// while let Some(event) = run.next().await {
///     if let Event::ToolCall { name, .. } = event {
///         tools.push(name);
///     }
/// }
/// assert_eq!(tools, ["find_order"]);
/// assert_eq!(run.outcome().await?.text(), "It is on its way.");
/// # Ok(())
/// # }
/// ```
pub fn agent(model: impl Model + 'static) -> AgentBuilder {
    Agent::builder(model, Arc::new(SystemTime), SystemSecrets)
        .engine(engine())
        .offload(SystemThreads::default())
}
