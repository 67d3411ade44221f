//! Watching model calls: what each of them saw and what it cost.

use std::time::Duration;

use contexture_compose::{Pass, Reconciliation};
use contexture_history::TurnNo;
use contexture_message::{StopReason, Usage};
use contexture_session::Thread;
use contexture_wire::Target;

/// Is notified of every model call of an agent as it happens. Implementations must not block.
pub trait Watcher: Send + Sync {
    /// A model is about to be called.
    fn calling(&self, call: &Calling<'_>);

    /// The model answered or failed.
    fn called(&self, call: &Calling<'_>, result: &Called);
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
    /// Where the request is sent, if it is sent anywhere.
    pub target: Option<Target>,
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
