//! The definition of a node: its kind, and its execution options.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::{NodeKind, is_default};

/// The definition of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeDefinition {
    /// The kind of the node.
    #[serde(flatten)]
    pub kind: NodeKind,
    /// Constants for inputs that no edge leads to.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub with: IndexMap<String, Value>,
    /// Inputs that keep their value for later rounds; inputs for threads do so anyway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// How often it is tried again.
    #[serde(skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// The error policy.
    #[serde(skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// Whether it may run again when its progress is unknown because its process was lost. Each kind has its own
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<bool>,
}

/// How often a node is tried again after it failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The number of retries.
    pub max: u32,
    /// How long to wait before that; each wait is twice as long as the one before.
    pub delay_seconds: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max: 0, delay_seconds: 1.0 }
    }
}

/// What to do when a node fails for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The run ends, with the node named.
    #[default]
    Fail,
    /// The node's output `error` has the reason, and the run continues.
    Emit,
}

impl From<NodeKind> for NodeDefinition {
    fn from(kind: NodeKind) -> Self {
        Self {
            kind,
            with: IndexMap::new(),
            keep: Vec::new(),
            timeout_seconds: None,
            retry: Retry::default(),
            on_error: OnError::default(),
            repeat: None,
        }
    }
}
