//! Loads the recent turns of a thread from its store.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_history::{Archived, Body, Change, Item, Seq, TurnNo};
use futures::future::try_join_all;
use serde_json::Value;

use super::{View, omitted, read_after};
use crate::store::{Head, NewestTurns, Span, Store};
use crate::{Snapshot, State, StoreError, ThreadKey};

/// A thread in its store.
#[derive(Clone, Copy)]
pub(crate) struct StoredThread<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) key: &'a ThreadKey,
}

impl StoredThread<'_> {
    /// Reads the newest turns, at most `window`.
    pub(crate) async fn snapshot(self, window: usize) -> Result<Snapshot, StoreError> {
        self.snapshot_of(self.state().await?, window).await
    }

    /// Reads the newest turns again, unless the thread is still as the snapshot has it.
    pub(crate) async fn newer(self, known: &Snapshot, window: usize) -> Result<Option<Snapshot>, StoreError> {
        let state = self.state().await?;
        if state == *known.state() { Ok(None) } else { self.snapshot_of(state, window).await.map(Some) }
    }

    async fn state(self) -> Result<State, StoreError> {
        Ok(Head::existing(self.store, self.key).await?.state)
    }

    async fn snapshot_of(self, state: State, window: usize) -> Result<Snapshot, StoreError> {
        let (raw, records) = self.raw(state, window).await?;
        let state = &raw.state;
        let (instructions, notes) = futures::try_join!(self.instructions(state), self.notes(state))?;
        let hidden = omitted::hidden_turns(state, &raw.items);
        let mut omitted = omitted::archived(&records);
        omitted.extend(omitted::hidden(&hidden));
        let has_older = raw.has_older;
        let view = view_of(raw, &records);
        let older = has_older.then(|| omitted::older(first_turn(&view.items), window));
        let omitted = older.into_iter().chain(omitted).collect();
        Ok(Snapshot::load(view.state, instructions, notes, &view.items, omitted, hidden))
    }

    /// Reads what the model reads of the newest turns, item by item.
    pub(crate) async fn view(self, turns: usize) -> Result<View, StoreError> {
        let (raw, records) = self.raw(self.state().await?, turns).await?;
        Ok(view_of(raw, &records))
    }

    /// Reads the items within the window as they were appended, and the records of the archives that hold.
    async fn raw(self, state: State, turns: usize) -> Result<(View, Vec<Item>), StoreError> {
        let after = read_after(&state);
        let open = state.open.map(|it| it.turn);
        // Reads one turn more than wanted to find out whether there are older ones.
        let newest = Span::NewestTurns(NewestTurns { turns: turns.saturating_add(1), after, open });
        let records = state.archives.iter().map(|it| self.item_at(it.record));
        let (mut items, records) =
            futures::try_join!(self.store.read(self.key.clone(), newest), try_join_all(records))?;
        // The log may have grown since its state was read; the snapshot is of that state.
        items.retain(|it| it.seq <= state.end);
        let has_older = cut(&mut items, turns, open);
        let view = View { items, has_older, state, left_out: Vec::new() };
        Ok((view, records.into_iter().flatten().collect()))
    }

    /// Reads one item by its position.
    pub(crate) async fn item_at(self, seq: Seq) -> Result<Option<Item>, StoreError> {
        let before = Seq(seq.0.saturating_sub(1));
        let items = self.store.read(self.key.clone(), Span::After { seq: before, max: 1 }).await?;
        Ok(items.into_iter().next())
    }

    async fn instructions(self, state: &State) -> Result<Option<Arc<str>>, StoreError> {
        let Some(seq) = state.instructions else { return Ok(None) };
        let text = |item: Item| match item.body {
            Body::Change(Change::Instructions { text }) => text.map(Arc::from),
            _ => None,
        };
        Ok(self.item_at(seq).await?.and_then(text))
    }

    async fn notes(self, state: &State) -> Result<BTreeMap<String, Arc<Value>>, StoreError> {
        let items = try_join_all(state.notes.values().map(|seq| self.item_at(*seq))).await?;
        let note = |item: Item| match item.body {
            Body::Change(Change::Noted { key, value: Some(value) }) => Some((key, Arc::new(value))),
            _ => None,
        };
        Ok(items.into_iter().flatten().filter_map(note).collect())
    }
}

fn view_of(raw: View, records: &[Item]) -> View {
    let items = contexture_history::view(raw.items, records, raw.state.aged_hidden);
    let left_out = records.iter().filter_map(left_out).collect();
    View { items, left_out, ..raw }
}

fn left_out(record: &Item) -> Option<Archived> {
    match &record.body {
        Body::Summary(summary) if summary.left_out.is_some() && !summary.is_shown() => {
            Some(Archived::of(summary, record.seq))
        }
        _ => None,
    }
}

fn first_turn(items: &[Item]) -> TurnNo {
    let said = items.iter().filter(|it| !matches!(it.body, Body::Summary(_)));
    said.map(|it| it.turn).next().unwrap_or_default()
}

/// Drops the oldest turns beyond a limit, and returns whether there were any.
fn cut(items: &mut Vec<Item>, turns: usize, open: Option<TurnNo>) -> bool {
    // A record of a summary is all that is left of a turn that is archived: no turn, and nothing older.
    let is_counted =
        |it: &&Item| it.starts_turn() && Some(it.turn) != open && !matches!(it.body, Body::Summary(_));
    let begins = items.iter().filter(is_counted).map(|it| it.turn);
    let mut begun: Vec<TurnNo> = begins.collect();
    begun.dedup();
    let Some(surplus) = begun.len().checked_sub(turns).filter(|it| *it > 0) else { return false };
    let first = begun.get(surplus).copied().or(open);
    let kept = items.iter().position(|it| Some(it.turn) == first && it.starts_turn());
    items.drain(..kept.unwrap_or(items.len()));
    true
}
