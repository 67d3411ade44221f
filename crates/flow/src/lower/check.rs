//! Checks of the whole graph: unconnected inputs, unreachable nodes, loops without a pause.

use std::collections::BTreeSet;

use contexture_message::ErrorCode;

use super::expand::Flat;
use crate::node::flow::{AFTER, FlowNode, Input};
use crate::{FlowFault, JoinPolicy, NodeKind, PortType};

/// Faults with the indexes of their nodes.
type NodeFaults = Vec<(usize, FlowFault)>;

/// Checks the graph, and marks the nodes that run only when their outputs are pulled.
pub(crate) fn check(mut nodes: Vec<FlowNode>, flat: &Flat, faults: &mut Vec<FlowFault>) -> Vec<FlowNode> {
    let mut found = missing(&nodes);
    for idx in 0..nodes.len() {
        match is_pulled(&nodes, idx) {
            Ok(is_pulled) => nodes[idx].is_pulled = is_pulled,
            Err(message) => found.push((idx, FlowFault::new(ErrorCode::FlowLazyAndPushed, message))),
        }
    }
    mark_writers(&mut nodes);
    mark_feeders(&mut nodes);
    mark_asked(&mut nodes);
    found.extend(keeping(&mut nodes));
    found.extend(asked_twice(&nodes));
    for check in [unreachable, starved, cycle] {
        if found.is_empty() {
            found = check(&nodes);
        }
    }
    for (idx, fault) in found {
        let at = nodes.get(idx).and_then(|it| flat.nodes.get(&*it.id)).map(|it| it.at.clone());
        faults.push(if fault.at.is_empty() { fault.at(at.unwrap_or_default()) } else { fault });
    }
    nodes
}

fn missing(nodes: &[FlowNode]) -> NodeFaults {
    let mut found = Vec::new();
    for (idx, node) in nodes.iter().enumerate() {
        let is_missing = |it: &&Input| it.port.required && it.sources.is_empty() && it.constant.is_none();
        for input in node.inputs.iter().filter(is_missing) {
            let message = format!("node `{}`: nothing leads to input `{}`", node.id, input.port.name);
            let hint = format!("add an edge `… -> {}.{}`, or a constant in `with`", node.id, input.port.name);
            found.push((idx, FlowFault::new(ErrorCode::FlowMissingInput, message).hint(hint)));
        }
    }
    found
}

/// Returns whether a node's outputs go to lazy inputs, or that they go to other inputs too.
fn is_pulled(nodes: &[FlowNode], idx: usize) -> Result<bool, String> {
    let targets = nodes[idx].outputs.iter().flat_map(|it| &it.targets);
    let (lazy, pushed): (Vec<_>, Vec<_>) =
        targets.partition(|(node, input)| nodes[*node].inputs[*input].port.lazy);
    match (lazy.first(), pushed.first()) {
        (None, _) => Ok(false),
        (Some(_), None) => Ok(true),
        (Some((lazy, input)), Some((pushed, _))) => Err(format!(
            "node `{}` leads to the lazy input `{}` of `{}` and also to `{}`, which does not ask for it",
            nodes[idx].id, nodes[*lazy].inputs[*input].port.name, nodes[*lazy].id, nodes[*pushed].id
        )),
    }
}

/// By default the input is appended if the node has a thread input; only then does it write.
fn mark_writers(nodes: &mut [FlowNode]) {
    for node in nodes {
        let NodeKind::UserInput(config) = &node.definition.kind else { continue };
        let mut threads = node.inputs.iter().filter(|it| it.port.of == PortType::Thread);
        let takes_thread_input = threads.any(|it| !it.sources.is_empty());
        node.traits.writes = config.append.unwrap_or(takes_thread_input);
    }
}

/// A node that leads to pulled nodes only and that nothing leads to is pulled as well.
fn mark_feeders(nodes: &mut [FlowNode]) {
    loop {
        let is_feeder = |node: &FlowNode| {
            let mut targets = node.outputs.iter().flat_map(|it| &it.targets).peekable();
            let is_source =
                node.inputs.iter().all(|it| it.sources.iter().all(|(from, _)| nodes[*from].is_pulled));
            !node.is_pulled
                && node.opens.is_none()
                && is_source
                && targets.peek().is_some()
                && targets.all(|(to, _)| nodes[*to].is_pulled)
        };
        let Some(idx) = nodes.iter().position(is_feeder) else { return };
        nodes[idx].is_pulled = true;
    }
}

/// An edge between two pulled nodes is pulled together with the second one. Also notes which lazy inputs can be
/// pulled.
fn mark_asked(nodes: &mut [FlowNode]) {
    let pulled: Vec<bool> = nodes.iter().map(|it| it.is_pulled).collect();
    for node in nodes {
        let lazy = node.inputs.iter().filter(|it| it.port.lazy && !it.sources.is_empty());
        node.lazy = lazy.map(|it| it.port.name.clone()).collect();
        for input in &mut node.inputs {
            input.is_asked = !input.port.lazy && input.sources.iter().any(|(from, _)| pulled[*from]);
        }
    }
}

/// Makes thread inputs keep their value. The last value to arrive starts a node, so not all of its inputs may be kept.
fn keeping(nodes: &mut [FlowNode]) -> NodeFaults {
    let mut found = Vec::new();
    for (idx, node) in nodes.iter_mut().enumerate().filter(|(_, it)| !it.is_pulled) {
        let kept = node.inputs.iter().find(|it| it.keeps && it.port.name != AFTER);
        if let Some(input) = kept.filter(|_| node.traits.join == JoinPolicy::Any) {
            let message =
                format!("node `{}` takes what comes first and can't keep `{}`", node.id, input.port.name);
            found.push((idx, FlowFault::invalid(message)));
        }
        let others = node.inputs.iter().filter(|it| it.is_awaited() && it.port.of != PortType::Thread);
        let has_trigger = others.clone().any(|it| !it.keeps);
        let is_triggered_by_threads = others.count() == 0;
        if !has_trigger && !is_triggered_by_threads {
            let message = format!("node `{}` never starts: it keeps all of its inputs", node.id);
            found.push((idx, FlowFault::new(ErrorCode::FlowNeverStarts, message)));
        }
        for input in node.inputs.iter_mut().filter(|it| it.port.of == PortType::Thread) {
            input.keeps = has_trigger;
        }
    }
    found
}

/// A node that pulls an input must have exactly one source to pull from.
fn asked_twice(nodes: &[FlowNode]) -> NodeFaults {
    let mut found = Vec::new();
    for (idx, node) in nodes.iter().enumerate() {
        let many = node.inputs.iter().filter(|it| (it.port.lazy || it.is_asked) && it.sources.len() > 1);
        for input in many {
            let message = format!(
                "several edges lead to input `{}` of `{}`, which asks for its value",
                input.port.name, node.id
            );
            found.push((idx, FlowFault::new(ErrorCode::FlowLazyAndPushed, message)));
        }
    }
    found
}

/// Finds nodes that nothing ever starts.
fn unreachable(nodes: &[FlowNode]) -> NodeFaults {
    let mut reached: BTreeSet<usize> = BTreeSet::from([0]);
    let mut open = vec![0];
    while let Some(idx) = open.pop() {
        let targets = nodes[idx].outputs.iter().flat_map(|it| &it.targets);
        // A lazy input is asked by its node; it does not start it.
        let asked = nodes[idx].inputs.iter().flat_map(|it| &it.sources).map(|(from, _)| *from);
        let pulled = asked.filter(|from| nodes[*from].is_pulled);
        for next in targets.map(|(to, _)| *to).chain(pulled) {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    let lost = nodes.iter().enumerate().filter(|(idx, _)| !reached.contains(idx));
    lost.map(|(idx, node)| {
        let message = format!("node `{}` never runs: it is not reachable from the start", node.id);
        (idx, FlowFault::new(ErrorCode::FlowUnreachable, message))
    })
    .collect()
}

/// Finds nodes that can't begin even once: what they wait for comes after them. Each is named with the input that it
/// lacks; nodes that only come after such a node are not.
fn starved(nodes: &[FlowNode]) -> NodeFaults {
    let mut starts = vec![false; nodes.len()];
    loop {
        let next = (0..nodes.len()).find(|idx| !starts[*idx] && can_start(nodes, *idx, &starts));
        let Some(idx) = next else { break };
        starts[idx] = true;
    }
    let is_fed = |input: &Input| input.sources.iter().any(|(from, _)| starts[*from]);
    let stuck = nodes.iter().enumerate().filter(|(idx, _)| !starts[*idx]);
    let found = stuck.filter_map(|(idx, node)| {
        // Something arrives, and something else never does: here the run would come to a halt.
        let mut awaited = node.inputs.iter().filter(|it| it.is_awaited());
        awaited.clone().find(|it| is_fed(it))?;
        let lacks = awaited.find(|it| !is_fed(it))?;
        let from = lacks.sources.first().map_or("", |(from, _)| &*nodes[*from].id);
        let port =
            if lacks.port.name == AFTER { String::new() } else { format!(" for `{}`", lacks.port.name) };
        let message =
            format!("node `{}` never starts: it waits{port} for `{from}`, which comes after it", node.id);
        let hint =
            "lead both ways to it through a `join` with `policy: any`, or give the loop an entry of its own";
        Some((idx, FlowFault::new(ErrorCode::FlowNeverStarts, message).hint(hint)))
    });
    found.collect()
}

/// Whether a node can begin, given those that can.
fn can_start(nodes: &[FlowNode], idx: usize, starts: &[bool]) -> bool {
    let node = &nodes[idx];
    let is_fed = |input: usize| node.inputs[input].sources.iter().any(|(from, _)| starts[*from]);
    idx == 0 || node.is_pulled || node.has_inputs(is_fed)
}

/// Finds a loop that no pause is part of, or in which a node asks for its own output.
fn cycle(nodes: &[FlowNode]) -> NodeFaults {
    let mut colours = vec![Colour::New; nodes.len()];
    let circle = (0..nodes.len()).find_map(|start| walk(nodes, start, &mut colours));
    let Some(circle) = circle else { return Vec::new() };
    let names: Vec<&str> = circle.iter().map(|it| &*nodes[*it].id).collect();
    let message = format!("a loop never waits: {} -> {}", names.join(" -> "), names[0]);
    let fault = FlowFault::new(ErrorCode::FlowCycle, message).hint("let it go through a `user_input`");
    vec![(circle[0], fault)]
}

#[derive(Clone, Copy, PartialEq)]
enum Colour {
    New,
    Open,
    Done,
}

/// Walks depth first, without recursion; returns a circle if there is one.
fn walk(nodes: &[FlowNode], start: usize, colours: &mut [Colour]) -> Option<Vec<usize>> {
    if colours[start] != Colour::New {
        return None;
    }
    colours[start] = Colour::Open;
    let mut path = vec![(start, 0)];
    while let Some((idx, next)) = path.last_mut() {
        let target = nodes[*idx].outputs.iter().flat_map(|it| &it.targets).nth(*next).copied();
        *next += 1;
        match target {
            None => {
                colours[*idx] = Colour::Done;
                path.pop();
            }
            // A pause breaks the loop, unless its output is pulled.
            Some((to, input)) if nodes[to].traits.pauses && !nodes[to].inputs[input].port.lazy => {}
            Some((to, _)) => match colours[to] {
                Colour::Done => {}
                Colour::New => {
                    colours[to] = Colour::Open;
                    path.push((to, 0));
                }
                Colour::Open => {
                    let from = path.iter().position(|(it, _)| *it == to).unwrap_or(0);
                    return Some(path.iter().skip(from).map(|(it, _)| *it).collect());
                }
            },
        }
    }
    None
}
