//! The public side of a run: how it starts, the stream of its events, and the outcome.

use std::pin::Pin;
use std::task::{Context, Poll};

use contexture_compose::{BoxFuture, Prompt};
use contexture_session::Thread;
use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::event::{Event, Sink};
use crate::spec::{AnswerRequest, RunRequest};
use crate::turn::{self, Decision, Entry, Proof, Reply, Ruling, Verdict};
use crate::{Agent, AgentError, Outcome};

impl Agent {
    /// Runs a prompt on a thread: one turn, to its end. Nothing happens until the run is polled; dropping it
    /// interrupts the turn.
    pub fn run<In, Out>(&self, prompt: &Prompt<In, Out>, thread: &Thread, request: RunRequest) -> Run {
        self.enter(prompt, thread, Entry::Request(Box::new(request)))
    }

    /// Decides about a call that waits for approval. Once all calls are decided, the turn continues to its end in this
    /// process. A forged or repeated decision changes nothing.
    pub fn decide<In, Out>(
        &self,
        prompt: &Prompt<In, Out>,
        thread: &Thread,
        decision: Decision,
        cancel: CancellationToken,
    ) -> Run {
        self.enter(prompt, thread, Entry::Reply(Box::new(Reply::Decision(decision.ruling())), cancel))
    }

    /// Decides about a call that waits for approval, without its token. Otherwise it works like [`Agent::decide`]: a
    /// repeated decision changes nothing.
    ///
    /// Only the owner of a turn may use this: code that began the turn, holds the thread, and has authorized the
    /// person who decides by other means, such as a flow whose wait was answered. Never pass on an external request
    /// that has only the id of an approval: ids are not secret.
    pub fn decide_as_owner<In, Out>(
        &self,
        prompt: &Prompt<In, Out>,
        thread: &Thread,
        approval: &str,
        verdict: Verdict,
        cancel: CancellationToken,
    ) -> Run {
        let ruling = Ruling { approval: approval.to_owned(), proof: Proof::Owner, verdict };
        self.enter(prompt, thread, Entry::Reply(Box::new(Reply::Decision(ruling)), cancel))
    }

    /// Takes the results of calls that the client ran. Once none is missing, the turn continues to its end in this
    /// process. A result for a call that is not waiting is an error, and then the whole request is rejected.
    ///
    /// Counts as a new request: steps, tokens and cost start from zero, because the client decides how often to
    /// continue.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use contexture_agent::{Agent, AnswerRequest, Ended, RunRequest, Secrets};
    /// # use contexture_compose::{BoxFuture, Prompt};
    /// # use contexture_history::Timestamp;
    /// # use contexture_message::{Answer, Encoding, Part, ToolDefinition, ToolCall, ToolOutput};
    /// # use contexture_model::{Scripted, Step};
    /// # use contexture_session::{MemoryStore, Names, Ports, SessionConfig, SessionStart, Sessions, Time};
    /// # #[derive(Debug)]
    /// # struct Fixed;
    /// # impl Time for Fixed {
    /// #     fn now(&self) -> Timestamp { Timestamp(0) }
    /// #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
    /// # }
    /// # impl Names for Fixed { fn next(&self) -> String { "n".to_owned() } }
    /// # impl Secrets for Fixed { fn next(&self) -> String { "secret".to_owned() } }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # let ports = Ports { time: Arc::new(Fixed), names: Arc::new(Fixed), counter: Arc::new(Encoding::O200kBase) };
    /// # let sessions = Sessions::new(Arc::new(MemoryStore::new(Arc::new(Fixed))), ports, SessionConfig::default());
    /// # let session = sessions.create(SessionStart::default()).await?;
    /// # let thread = session.main();
    /// # let call = ToolCall { id: "a".into(), name: "clock".into(), arguments: serde_json::json!({}) };
    /// # let answers = [Answer::parts(vec![Part::ToolCall(call)]), Answer::text("It is noon.")];
    /// # let model = Scripted::new(answers.map(Step::Answer));
    /// # let agent = Agent::builder(model, Arc::new(Fixed), Fixed).build()?;
    /// # let prompt = Prompt::builder("p").model("test/model").build()?;
    /// let clock = ToolDefinition::new("clock", "Tells the time.");
    /// let request = RunRequest::user("What time is it?").client_tools(vec![clock]);
    /// let waits = agent.run(&prompt, thread, request).outcome().await?;
    /// assert_eq!((waits.ended, waits.client_calls[0].name.as_str()), (Ended::ClientTools, "clock"));
    ///
    /// let result = AnswerRequest::result(&waits.client_calls[0].id, ToolOutput::Text("12:00".into()));
    /// assert_eq!(agent.answer(&prompt, thread, result).outcome().await?.text(), "It is noon.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answer<In, Out>(&self, prompt: &Prompt<In, Out>, thread: &Thread, request: AnswerRequest) -> Run {
        let cancel = request.cancel.clone();
        self.enter(prompt, thread, Entry::Reply(Box::new(Reply::Results(request)), cancel))
    }

    fn enter<In, Out>(&self, prompt: &Prompt<In, Out>, thread: &Thread, entry: Entry) -> Run {
        let (agent, prompt, thread) = (self.0.clone(), prompt.untyped(), thread.clone());
        Run::new(|sink| Box::pin(turn::run(agent, prompt, thread, entry, sink)))
    }
}

type Work = BoxFuture<'static, Result<Outcome, AgentError>>;

/// A run: a stream of events that ends with the outcome.
///
/// A run makes progress only while it is polled, so a slow consumer slows it down instead of filling memory.
#[must_use = "a run does nothing unless it is polled"]
pub struct Run {
    events: UnboundedReceiver<Event>,
    work: Option<Work>,
    outcome: Option<Result<Outcome, AgentError>>,
}

impl Run {
    fn new(work: impl FnOnce(Sink) -> Work) -> Self {
        let (sink, events) = Sink::new();
        Self { events, work: Some(work(sink)), outcome: None }
    }

    /// Waits for the next event; returns `None` after the last one.
    pub async fn next_event(&mut self) -> Option<Event> {
        self.next().await
    }

    /// Waits for the end of the run. Events that were not read are dropped.
    pub async fn outcome(mut self) -> Result<Outcome, AgentError> {
        while self.next().await.is_some() {}
        // The stream ends only when the work is done, so the outcome is always set here.
        self.outcome.unwrap_or(Err(AgentError::Cancelled))
    }
}

impl Stream for Run {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let run = &mut *self;
        loop {
            if let Poll::Ready(Some(event)) = run.events.poll_next_unpin(cx) {
                return Poll::Ready(Some(event));
            }
            let Some(work) = &mut run.work else { return Poll::Ready(None) };
            match work.as_mut().poll(cx) {
                // The last events are still in the channel and are returned next.
                Poll::Ready(outcome) => (run.outcome, run.work) = (Some(outcome), None),
                Poll::Pending => {
                    return match run.events.poll_next_unpin(cx) {
                        Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
                        Poll::Ready(None) | Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("is_done", &self.work.is_none()).finish_non_exhaustive()
    }
}
