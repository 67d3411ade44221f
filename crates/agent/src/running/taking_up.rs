//! Resumes a turn that did not finish. The rules are in [`earlier`](crate::earlier).

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_compose::Pass;
use contexture_history::{Item, Seq, Turn, interrupted};
use contexture_message::{Message, Part, Role, ToolCall, ToolOutput};

use super::answering::Split;
use super::{Break, End, Running, attend};
use crate::AgentError;
use crate::approval::{Verdict, Waiting};
use crate::attempt::Attempt;
use crate::earlier::{ResumePolicy, Resumption};
use crate::resume::items_since;
use crate::words::{calls_of, own_messages};

impl Running {
    /// Continues a turn from the end of its log.
    pub(crate) async fn take_up(&mut self, taken_up: Resumption) -> Result<End, Break> {
        let began = self.turn.snapshot().state().open.map_or(Seq(0), |it| it.began);
        let items = items_since(&self.turn.thread(), began).await?;
        self.attempts = Attempt::read(&items);
        let n_steps = answers(&items).count() + self.attempts.len();
        self.steps = u32::try_from(n_steps).unwrap_or(u32::MAX);
        self.broken_off = Some(self.on_record()).filter(breaks_off).map(|it| it.messages().len());
        let pass = self.settled(taken_up.has_user).await?;
        let Some((message, left)) = unanswered(&items) else { return self.go(pass).await };
        let waiting = Waiting::read(&items);
        let is_asked = waiting.is_about(&left);
        // No call of a suspended turn runs until all of them are decided.
        if is_asked && (taken_up.how == ResumePolicy::RepeatCalls || !waiting.is_over()) {
            return self.go_on(waiting).await;
        }
        let end = match taken_up.how {
            ResumePolicy::CloseCalls => self.close(&waiting, &left).await?,
            ResumePolicy::RepeatCalls => self.repeat(&pass, message, left).await?,
        };
        if let Some(end) = end {
            return Ok(end);
        }
        let pass = self.resolve_with_room(Some(&pass)).await?;
        self.go(pass).await
    }

    /// Resolves the prompt and guards its own messages, as at the start of a turn.
    async fn settled(&mut self, has_user: bool) -> Result<Pass, AgentError> {
        if !has_user {
            self.setting.own_words.get_or_insert_default();
        }
        let pass = self.resolve_with_room(None).await?;
        if self.setting.own_words.is_some() {
            return Ok(pass);
        }
        let mut remarks = Vec::new();
        let guarding = self.setting.guard_words(&pass, own_messages(&pass), &mut remarks);
        let (own, is_rewritten) = attend(&mut self.turn, &self.cancel, guarding).await?;
        self.remarks(remarks);
        self.setting.own_words = Some(own.into());
        if is_rewritten { self.resolve_with_room(None).await } else { Ok(pass) }
    }

    /// Closes calls that may or may not have run, and those that a person denied.
    async fn close(&mut self, waiting: &Waiting, calls: &[ToolCall]) -> Result<Option<End>, Break> {
        let closed = calls.iter().map(|it| match waiting.verdict(&it.id) {
            Some(Verdict::Deny { reason }) => {
                self.unrun(it, ToolOutput::ExecutionDenied { reason: reason.clone() })
            }
            Some(Verdict::Approve) | None => self.unrun(it, ToolOutput::ErrorText(interrupted().to_owned())),
        });
        let closed = closed.collect();
        self.record_results(closed).await
    }

    /// Runs the calls that need no approval; the others suspend the turn.
    async fn repeat(
        &mut self,
        pass: &Pass,
        message: Arc<Message>,
        calls: Vec<ToolCall>,
    ) -> Result<Option<End>, Break> {
        let layers = self.layers(pass)?;
        let Split { asking, client, free } = self.split(pass, &layers, calls);
        let answered = self.run_calls(pass, &layers, &free).await?;
        self.conclude(message, answered, asking, client).await
    }
}

/// Whether the turn ends with text of the model that is incomplete or was to be continued.
fn breaks_off(turn: &Turn) -> bool {
    turn.messages().last().is_some_and(|it| is_mere_words(it))
}

fn is_mere_words(message: &Message) -> bool {
    message.role == Role::Assistant && calls_of(message).next().is_none()
}

/// Returns the messages without incomplete text of the model at their end.
pub(super) fn without_broken_off(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let n_whole = messages.iter().rposition(|it| !is_mere_words(it)).map_or(0, |it| it + 1);
    messages.iter().take(n_whole).cloned().collect()
}

fn messages(items: &[Item]) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
    items.iter().filter_map(|it| it.body.as_message())
}

fn answers(items: &[Item]) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
    messages(items).filter(|it| it.role == Role::Assistant)
}

/// Returns the last answer with unanswered calls, and those calls. They are read from the log because the model may be
/// shown an altered version of a call.
fn unanswered(items: &[Item]) -> Option<(Arc<Message>, Vec<ToolCall>)> {
    let results = messages(items).flat_map(|it| &it.content).filter_map(|it| match it {
        Part::ToolResult(result) => Some(result.call_id.as_str()),
        Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) => None,
    });
    let answered: BTreeSet<&str> = results.collect();
    let last = answers(items).rfind(|it| calls_of(it).next().is_some())?;
    let left: Vec<ToolCall> =
        calls_of(last).filter(|it| !answered.contains(it.id.as_str())).cloned().collect();
    (!left.is_empty()).then(|| (Arc::clone(last), left))
}
