//! Who summarises: a port, and the default, which asks the model of the conversation.

use std::sync::Arc;

use contexture_compose::{BoxError, BoxFuture};
use contexture_history::compaction::{Strategy, SummaryPrompt};
use contexture_message::{Answer, Delta, Message, Request, StopReason, Usage};
use contexture_model::{Model, ModelCall};
use futures::StreamExt;

/// Makes summaries. What comes out is tested before it is trusted.
pub trait Summarizer: Send + Sync {
    /// Returns a summary of the messages.
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>>;
}

/// What is to be summarised.
#[derive(Clone, Debug)]
pub struct SummaryCall {
    /// The messages of the range.
    pub messages: Vec<Arc<Message>>,
    /// Why.
    pub reason: Strategy,
    /// What a model is asked for.
    pub prompt: SummaryPrompt,
    /// A request that asks for it: where the range begins with the conversation, the conversation's own beginning with the
    /// question behind it, so that the provider reads it from its cache.
    pub request: Arc<Request>,
    /// The thread, for whoever routes calls by it.
    pub thread: String,
}

/// A summary, and what it cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summarized {
    /// The summary.
    pub text: String,
    /// What it cost.
    pub usage: Usage,
}

/// Asks a model.
pub(crate) struct ModelSummarizer(pub(crate) Arc<dyn Model>);

impl Summarizer for ModelSummarizer {
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let mut stream = self.0.stream(ModelCall { request: call.request, cache_key: Some(call.thread) });
        Box::pin(async move {
            while let Some(delta) = stream.next().await {
                if let Delta::Done(answer) = delta? {
                    if !is_whole(&answer) {
                        return Err("the model did not finish its summary".into());
                    }
                    return Ok(Summarized { text: answer.joined_text(), usage: answer.usage });
                }
            }
            Err("the stream ended before the summary was whole".into())
        })
    }
}

/// Whether the model said all that it wanted to: it was not cut, did not refuse and does not wait for a tool.
fn is_whole(answer: &Answer) -> bool {
    !matches!(answer.stop, StopReason::MaxTokens | StopReason::Refused | StopReason::Paused)
        && answer.calls().next().is_none()
}
