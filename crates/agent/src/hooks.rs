//! Code that an entry brings along, to run when a turn is over and before its thread is compacted.

use std::sync::Arc;

use contexture_compose::{BoxFuture, Pass, Runner};
use contexture_history::TurnNo;
use contexture_message::Message;
use contexture_session::Thread;

/// Runs at the end of turns, and before compactions.
///
/// Implementations report their failures themselves: neither the turn nor the compaction fails with them. The turn's
/// outcome is not returned before they are done, so what may take long should run elsewhere.
pub trait TurnHook: Send + Sync {
    /// Runs once the end of a completed turn is in the log.
    fn ended<'a>(&'a self, turn: &'a EndedTurn<'a>) -> BoxFuture<'a, ()>;

    /// Runs before a part of the thread is archived.
    fn compacting<'a>(&'a self, thread: &'a Thread) -> BoxFuture<'a, ()>;
}

/// A turn that is over.
#[derive(Debug)]
pub struct EndedTurn<'a> {
    /// The thread of the turn.
    pub thread: &'a Thread,
    /// The turn.
    pub turn: TurnNo,
    /// The pass of its last call.
    pub pass: &'a Pass,
    /// The answer, if there is one.
    pub answer: Option<&'a Message>,
}

/// A hook as a contribution carries it.
struct SharedHook(Arc<dyn TurnHook>);

/// Returns a hook for the `hooks` of a [`Contribution`](contexture_compose::Contribution).
pub fn turn_hook(hook: Arc<dyn TurnHook>) -> Runner {
    Runner::new(SharedHook(hook))
}

fn hooks_of(pass: &Pass) -> impl Iterator<Item = &Arc<dyn TurnHook>> {
    pass.extras().hooks.iter().filter_map(|it| it.get::<SharedHook>()).map(|it| &it.0)
}

/// Runs the hooks of a turn that is over, one after the other.
pub(crate) async fn run_ended(turn: &EndedTurn<'_>) {
    for hook in hooks_of(turn.pass) {
        hook.ended(turn).await;
    }
}

/// Runs the hooks of a pass before a part of its thread is archived.
pub(crate) async fn run_compacting(pass: &Pass, thread: &Thread) {
    for hook in hooks_of(pass) {
        hook.compacting(thread).await;
    }
}
