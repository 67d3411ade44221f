//! How a running turn tells who watches it of a call.

use std::time::Duration;

use contexture_compose::Pass;
use contexture_history::Timestamp;
use contexture_message::{Answer, Usage};

use super::{Break, Running};
use crate::watcher::{Called, Calling, Watcher};

impl Running {
    /// Tells that a call is about to be made. Returns when that was.
    pub(super) fn calling(&self, pass: &Pass) -> Timestamp {
        self.tell(pass, |watcher, call| watcher.calling(call));
        self.setting.agent.time.now()
    }

    /// Tells what came of the call that began then.
    pub(super) fn called(&self, pass: &Pass, began: Timestamp, result: &Result<Answer, Break>) {
        self.tell(pass, |watcher, call| {
            let took = self.setting.agent.time.now().0.saturating_sub(began.0);
            let usage = result.as_ref().map_or_else(|_| Usage::default(), |it| it.usage);
            let called = Called {
                took: Duration::from_millis(u64::try_from(took).unwrap_or(0)),
                usage,
                reconciled: result.as_ref().ok().and_then(|_| pass.reconcile(usage)),
                end: match result {
                    Ok(answer) => Ok(answer.stop.clone()),
                    Err(broke) => Err(broke.err.code().to_owned()),
                },
            };
            watcher.called(call, &called);
        });
    }

    fn tell(&self, pass: &Pass, tell: impl FnOnce(&dyn Watcher, &Calling<'_>)) {
        let Some(watcher) = &self.setting.agent.watcher else { return };
        let thread = self.turn.thread();
        let call = Calling {
            thread: &thread,
            turn: self.turn.turn(),
            prompt: self.setting.prompt.id(),
            step: self.steps + 1,
            pass,
        };
        tell(watcher.as_ref(), &call);
    }
}
