//! The library of runs: the loaded project.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::Agent;
use contexture_compose::Prompt;
use contexture_flow::{EventContext, Flow, Library, Nodes, RunEvent};

use crate::loaded_project::CurrentProject;
use crate::ops::metrics::Metrics;

/// Provides the loaded project to runs, and counts their events.
#[derive(Debug)]
pub(crate) struct ProjectLibrary {
    pub(crate) loaded: Arc<CurrentProject>,
    pub(crate) metrics: Metrics,
}

impl Library for ProjectLibrary {
    fn agent(&self) -> Agent {
        self.loaded.get().agent.clone()
    }

    fn prompt(&self, id: &str) -> Result<Prompt, String> {
        self.loaded.get().project.prompt(id).cloned().map_err(|err| err.to_string())
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.loaded.get().project.flow(id).ok().cloned()
    }

    fn nodes(&self) -> Nodes {
        self.loaded.get().project.flow_parts().nodes.clone()
    }

    fn on_event(&self, about: EventContext<'_>, event: &RunEvent) {
        match event {
            RunEvent::RunStart { .. } => self.metrics.run_started(),
            RunEvent::RunEnd { status, .. } => self.metrics.run_ended(status.as_str()),
            RunEvent::NodeEnd { node, error, .. } => {
                let outcome = if error.is_none() { "done" } else { "failed" };
                self.metrics.node_ended(about.flow.kind_of(node).unwrap_or("other"), outcome);
            }
            _ => {}
        }
    }

    fn on_worked(&self, kind: &'static str, took: Duration) {
        self.metrics.node_worked(kind, took);
    }
}
