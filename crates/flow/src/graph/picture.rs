//! The content of a diagram: boxes and arrows, without positions.

use std::collections::HashMap;

use crate::lower::parse_edge;
use crate::{FlowDefinition, NodeKind, START};

/// The longest text that is shown in full.
const MAX_SHOWN: usize = 40;
/// How many ways through portals are shown: both ends may be many.
const MAX_PORTAL_WAYS: usize = 1000;

/// The content of a diagram.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) boxes: Vec<Node>,
    pub(super) arrows: Vec<Arrow>,
}

/// A box of the diagram.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// Its kind, and what it is about: `llm_request: support`.
    pub(super) about: String,
    pub(super) family: Family,
}

/// An edge, by the numbers of its nodes.
#[derive(Debug)]
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The ports; nothing where only the order counts.
    pub(super) label: Option<String>,
    /// Whether it is a portal: no edge leads there, but what goes in comes out.
    pub(super) is_portal: bool,
}

/// Kinds that look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Start,
    Model,
    Person,
    Thread,
    Tool,
    Choice,
    Fork,
    Store,
    Portal,
    Flow,
    Data,
}

impl Family {
    fn of(kind: &NodeKind) -> Self {
        match kind {
            NodeKind::Start => Family::Start,
            NodeKind::LlmRequest(_) => Family::Model,
            NodeKind::UserInput(_) | NodeKind::ManualInput(_) => Family::Person,
            NodeKind::NewThread(_) | NodeKind::InjectMessages(_) | NodeKind::ReleaseThread => Family::Thread,
            NodeKind::Tools(_) | NodeKind::ToolCall(_) => Family::Tool,
            NodeKind::IntentRouter(_) | NodeKind::Branch(_) => Family::Choice,
            NodeKind::Parallel(_) | NodeKind::Join(_) => Family::Fork,
            NodeKind::Cache(_) | NodeKind::BlackboardWait(_) => Family::Store,
            NodeKind::PortalIn(_) | NodeKind::PortalOut(_) => Family::Portal,
            NodeKind::SubFlow(_) => Family::Flow,
            NodeKind::Transform(_) | NodeKind::Custom(_) => Family::Data,
        }
    }
}

/// Decides what a picture of a flow shows.
pub(super) fn picture(flow: &FlowDefinition) -> Picture {
    let has_start = flow.nodes.values().any(|it| it.kind == NodeKind::Start);
    let start = Node { name: START.to_owned(), about: inputs(flow), family: Family::Start };
    let own = flow.nodes.iter().map(|(id, node)| node_of(id, &node.kind, flow));
    let boxes: Vec<Node> = (!has_start).then_some(start).into_iter().chain(own).collect();
    // The implied start comes first. A definition that uses its name for another node is invalid, and shows that node.
    let idx_of = boxes.iter().enumerate().map(|(idx, it)| (it.name.clone(), idx)).collect();
    let edges = flow.edges.iter().filter_map(|text| arrow(text, &idx_of));
    let arrows = edges.chain(portals(flow, &idx_of)).collect();
    let cut = |it: Node| Node { name: shown(&it.name), about: shown(&it.about), ..it };
    Picture { boxes: boxes.into_iter().map(cut).collect(), arrows }
}

fn node_of(id: &str, kind: &NodeKind, flow: &FlowDefinition) -> Node {
    let detail = match kind {
        NodeKind::Start => return Node { name: id.to_owned(), about: inputs(flow), family: Family::Start },
        NodeKind::LlmRequest(config) => config.prompt.clone(),
        NodeKind::ToolCall(config) => config.tool.clone(),
        NodeKind::Tools(config) => config.names.join(", "),
        NodeKind::PortalIn(config) | NodeKind::PortalOut(config) => config.portal.clone(),
        NodeKind::SubFlow(config) => config.flow.clone(),
        NodeKind::Custom(config) => config.name.clone(),
        NodeKind::BlackboardWait(config) => config.board.clone(),
        _ => String::new(),
    };
    let name = kind.name();
    let about = if detail.is_empty() { name.to_owned() } else { format!("{name}: {detail}") };
    Node { name: id.to_owned(), about, family: Family::of(kind) }
}

/// Describes the input of a run.
fn inputs(flow: &FlowDefinition) -> String {
    let names: Vec<&str> = flow.inputs.keys().map(String::as_str).collect();
    if names.is_empty() { START.to_owned() } else { format!("{START}: {}", names.join(", ")) }
}

fn arrow(text: &str, idx_of: &HashMap<String, usize>) -> Option<Arrow> {
    let (from, to) = parse_edge(text).ok()?;
    let label = match (&from.port, &to.port) {
        (None, None) => None,
        (Some(output), None) => Some(output.clone()),
        (None, Some(input)) => Some(format!("→ {input}")),
        (Some(output), Some(input)) => Some(format!("{output} → {input}")),
    };
    let label = label.as_deref().map(shown);
    Some(Arrow { from: *idx_of.get(&from.node)?, to: *idx_of.get(&to.node)?, label, is_portal: false })
}

/// Connects both ends of each portal.
fn portals(flow: &FlowDefinition, idx_of: &HashMap<String, usize>) -> Vec<Arrow> {
    let mut exits: HashMap<&str, Vec<usize>> = HashMap::new();
    for (id, node) in &flow.nodes {
        if let (NodeKind::PortalOut(exit), Some(idx)) = (&node.kind, idx_of.get(id)) {
            exits.entry(&exit.portal).or_default().push(*idx);
        }
    }
    let entries = flow.nodes.iter().filter_map(|(id, node)| match &node.kind {
        NodeKind::PortalIn(entry) => Some((*idx_of.get(id)?, exits.get(entry.portal.as_str())?)),
        _ => None,
    });
    let arrows = entries.flat_map(|(from, exits)| {
        exits.iter().map(move |to| Arrow { from, to: *to, label: None, is_portal: true })
    });
    arrows.take(MAX_PORTAL_WAYS).collect()
}

/// Cuts what is long, and makes one line of it.
fn shown(text: &str) -> String {
    let line = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    let mut cut: String = line.take(MAX_SHOWN).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}
