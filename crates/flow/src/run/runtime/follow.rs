//! The event stream of a run.

use std::time::Duration;

use contexture_history::Seq;
use futures::Stream;
use futures::future::{Either, select};

use super::Runtime;
use crate::run::record::PartialRunRecord;
use crate::{RunError, RunEvent, RunId};

/// How often a follower checks whether a silent run still exists.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Runtime {
    /// Returns what happened in a run after a number, oldest first, at most `max`. Numbers have gaps.
    pub async fn events(
        &self,
        run: &RunId,
        after: u64,
        max: usize,
    ) -> Result<Vec<(u64, RunEvent)>, RunError> {
        let (log, mut after) = (self.log(run), Seq(after));
        loop {
            let (events, last) = log.page(after, max).await?;
            match last {
                // Not everything in the log is an event.
                Some(last) if events.is_empty() => after = last,
                _ => return Ok(events),
            }
        }
    }

    /// Returns the number of the last thing on record of a run.
    pub async fn last_number(&self, run: &RunId) -> Result<u64, RunError> {
        Ok(self.log(run).head().await?.info.items)
    }

    /// Follows a run after a number: every event once and in order, until the run ends.
    pub fn follow(
        &self,
        run: &RunId,
        after: u64,
    ) -> impl Stream<Item = Result<(u64, RunEvent), RunError>> + Send + use<> {
        let (runtime, run) = (self.clone(), run.clone());
        let first = (after, Vec::new().into_iter(), false);
        futures::stream::try_unfold(first, move |(mut after, mut page, is_over)| {
            let (runtime, run) = (runtime.clone(), run.clone());
            async move {
                loop {
                    if let Some((number, event)) = page.next() {
                        let is_over = matches!(event, RunEvent::RunEnd { .. });
                        return Ok(Some(((number, event), (number, page, is_over))));
                    }
                    if is_over {
                        return Ok(None);
                    }
                    let (more, last) = runtime.log(&run).page(Seq(after), 256).await?;
                    let Some(last) = last else {
                        // A follower that starts after the last event, or follows a deleted run, would wait forever.
                        if runtime.has_all_events(&run, after).await? {
                            return Ok(None);
                        }
                        runtime.grown(&run, after).await?;
                        continue;
                    };
                    after = last.0;
                    page = more.into_iter();
                }
            }
        })
    }

    /// Whether a run is over and nothing is on record of it after a number.
    async fn has_all_events(&self, run: &RunId, after: u64) -> Result<bool, RunError> {
        let head = self.log(run).head().await?;
        let is_over = PartialRunRecord::read(&head.state).is_some_and(|it| it.is_over());
        Ok(is_over && head.info.items <= after)
    }

    /// Waits until something may have happened in a run after a number, or until it is time to look whether the run is
    /// still there.
    pub async fn grown(&self, run: &RunId, after: u64) -> Result<(), RunError> {
        let changed = self.store().changed(run.log(&self.tenant), Seq(after));
        // A store may not learn of a run that another process has deleted.
        match select(changed, self.parts.time.sleep(LOOK_EVERY)).await {
            Either::Left((changed, _)) => changed.map_err(|err| RunError::of(run, err)),
            Either::Right(_) => Ok(()),
        }
    }
}
