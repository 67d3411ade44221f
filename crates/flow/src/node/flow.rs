//! A flow that was checked: nodes with numbered ports, and where each output leads.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Node, Traits};
use crate::{DataType, FlowDefinition, FlowFault, JoinPolicy, Limits, NodeDefinition, Port, PortValue};

/// The input that every node has: it only lets the node wait.
pub(crate) const AFTER: &str = "after";

/// A flow that was checked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Flow(pub(crate) Arc<Lowered>);

/// The result of lowering a definition.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) name: Arc<str>,
    pub(crate) definition: FlowDefinition,
    /// The flows that it has as nodes, by name.
    pub(crate) subs: BTreeMap<String, Arc<FlowDefinition>>,
    /// Names what is run: equal flows have equal fingerprints.
    pub(crate) fingerprint: String,
    pub(crate) nodes: Vec<FlowNode>,
    pub(crate) by_id: HashMap<Arc<str>, usize>,
    /// The outputs of a run: each name with its node and output.
    pub(crate) outputs: IndexMap<String, (usize, usize)>,
    /// How many threads can be the default one: the run's main thread, and one for each sub-flow.
    pub(crate) n_scopes: usize,
    /// Warnings about a valid flow.
    pub(crate) warnings: Vec<FlowFault>,
}

/// A node that can be run.
#[derive(Debug)]
pub(crate) struct FlowNode {
    pub(crate) id: Arc<str>,
    pub(crate) definition: NodeDefinition,
    pub(crate) work: Arc<dyn Node>,
    pub(crate) traits: Traits,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    /// Its lazy inputs that something leads to.
    pub(crate) lazy: Arc<[String]>,
    /// Runs when its outputs are pulled, not when its inputs arrive.
    pub(crate) is_pulled: bool,
    /// The scope whose default thread it uses.
    pub(crate) scope: usize,
    /// The scope whose default thread it sets, if it is a start node.
    pub(crate) opens: Option<usize>,
}

/// An input of a node in a flow.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) port: Port,
    /// The outputs that lead here, as node and output.
    pub(crate) sources: Vec<(usize, usize)>,
    pub(crate) constant: Option<PortValue>,
    /// Whether its newest value stays for later rounds.
    pub(crate) keeps: bool,
    /// Whether what leads here runs only when it is asked, as this node is.
    pub(crate) is_asked: bool,
}

impl Input {
    /// Whether the node waits for it before it runs.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.sources.is_empty() && !self.port.lazy && !self.is_asked
    }

    /// Whether it counts for the rounds of a join: neither `after` nor a kept input does, since a kept value is
    /// present in every round.
    pub(crate) fn is_round(&self) -> bool {
        self.port.name != AFTER && !self.keeps
    }
}

impl FlowNode {
    /// Whether the inputs that it waits for have come, given which of them have a value.
    pub(crate) fn has_inputs(&self, has: impl Fn(usize) -> bool) -> bool {
        let awaited = self.inputs.iter().enumerate().filter(|(_, it)| it.is_awaited());
        let is_race = |it: &Input| self.traits.join == JoinPolicy::Any && it.is_round();
        let (race, all): (Vec<_>, Vec<_>) = awaited.partition(|(_, it)| is_race(it));
        let has = |it: &(usize, &Input)| has(it.0);
        (race.is_empty() || race.iter().any(has)) && all.iter().all(has)
    }
}

/// An output of a node in a flow.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) port: Port,
    /// The inputs that it leads to, as node and input.
    pub(crate) targets: Vec<(usize, usize)>,
}

impl Flow {
    /// Returns the flow's name.
    pub fn id(&self) -> &str {
        &self.0.definition.id
    }

    /// Returns what its author said of it.
    pub fn definition(&self) -> &FlowDefinition {
        &self.0.definition
    }

    /// Names what is run: equal flows have equal fingerprints.
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// Returns what a run is given.
    pub fn inputs(&self) -> &IndexMap<String, DataType> {
        &self.0.definition.inputs
    }

    /// Returns how much a run may do.
    pub fn limits(&self) -> Limits {
        self.0.definition.limits
    }

    /// Returns the kind of a node by its name in a run, such as `llm_request`; nodes of sub-flows are among them.
    pub fn kind_of(&self, node: &str) -> Option<&'static str> {
        self.idx_of(node).and_then(|idx| self.node(idx)).map(|it| it.definition.kind.name())
    }

    /// Returns warnings about a valid flow.
    ///
    /// ```
    /// use contexture_flow::{FlowDefinition, CompileInputs, lower};
    ///
    /// let document = serde_json::json!({
    ///     "nodes": {
    ///         "ask": {"type": "user_input", "append": true},
    ///         "answer": {"type": "llm_request", "prompt": "chat"},
    ///     },
    ///     "edges": ["start -> ask", "ask.value -> answer.user"],
    /// });
    /// let flow = lower(&FlowDefinition::read("chat", &document)?, &CompileInputs::default())?;
    /// assert_eq!(flow.warnings()[0].code, "flow_text_twice");
    /// # Ok::<(), contexture_flow::FlowInvalid>(())
    /// ```
    pub fn warnings(&self) -> &[FlowFault] {
        &self.0.warnings
    }

    /// Returns the flow and its sub-flows as one document, from which it can be made again.
    pub(crate) fn document(&self) -> Value {
        let subs = self.0.subs.values().map(|it| it.to_json());
        serde_json::json!({"flow": self.0.definition.to_json(), "subs": subs.collect::<Vec<_>>()})
    }

    pub(crate) fn nodes(&self) -> &[FlowNode] {
        &self.0.nodes
    }

    pub(crate) fn node(&self, idx: usize) -> Option<&FlowNode> {
        self.0.nodes.get(idx)
    }

    pub(crate) fn idx_of(&self, id: &str) -> Option<usize> {
        self.0.by_id.get(id).copied()
    }
}
