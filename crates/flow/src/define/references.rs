//! The prompts, tools, blackboards and flows that the nodes of a definition name, so that callers can check them.

use super::FlowDefinition;
use super::kind::NodeKind;

impl FlowDefinition {
    /// Lists the prompts that its nodes name, with the nodes.
    pub fn prompts(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::LlmRequest(config) => vec![config.prompt.as_str()],
            NodeKind::IntentRouter(config) => config.prompt.as_deref().into_iter().collect(),
            _ => Vec::new(),
        })
    }

    /// Lists the tools that its nodes name, with the nodes.
    pub fn tools(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::Tools(config) => config.names.iter().map(String::as_str).collect(),
            NodeKind::ToolCall(config) => vec![config.tool.as_str()],
            _ => Vec::new(),
        })
    }

    /// Lists the blackboards that its nodes name, with the nodes.
    pub fn boards(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::BlackboardWait(config) => vec![config.board.as_str()],
            _ => Vec::new(),
        })
    }

    /// Lists the flows that its nodes name, with the nodes.
    pub fn flows(&self) -> Vec<(&str, &str)> {
        self.named(|kind| match kind {
            NodeKind::SubFlow(config) => vec![config.flow.as_str()],
            _ => Vec::new(),
        })
    }

    fn named<'a>(&'a self, names: impl Fn(&'a NodeKind) -> Vec<&'a str>) -> Vec<(&'a str, &'a str)> {
        let nodes = self.nodes.iter();
        let each =
            nodes.flat_map(|(id, node)| names(&node.kind).into_iter().map(move |it| (it, id.as_str())));
        each.collect()
    }
}
