//! Reports the model calls of a running turn to the agent's watcher.

use std::time::Duration;

use contexture_compose::Pass;
use contexture_history::Timestamp;
use contexture_message::{Answer, Usage};
use contexture_model::ModelCall;
use contexture_wire::Target;

use super::{Break, Running};
use crate::watcher::{Called, Calling, Watcher};

/// A call that was reported to the watcher.
pub(super) struct Watched {
    began: Timestamp,
    target: Option<Target>,
}

impl Running {
    /// Reports a call before it is made.
    pub(super) fn calling(&self, pass: &Pass, call: &ModelCall) -> Option<Watched> {
        let watcher = self.setting.agent.watcher.as_ref()?;
        let target = self.setting.agent.model.target(call);
        self.tell(pass, target.clone(), &**watcher, |watcher, call| watcher.calling(call));
        Some(Watched { began: self.setting.agent.time.now(), target })
    }

    /// Reports the result of a call.
    pub(super) fn called(&self, pass: &Pass, watched: Option<Watched>, result: &Result<Answer, Break>) {
        let (Some(watched), Some(watcher)) = (watched, &self.setting.agent.watcher) else { return };
        let took = self.setting.agent.time.now().0.saturating_sub(watched.began.0);
        let usage = result.as_ref().map_or_else(|_| Usage::default(), |it| it.usage);
        let called = Called {
            took: Duration::from_millis(u64::try_from(took).unwrap_or(0)),
            usage,
            reconciled: result.as_ref().ok().and_then(|_| pass.reconcile(usage)),
            end: match result {
                Ok(answer) => Ok(answer.stop.clone()),
                Err(broke) => Err(broke.err.code().into()),
            },
        };
        self.tell(pass, watched.target, &**watcher, |watcher, call| watcher.called(call, &called));
    }

    fn tell(
        &self,
        pass: &Pass,
        target: Option<Target>,
        watcher: &dyn Watcher,
        tell: impl FnOnce(&dyn Watcher, &Calling<'_>),
    ) {
        let thread = self.turn.thread();
        let call = Calling {
            thread: &thread,
            turn: self.turn.turn(),
            prompt: self.setting.prompt.id(),
            step: self.steps + 1,
            pass,
            target,
        };
        tell(watcher, &call);
    }
}
