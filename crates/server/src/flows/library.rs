//! The library of runs: the loaded project.

use std::sync::Arc;
use std::time::Duration;

use contexture::capabilities::blackboard::{BoardError, BoardOwner};
use contexture_agent::Agent;
use contexture_compose::{BoxFuture, Prompt, Scope};
use contexture_flow::{EventContext, Flow, Library, NodeError, Nodes, RunEvent};
use contexture_session::SessionKey;
use serde_json::Value;

use crate::events::live::LiveAnswers;
use crate::loaded_project::CurrentProject;
use crate::ops::metrics::{FLOW_ENDS, FLOW_NODES, FLOW_STARTS, Metrics, NODE_TIME};

/// Provides the loaded project to runs, counts their events, and tells those that are not recorded.
#[derive(Debug)]
pub(crate) struct ProjectLibrary {
    pub(crate) loaded: Arc<CurrentProject>,
    pub(crate) metrics: Metrics,
    pub(crate) live: LiveAnswers,
}

impl Library for ProjectLibrary {
    fn agent(&self) -> Agent {
        self.loaded.borrow().agent.clone()
    }

    fn prompt(&self, id: &str) -> Result<Prompt, String> {
        self.loaded.borrow().project.prompt(id).cloned().map_err(|err| err.to_string())
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.loaded.borrow().project.flow(id).ok().cloned()
    }

    fn nodes(&self) -> Nodes {
        self.loaded.borrow().project.flow_parts().nodes.clone()
    }

    fn blackboard(&self, id: String, scope: Scope) -> BoxFuture<'_, Result<Value, NodeError>> {
        let boards = self.loaded.borrow().project.boards().clone();
        Box::pin(async move {
            let failed = |err: BoardError| NodeError::new(err.code(), err.to_string());
            let board = BoardOwner::of(&scope).and_then(|it| boards.find(&id, &it)).map_err(failed)?;
            Ok(board.read().await.map_err(failed)?.value().clone())
        })
    }

    fn on_event(&self, about: EventContext<'_>, event: &RunEvent) {
        match event {
            RunEvent::RunStart { .. } => self.metrics.count(FLOW_STARTS, &[]),
            RunEvent::RunEnd { status, .. } => self.metrics.count(FLOW_ENDS, &[status.as_str()]),
            RunEvent::NodeEnd { node, error, .. } => {
                let outcome = if error.is_none() { "done" } else { "failed" };
                self.metrics.count(FLOW_NODES, &[about.flow.kind_of(node).unwrap_or("other"), outcome]);
            }
            // Words outside a turn, as of a node that skips the history.
            RunEvent::NodeEvent { turn: None, .. } => {
                let (tenant, session) = (about.tenant.clone(), about.run.session().clone());
                self.live.tell_run(&SessionKey { tenant, session }, about.run, event);
            }
            _ => {}
        }
    }

    fn on_worked(&self, kind: &'static str, took: Duration) {
        self.metrics.time(NODE_TIME, &[kind], took);
    }
}
