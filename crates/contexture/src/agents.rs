//! Agents that use the machine's time and secrets.

use std::sync::Arc;

use contexture_agent::{Agent, AgentBuilder};
use contexture_model::Model;

use crate::{SystemSecrets, SystemThreads, SystemTime, engine};

/// Starts building an agent that uses the machine's time, secrets and threads. Deadlines and times to live of entries
/// are enforced.
///
/// ```
/// use contexture::message::{Answer, ToolCall};
/// use contexture::model::Step;
/// use contexture::prelude::*;
/// use contexture::serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order {
///     /// The order's number.
///     number: u32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// // A model that says what it was told to; `Client` calls real ones.
/// let call = Part::ToolCall(ToolCall { id: "c1".into(), name: "find_order".into(), arguments: json!({"number": 7}) });
/// let script = [Step::Answer(Answer::parts(vec![call])), Step::Answer(Answer::text("It is on its way."))];
/// let find_order = tool("find_order", "Finds an order.", |order: Order| async move {
///     Ok(format!("Order {} was shipped.", order.number))
/// });
/// let prompt = Prompt::builder("support").model("openai/gpt-5-mini").tool(find_order).build()?;
///
/// let agent = contexture::agent(Scripted::new(script)).build()?;
/// let session = contexture::sessions_in_memory().create(Default::default()).await?;
/// let mut run = agent.run(&prompt, session.main(), RunRequest::user("Where is order 7?"));
/// let mut tools = Vec::new();
/// while let Some(event) = run.next_event().await {
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
