//! Loads the recent turns of a thread from its store.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_history::{Archived, Body, Change, Item, Seq, TurnNo};
use futures::future::try_join_all;
use serde_json::Value;

use super::{View, omitted, read_after};
use crate::store::{Head, NewestTurns, Span, Store};
use crate::{Snapshot, State, StoreError, ThreadKey};

/// Reads the newest turns of a thread, at most `window`.
pub(crate) async fn snapshot(
    store: &dyn Store,
    key: &ThreadKey,
    window: usize,
) -> Result<Snapshot, StoreError> {
    snapshot_of(store, key, state(store, key).await?, window).await
}

/// Reads the newest turns of a thread again, unless it is still as the snapshot has it.
pub(crate) async fn newer(
    store: &dyn Store,
    key: &ThreadKey,
    known: &Snapshot,
    window: usize,
) -> Result<Option<Snapshot>, StoreError> {
    let state = state(store, key).await?;
    match state == *known.state() {
        true => Ok(None),
        false => snapshot_of(store, key, state, window).await.map(Some),
    }
}

async fn state(store: &dyn Store, key: &ThreadKey) -> Result<State, StoreError> {
    let head = Head::read(store, key).await?;
    Ok(head.ok_or_else(|| StoreError::no_thread(&key.thread))?.state)
}

async fn snapshot_of(
    store: &dyn Store,
    key: &ThreadKey,
    state: State,
    window: usize,
) -> Result<Snapshot, StoreError> {
    let (raw, records) = raw(store, key, state, window).await?;
    let state = &raw.state;
    let (instructions, notes) =
        futures::try_join!(instructions(store, key, state), notes(store, key, state))?;
    let hidden = omitted::hidden_turns(state, &raw.items);
    let mut omitted = omitted::archived(&records);
    omitted.extend(omitted::hidden(&hidden));
    let has_older = raw.has_older;
    let view = view_of(raw, &records);
    let older = has_older.then(|| omitted::older(first_turn(&view.items), window));
    let omitted = older.into_iter().chain(omitted).collect();
    Ok(Snapshot::load(view.state, instructions, notes, &view.items, omitted, hidden))
}

/// Reads what the model reads of the newest turns of a thread, item by item.
pub(crate) async fn view(store: &dyn Store, key: &ThreadKey, turns: usize) -> Result<View, StoreError> {
    let (raw, records) = raw(store, key, state(store, key).await?, turns).await?;
    Ok(view_of(raw, &records))
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

/// Reads the items within the window as they were appended, and the records of the archives that hold.
async fn raw(
    store: &dyn Store,
    key: &ThreadKey,
    state: State,
    turns: usize,
) -> Result<(View, Vec<Item>), StoreError> {
    let after = read_after(&state);
    // Reads one turn more than wanted to find out whether there are older ones.
    let newest = Span::NewestTurns(NewestTurns {
        turns: turns.saturating_add(1),
        tokens: None,
        after,
        open: state.open.map(|it| it.turn),
    });
    let records = state.archives.iter().map(|it| item_at(store, key, it.record));
    let (mut items, records) = futures::try_join!(store.read(key.clone(), newest), try_join_all(records))?;
    // The log may have grown since its state was read; the snapshot is of that state.
    items.retain(|it| it.seq <= state.end);
    let has_older = cut(&mut items, turns, state.open.map(|it| it.turn));
    let view = View { items, has_older, state, left_out: Vec::new() };
    Ok((view, records.into_iter().flatten().collect()))
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

/// Reads one item by its position.
pub(crate) async fn item_at(
    store: &dyn Store,
    key: &ThreadKey,
    seq: Seq,
) -> Result<Option<Item>, StoreError> {
    let before = Seq(seq.0.saturating_sub(1));
    let items = store.read(key.clone(), Span::After { seq: before, max: 1 }).await?;
    Ok(items.into_iter().next())
}

async fn instructions(
    store: &dyn Store,
    key: &ThreadKey,
    state: &State,
) -> Result<Option<Arc<str>>, StoreError> {
    let Some(seq) = state.instructions else { return Ok(None) };
    let text = |item: Item| match item.body {
        Body::Change(Change::Instructions { text }) => text.map(Arc::from),
        _ => None,
    };
    Ok(item_at(store, key, seq).await?.and_then(text))
}

async fn notes(
    store: &dyn Store,
    key: &ThreadKey,
    state: &State,
) -> Result<BTreeMap<String, Arc<Value>>, StoreError> {
    let items = try_join_all(state.notes.values().map(|seq| item_at(store, key, *seq))).await?;
    let note = |item: Item| match item.body {
        Body::Change(Change::Noted { key, value: Some(value) }) => Some((key, Arc::new(value))),
        _ => None,
    };
    Ok(items.into_iter().flatten().filter_map(note).collect())
}
