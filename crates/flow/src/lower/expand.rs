//! Sub-flows and portals become plain edges.
//!
//! A sub-flow is replaced by its nodes, named `sub/node`; its start becomes a gate with the name of the sub-flow's
//! node, which takes the sub-flow's inputs. An output of the sub-flow is an edge from the inner port. A portal becomes
//! edges from all its inputs to all its outputs. Later stages know neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::ErrorCode;
use indexmap::IndexMap;

use super::CompileInputs;
use super::edge::{self, Endpoint};
use crate::{DataType, FlowDefinition, FlowFault, NodeDefinition, NodeKind, OnError, Retry, START};

/// How deep sub-flows may be nested.
const MAX_DEPTH: usize = 16;
/// How long a node's name may be, with those of the sub-flows around it: the name of a wait has it, and the names of
/// documents have a limit.
const MAX_NAME: usize = 512;
/// How many nodes a flow may have, with those of its sub-flows.
const MAX_NODES: usize = 10_000;
/// The maximum number of edges: a portal has one from each input to each output, and portals may lead to portals.
pub(super) const MAX_EDGES: usize = 50_000;

/// A flow without sub-flows and portals.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    pub(crate) nodes: IndexMap<String, FlatNode>,
    pub(crate) edges: Vec<FlatEdge>,
    pub(crate) outputs: Endpoints,
    pub(crate) n_scopes: usize,
    /// The flows that were put in.
    pub(crate) subs: BTreeMap<String, Arc<FlowDefinition>>,
}

#[derive(Debug)]
pub(crate) struct FlatNode {
    pub(crate) definition: NodeDefinition,
    pub(crate) scope: usize,
    /// A start: the scope that it opens, and what it gives.
    pub(crate) start: Option<FlatStart>,
    /// The location in the document: the node, or the outermost sub-flow that contains it.
    pub(crate) at: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct FlatStart {
    pub(crate) opens: usize,
    pub(crate) inputs: IndexMap<String, DataType>,
    /// Whether it belongs to a sub-flow; then its inputs come from edges.
    pub(crate) is_gate: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FlatEdge {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) at: Vec<String>,
    pub(crate) text: String,
}

/// Takes a definition apart.
pub(crate) fn expand(
    definition: &FlowDefinition,
    compile_inputs: &CompileInputs,
    faults: &mut Vec<FlowFault>,
) -> Flat {
    let mut expansion = Expansion { flat: Flat::default(), compile_inputs, faults, chain: Vec::new() };
    expansion.flat.outputs = expansion.flow(definition, &FlowPosition::default());
    expansion.flat
}

pub(super) struct Expansion<'a> {
    pub(super) flat: Flat,
    pub(super) compile_inputs: &'a CompileInputs,
    pub(super) faults: &'a mut Vec<FlowFault>,
    /// The enclosing flows.
    pub(super) chain: Vec<String>,
}

/// The position of a flow within the whole.
#[derive(Default)]
pub(super) struct FlowPosition {
    /// The prefix of its node names.
    prefix: String,
    /// The name of its start, in a sub-flow, and what its author said of that node.
    gate: Option<(String, NodeDefinition, usize)>,
    /// The location in the document, in a sub-flow.
    outer: Option<Vec<String>>,
}

impl FlowPosition {
    pub(super) fn at(&self, path: &[&str]) -> Vec<String> {
        self.outer.clone().unwrap_or_else(|| path.iter().map(|it| (*it).to_owned()).collect())
    }

    pub(super) fn id(&self, node: &str) -> String {
        format!("{}{node}", self.prefix)
    }
}

/// What comes out of a flow: where from, by name.
pub(super) type Endpoints = IndexMap<String, Endpoint>;

/// The nodes of a flow, by name.
pub(super) type Locals<'a> = BTreeMap<&'a str, Local>;

/// What a node name refers to.
pub(super) enum Local {
    Node(String),
    Sub { gate: String, outputs: Endpoints },
    Portal(String),
}

impl Expansion<'_> {
    /// Adds a flow; returns where its outputs come from.
    pub(super) fn flow(&mut self, flow: &FlowDefinition, position: &FlowPosition) -> Endpoints {
        self.chain.push(flow.id.clone());
        let scope = self.flat.n_scopes;
        self.flat.n_scopes += 1;
        let mut locals = BTreeMap::new();
        self.start(flow, position, scope, &mut locals);
        for (id, node) in &flow.nodes {
            if let Some(local) = self.node(id, node, position, scope) {
                locals.insert(id.as_str(), local);
            }
        }
        self.edges(flow, position, &locals);
        let outputs = self.outputs(flow, position, &locals);
        self.chain.pop();
        outputs
    }

    pub(super) fn start<'f>(
        &mut self,
        flow: &'f FlowDefinition,
        position: &FlowPosition,
        scope: usize,
        locals: &mut Locals<'f>,
    ) {
        let mut own = flow.nodes.iter().filter(|(_, it)| it.kind == NodeKind::Start);
        let (id, declared) = own.next().map_or((START, None), |(id, node)| (id.as_str(), Some(node)));
        if let Some((second, _)) = own.next() {
            let message = format!("a flow has one start, not two: `{id}` and `{second}`");
            self.fault(FlowFault::invalid(message), position.at(&["nodes", second]));
        }
        let (name, definition, outer) = match &position.gate {
            Some((gate, definition, outer)) => (gate.clone(), definition.clone(), *outer),
            None => (position.id(id), declared.cloned().unwrap_or_else(|| NodeKind::Start.into()), scope),
        };
        let is_gate = position.gate.is_some();
        let start = FlatStart { opens: scope, inputs: flow.inputs.clone(), is_gate };
        let at = position.at(&["nodes", id]);
        self.flat.nodes.insert(name.clone(), FlatNode { definition, scope: outer, start: Some(start), at });
        locals.insert(id, Local::Node(name));
    }

    pub(super) fn node(
        &mut self,
        id: &str,
        node: &NodeDefinition,
        position: &FlowPosition,
        scope: usize,
    ) -> Option<Local> {
        let at = position.at(&["nodes", id]);
        if !edge::is_name(id) {
            let shown: String = id.chars().take(40).collect();
            let fault = FlowFault::invalid(format!("invalid node name `{shown}`"));
            return self.refuse(fault.hint("letters, digits, `_` and `-`, at most 64"), at);
        }
        if position.id(id).len() > MAX_NAME {
            let message = format!(
                "node `{id}` has more than {MAX_NAME} bytes of names, with those of the flows around"
            );
            return self.refuse(FlowFault::new(ErrorCode::DepthExceeded, message), at);
        }
        if !runs_itself(&node.kind)
            && let Some(field) = treatment(node)
        {
            let message = format!("node `{id}`: `{field}` says nothing about a `{}`", node.kind.name());
            let fault = FlowFault::invalid(message);
            let at = at.iter().cloned().chain([field.to_owned()]).collect();
            self.fault(fault.hint("give it to the nodes that do the work"), at);
        }
        match &node.kind {
            NodeKind::Start => None,
            NodeKind::PortalIn(portal) | NodeKind::PortalOut(portal) => {
                Some(Local::Portal(position.id(&format!("portal:{}", portal.portal))))
            }
            NodeKind::SubFlow(sub) => {
                let outer = position.outer.clone().unwrap_or(at);
                let gate = (position.id(id), node.clone(), scope);
                let prefix = position.id(&format!("{id}/"));
                self.sub_flow(&sub.flow, &FlowPosition { prefix, gate: Some(gate), outer: Some(outer) })
            }
            _ => {
                let name = position.id(id);
                let node = FlatNode { definition: node.clone(), scope, start: None, at: at.clone() };
                if self.flat.nodes.insert(name.clone(), node).is_some() {
                    let message = format!("two nodes are called `{id}`");
                    self.fault(FlowFault::new(ErrorCode::DuplicateId, message), at);
                }
                Some(Local::Node(name))
            }
        }
    }

    pub(super) fn sub_flow(&mut self, id: &str, position: &FlowPosition) -> Option<Local> {
        let at = position.outer.clone().unwrap_or_default();
        let Some(flow) = self.compile_inputs.flows.get(id) else {
            let fault = FlowFault::new(ErrorCode::UnknownFlow, format!("there is no flow `{id}`"));
            return self.refuse(fault.known(self.compile_inputs.flows.keys()), at);
        };
        if self.chain.iter().any(|it| it == id) {
            let circle = self.chain.iter().map(String::as_str).chain([id]).collect::<Vec<_>>().join(" -> ");
            let message = format!("a flow contains itself: {circle}");
            return self.refuse(FlowFault::new(ErrorCode::FlowCircular, message), at);
        }
        if self.chain.len() >= MAX_DEPTH || self.flat.nodes.len() + flow.nodes.len() > MAX_NODES {
            let message = format!(
                "flows stand more than {MAX_DEPTH} deep in flows, or have more than {MAX_NODES} nodes together"
            );
            return self.refuse(FlowFault::new(ErrorCode::DepthExceeded, message), at);
        }
        self.flat.subs.insert(id.to_owned(), Arc::clone(flow));
        let before = self.faults.len();
        let flow = Arc::clone(flow);
        let outputs = self.flow(&flow, position);
        // The sub-flow's own file has the locations; here its id is enough.
        for fault in self.faults.iter_mut().skip(before) {
            fault.message = format!("sub-flow `{id}`: {}", fault.message);
        }
        let gate = position.gate.as_ref().map(|(gate, _, _)| gate.clone())?;
        Some(Local::Sub { gate, outputs })
    }

    fn refuse(&mut self, fault: FlowFault, at: Vec<String>) -> Option<Local> {
        self.fault(fault, at);
        None
    }

    pub(super) fn fault(&mut self, fault: FlowFault, at: Vec<String>) {
        self.faults.push(fault.at(at));
    }
}

/// Whether it is a node when the flow runs: the others are only wiring.
fn runs_itself(kind: &NodeKind) -> bool {
    !matches!(kind, NodeKind::Start | NodeKind::SubFlow(_) | NodeKind::PortalIn(_) | NodeKind::PortalOut(_))
}

/// Returns the execution option of a node, if it has one.
fn treatment(node: &NodeDefinition) -> Option<&'static str> {
    let fields = [
        ("timeout_seconds", node.timeout_seconds.is_some()),
        ("retry", node.retry != Retry::default()),
        ("on_error", node.on_error != OnError::default()),
        ("repeat", node.repeat.is_some()),
    ];
    fields.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
}
