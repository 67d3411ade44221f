//! What an agent needs from its program: secrets, somewhere to run CPU-bound work, and a watcher of its model calls.

use std::time::Duration;

use contexture_compose::{BoxFuture, Entry, Pass, Reconciliation, Scope};
use contexture_history::TurnNo;
use contexture_message::{StopReason, Usage};
use contexture_model::WireRequest;
use contexture_session::{SessionError, Thread, UnfinishedText};
use futures::channel::oneshot;

use crate::spec::KnowledgeRequest;

/// Generates unguessable secrets.
pub trait Secrets: Send + Sync {
    /// Returns a new secret: at least 128 random bits as letters and digits.
    fn next(&self) -> String;
}

/// Runs CPU-bound work.
///
/// Implementations must complete the future, whether the work was done or abandoned, and must not let abandoned work
/// pile up. Callers rely on nothing else: they check themselves whether the work was done.
pub trait Offload: Send + Sync {
    /// Runs `work` and waits for it.
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}

/// Offloads work and returns its result, or `None` if it was abandoned.
pub(crate) async fn offloaded<T: Send + 'static>(
    offload: &dyn Offload,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, mut receiver) = oneshot::channel();
    // The receiver may be gone by then, which is fine.
    offload.run(Box::new(move || drop(sender.send(work())))).await;
    receiver.try_recv().ok().flatten()
}

/// Runs work on the current thread, for programs that have nothing else to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlace;

impl Offload for InPlace {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move { work() })
    }
}

/// Finds the knowledge bases that runs name.
pub trait KnowledgeBases: Send + Sync {
    /// Returns the entry that searches as a run asks, or the first name that is not one of a base.
    fn entry(&self, request: &KnowledgeRequest) -> Result<Entry, String>;
}

/// Finds entries that depend on who a run is for, such as the blocks of a tenant.
pub trait CallerEntries: Send + Sync {
    /// Returns the entries that runs of a prompt have for a scope, beside the prompt's own. They are read once for each
    /// run.
    fn entries(&self, scope: &Scope, prompt: &str) -> BoxFuture<'_, Result<Vec<Entry>, SessionError>>;
}

/// Is notified of every model call of an agent as it happens. Implementations must not block.
pub trait Watcher: Send + Sync {
    /// A model is about to be called.
    fn calling(&self, call: &Calling<'_>);

    /// A model said more, which is written nowhere yet; `answer` has it already. Scratch threads are not reported.
    fn streamed(&self, _thread: &Thread, _answer: &UnfinishedText, _piece: Piece<'_>) {}

    /// An answer that was streamed is whole or broke off, also without a result if its turn was dropped.
    fn settled(&self, _thread: &Thread, _answer: &UnfinishedText) {}

    /// The model answered or failed.
    fn called(&self, call: &Calling<'_>, result: &Called);
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text.
    Text(&'a str),
    /// Readable thinking.
    Thinking(&'a str),
}

/// A model call.
#[derive(Clone, Debug)]
pub struct Calling<'a> {
    /// The thread of the call.
    pub thread: &'a Thread,
    /// The turn of the call.
    pub turn: TurnNo,
    /// The prompt's id.
    pub prompt: &'a str,
    /// The step number of the call, starting at 1.
    pub step: u32,
    /// The pass that is sent: the request and its explanation.
    pub pass: &'a Pass,
    /// The request as it goes over the wire, if it does.
    pub sent: Option<&'a WireRequest>,
}

/// The result of a model call.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// How long it took.
    pub took: Duration,
    /// The usage of the call; empty if it failed.
    pub usage: Usage,
    /// How the forecast of the provider's cache compares with its report, if there was a forecast.
    pub reconciled: Option<Reconciliation>,
    /// Why the model stopped, or the stable code of the error.
    pub end: Result<StopReason, String>,
}
