//! The event stream of a run.

use std::time::Duration;

use contexture_session::Extent;
use futures::Stream;
use futures::future::{Either, select};

use super::Runtime;
use crate::run::record;
use crate::{RunError, RunEvent, RunId};

/// How often a follower checks whether a silent run still exists.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Runtime {
    /// Returns what happened in a run after a number, oldest first, at most `max`.
    pub async fn events(
        &self,
        run: &RunId,
        after: u64,
        max: usize,
    ) -> Result<Vec<(u64, RunEvent)>, RunError> {
        let keys = self.keys(run);
        let page = self.records().read(keys.log(), after, max).await?;
        page.iter().map(|it| Ok((it.number, record::parsed(&keys, &it.data)?))).collect()
    }

    /// Returns which numbers what happened in a run has.
    pub async fn extent(&self, run: &RunId) -> Result<Extent, RunError> {
        Ok(self.records().extent(self.keys(run).log()).await?)
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
                    let more = runtime.events(&run, after, 256).await?;
                    if more.is_empty() {
                        // A follower that starts after the last event, or follows a deleted run, would wait forever.
                        if runtime.has_all_events(&run, after).await? {
                            return Ok(None);
                        }
                        runtime.grown(&run, after).await?;
                        continue;
                    }
                    after = more.last().map_or(after, |it| it.0);
                    page = more.into_iter();
                }
            }
        })
    }

    /// Whether a run is over and nothing is on record of it after a number.
    async fn has_all_events(&self, run: &RunId, after: u64) -> Result<bool, RunError> {
        // The status first: a run's last event and its status are one commit.
        let (run_record, _) = record::load(self.records(), &self.keys(run)).await?;
        Ok(run_record.status.is_over() && self.extent(run).await?.last <= after)
    }

    /// Waits until something may have happened in a run after a number, or until it is time to look whether the run is
    /// still there.
    pub async fn grown(&self, run: &RunId, after: u64) -> Result<(), RunError> {
        let grown = self.records().grown(self.keys(run).log(), after);
        // A store can't tell that a just-deleted run ever existed, so the stream would never end.
        match select(grown, self.parts.time.sleep(LOOK_EVERY)).await {
            Either::Left((grown, _)) => Ok(grown?),
            Either::Right(_) => Ok(()),
        }
    }
}
