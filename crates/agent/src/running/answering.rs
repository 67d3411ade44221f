//! Answers the tool calls of a running turn: immediately, after a person's decision, or with the client's results.
//!
//! Calls are recorded before any of them runs. Calls that need approval or run on the client wait until all others are
//! answered; then the turn is suspended with everything another process needs to continue it. It continues once all
//! decisions and results have arrived.

use std::sync::Arc;

use contexture_compose::Pass;
use contexture_history::{TurnNo, interrupted};
use contexture_message::{Message, Role, ToolCall, ToolOutput};
use contexture_session::{NewItem, Thread};
use tokio_util::sync::CancellationToken;

use super::{Break, End, Running, waits};
use crate::approval::{self, ApprovalRequest, RunRecord, Verdict, Waiting};
use crate::invoke::Site;
use crate::middleware::Layer;
use crate::outcome::Ended;
use crate::round::{Answered, Round};
use crate::run::Sink;
use crate::setting::Setting;
use crate::words::{calls_of, result_items};
use crate::{AgentError, Event, RunsOn};

impl Running {
    /// Records an answer with tool calls, runs them and records their results.
    pub(super) async fn round(
        &mut self,
        pass: &Pass,
        layers: &[Layer],
        message: Arc<Message>,
        calls: Vec<ToolCall>,
    ) -> Result<Option<End>, Break> {
        for call in &calls {
            let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            let is_of_client = self.setting.is_of_client(&name);
            let runs = if is_of_client { RunsOn::Client } else { RunsOn::Server };
            self.sink.send(Event::ToolCall { id, name, arguments, runs });
        }
        // Recorded before anything runs: after a crash, the log shows what was about to happen.
        self.turn.append(vec![NewItem::from(Arc::clone(&message))]).await?;
        let Split { asking, client, free } = self.split(pass, layers, calls);
        let answered = self.run_calls(pass, layers, &free).await?;
        self.conclude(message, answered, asking, client).await
    }

    /// Records the results of a round, and suspends the turn if other results are pending.
    pub(super) async fn conclude(
        &mut self,
        message: Arc<Message>,
        answered: Vec<Answered>,
        asking: Vec<ToolCall>,
        client: Vec<ToolCall>,
    ) -> Result<Option<End>, Break> {
        if asking.is_empty() && client.is_empty() {
            return self.record_results(answered).await;
        }
        if self.cancel.is_cancelled() {
            let unasked = asking.iter().chain(&client);
            let unasked = unasked.map(|it| self.unrun(it, ToolOutput::ErrorText(interrupted().to_owned())));
            return self.record_results(answered.into_iter().chain(unasked).collect()).await;
        }
        let requests = self.requests(asking);
        let mut items = result_items(answered);
        items.extend(approval::suspension(&self.record(&client), &requests));
        let is_asking = !requests.is_empty();
        self.approvals = requests;
        Ok(Some(End { message: Some(message), ..self.suspended(is_asking, client, items) }))
    }

    /// Returns what another process needs to continue the turn.
    fn record(&self, client_calls: &[ToolCall]) -> RunRecord {
        let setting = &self.setting;
        RunRecord {
            prompt: setting.prompt.id().to_owned(),
            spec: setting.spec.clone(),
            own_words: setting.own_words.clone(),
            client_calls: client_calls.iter().map(|it| it.id.clone()).collect(),
            steps: self.steps,
            usage: self.usage,
            cost: self.cost,
        }
    }

    fn suspended(&mut self, is_asking: bool, client: Vec<ToolCall>, items: Vec<NewItem>) -> End {
        self.waits = waits(is_asking, !client.is_empty());
        let ended = if client.is_empty() { Ended::Suspended } else { Ended::ClientTools };
        self.client_calls = client;
        End { ended, items, message: None, output: None }
    }

    /// Continues a suspended turn: runs the approved calls and tells the model which ones were denied.
    pub(crate) async fn go_on(&mut self, waiting: Waiting) -> Result<End, Break> {
        if !waiting.is_over() {
            let is_asking = !waiting.is_decided();
            return Ok(self.suspended(is_asking, waiting.client, Vec::new()));
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

    /// Records results, or returns them with the end of the turn if the loop stops here.
    pub(super) async fn record_results(&mut self, answered: Vec<Answered>) -> Result<Option<End>, Break> {
        let items = result_items(answered);
        if self.cancel.is_cancelled() {
            return Err(Break { err: AgentError::Cancelled, items });
        }
        // Stop conditions look at the whole round, including calls answered before the approval.
        let message = self.on_record().messages().iter().rfind(|it| it.role == Role::Assistant).cloned();
        let calls: Vec<ToolCall> = message.iter().flat_map(|it| calls_of(it)).cloned().collect();
        if let Some(ended) = self.stop(&calls) {
            return Ok(Some(End { ended, items, message, output: None }));
        }
        self.turn.append(items).await?;
        Ok(None)
    }

    /// Returns the result of a call that was not run, and sends its event.
    pub(super) fn unrun(&self, call: &ToolCall, output: ToolOutput) -> Answered {
        let answered = Answered { call: call.clone(), output, whole: None };
        self.sink.send(answered.event(None));
        answered
    }

    /// Splits calls into those that need approval, those of the client, and those that can run now.
    pub(super) fn split(&self, pass: &Pass, layers: &[Layer], calls: Vec<ToolCall>) -> Split {
        let thread = self.turn.thread();
        let round =
            round_of(&self.setting, pass, layers, &thread, self.turn.turn(), &self.cancel, &self.sink);
        let (client, here): (Vec<ToolCall>, Vec<ToolCall>) =
            calls.into_iter().partition(|it| self.setting.is_of_client(&it.name));
        let (asking, free) = here.into_iter().partition(|it| round.asks(it));
        Split { asking, client, free }
    }

    pub(super) async fn run_calls(
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

/// The calls of a round, grouped by how they are answered.
pub(super) struct Split {
    /// Calls that need a person's approval.
    pub(super) asking: Vec<ToolCall>,
    /// Calls that the client runs.
    pub(super) client: Vec<ToolCall>,
    pub(super) free: Vec<ToolCall>,
}

/// Returns the parts of a running turn that its calls need. The turn itself is left out: it renews its lease
/// meanwhile.
fn round_of<'a>(
    setting: &'a Setting,
    pass: &'a Pass,
    layers: &'a [Layer],
    thread: &'a Thread,
    turn: TurnNo,
    cancel: &'a CancellationToken,
    sink: &'a Sink,
) -> Round<'a> {
    let result_tokens = setting.results(&thread.get()).max_tokens_per_recent_tool_result;
    let site = Site { agent: &setting.agent, layers, thread, turn, result_tokens, cancel };
    Round { site, pass, sink }
}
