//! The definition of a flow as its author writes it: nodes, edges, inputs, outputs, limits. Checks that involve more
//! than one field are the job of [`lower`](crate::lower).
//!
//! [`FlowDefinition::read`] reads a definition from JSON, which is what a YAML file is too; [`FlowBuilder`](crate::FlowBuilder) makes one
//! in Rust.

mod kind;
mod node;
mod read;
mod references;
mod table;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use kind::{
    BranchConfig, CacheConfig, CacheScope, CustomConfig, InjectConfig, IntentConfig, JoinConfig, JoinPolicy,
    LlmConfig, ManualInputConfig, NewThreadConfig, NodeKind, Overrides, ParallelConfig, PortalConfig,
    Position, SubFlowConfig, ToolCallConfig, ToolsConfig, TransformConfig, UserInputConfig,
};
pub use node::{NodeDefinition, OnError, Retry};

use crate::DataType;

/// The name of the start where a definition does not give it another one.
pub const START: &str = "start";

/// The definition of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowDefinition {
    /// The flow's id.
    pub id: String,
    /// A description for people.
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
        let mut map = Map::new();
        map.insert("id".to_owned(), self.id.clone().into());
        if !self.description.is_empty() {
            map.insert("description".to_owned(), self.description.clone().into());
        }
        let mut put = |name: &str, value: Value| _ = map.insert(name.to_owned(), value);
        let types = self.inputs.iter().map(|(name, of)| (name.clone(), of.to_json()));
        put("inputs", Value::Object(types.collect()));
        let nodes = self.nodes.iter().map(|(id, node)| (id.clone(), node.to_json()));
        put("nodes", Value::Object(nodes.collect()));
        put("edges", self.edges.clone().into());
        let outputs = self.outputs.iter().map(|(name, of)| (name.clone(), of.clone().into()));
        put("outputs", Value::Object(outputs.collect()));
        put("limits", serde_json::to_value(self.limits).unwrap_or_default());
        Value::Object(map)
    }
}

impl DataType {
    fn to_json(&self) -> Value {
        self.schema.clone().unwrap_or_else(|| self.json.as_str().into())
    }
}
