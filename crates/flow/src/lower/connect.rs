//! Edges get numbered ports, and their types are compared.

use std::sync::Arc;

use contexture_message::ErrorCode;
use indexmap::IndexMap;

use super::CompileInputs;
use super::edge::{Endpoint, is_name};
use super::expand::{Flat, FlatEdge, FlatNode};
use crate::node::flow::{AFTER, FlowNode, Input, Output};
use crate::nodes::start::StartNode;
use crate::port::weight::check_depth;
use crate::{FlowFault, OnError, Port, PortType, PortValue, nodes};

/// The output that every node has: it signals that the node is done.
pub(crate) const DONE: &str = "done";
/// The output of a node whose errors are emitted.
pub(crate) const ERROR: &str = "error";

/// Nodes with their edges.
pub(crate) struct Connected {
    pub(crate) nodes: Vec<FlowNode>,
    pub(crate) outputs: IndexMap<String, (usize, usize)>,
}

/// Makes the nodes and connects them.
pub(crate) fn connect(flat: &Flat, compile_inputs: &CompileInputs, faults: &mut Vec<FlowFault>) -> Connected {
    let mut nodes = Vec::new();
    let mut idx_of = IndexMap::new();
    for (id, node) in &flat.nodes {
        match made(id, node, compile_inputs) {
            Ok(made) => {
                idx_of.insert(id.clone(), nodes.len());
                nodes.push(made);
            }
            Err(found) => {
                faults.extend(found.into_iter().map(|it| it.within(&format!("node `{id}`"), &node.at)))
            }
        }
    }
    // Of a node that could not be made it was said already why.
    for edge in &flat.edges {
        let (Some(from), Some(to)) = (idx_of.get(&edge.from.node), idx_of.get(&edge.to.node)) else {
            continue;
        };
        if let Err(fault) = connect_edge(edge, *from, *to, &mut nodes) {
            faults.push(fault.within(&format!("edge `{}`", edge.text), &edge.at));
        }
    }
    let mut outputs = IndexMap::new();
    for (name, end) in &flat.outputs {
        let Some(node) = idx_of.get(&end.node).copied() else { continue };
        match output_of(end, &nodes[node]) {
            Ok(output) => _ = outputs.insert(name.clone(), (node, output)),
            Err(fault) => faults.push(fault.at(["outputs", name])),
        }
    }
    Connected { nodes, outputs }
}

fn made(id: &str, node: &FlatNode, compile_inputs: &CompileInputs) -> Result<FlowNode, Vec<FlowFault>> {
    let work = match &node.start {
        Some(start) => Arc::new(StartNode::new(start.inputs.clone(), start.is_gate)),
        None => nodes::make(&node.definition.kind, &compile_inputs.nodes)?,
    };
    let definition = &node.definition;
    let mut inputs = work.inputs();
    inputs.push(Port::new(AFTER, PortType::Signal));
    let mut outputs = work.outputs();
    outputs.push(Port::new(DONE, PortType::data(crate::port::JsonType::Boolean)));
    if definition.on_error == OnError::Emit {
        outputs.push(Port::new(ERROR, PortType::OBJECT));
    }
    let mut faults = [names(&inputs, "input"), names(&outputs, "output")].concat();
    let inputs = with_constants(inputs, node, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(FlowNode {
        id: Arc::from(id),
        definition: definition.clone(),
        traits: work.traits(),
        inputs,
        outputs: outputs.into_iter().map(|port| Output { port, targets: Vec::new() }).collect(),
        lazy: Arc::default(),
        is_pulled: false,
        scope: node.scope,
        opens: node.start.as_ref().map(|it| it.opens),
        work,
    })
}

/// Reports invalid port names; in some kinds of nodes the author chooses them.
fn names(ports: &[Port], what: &str) -> Vec<FlowFault> {
    let mut faults = Vec::new();
    for (idx, port) in ports.iter().enumerate() {
        if !is_name(&port.name) {
            let shown: String = port.name.chars().take(40).collect();
            faults.push(FlowFault::invalid(format!("invalid {what} name `{shown}`")));
        } else if ports.iter().take(idx).any(|it| it.name == port.name) {
            let message = format!("two {what}s are called `{}`", port.name);
            faults.push(FlowFault::new(ErrorCode::DuplicateId, message));
        }
    }
    faults
}

fn with_constants(ports: Vec<Port>, node: &FlatNode, faults: &mut Vec<FlowFault>) -> Vec<Input> {
    let with = &node.definition.with;
    for name in with.keys().filter(|name| ports.iter().all(|it| it.name != **name)) {
        faults.push(unknown_port("input", name, ports.iter()).at(["with", name]));
    }
    for (idx, name) in node.definition.keep.iter().enumerate() {
        if ports.iter().all(|it| it.name != *name) {
            faults.push(unknown_port("input", name, ports.iter()).at(["keep", &idx.to_string()]));
        }
    }
    let mut inputs = Vec::new();
    for port in ports {
        let constant = with.get(&port.name).map(|it| PortValue::data(it.clone()));
        let checked = with.get(&port.name).map_or(Ok(()), check_depth);
        let checked = checked.and_then(|()| constant.as_ref().map_or(Ok(()), |it| it.check(&port.of)));
        if let Err(why) = checked {
            let message = format!("constant for input `{}`: {why}", port.name);
            faults
                .push(FlowFault::new(ErrorCode::FlowTypeMismatch, message).at(["with", port.name.as_str()]));
        }
        let keeps = node.definition.keep.contains(&port.name);
        inputs.push(Input { port, sources: Vec::new(), constant, keeps, is_asked: false });
    }
    inputs
}

fn connect_edge(edge: &FlatEdge, from: usize, to: usize, nodes: &mut [FlowNode]) -> Result<(), FlowFault> {
    let (source, target) = (&nodes[from], &nodes[to]);
    let output = output_of(&edge.from, source)?;
    let name = edge.to.port.as_deref().unwrap_or(AFTER);
    let input = port_of(target, "input", name, target.inputs.iter().map(|it| &it.port))?;
    let (out_port, in_port) = (&source.outputs[output].port, &target.inputs[input].port);
    if !out_port.of.fits(&in_port.of) {
        let message = format!(
            "output `{}` of `{}` is {}, input `{}` of `{}` takes {}",
            out_port.name, source.id, out_port.of, in_port.name, target.id, in_port.of
        );
        return Err(FlowFault::new(ErrorCode::FlowTypeMismatch, message));
    }
    if target.inputs[input].constant.is_some() {
        let message = format!("input `{name}` of `{}` has a constant in `with` already", target.id);
        return Err(FlowFault::invalid(message));
    }
    if source.outputs[output].targets.contains(&(to, input)) {
        return Err(FlowFault::new(ErrorCode::DuplicateId, "duplicate edge"));
    }
    nodes[from].outputs[output].targets.push((to, input));
    nodes[to].inputs[input].sources.push((from, output));
    Ok(())
}

fn output_of(end: &Endpoint, node: &FlowNode) -> Result<usize, FlowFault> {
    let name = end.port.as_deref().unwrap_or(DONE);
    port_of(node, "output", name, node.outputs.iter().map(|it| &it.port))
}

/// Returns the number of the port of a node that has a name.
fn port_of<'a>(
    node: &FlowNode,
    what: &str,
    name: &str,
    ports: impl Iterator<Item = &'a Port> + Clone,
) -> Result<usize, FlowFault> {
    ports
        .clone()
        .position(|it| it.name == name)
        .ok_or_else(|| unknown_port(what, name, ports).within(&format!("node `{}`", node.id), &[]))
}

fn unknown_port<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a Port>) -> FlowFault {
    let shown: String = name.chars().take(64).collect();
    let fault = FlowFault::new(ErrorCode::FlowUnknownPort, format!("there is no {what} `{shown}`"));
    fault.known(known.map(|it| &it.name))
}
