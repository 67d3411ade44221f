//! What runs take from the server: what is loaded now.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::Agent;
use contexture_compose::Prompt;
use contexture_flow::{Flow, Library, Nodes, RunEvent};

use crate::metrics::Metrics;
use crate::world::Current;

/// What is loaded now, for runs; what happens in them is counted.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) world: Arc<Current>,
    pub(crate) metrics: Metrics,
}

impl Library for Loaded {
    fn agent(&self) -> Agent {
        self.world.get().agent.clone()
    }

    fn prompt(&self, id: &str) -> Result<Prompt, String> {
        self.world.get().project.prompt(id).cloned().map_err(|err| err.to_string())
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.world.get().project.flow(id).ok().cloned()
    }

    fn nodes(&self) -> Nodes {
        self.world.get().project.flow_parts().nodes.clone()
    }

    fn heard(&self, flow: &Flow, event: &RunEvent) {
        match event {
            RunEvent::RunStart { .. } => self.metrics.run_started(),
            RunEvent::RunEnd { status, .. } => self.metrics.run_ended(status.as_str()),
            RunEvent::NodeEnd { node, error, .. } => {
                let outcome = if error.is_none() { "done" } else { "failed" };
                self.metrics.node_ended(flow.kind_of(node).unwrap_or("other"), outcome);
            }
            _ => {}
        }
    }

    fn worked(&self, kind: &'static str, took: Duration) {
        self.metrics.node_worked(kind, took);
    }
}
