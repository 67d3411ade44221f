//! Flows in files with nodes of the application's own.

use std::sync::Arc;

use contexture::agent::CancellationToken;
use contexture::compose::BoxFuture;
use contexture::flow::{
    Node, NodeContext, NodeError, Nodes, Port, PortType, PortValue, RunError, RunStart, RunStatus, Runtime,
    RuntimeConfig, Step as NodeStep,
};
use contexture::prelude::*;
use contexture::project::{FlowParts, InMemory};
use contexture::session::{MemoryStore, SessionConfig};
use contexture::{ProjectLibrary, SystemTime, flow_runtime, session_ports};
use serde_json::Value;

/// Says a text as often as it is told.
#[derive(Debug)]
struct Repeat(u64);

impl Node for Repeat {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("text", PortType::STRING).required()]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("text", PortType::STRING)]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<NodeStep, NodeError>> {
        let text = cx.text("text").unwrap_or_default().repeat(self.0 as usize);
        Box::pin(async move { Ok(NodeStep::done([("text", PortValue::data(text))])) })
    }
}

fn repeat(config: &Value) -> Result<Repeat, String> {
    config["times"].as_u64().map(Repeat).ok_or_else(|| "`times` is missing".to_owned())
}

fn flow(times: &str) -> String {
    let node = format!("{{type: custom, name: repeat, config: {{{times}}}}}");
    format!(
        "nodes:\n  ask: {{type: user_input}}\n  again: {node}\nedges:\n  - start -> ask\n  \
         - ask.value -> again.text\noutputs: {{text: again.text}}\n"
    )
}

fn project(text: &str, nodes: Nodes) -> Project {
    let files = InMemory::new([("flows/echo.yaml", text)]);
    let parts = FlowParts { nodes, ..FlowParts::default() };
    Project::from_files(Arc::new(files)).unwrap().with_flow_parts(parts)
}

fn runtime(store: &Arc<MemoryStore>, project: Project) -> Runtime {
    let sessions = Sessions::new(store.clone(), session_ports(None), SessionConfig::default());
    let agent = contexture::agent(Scripted::new([])).build().unwrap();
    let library = ProjectLibrary { project: Arc::new(project), agent };
    flow_runtime(library, sessions, store.clone(), RuntimeConfig::default())
}

#[tokio::test]
async fn a_run_with_nodes_of_the_application_goes_on_when_its_file_has_changed() {
    let nodes = Nodes::new().add_with("repeat", repeat);
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let now = project(&flow("times: 2"), nodes.clone());
    let echo = now.flow("echo").unwrap().clone();
    let before = runtime(&store, now);
    let run = before.start(&echo, RunStart::default()).await.unwrap();
    let info = before.drive(&run, CancellationToken::new()).await.unwrap();
    assert_eq!(info.status, RunStatus::Waiting);
    before.answer(&run, &info.waits[0].id, "ha".into()).await.unwrap();

    let nobody = runtime(&store, project(&flow("times: 3"), Nodes::new()));
    let driven = nobody.drive(&run, CancellationToken::new()).await;
    assert!(matches!(driven, Err(RunError::FlowChanged { .. })), "{driven:?}");

    let after = runtime(&store, project(&flow("times: 3"), nodes));
    let info = after.drive(&run, CancellationToken::new()).await.unwrap();
    assert_eq!((info.status, &info.outputs["text"]), (RunStatus::Completed, &"haha".into()));
}

#[test]
fn what_a_node_is_told_is_checked_with_the_file() {
    let nodes = || Nodes::new().add_with("repeat", repeat).add("once", Repeat(1));
    let faults = |text: &str| project(text, nodes()).flow("echo").unwrap_err().to_string();
    let place = "flows/echo.yaml:3:";
    assert_eq!(faults(&flow("often: 2")), format!("{place}39: node `again`: `times` is missing"));
    let renamed = flow("times: 2").replace("name: repeat", "name: once");
    assert_eq!(faults(&renamed), format!("{place}37: node `again`: it takes no `config`"));
    let unknown = flow("times: 2").replace("name: repeat", "name: twice");
    let why = "node `again`: no node `twice` is registered (there are: `once`, `repeat`)";
    assert_eq!(faults(&unknown), format!("{place}31: {why}"));
}
