//! The items that a scratch copy of a thread starts with.
//!
//! Nothing is copied. They are read from the thread's own store, where nothing is ever overwritten; new items (`own`)
//! stay in memory.

use std::sync::Arc;

use contexture_history::{Item, Seq};

use crate::search::{self, Search, SearchHit};
use crate::store::{Head, NewestTurns, Span, Store};
use crate::{BackwardScan, State, StoreError, ThreadKey};

/// The items of a thread of another store, as it was at one moment.
#[derive(Debug)]
pub(super) struct OlderItems {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: ThreadKey,
    pub(super) state: State,
}

impl OlderItems {
    /// Reads these items and those that follow them.
    pub(super) async fn read(&self, span: &Span, own: Vec<Item>) -> Result<Vec<Item>, StoreError> {
        let Some(mut backward) = BackwardScan::new(span) else {
            let Span::After { seq, max } = span else { return Ok(Vec::new()) };
            return self.read_after(*seq, *max, own).await;
        };
        backward.push(own);
        if !backward.is_done() {
            backward.push(self.read_before(span).await?);
        }
        Ok(backward.finish())
    }

    async fn read_after(&self, seq: Seq, max: usize, own: Vec<Item>) -> Result<Vec<Item>, StoreError> {
        let n_before = usize::try_from(self.state.end.0.saturating_sub(seq.0)).unwrap_or(usize::MAX).min(max);
        let mut items = match n_before {
            0 => Vec::new(),
            max => self.store.read(self.key.clone(), Span::After { seq, max }).await?,
        };
        items.extend(own.into_iter().filter(|it| it.seq > seq));
        items.truncate(max);
        Ok(items)
    }

    /// Other writers may have appended since, so it reads that many more and drops them.
    async fn read_before(&self, span: &Span) -> Result<Vec<Item>, StoreError> {
        let now = Head::existing(&*self.store, &self.key).await?.state;
        let mut items = self.store.read(self.key.clone(), widened(span.clone(), &self.state, &now)).await?;
        items.retain(|it| it.seq <= self.state.end);
        Ok(items)
    }

    /// Searches these items and those that follow them.
    pub(super) async fn search(&self, search: Search, own: Vec<Item>) -> Result<Vec<SearchHit>, StoreError> {
        if search.within == search::ranges_of(&self.state.archives) {
            return self.store.search(self.key.clone(), search).await;
        }
        // Items archived only in memory are in no index.
        let mut items = Vec::new();
        for (first, last) in &search.within {
            let seq = Seq(first.0.saturating_sub(1));
            let max = usize::try_from(last.0.saturating_sub(seq.0)).unwrap_or(usize::MAX);
            items.extend(self.read_after(seq, max, own.clone()).await?);
        }
        Ok(search::scan(&items, &search.within, &search))
    }
}

/// Returns the span of the current log that contains `span` of the log as it was.
fn widened(span: Span, was: &State, now: &State) -> Span {
    let more = |was: u64, now: u64| usize::try_from(now.saturating_sub(was)).unwrap_or(usize::MAX);
    match span {
        Span::NewestItems { count, client } => {
            Span::NewestItems { count: count.saturating_add(more(was.end.0, now.end.0)), client }
        }
        Span::NewestTurns(wanted) => {
            let turns = wanted.turns.saturating_add(more(was.turn.0, now.turn.0));
            Span::NewestTurns(NewestTurns { turns, ..wanted })
        }
        after @ Span::After { .. } => after,
    }
}
