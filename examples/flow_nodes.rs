//! A flow in YAML with a node and a tool that are Rust: `cargo run -p contexture --features project --example flow_nodes`.
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use contexture::agent::CancellationToken;
use contexture::compose::BoxFuture;
use contexture::flow::{
    Node, NodeContext, NodeError, Nodes, Port, PortType, PortValue, RunStart, RuntimeConfig, Step as NodeStep,
};
use contexture::prelude::*;
use contexture::project::{FlowParts, InMemory};
use contexture::serde_json::{Value, json, to_string};
use contexture::session::{MemoryStore, SessionConfig};
use contexture::{ProjectLibrary, SystemTime, flow_runtime, session_ports};

const FLOW: &str = "
inputs: {order: integer}
nodes:
  find: {type: tool_call, tool: find_order}
  fee: {type: custom, name: discount, config: {percent: 10}}
  ask: {type: user_input, message: 'Charge {{ data.price }} Euro?', value: boolean}
edges:
  - start.input -> find.arguments
  - find.result -> fee.order
  - fee.order -> ask.data
outputs: {order: fee.order, charged: ask.value}
";

/// Lowers the price of an order.
#[derive(Debug)]
struct Discount {
    percent: f64,
}

impl Discount {
    /// What the flow tells it is checked when the flow is loaded.
    fn new(config: &Value) -> Result<Self, String> {
        match config["percent"].as_f64() {
            Some(percent) if (0.0..=50.0).contains(&percent) => Ok(Self { percent }),
            _ => Err("`percent` is a number up to 50".to_owned()),
        }
    }
}

impl Node for Discount {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("order", PortType::OBJECT).required()]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("order", PortType::OBJECT)]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<NodeStep, NodeError>> {
        let mut order = cx.data("order").cloned().unwrap_or_default();
        let price = order["price"].as_f64().unwrap_or_default();
        order["price"] = json!(price * (100.0 - self.percent) / 100.0);
        Box::pin(async move { Ok(NodeStep::done([("order", PortValue::data(order))])) })
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    order: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let find_order = tool("find_order", "Finds an order.", |it: Order| async move {
        Ok(json!({"number": it.order, "price": 80}))
    });
    let agent = contexture::agent(Scripted::new([])).tool(find_order).build()?;
    let parts = FlowParts {
        nodes: Nodes::new().add_with("discount", Discount::new),
        tools: Arc::new(agent.tool_names().into_iter().map(str::to_owned).collect()),
    };
    let files = InMemory::new([("flows/charge.yaml", FLOW)]);
    let project = Arc::new(Project::from_files(Arc::new(files))?.with_flow_parts(parts));

    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let sessions = Sessions::new(store.clone(), session_ports(None), SessionConfig::default());
    let library = ProjectLibrary { project: Arc::clone(&project), agent };
    let runtime = flow_runtime(library, sessions, store, RuntimeConfig::default());

    let start = RunStart { input: json!({"order": 1042}), ..RunStart::default() };
    let run = runtime.start(project.flow("charge")?, start).await?;
    let info = runtime.drive(&run, CancellationToken::new()).await?;
    println!("{}", info.waits[0].asked.message);
    runtime.answer(&run, &info.waits[0].id, true.into()).await?;
    let info = runtime.drive(&run, CancellationToken::new()).await?;
    println!("{:?}: {}", info.status, to_string(&info.outputs)?);
    Ok(())
}
