//! Views of a log: the client's view, all items, and what the model reads after older parts were archived.
//!
//! Items keep their log order. `N` and `{turns: N}` take the newest N items of the view; `{tokens: N}` packs items
//! from the newest backward and stops at the first that does not fit. The newest item of the view is always included.
//! The history consists of turns: [`window`](crate::window()).

use contexture_message::Tokens;

use crate::{Archived, Body, Item, Limit, Seq, TurnNo};

/// Returns the items that the client sees.
///
/// ```
/// use contexture_history::{Limit, client};
///
/// assert!(client(&[], Some(Limit::Turns(50))).is_empty());
/// ```
pub fn client(items: &[Item], limit: Option<Limit>) -> Vec<&Item> {
    newest(items.iter().filter(|it| it.visibility.client), limit)
}

/// Returns all items.
///
/// ```
/// use contexture_history::{Limit, all};
///
/// assert!(all(&[], Some(Limit::Turns(50))).is_empty());
/// ```
pub fn all(items: &[Item], limit: Option<Limit>) -> Vec<&Item> {
    newest(items.iter(), limit)
}

fn newest<'a>(items: impl DoubleEndedIterator<Item = &'a Item>, limit: Option<Limit>) -> Vec<&'a Item> {
    let from_newest = items.rev();
    let mut taken: Vec<&Item> = match limit {
        None => from_newest.collect(),
        Some(Limit::Turns(count)) => from_newest.take(count).collect(),
        Some(Limit::Tokens(limit)) => {
            let (mut used, mut is_newest) = (Tokens(0), true);
            let fits = |item: &&Item| {
                used += item.cost.tokens;
                std::mem::take(&mut is_newest) || used <= limit
            };
            from_newest.take_while(fits).collect()
        }
    };
    taken.reverse();
    taken
}

/// Returns what the model reads of `items`, which are in log order.
///
/// `archives` are the records of the summaries in effect. The rules:
///
/// 1. Items covered by an archive are left out. The archive's summary takes their position, not the position it was
///    appended at. An archive without summary text and without facts leaves nothing behind.
/// 2. Records of summaries that are no longer in effect are left out.
/// 3. Hidden envelopes up to `hidden` are left out.
///
/// ```
/// use contexture_history::{Body, Cost, Item, Seq, Summary, Timestamp, TurnNo, Visibility, view};
/// use contexture_message::{Message, Tokens};
///
/// let item = |seq, body| Item {
///     seq: Seq(seq),
///     turn: TurnNo(seq),
///     visibility: Visibility::BOTH,
///     cost: Cost { counter: "o200k_base".into(), tokens: Tokens(5) },
///     author: None,
///     at: Timestamp(0),
///     body,
/// };
/// let said = |seq| item(seq, Body::Message(Message::user("hi").into()));
/// let summary = Summary { text: "They met.".into(), first: Seq(1), last: Seq(2), ..Summary::default() };
/// let record = item(4, Body::Summary(summary));
/// let items = vec![said(1), said(2), said(3), record.clone()];
/// let seqs: Vec<u64> = view(items, &[record], Seq(0)).iter().map(|it| it.seq.0).collect();
/// assert_eq!(seqs, [4, 3]);
/// ```
pub fn view(items: Vec<Item>, archives: &[Item], hidden: Seq) -> Vec<Item> {
    let mut summaries: Vec<(Archived, Item)> = archives.iter().filter_map(placed).collect();
    summaries.sort_by_key(|(archived, _)| archived.first);
    let is_covered = |seq: Seq| summaries.iter().any(|(archived, _)| archived.covers(seq));
    let is_read = |it: &Item| !is_record(it) && !is_covered(it.seq) && !is_hidden(it, hidden);
    let read: Vec<Item> = items.into_iter().filter(is_read).collect();
    let mut view = Vec::with_capacity(read.len() + summaries.len());
    let mut waiting = summaries.into_iter().peekable();
    for item in read {
        while let Some((_, summary)) = waiting.next_if(|(archived, _)| archived.first < item.seq) {
            view.extend(Some(summary).filter(says));
        }
        view.push(item);
    }
    view.extend(waiting.map(|(_, summary)| summary).filter(says));
    view
}

/// Whether a hidden envelope is at or before `hidden`, so the model no longer reads it.
fn is_hidden(item: &Item, hidden: Seq) -> bool {
    item.seq <= hidden && matches!(item.body, Body::Envelope(_))
}

fn is_record(item: &Item) -> bool {
    matches!(item.body, Body::Summary(_))
}

/// Returns a summary as an item of the first turn it replaces.
fn placed(record: &Item) -> Option<(Archived, Item)> {
    let Body::Summary(summary) = &record.body else { return None };
    let archived = Archived::of(summary, record.seq);
    // Summaries without turns predate archives; they stay with the turn they were appended to.
    let turn = if archived.turns.0 == TurnNo(0) { record.turn } else { archived.turns.0 };
    Some((archived, Item { turn, ..record.clone() }))
}

fn says(item: &Item) -> bool {
    matches!(&item.body, Body::Summary(summary) if summary.is_shown())
}
