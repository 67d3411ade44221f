//! Resolves the ends of edges once sub-flows and portals are removed.

use contexture_message::ErrorCode;

use super::edge::{self, Endpoint};
use super::expand::{Endpoints, Expansion, FlatEdge, FlowPosition, Local, Locals, MAX_EDGES};
use crate::{FlowDefinition, FlowFault, NodeKind};

impl Expansion<'_> {
    pub(super) fn edges(&mut self, flow: &FlowDefinition, position: &FlowPosition, locals: &Locals<'_>) {
        let mut edges = Vec::new();
        for (idx, text) in flow.edges.iter().enumerate() {
            let at = position.at(&["edges", &idx.to_string()]);
            let edge = edge::parse(text).and_then(|(from, to)| {
                if is_broken(&from, flow, locals) || is_broken(&to, flow, locals) {
                    return Ok(None);
                }
                let (from, to) = (self.source(&from, locals)?, self.target(&to, locals)?);
                Ok(Some(FlatEdge { from, to, at: at.clone(), text: text.trim().to_owned() }))
            });
            match edge {
                Ok(edge) => edges.extend(edge),
                Err(fault) => self.fault(fault, at),
            }
        }
        for local in locals.values() {
            if let Local::Portal(portal) = local {
                edges = self.without_portal(portal, edges, flow, position);
            }
        }
        if self.flat.edges.len() + edges.len() > MAX_EDGES {
            return self.fault(too_many_edges(), position.at(&["edges"]));
        }
        self.flat.edges.extend(edges);
    }

    /// Connects what goes into a portal with what comes out of it.
    fn without_portal(
        &mut self,
        portal: &str,
        edges: Vec<FlatEdge>,
        flow: &FlowDefinition,
        position: &FlowPosition,
    ) -> Vec<FlatEdge> {
        let (ins, edges): (Vec<_>, Vec<_>) = edges.into_iter().partition(|it| it.to.node == portal);
        let (outs, mut edges): (Vec<_>, Vec<_>) = edges.into_iter().partition(|it| it.from.node == portal);
        if ins.is_empty() && outs.is_empty() {
            // The other end of the same portal was here before.
            return edges;
        }
        let name = portal.rsplit("portal:").next().unwrap_or(portal);
        let lacks =
            |what: &str| FlowFault::new(ErrorCode::FlowPortalOpen, format!("nothing {what} portal `{name}`"));
        let id = flow.nodes.iter().find(|(_, it)| matches!(&it.kind, NodeKind::PortalIn(it) | NodeKind::PortalOut(it) if it.portal == name));
        let at = position.at(&["nodes", id.map_or("", |(id, _)| id.as_str())]);
        if ins.iter().any(|it| it.from.node == portal) {
            let message = format!("portal `{name}` leads into itself");
            self.fault(FlowFault::new(ErrorCode::FlowCycle, message), at);
            return edges;
        }
        if ins.is_empty() {
            self.fault(lacks("goes into"), at.clone());
        } else if outs.is_empty() {
            self.fault(lacks("comes out of"), at.clone());
        }
        if ins.len().saturating_mul(outs.len()) > MAX_EDGES.saturating_sub(edges.len()) {
            self.fault(too_many_edges(), at);
            return edges;
        }
        for from in &ins {
            for to in &outs {
                let text = format!("{} … {}", from.text, to.text);
                edges.push(FlatEdge { from: from.from.clone(), to: to.to.clone(), at: to.at.clone(), text });
            }
        }
        edges
    }

    pub(super) fn outputs(
        &mut self,
        flow: &FlowDefinition,
        position: &FlowPosition,
        locals: &Locals<'_>,
    ) -> Endpoints {
        let mut outputs = Endpoints::new();
        for (name, text) in &flow.outputs {
            let at = position.at(&["outputs", name]);
            let end = edge::end(text);
            if end.as_ref().is_some_and(|it| is_broken(it, flow, locals)) {
                continue;
            }
            let invalid = |message: String| FlowFault::new(ErrorCode::FlowEdgeInvalid, message);
            let wrong = || invalid(format!("output `{name}`: `{text}` is not a `node.port`"));
            match end.ok_or_else(wrong).and_then(|end| self.source(&end, locals)) {
                Ok(end) if end.node.contains("portal:") => {
                    let why = "comes out of a portal: name the port that leads into it";
                    self.fault(invalid(format!("output `{name}` {why}")), at);
                }
                Ok(end) => _ = outputs.insert(name.clone(), end),
                Err(fault) => self.fault(fault, at),
            }
        }
        outputs
    }

    /// Finds where an edge really comes from.
    fn source(&self, end: &Endpoint, locals: &Locals<'_>) -> Result<Endpoint, FlowFault> {
        match local(end, locals)? {
            Local::Node(node) => Ok(Endpoint { node: node.clone(), port: end.port.clone() }),
            Local::Portal(portal) => Ok(Endpoint { node: portal.clone(), port: None }),
            Local::Sub { outputs, .. } => {
                let inner = end.port.as_deref().and_then(|port| outputs.get(port));
                inner.cloned().ok_or_else(|| {
                    let port = end.port.as_deref().unwrap_or("done");
                    let message = format!("sub-flow `{}` has no output `{port}`", end.node);
                    let fault = FlowFault::new(ErrorCode::FlowUnknownPort, message);
                    fault.hint("the sub-flow declares no `outputs`").known(outputs.keys())
                })
            }
        }
    }

    /// Finds where an edge really leads.
    fn target(&self, end: &Endpoint, locals: &Locals<'_>) -> Result<Endpoint, FlowFault> {
        let node = match local(end, locals)? {
            Local::Node(node) | Local::Portal(node) | Local::Sub { gate: node, .. } => node.clone(),
        };
        Ok(Endpoint { node, port: end.port.clone() })
    }
}

fn too_many_edges() -> FlowFault {
    let message = format!("there are more than {MAX_EDGES} edges, with those through portals");
    FlowFault::new(ErrorCode::FlowTooLarge, message)
}

/// Whether an edge leads to a node whose fault was already reported.
fn is_broken(end: &Endpoint, flow: &FlowDefinition, locals: &Locals<'_>) -> bool {
    flow.nodes.contains_key(&end.node) && !locals.contains_key(end.node.as_str())
}

fn local<'a>(end: &Endpoint, locals: &'a Locals<'_>) -> Result<&'a Local, FlowFault> {
    locals.get(end.node.as_str()).ok_or_else(|| {
        let message = format!("there is no node `{}`", end.node);
        FlowFault::new(ErrorCode::FlowUnknownNode, message).known(locals.keys())
    })
}
