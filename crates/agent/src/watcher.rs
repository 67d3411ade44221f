//! Whoever watches model calls: what each of them saw, and what it cost.

use std::time::Duration;

use contexture_compose::{Pass, Reconciliation};
use contexture_history::TurnNo;
use contexture_message::{StopReason, Usage};
use contexture_session::Thread;
use contexture_wire::Target;

/// Hears of every model call of an agent, as it happens. It is told, not asked: it must not block.
pub trait Watcher: Send + Sync {
    /// A model is about to be called.
    fn calling(&self, call: &Calling<'_>);

    /// It answered, or failed.
    fn called(&self, call: &Calling<'_>, result: &Called);
}

/// A model call.
#[derive(Clone, Debug)]
pub struct Calling<'a> {
    /// The thread it is made for.
    pub thread: &'a Thread,
    /// The turn.
    pub turn: TurnNo,
    /// The prompt's id.
    pub prompt: &'a str,
    /// Which call of the turn it is, from 1.
    pub step: u32,
    /// What is sent, and why.
    pub pass: &'a Pass,
    /// Who it is sent to, where it is sent anywhere.
    pub target: Option<Target>,
}

/// What came of a model call.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// How long it took.
    pub took: Duration,
    /// What it cost; nothing is known of a call that failed.
    pub usage: Usage,
    /// What the forecast of the provider's cache came to, if there was one.
    pub reconciled: Option<Reconciliation>,
    /// Why the model stopped, or the stable code of what went wrong.
    pub end: Result<StopReason, String>,
}
