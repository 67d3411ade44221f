//! The definition of a flow as its author writes it: nodes, edges, inputs, outputs, limits. Checks that involve more
//! than one field are the job of [`lower`](crate::lower).
//!
//! [`FlowDefinition::read`] reads a definition from JSON, which is what a YAML file is too; [`FlowBuilder`](crate::FlowBuilder) makes one
//! in Rust.

mod kind;
mod node;
mod read;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use kind::{
    BlackboardWaitConfig, BranchConfig, CacheConfig, CacheScope, CustomConfig, InjectConfig, IntentConfig,
    JoinConfig, JoinPolicy, LlmConfig, ManualInputConfig, NewThreadConfig, NodeKind, Overrides,
    ParallelConfig, PortalConfig, Position, SubFlowConfig, ToolCallConfig, ToolsConfig, TransformConfig,
    UserInputConfig,
};
pub use node::{NodeDefinition, OnError, Retry};

use crate::DataType;

/// The name of the start where a definition does not give it another one.
pub const START: &str = "start";

/// The definition of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowDefinition {
    /// The flow's id.
    pub id: String,
    /// A description for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The inputs of a run, by name.
    pub inputs: IndexMap<String, DataType>,
    /// The nodes by name.
    pub nodes: IndexMap<String, NodeDefinition>,
    /// `node.port -> node.port`, or `node -> node` where only the order counts.
    pub edges: Vec<String>,
    /// The outputs of a run: the newest value of each of these ports, `node.port`.
    pub outputs: IndexMap<String, String>,
    /// How much a run may do.
    pub limits: Limits,
}

/// How much a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The most nodes that are run between two pauses.
    pub max_steps: u32,
    /// The most nodes that run at the same time.
    pub max_concurrency: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_steps: 1000, max_concurrency: 16 }
    }
}

impl FlowDefinition {
    /// Returns the definition as JSON, as [`read`](Self::read) takes it.
    pub fn to_json(&self) -> Value {
        // It is plain data: its maps have names as keys.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Lists the prompts that its nodes name, with the nodes.
    pub fn prompts(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::LlmRequest(config) => vec![config.prompt.as_str()],
            NodeKind::IntentRouter(config) => config.prompt.as_deref().into_iter().collect(),
            _ => Vec::new(),
        })
    }

    /// Lists the tools that its nodes name, with the nodes.
    pub fn tools(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::Tools(config) => config.names.iter().map(String::as_str).collect(),
            NodeKind::ToolCall(config) => vec![config.tool.as_str()],
            _ => Vec::new(),
        })
    }

    /// Lists the blackboards that its nodes name, with the nodes.
    pub fn boards(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::BlackboardWait(config) => vec![config.board.as_str()],
            _ => Vec::new(),
        })
    }

    /// Lists the flows that its nodes name, with the nodes.
    pub fn flows(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::SubFlow(config) => vec![config.flow.as_str()],
            _ => Vec::new(),
        })
    }

    fn named<'a>(&'a self, names: impl Fn(&'a NodeKind) -> Vec<&'a str>) -> Vec<(&'a str, &'a str)> {
        let nodes = self.nodes.iter();
        let each =
            nodes.flat_map(|(id, node)| names(&node.kind).into_iter().map(move |it| (it, id.as_str())));
        each.collect()
    }
}
