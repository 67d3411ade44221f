//! The public side of a run: the request, the stream of events and the outcome.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use contexture_compose::{BoxFuture, InlineBlock, Prompt, Scope};
use contexture_message::{Message, Settings, ToolDefinition};
use contexture_session::{NewItem, Policy, Thread};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::approval::{Decision, Proof, Ruling, Verdict};
use crate::client_tool::AnswerRequest;
use crate::resume::{self, Reply};
use crate::turn;
use crate::{Agent, AgentError, Event, Outcome, ResumePolicy};

/// The parameters of a run. A suspended turn keeps them in the log, so that any process can resume it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpec {
    /// The prompt's input, a JSON object.
    pub input: Value,
    /// The scope of the run, such as its tenant and user.
    pub scope: Scope,
    /// The model, `provider/model`. It overrides the thread's and the prompt's.
    pub model: Option<String>,
    /// Settings that override the prompt's.
    pub settings: Settings,
    /// Tools that the client runs, offered beside those of the server. A call to one suspends the turn until
    /// [`Agent::answer`] brings its result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ToolDefinition>,
    /// Tools of the agent that this run offers beside the prompt's. If the prompt declares one of them, its
    /// declaration is used. A name that the agent does not have is an error, raised before anything is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// System instructions for this run only, replacing the thread's; an empty text means none. The thread's stay
    /// unchanged: these are kept only in the hidden records of sent requests and suspended turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<str>>,
}

/// One run of a prompt: its parameters, and how the turn begins.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// The parameters of the run.
    pub spec: RunSpec,
    /// The user's message, sent with the user role whatever role it names. Without it, the prompt's own `user` text
    /// begins the turn; without that, the model continues from the end of the thread.
    pub user: Option<Message>,
    /// Hidden context that belongs to the user's message and is recorded with it.
    pub items: Vec<NewItem>,
    /// Inline blocks for the hidden envelope of the user's message. They are recorded with it and replayed.
    pub blocks: Vec<InlineBlock>,
    /// Reminders for this turn, in a separate hidden envelope after it: at most 16, each of at most 2,000 characters.
    pub reminders: Vec<String>,
    /// Evaluates the frozen prefix again, although it is pinned.
    pub refresh: bool,
    /// The idempotency key. A second run with the same key returns the outcome of the first.
    pub key: Option<String>,
    /// Resumes the turn of that key if it did not finish: it failed, was interrupted or lost its writer. Repeat the
    /// rest of the request unchanged. What the log has of the turn is kept; a complete or suspended turn is still
    /// replayed. Has no effect without a key.
    pub resume: Option<ResumePolicy>,
    /// What to do if a turn is already running on the thread.
    pub policy: Policy,
    /// Stops the run when cancelled.
    pub cancel: CancellationToken,
}

impl RunRequest {
    /// Returns a request with a user message.
    ///
    /// ```
    /// use contexture_agent::RunRequest;
    /// use serde_json::json;
    ///
    /// let request = RunRequest::user("Where is my order?").input(json!({"plan": "pro"})).model("openai/gpt-5-mini");
    /// assert_eq!(request.spec.model.as_deref(), Some("openai/gpt-5-mini"));
    /// ```
    pub fn user(text: impl Into<String>) -> Self {
        Self { user: Some(Message::user(text)), ..Self::default() }
    }

    /// Sets the input.
    #[must_use]
    pub fn input(self, input: Value) -> Self {
        self.with(|it| it.spec.input = input)
    }

    /// Sets the scope of the run.
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        self.with(|it| it.spec.scope = scope)
    }

    /// Sets the model, `provider/model`.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        self.with(|it| it.spec.model = Some(model.into()))
    }

    /// Sets settings that override the prompt's.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Self {
        self.with(|it| it.spec.settings = settings)
    }

    /// Sets the tools that the client runs.
    #[must_use]
    pub fn client_tools(self, tools: Vec<ToolDefinition>) -> Self {
        self.with(|it| it.spec.client_tools = tools)
    }

    /// Sets the names of the agent's tools that this run offers beside the prompt's.
    #[must_use]
    pub fn tools(self, tools: Vec<String>) -> Self {
        self.with(|it| it.spec.tools = tools)
    }

    /// Sets system instructions for this run only.
    #[must_use]
    pub fn instructions(self, instructions: impl Into<Arc<str>>) -> Self {
        self.with(|it| it.spec.instructions = Some(instructions.into()))
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|it| it.key = Some(key.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Agent {
    /// Runs a prompt on a thread: one turn, to its end. Nothing happens until the run is polled; dropping it
    /// interrupts the turn.
    pub fn run<In, Out>(&self, prompt: &Prompt<In, Out>, thread: &Thread, request: RunRequest) -> Run {
        let (agent, prompt, thread) = (self.0.clone(), prompt.untyped(), thread.clone());
        Run::new(|sink| Box::pin(turn::run(agent, prompt, thread, request, sink)))
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
        self.go_on(prompt, thread, Reply::Decision(decision.ruling()), cancel)
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
        self.go_on(prompt, thread, Reply::Decision(ruling), cancel)
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
        self.go_on(prompt, thread, Reply::Results(request), cancel)
    }

    fn go_on<In, Out>(
        &self,
        prompt: &Prompt<In, Out>,
        thread: &Thread,
        reply: Reply,
        cancel: CancellationToken,
    ) -> Run {
        let (agent, prompt, thread) = (self.0.clone(), prompt.untyped(), thread.clone());
        Run::new(|sink| Box::pin(resume::go_on(agent, prompt, thread, reply, cancel, sink)))
    }
}

/// The sender of a run's events. Events without a receiver are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Sink(UnboundedSender<Event>);

impl Sink {
    /// Returns a sink that drops its events.
    pub(crate) fn unheard() -> Self {
        Self(unbounded().0)
    }

    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.unbounded_send(event);
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
        let (sender, events) = unbounded();
        Self { events, work: Some(work(Sink(sender))), outcome: None }
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
