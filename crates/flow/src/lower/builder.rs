//! A flow in Rust.

use std::sync::Arc;

use serde_json::Value;

use super::{CompileInputs, lower};
use crate::{
    CustomConfig, DataType, Flow, FlowDefinition, FlowInvalid, Limits, Node, NodeDefinition, NodeKind,
};

/// Makes a flow in Rust. `build` checks it as it checks one from a file.
///
/// ```
/// use contexture_flow::{Flow, LlmConfig, NodeKind, UserInputConfig};
///
/// let flow = Flow::builder("chat")
///     .node("ask", NodeKind::UserInput(UserInputConfig::default()))
///     .node("answer", NodeKind::LlmRequest(LlmConfig { prompt: "chat".into(), ..LlmConfig::default() }))
///     .edge("start -> ask")
///     .edge("ask.value -> answer.user")
///     .edge("answer -> ask")
///     .build()?;
/// assert_eq!(flow.id(), "chat");
/// # Ok::<(), contexture_flow::FlowInvalid>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct FlowBuilder {
    definition: FlowDefinition,
    compile_inputs: CompileInputs,
}

impl Flow {
    /// Starts the making of a flow.
    pub fn builder(id: impl Into<String>) -> FlowBuilder {
        FlowBuilder {
            definition: FlowDefinition { id: id.into(), ..FlowDefinition::default() },
            ..FlowBuilder::default()
        }
    }
}

impl FlowBuilder {
    /// Sets the description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.definition.description = text.into();
        self
    }

    /// Adds something that a run is given.
    pub fn input(mut self, name: impl Into<String>, of: DataType) -> Self {
        self.definition.inputs.insert(name.into(), of);
        self
    }

    /// Adds a node of a built-in kind.
    pub fn node(mut self, id: impl Into<String>, node: impl Into<NodeDefinition>) -> Self {
        self.definition.nodes.insert(id.into(), node.into());
        self
    }

    /// Adds a node of the application's own, registered under the node's name.
    pub fn custom(self, id: impl Into<String>, node: impl Node) -> Self {
        let id = id.into();
        let kind = NodeKind::Custom(CustomConfig { name: id.clone(), config: Value::Null });
        let mut builder = self.node(id.clone(), kind);
        builder.compile_inputs.nodes = builder.compile_inputs.nodes.add(id, node);
        builder
    }

    /// Adds an edge: `node.port -> node.port`, or `node -> node` where only the order counts.
    pub fn edge(mut self, edge: impl Into<String>) -> Self {
        self.definition.edges.push(edge.into());
        self
    }

    /// Adds something that a run comes to: the newest value of a port, `node.port`.
    pub fn output(mut self, name: impl Into<String>, of: impl Into<String>) -> Self {
        self.definition.outputs.insert(name.into(), of.into());
        self
    }

    /// Sets the limits of a run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.definition.limits = limits;
        self
    }

    /// Adds a flow that `sub_flow` nodes can name.
    pub fn sub_flow(mut self, flow: FlowDefinition) -> Self {
        self.compile_inputs.flows.insert(flow.id.clone(), Arc::new(flow));
        self
    }

    /// Returns what was said so far.
    pub fn definition(&self) -> &FlowDefinition {
        &self.definition
    }

    /// Checks everything and returns the flow.
    pub fn build(self) -> Result<Flow, FlowInvalid> {
        lower(&self.definition, &self.compile_inputs)
    }
}
