//! Nodes of the application's own, by the names that flows give them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use contexture_message::ErrorCode;
use serde_json::Value;

use super::Node;
use crate::{CustomConfig, FlowFault};

type Maker = Arc<dyn Fn(&Value) -> Result<Arc<dyn Node>, String> + Send + Sync>;

/// Nodes of the application's own, by the names that `custom` nodes of a flow give them. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use contexture_compose::BoxFuture;
/// use contexture_flow::{
///     FlowDefinition, Node, NodeContext, NodeError, Nodes, Port, PortType, PortValue, CompileInputs, Step, lower,
/// };
///
/// /// Says a text several times.
/// #[derive(Debug)]
/// struct Repeat(usize);
///
/// impl Node for Repeat {
///     fn inputs(&self) -> Vec<Port> {
///         vec![Port::new("text", PortType::STRING).required()]
///     }
///     fn outputs(&self) -> Vec<Port> {
///         vec![Port::new("text", PortType::STRING)]
///     }
///     fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
///         let text = cx.text("text").unwrap_or_default().repeat(self.0);
///         Box::pin(async move { Ok(Step::done([("text", PortValue::data(text))])) })
///     }
/// }
///
/// let nodes = Nodes::new().add_with("repeat", |config| match config["times"].as_u64() {
///     Some(times @ 1..=10) => Ok(Repeat(times as usize)),
///     _ => Err("`times` is a number from 1 to 10".to_owned()),
/// });
/// let document = serde_json::json!({
///     "inputs": {"text": "string"},
///     "nodes": {"shout": {"type": "custom", "name": "repeat", "config": {"times": 30}}},
///     "edges": ["start.text -> shout.text"],
/// });
/// let definition = FlowDefinition::read("shout", &document)?;
/// let invalid = lower(&definition, &CompileInputs { nodes, ..CompileInputs::default() }).unwrap_err();
/// assert_eq!(invalid.faults[0].message, "node `shout`: `times` is a number from 1 to 10");
/// # Ok::<(), contexture_flow::FlowInvalid>(())
/// ```
#[derive(Clone, Default)]
pub struct Nodes(BTreeMap<String, Maker>);

impl Nodes {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node without configuration.
    #[must_use]
    pub fn add(self, name: impl Into<String>, node: impl Node) -> Self {
        let node: Arc<dyn Node> = Arc::new(node);
        let make = move |config: &Value| match config {
            Value::Null => Ok(Arc::clone(&node)),
            _ => Err("it takes no `config`".to_owned()),
        };
        self.insert(name.into(), Arc::new(make))
    }

    /// Adds a node that is built from the flow's `config` (null if there is none); the constructor may reject it.
    #[must_use]
    pub fn add_with<N: Node>(
        self,
        name: impl Into<String>,
        make: impl Fn(&Value) -> Result<N, String> + Send + Sync + 'static,
    ) -> Self {
        self.insert(name.into(), Arc::new(move |config| Ok(Arc::new(make(config)?) as Arc<dyn Node>)))
    }

    fn insert(mut self, name: String, make: Maker) -> Self {
        self.0.insert(name, make);
        self
    }

    /// Makes the node that a flow names.
    pub(crate) fn make(&self, config: &CustomConfig) -> Result<Arc<dyn Node>, FlowFault> {
        let unknown = || {
            let message = format!("no node `{}` is registered", config.name);
            let known = self.0.keys().map(|it| format!("`{it}`"));
            FlowFault::new(ErrorCode::FlowUnknownType, message).at(["name"]).known(known)
        };
        let make = self.0.get(&config.name).ok_or_else(unknown)?;
        make(&config.config).map_err(|why| FlowFault::invalid(why).at(["config"]))
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
