//! Finds flows that work but hardly as intended: a text that is sent to a model twice.
//!
//! `user_input` with `append`, and `manual_input`, write their text into their thread. If the text is also the `user`
//! input of a model call on the same thread, the model reads it twice: in the history and as the message of the turn.

use contexture_message::{ErrorCode, Role};

use super::edge::{Endpoint, parse};
use crate::{FlowDefinition, FlowFault, NodeKind};

/// Finds the edges by which a text reaches a model that reads it in its thread anyway.
pub(crate) fn texts_sent_twice(definition: &FlowDefinition) -> Vec<FlowFault> {
    let edges: Vec<(Endpoint, Endpoint)> = definition.edges.iter().filter_map(|it| parse(it).ok()).collect();
    let found = edges.iter().enumerate().filter(|(_, (from, to))| {
        is_written(definition, &edges, from)
            && is_said(definition, to)
            && is_same_thread(&edges, &from.node, &to.node)
    });
    found
        .map(|(idx, (from, to))| fault(definition, from, to).at(["edges".to_owned(), idx.to_string()]))
        .collect()
}

fn fault(definition: &FlowDefinition, from: &Endpoint, to: &Endpoint) -> FlowFault {
    let message = format!(
        "`{}` writes its text into the thread, and `{}` sends it as the user's message too: the model reads it twice",
        from.node, to.node
    );
    let hint = match kind(definition, &from.node) {
        Some(NodeKind::UserInput(_)) => {
            format!("write `append: false`, or only the order: `{} -> {}`", from.node, to.node)
        }
        _ => format!("write only the order: `{} -> {}`", from.node, to.node),
    };
    FlowFault::new(ErrorCode::FlowTextTwice, message).hint(hint)
}

fn kind<'a>(definition: &'a FlowDefinition, node: &str) -> Option<&'a NodeKind> {
    definition.nodes.get(node).map(|it| &it.kind)
}

/// Whether an end is a text that its node writes into its thread.
fn is_written(definition: &FlowDefinition, edges: &[(Endpoint, Endpoint)], from: &Endpoint) -> bool {
    match (kind(definition, &from.node), from.port.as_deref()) {
        (Some(NodeKind::UserInput(config)), Some("value")) => {
            config.append.unwrap_or_else(|| threads(edges, &from.node).next().is_some())
        }
        (Some(NodeKind::ManualInput(config)), Some("text")) => config.role == Role::User,
        _ => false,
    }
}

fn is_said(definition: &FlowDefinition, to: &Endpoint) -> bool {
    to.port.as_deref() == Some("user") && matches!(kind(definition, &to.node), Some(NodeKind::LlmRequest(_)))
}

/// Whether two nodes use the same thread: the first passes it to the second, both get it from the same output, or
/// neither has a thread input.
fn is_same_thread(edges: &[(Endpoint, Endpoint)], first: &str, second: &str) -> bool {
    let mut of_second = threads(edges, second).peekable();
    if of_second.peek().is_none() {
        return threads(edges, first).next().is_none();
    }
    of_second.any(|it| it.node == first || threads(edges, first).any(|own| own == it))
}

/// Returns the outputs connected to a node's `thread` input.
fn threads<'a>(edges: &'a [(Endpoint, Endpoint)], node: &'a str) -> impl Iterator<Item = &'a Endpoint> {
    let told = move |it: &&(Endpoint, Endpoint)| it.1.node == node && it.1.port.as_deref() == Some("thread");
    edges.iter().filter(told).map(|(from, _)| from)
}
