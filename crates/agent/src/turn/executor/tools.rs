//! Answers the tool calls of a round.

use contexture_compose::Pass;
use contexture_history::interrupted;
use contexture_message::{ToolCall, ToolOutput};

use super::{Break, Executor, NextPass};
use crate::AgentError;
use crate::event::ApprovalRequest;
use crate::skills::Narrowing;
use crate::tools::{Answered, Layer, Round, RoundNotes, Site, layer};
use crate::turn::next::Treatment;
use crate::turn::state::CallStatus;

impl Executor {
    /// Runs calls, or answers them without running them. Calls that need approval or belong to the client stay open.
    pub(super) async fn run_tools(&mut self, calls: Vec<(ToolCall, Treatment)>) -> Result<(), Break> {
        let pass = self.latest_pass().await?;
        self.pass = NextPass::Outdated(pass.clone());
        let layers = self.layers(&pass)?;
        let thread = self.turn.thread();
        let result_tokens = self.resolver.results(&thread.get()).max_tokens_per_recent_tool_result;
        let (notes, skills) = (RoundNotes::default(), self.resolver.skill_share(&thread.get()));
        let narrowing = Narrowing::of(&thread.get());
        let agent = &self.resolver.agent;
        let site = Site {
            limits: agent.call_limits(),
            time: &*agent.time,
            layers: &layers,
            thread: &thread,
            turn: self.turn.turn(),
            result_tokens,
            notes: &notes,
            skills: &skills,
            cancel: &self.cancel,
        };
        let round =
            Round { site, toolbox: &agent.toolbox, pass: &pass, narrowing: &narrowing, sink: &self.sink };
        let is_of_client = |it: &ToolCall| self.resolver.is_of_client(&it.name);
        let wait = |(call, treatment): &(ToolCall, Treatment)| match (treatment, is_of_client(call)) {
            // The client runs what it brings. An active skill decides about it like about any other tool.
            (Treatment::Run, true) if narrowing.requires_approval(&call.name, false) => {
                Some(CallStatus::NeedsApproval)
            }
            (Treatment::Run | Treatment::RunApproved, true) => Some(CallStatus::NeedsClient),
            (Treatment::Run, false) => round.requires_approval(call).then_some(CallStatus::NeedsApproval),
            (Treatment::RunApproved | Treatment::Deny { .. } | Treatment::Interrupt, _) => None,
        };
        let open: Vec<(String, CallStatus)> =
            calls.iter().filter_map(|it| Some((it.0.id.clone(), wait(it)?))).collect();
        let is_open = |call: &ToolCall| open.iter().any(|(id, _)| *id == call.id);
        let runs = |(call, it): &&(ToolCall, Treatment)| match it {
            Treatment::Run | Treatment::RunApproved => !is_open(call),
            Treatment::Deny { .. } | Treatment::Interrupt => false,
        };
        let running: Vec<ToolCall> = calls.iter().filter(runs).map(|(it, _)| it.clone()).collect();
        let ran = self.turn.while_alive(Box::pin(round.run(&running))).await.map_err(AgentError::from)?;
        self.noted.extend(notes.take());
        let mut ran = ran.into_iter();
        for (call, treatment) in &calls {
            self.answered.extend(match treatment {
                Treatment::Deny { reason } => {
                    Some(round.closed(call, ToolOutput::ExecutionDenied { reason: reason.clone() }))
                }
                Treatment::Interrupt => {
                    Some(round.closed(call, ToolOutput::ErrorText(interrupted().to_owned())))
                }
                Treatment::Run | Treatment::RunApproved if is_open(call) => None,
                Treatment::Run | Treatment::RunApproved => ran.next(),
            });
        }
        for Answered { call, .. } in &self.answered {
            self.state.set(&call.id, CallStatus::Answered);
        }
        open.into_iter().for_each(|(id, status)| self.state.set(&id, status));
        Ok(())
    }

    /// Returns the middleware around the tool calls of a pass: the agent's, then the prompt's.
    pub(super) fn layers(&self, pass: &Pass) -> Result<Vec<Layer>, AgentError> {
        let known = |id: &str| self.resolver.agent.toolbox.middleware.get(id).cloned();
        let named = pass.extras().tool_middleware.iter().map(|it| layer(it, known));
        let own = self.resolver.agent.toolbox.layers.iter().cloned().map(Ok);
        own.chain(named).collect()
    }

    /// Returns requests to approve these calls.
    pub(super) fn approval_requests(&self, calls: Vec<ToolCall>) -> Vec<ApprovalRequest> {
        let secrets = &self.resolver.agent.secrets;
        let each = calls.into_iter().map(|call| ApprovalRequest {
            id: format!("{}:{}:{}", self.turn.thread().id(), self.turn.turn(), call.id),
            token: secrets.next(),
            call_id: call.id,
            tool: call.name,
            arguments: call.arguments,
        });
        each.collect()
    }
}
