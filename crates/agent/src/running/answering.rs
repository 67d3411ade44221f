//! How a running turn answers tool calls: at once, or after a person has decided.
//!
//! Calls are on record before anything is run. What needs approval waits until everything else is answered; then the turn is
//! suspended with all that another process needs to go on with it.

use std::sync::Arc;

use contexture_compose::Pass;
use contexture_history::{TurnNo, interrupted};
use contexture_message::{Message, Role, ToolCall, ToolOutput};
use contexture_session::{NewItem, Thread};
use tokio_util::sync::CancellationToken;

use super::{Break, End, Running};
use crate::approval::{self, ApprovalRequest, RunRecord, Verdict, Waiting};
use crate::middleware::Layer;
use crate::outcome::Ended;
use crate::round::{Answered, Round};
use crate::run::Sink;
use crate::setting::Setting;
use crate::words::{calls_of, result_items};
use crate::{AgentError, Event};

impl Running {
    /// Records an answer with calls, runs them and records their results.
    pub(super) async fn round(
        &mut self,
        pass: &Pass,
        layers: &[Layer],
        message: Arc<Message>,
        calls: Vec<ToolCall>,
    ) -> Result<Option<End>, Break> {
        for call in &calls {
            let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            self.sink.send(Event::ToolCall { id, name, arguments });
        }
        // Before anything is run: whoever finds the log after a crash sees what was about to happen.
        self.turn.append(vec![NewItem::from(Arc::clone(&message))]).await?;
        let (asking, free) = self.split(pass, layers, &calls);
        let answered = self.run_calls(pass, layers, &free).await?;
        if asking.is_empty() {
            return self.record_results(answered).await;
        }
        if self.cancel.is_cancelled() {
            let unasked =
                asking.iter().map(|it| self.unrun(it, ToolOutput::ErrorText(interrupted().to_owned())));
            return self.record_results(answered.into_iter().chain(unasked).collect()).await;
        }
        let record = RunRecord {
            prompt: self.setting.prompt.id().to_owned(),
            input: self.setting.input.clone(),
            scope: self.setting.scope.clone(),
            model: self.setting.model.clone(),
            settings: self.setting.settings.clone(),
            own_words: self.setting.own_words.clone(),
            steps: self.steps,
            usage: self.usage,
            cost: self.cost,
        };
        let requests = self.requests(asking);
        let mut items = result_items(answered);
        items.extend(approval::suspension(&record, &requests));
        self.approvals = requests;
        Ok(Some(End { ended: Ended::Suspended, items, message: Some(message), output: None }))
    }

    /// Goes on with a turn that waited: runs what was approved, tells the model what was denied.
    pub(crate) async fn go_on(&mut self, waiting: Waiting) -> Result<End, Break> {
        if !waiting.is_decided() {
            return Ok(End { ended: Ended::Suspended, items: Vec::new(), message: None, output: None });
        }
        let pass = self.resolve_with_room(None).await?;
        let layers = self.layers(&pass)?;
        let approved: Vec<ToolCall> = waiting
            .asked
            .iter()
            .filter(|it| it.verdict == Some(Verdict::Approve))
            .map(|it| it.call().clone())
            .collect();
        let mut ran = self.run_calls(&pass, &layers, &approved).await?.into_iter();
        let mut answered = Vec::new();
        for asked in &waiting.asked {
            answered.extend(match &asked.verdict {
                Some(Verdict::Deny { reason }) => {
                    let output = ToolOutput::ExecutionDenied { reason: reason.clone() };
                    Some(self.unrun(asked.call(), output))
                }
                Some(Verdict::Approve) => ran.next(),
                None => None,
            });
        }
        if let Some(end) = self.record_results(answered).await? {
            return Ok(end);
        }
        let pass = self.resolve_with_room(Some(&pass)).await?;
        self.go(pass).await
    }

    /// Records results, or hands them over if the loop ends here.
    async fn record_results(&mut self, answered: Vec<Answered>) -> Result<Option<End>, Break> {
        let items = result_items(answered);
        if self.cancel.is_cancelled() {
            return Err(Break { err: AgentError::Cancelled, items });
        }
        // The whole round counts, also what was answered before a person decided about the rest.
        let message = self.on_record().messages().iter().rfind(|it| it.role == Role::Assistant).cloned();
        let calls: Vec<ToolCall> = message.iter().flat_map(|it| calls_of(it)).cloned().collect();
        if let Some(ended) = self.stop(&calls) {
            return Ok(Some(End { ended, items, message, output: None }));
        }
        self.turn.append(items).await?;
        Ok(None)
    }

    /// Answers a call that was not run.
    fn unrun(&self, call: &ToolCall, output: ToolOutput) -> Answered {
        let (id, name) = (call.id.clone(), call.name.clone());
        self.sink.send(Event::ToolResult { id, name, output: output.clone(), raw: None });
        Answered { call: call.clone(), output, whole: None }
    }

    /// Splits calls into those that a person must decide about, and the others.
    fn split(&self, pass: &Pass, layers: &[Layer], calls: &[ToolCall]) -> (Vec<ToolCall>, Vec<ToolCall>) {
        let thread = self.turn.thread();
        let round =
            round_of(&self.setting, pass, layers, &thread, self.turn.turn(), &self.cancel, &self.sink);
        calls.iter().cloned().partition(|it| round.asks(it))
    }

    async fn run_calls(
        &mut self,
        pass: &Pass,
        layers: &[Layer],
        calls: &[ToolCall],
    ) -> Result<Vec<Answered>, AgentError> {
        let thread = self.turn.thread();
        let round =
            round_of(&self.setting, pass, layers, &thread, self.turn.turn(), &self.cancel, &self.sink);
        Ok(self.turn.while_alive(Box::pin(round.run(calls))).await?)
    }

    fn requests(&self, calls: Vec<ToolCall>) -> Vec<ApprovalRequest> {
        let secrets = &self.setting.agent.secrets;
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

/// The parts of a running turn that its calls need; not the turn itself, which gives signs of life meanwhile.
fn round_of<'a>(
    setting: &'a Setting,
    pass: &'a Pass,
    layers: &'a [Layer],
    thread: &'a Thread,
    turn: TurnNo,
    cancel: &'a CancellationToken,
    sink: &'a Sink,
) -> Round<'a> {
    Round { agent: &setting.agent, layers, request: pass.request(), thread, turn, cancel, sink }
}
