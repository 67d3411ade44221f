//! The state of a thread: the result of replaying its log. Nothing else builds it.

use std::collections::BTreeMap;

use contexture_history::{Archived, Body, Change, Item, Seq, Timestamp, TurnNo, TurnStatus, Visibility};
use serde::{Deserialize, Serialize};

use super::notes::PREPENDED;

/// The state of a thread after its last item. Small on purpose: it is written with every append.
///
/// ```
/// use contexture_session::State;
///
/// assert_eq!(State::replay(&[]), State::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The end of the log.
    pub end: Seq,
    /// The number of the newest turn.
    pub turn: TurnNo,
    /// The turn that runs or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenTurn>,
    /// Where the newest turn began or was resumed last.
    #[serde(skip_serializing_if = "is_start")]
    pub started: Seq,
    /// The newest turn, if it failed or was interrupted; it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<OpenTurn>,
    /// The history starts after this position.
    pub history_after: Seq,
    /// The log position of the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Seq>,
    /// The model that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// The archives whose items the model does not read any more, by the first item they cover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<Archived>,
    /// How many archives were ever made.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_archives: u64,
    /// Tool results up to here are old.
    #[serde(skip_serializing_if = "is_start")]
    pub aged_results: Seq,
    /// Hidden envelopes up to here are left out.
    #[serde(skip_serializing_if = "is_start")]
    pub aged_hidden: Seq,
    /// The log position of the newest note of each key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Seq>,
    /// The time of the last append.
    pub updated: Timestamp,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_start(seq: &Seq) -> bool {
    *seq == Seq(0)
}

/// A turn that is open, or that ended and can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// The number of the turn.
    pub turn: TurnNo,
    /// The position of its first item.
    pub began: Seq,
    /// Its status.
    pub status: TurnStatus,
    /// Which views include what it says, where it is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
}

/// A provider and its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
}

impl State {
    /// Returns the state after all items of a log.
    pub fn replay<'a>(items: impl IntoIterator<Item = &'a Item>) -> State {
        let mut state = State::default();
        items.into_iter().for_each(|it| state.apply(it));
        state
    }

    /// Returns the position of the newest prepend record, unless the history was reset after it.
    pub fn prepended(&self) -> Option<Seq> {
        self.notes.get(PREPENDED).copied().filter(|it| *it > self.history_after)
    }

    /// Takes one more item into account.
    pub fn apply(&mut self, item: &Item) {
        self.end = item.seq;
        self.turn = self.turn.max(item.turn);
        self.updated = self.updated.max(item.at);
        self.unfinished = self.unfinished.filter(|it| it.turn == item.turn);
        match &item.body {
            Body::Change(change) => self.change(item, change),
            Body::Summary(summary) => self.archive(Archived::of(summary, item.seq)),
            _ => {}
        }
    }

    fn change(&mut self, item: &Item, change: &Change) {
        match change {
            Change::TurnBegan { visibility, .. } => {
                self.started = item.seq;
                self.open = Some(OpenTurn {
                    turn: item.turn,
                    began: item.seq,
                    status: TurnStatus::InFlight,
                    visibility: *visibility,
                });
            }
            Change::TurnResumed => self.reopen(item),
            Change::TurnEnded { status, .. } if status.is_over() => self.close(*status),
            Change::TurnEnded { status, .. } => self.open.iter_mut().for_each(|it| it.status = *status),
            Change::HistoryReset => {
                self.history_after = item.seq;
                self.archives.clear();
            }
            Change::Instructions { text } => self.instructions = text.as_ref().map(|_| item.seq),
            Change::Model { provider, model } => {
                self.model = Some(ModelChoice { provider: provider.clone(), model: model.clone() });
            }
            Change::ArchiveUndone { number, restores } => {
                self.archives.retain(|it| it.number != *number);
                self.archives.extend_from_slice(restores);
                self.archives.sort_by_key(|it| it.first);
            }
            Change::Aged { results, hidden } => {
                self.aged_results = self.aged_results.max(*results);
                self.aged_hidden = self.aged_hidden.max(*hidden);
            }
            Change::Noted { key, value: Some(_) } => {
                self.notes.insert(key.clone(), item.seq);
            }
            Change::Noted { key, value: None } => {
                self.notes.remove(key);
            }
        }
    }

    /// An archive takes the place of those in its range.
    fn archive(&mut self, archived: Archived) {
        let is_inside = |it: &Archived| archived.first <= it.first && it.last <= archived.last;
        self.archives.retain(|it| !is_inside(it));
        self.n_archives = self.n_archives.max(archived.number);
        self.archives.push(archived);
        self.archives.sort_by_key(|it| it.first);
    }

    /// Reopens a suspended turn, or one that had ended.
    fn reopen(&mut self, item: &Item) {
        self.started = item.seq;
        let before = self.open.or(self.unfinished.take());
        self.open = Some(OpenTurn {
            turn: item.turn,
            began: before.map_or(item.seq, |it| it.began),
            status: TurnStatus::InFlight,
            visibility: before.and_then(|it| it.visibility),
        });
    }

    fn close(&mut self, status: TurnStatus) {
        let closed = self.open.take().map(|it| OpenTurn { status, ..it });
        self.unfinished = closed.filter(|_| status != TurnStatus::Completed);
    }
}
