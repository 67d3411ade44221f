//! The summarizer port, and its default, which asks the model of the conversation.

use std::sync::Arc;

use contexture_compose::{BoxError, BoxFuture};
use contexture_history::compaction::{Strategy, SummaryPrompt};
use contexture_message::{Answer, Delta, Message, Request, StopReason, Usage};
use contexture_model::{Model, ModelCall};
use futures::StreamExt;

/// Makes summaries. Every summary is checked before it is used.
pub trait Summarizer: Send + Sync {
    /// Returns a summary of the messages.
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>>;
}

/// What to summarise.
#[derive(Clone, Debug)]
pub struct SummaryCall {
    /// The messages of the range.
    pub messages: Vec<Arc<Message>>,
    /// The strategy that asks for the summary.
    pub reason: Strategy,
    /// The prompt for a summarising model.
    pub prompt: SummaryPrompt,
    /// A ready-made request for the summary. If the range starts with the conversation, it is the start of the
    /// conversation with the question appended, so that the provider reads it from its cache.
    pub request: Arc<Request>,
    /// The id of the thread, for models that route calls by it.
    pub thread: String,
}

/// A summary and its usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summarized {
    /// The summary.
    pub text: String,
    /// The usage of making it.
    pub usage: Usage,
}

/// Summarises with a model.
pub(crate) struct ModelSummarizer(pub(crate) Arc<dyn Model>);

impl Summarizer for ModelSummarizer {
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let mut stream =
            self.0.stream(ModelCall { request: call.request, cache_key: Some(call.thread), encoded: None });
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

/// Whether the answer is complete: not cut off, refused or paused, and without tool calls.
fn is_whole(answer: &Answer) -> bool {
    !matches!(answer.stop, StopReason::MaxTokens | StopReason::Refused | StopReason::Paused)
        && answer.calls().next().is_none()
}
