//! The nodes: one file a kind, or a few that belong together.

mod blackboard;
mod cache;
mod control;
mod input;
mod llm;
mod router;
pub(crate) mod start;
mod text;
mod threads;
mod tools;

use std::sync::Arc;

use crate::{FlowFault, Node, NodeKind, Nodes};

/// Creates the node of a definition, or reports an invalid configuration. A configuration that needs no preparation is
/// the node itself.
pub(crate) fn make(kind: &NodeKind, custom: &Nodes) -> Result<Arc<dyn Node>, Vec<FlowFault>> {
    Ok(match kind {
        NodeKind::LlmRequest(config) => Arc::new(llm::LlmNode::new(config)?),
        NodeKind::UserInput(config) => Arc::new(input::UserInputNode::new(config)?),
        NodeKind::ManualInput(config) => Arc::new(input::ManualInputNode::new(config)?),
        NodeKind::NewThread(config) => Arc::new(threads::NewThreadNode::new(config)?),
        NodeKind::InjectMessages(config) => Arc::new(config.clone()),
        NodeKind::ReleaseThread => Arc::new(threads::ReleaseNode),
        NodeKind::Tools(config) => Arc::new(config.clone()),
        NodeKind::ToolCall(config) => Arc::new(config.clone()),
        NodeKind::IntentRouter(config) => Arc::new(router::IntentNode::new(config)?),
        NodeKind::Cache(config) => Arc::new(config.clone()),
        NodeKind::BlackboardWait(config) => Arc::new(blackboard::BlackboardWaitNode::new(config)?),
        NodeKind::Parallel(config) => Arc::new(config.clone()),
        NodeKind::Join(config) => Arc::new(control::JoinNode::new(config)?),
        NodeKind::Branch(config) => Arc::new(control::BranchNode::new(config)?),
        NodeKind::Transform(config) => Arc::new(text::TransformNode::new(config)?),
        NodeKind::Custom(config) => custom.make(config).map_err(|it| vec![it])?,
        // These were taken out when the flow was expanded.
        NodeKind::Start | NodeKind::SubFlow(_) | NodeKind::PortalIn(_) | NodeKind::PortalOut(_) => {
            return Err(vec![FlowFault::invalid("it is not a standalone node")]);
        }
    })
}
