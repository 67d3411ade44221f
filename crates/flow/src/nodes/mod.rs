//! The nodes: one file a kind, or a few that belong together.

mod control;
mod start;
mod text;

use std::sync::Arc;

use crate::define::NodeKind;
use crate::fault::FlowFault;
use crate::lower::{FlatNode, Shelf};
use crate::node::Node;

/// Makes the node of a definition, or says what is wrong with what is configured for it.
pub(crate) fn make(node: &FlatNode, shelf: &Shelf) -> Result<Arc<dyn Node>, Vec<FlowFault>> {
    if let Some(start) = &node.start {
        return Ok(Arc::new(start::StartNode::new(start)));
    }
    Ok(match &node.definition.kind {
        NodeKind::Parallel(config) => Arc::new(control::ParallelNode::new(config)),
        NodeKind::Join(config) => Arc::new(control::JoinNode::new(config)?),
        NodeKind::Branch(config) => Arc::new(control::BranchNode::new(config)?),
        NodeKind::Transform(config) => Arc::new(text::TransformNode::new(config)?),
        NodeKind::Custom(config) => {
            let known = shelf.nodes.get(&config.name).cloned();
            known.ok_or_else(|| vec![unknown_custom(&config.name)])?
        }
        // The others were taken out when the flow was expanded.
        other => return Err(vec![FlowFault::new("flow_invalid", format!("`{}` is no node", other.name()))]),
    })
}

fn unknown_custom(name: &str) -> FlowFault {
    let fault = FlowFault::new("flow_unknown_type", format!("nobody has registered a node `{name}`"));
    fault.at(["name"])
}
