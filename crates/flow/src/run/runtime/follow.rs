//! The event stream of a run.

use std::time::Duration;

use contexture_history::Seq;
use contexture_session::pages;
use futures::TryStreamExt as _;
use futures::future::{Either, select};

use super::Runtime;
use crate::run::record::log::Entry;
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
        let log = self.log(run);
        let mut items = pages::items_after(&*log.store, log.key.clone(), Seq(after));
        let mut events = Vec::new();
        while events.len() < max
            && let Some(item) = items.try_next().await.map_err(|err| RunError::of(run, err))?
        {
            // Not everything in the log is an event.
            if let Some(Entry::Event(event)) = log.entry(item.body)? {
                events.push((item.seq.0, event));
            }
        }
        Ok(events)
    }

    /// Returns the number of the last thing on record of a run.
    pub async fn last_number(&self, run: &RunId) -> Result<u64, RunError> {
        Ok(self.log(run).head().await?.info.items)
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
