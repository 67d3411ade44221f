//! How a driver leaves a run: it ended, or everything in it waits for an answer. Also ends runs that can't be driven.

use std::sync::Arc;

use contexture_agent::{AgentError, Pending};
use contexture_message::ErrorCode;
use contexture_session::{Guard, Policy, ThreadId};

use super::{Driver, Ending};
use crate::run::state::{Phase, State};
use crate::{NodeError, PortValues, RunError, RunEvent, RunStatus, Services};

impl Driver {
    /// Records the end of the run.
    pub(super) async fn end_run(&mut self) -> Result<(), RunError> {
        let stalled = |state: &State| {
            let (node, message) = state.stalled(&self.flow)?;
            Some(Ending::Failed { node, error: NodeError::new(ErrorCode::FlowStalled, message) })
        };
        let ending = self.ending.take().or_else(|| stalled(&self.state));
        let (status, node, error) = match ending {
            None => (RunStatus::Completed, None, None),
            Some(Ending::Cancelled) => (RunStatus::Cancelled, None, None),
            Some(Ending::Failed { node, error }) => (RunStatus::Failed, Some(node), Some(error)),
        };
        let (services, approvals) = (Arc::clone(&self.services), self.approvals());
        for idx in self.state.active.clone() {
            self.end_node(idx, PortValues::new(), Some(NodeError::cancelled()));
        }
        let outputs = self.state.results();
        self.run_record.outputs.clone_from(&outputs);
        (self.run_record.status, self.run_record.node, self.run_record.error) =
            (status, node.clone(), error.clone());
        self.record_event(RunEvent::RunEnd { status, outputs, node, error });
        self.state = State::default();
        while !self.append(Guard::Release { fence: self.fence }).await? {}
        for (thread, approval) in approvals {
            // The approval can no longer be given. If the turn can't be closed now, the next turn of the thread closes
            // it.
            let _ = close_turn(&services, &thread, &approval).await;
        }
        Ok(())
    }

    /// Lists the approvals that nodes wait for, with their threads.
    fn approvals(&self) -> Vec<(ThreadId, String)> {
        let active = self.state.active.iter().filter_map(|idx| self.state.nodes[*idx].active.as_ref());
        let asked = active.filter_map(|it| match &it.phase {
            Phase::Waiting { asked, .. } => {
                Some((it.thread.clone()?, asked.about["approval"].as_str()?.to_owned()))
            }
            _ => None,
        });
        asked.collect()
    }

    /// Releases the run until an answer arrives. Returns false if something has just arrived.
    pub(super) async fn release(&mut self) -> Result<bool, RunError> {
        let waits: Vec<String> = self.state.waits().into_iter().map(|it| it.id).collect();
        if waits.is_empty() {
            // Nodes pull inputs that can never arrive.
            return self.end_stalled().await.map(|()| true);
        }
        self.record_event(RunEvent::RunWait { waits });
        self.run_record.status = RunStatus::Waiting;
        let is_released = self.append(Guard::Release { fence: self.fence }).await?;
        if !is_released {
            self.run_record.status = RunStatus::Running;
            self.batch.pop();
        }
        Ok(is_released)
    }

    async fn end_stalled(&mut self) -> Result<(), RunError> {
        let blocked = || self.state.blocked(&self.flow, &self.run_context);
        let (node, message) = self.state.stalled(&self.flow).or_else(blocked).unwrap_or_default();
        let error = NodeError::new(ErrorCode::FlowStalled, message);
        self.ending = Some(Ending::Failed { node, error });
        self.end_run().await
    }
}

/// Closes the turn that waits for an approval, if it still does.
async fn close_turn(services: &Services, thread: &ThreadId, approval: &str) -> Result<(), AgentError> {
    let thread = services.thread(thread).await?.with_policy(Policy::Reject);
    let Some(pending) = Pending::of(&thread).await? else { return Ok(()) };
    if pending.approvals.iter().any(|it| it.id == approval) {
        thread.resume(pending.turn).await?.interrupt("cancelled", Vec::new()).await?;
    }
    Ok(())
}
