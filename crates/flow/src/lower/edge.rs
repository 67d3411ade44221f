//! How an edge is written: `node.port -> node.port`, or `node -> node` where only the order counts.

use contexture_message::ErrorCode;

use crate::FlowFault;

/// One end of an edge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub(crate) node: String,
    /// No port: the one that every node has.
    pub(crate) port: Option<String>,
}

/// Parses an edge.
pub(crate) fn parse(text: &str) -> Result<(Endpoint, Endpoint), FlowFault> {
    let wrong = || {
        let shown: String = text.chars().take(80).collect();
        let fault = FlowFault::new(ErrorCode::FlowEdgeInvalid, format!("invalid edge `{shown}`"));
        fault.hint("write `node.output -> node.input`, or `node -> node`")
    };
    let (from, to) = text.split_once("->").ok_or_else(wrong)?;
    Ok((end(from).ok_or_else(wrong)?, end(to).ok_or_else(wrong)?))
}

/// Reads one end, `node.port` or `node`.
pub(crate) fn end(text: &str) -> Option<Endpoint> {
    let text = text.trim();
    let (node, port) = match text.split_once('.') {
        Some((node, port)) => (node, Some(port)),
        None => (text, None),
    };
    let fine = is_name(node) && port.is_none_or(is_name);
    fine.then(|| Endpoint { node: node.to_owned(), port: port.map(str::to_owned) })
}

/// Whether a text can name a node or a port: letters, digits, `_` and `-`, at most 64.
pub(crate) fn is_name(text: &str) -> bool {
    let fine = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    !text.is_empty() && text.len() <= 64 && text.chars().all(fine)
}
