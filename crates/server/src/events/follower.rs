//! What a follower of a session is told: each event of the log once and in order, and the text of growing answers
//! before the log has it.
//!
//! Text that was told early is not told again with its item; text of an answer that never made it into the log is
//! taken back. Nothing here waits or reads anything: items and answers go in, events with their ids come out.

use std::collections::BTreeMap;

use contexture_agent::{Event, EventView, ends_turn, is_answer};
use contexture_history::{Application, Body, Change, TurnNo};
use contexture_session::{FeedItem, ThreadId, UnfinishedText};
use serde_json::Value;

use super::cursor::{Cursor, Offsets};

#[cfg(test)]
mod tests;

/// The kind of the items of a run's log.
const FLOW: &str = "flow";

/// Something that a follower is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    /// The id after which a follower continues.
    pub(crate) id: Cursor,
    /// The log that it is about.
    pub(crate) thread: ThreadId,
    pub(crate) what: What,
}

/// What a follower is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// An event of a turn.
    Turn(TurnNo, Event),
    /// An event of a run, as its log has it.
    Run(Value),
}

/// The state of a follower.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    cursor: Cursor,
    /// The threads of the answers that the cursor names.
    threads: BTreeMap<u64, ThreadId>,
    /// The number of the last item that ended an answer, by thread, as far as this follower has seen one.
    answered: BTreeMap<ThreadId, u64>,
    views: BTreeMap<ThreadId, EventView>,
}

impl Follower {
    /// Continues after an id. `threads` are those of the answers that it names; an answer without one is unknown, and
    /// nothing of it counts as told.
    pub(crate) fn new(mut cursor: Cursor, threads: BTreeMap<u64, ThreadId>) -> Self {
        cursor.answers.retain(|began, _| threads.contains_key(began));
        Self { cursor, threads, ..Self::default() }
    }

    /// Returns the number of the last item that was told whole.
    pub(crate) fn number(&self) -> u64 {
        self.cursor.number
    }

    /// Whether an answer can be told only after more of the log: it began there, or it may be the item of which a part
    /// was told.
    pub(crate) fn is_behind(&self, answer: &UnfinishedText) -> bool {
        self.cursor.number < answer.after || self.cursor.n_events > 0
    }

    /// Notes that the log has nothing more now: the item of which a part was told is gone.
    pub(crate) fn is_at_end(&mut self) {
        self.cursor.n_events = 0;
    }

    /// Whether nothing is known of an answer that may be in the log already. What an id names may be a later answer of
    /// the same turn.
    pub(crate) fn is_new(&self, thread: &ThreadId, answer: &UnfinishedText) -> bool {
        self.cursor.number > answer.after && !self.answered.contains_key(thread)
    }

    /// Notes that the log has an answer, which this follower did not see there.
    pub(crate) fn skip(&mut self, thread: &ThreadId, answer: &UnfinishedText) {
        self.answered.insert(thread.clone(), answer.after.saturating_add(1));
    }

    /// Tells the text of an answer that grows, as far as it was not told. One that is in the log already is outdated.
    pub(crate) fn grow(&mut self, thread: &ThreadId, answer: &UnfinishedText) -> Vec<Told> {
        let is_outdated = self.answered.get(thread).is_some_and(|it| *it > answer.after);
        if is_outdated || self.is_behind(answer) {
            return Vec::new();
        }
        let named = self.cursor.answers.get(&answer.began);
        if named == Some(&Offsets::default()) {
            // It was taken back, and the item that says so comes next.
            return Vec::new();
        }
        let told = named.copied().unwrap_or_default();
        let mut events = Vec::new();
        if let Some(text) = answer.thinking.get(told.thinking..).filter(|it| !it.is_empty()) {
            events.push(self.grown(thread, answer, Event::ThinkingDelta { text: text.to_owned() }));
        }
        if let Some(text) = answer.text.get(told.text..).filter(|it| !it.is_empty()) {
            events.push(self.grown(thread, answer, Event::TextDelta { text: text.to_owned() }));
        }
        events
    }

    fn grown(&mut self, thread: &ThreadId, answer: &UnfinishedText, event: Event) -> Told {
        self.threads.insert(answer.began, thread.clone());
        let told = self.cursor.answers.entry(answer.began).or_default();
        match &event {
            Event::ThinkingDelta { .. } => told.thinking = answer.thinking.len(),
            _ => told.text = answer.text.len(),
        }
        let what = What::Turn(answer.turn, event);
        Told { id: self.cursor.clone(), thread: thread.clone(), what }
    }

    /// Notes the item that was told last, since what is recorded beside an answer comes before it.
    pub(crate) fn recall(&mut self, last: &FeedItem) {
        self.views.entry(last.thread.clone()).or_default().events(&last.thread, &last.item);
    }

    /// Tells the events of the next item, as far as they were not told.
    pub(crate) fn take(&mut self, next: &FeedItem) -> Vec<Told> {
        if next.number <= self.cursor.number {
            return Vec::new();
        }
        let FeedItem { number, thread, item } = next;
        let events = match &item.body {
            Body::Application(Application { kind, value }) if kind == FLOW => vec![What::Run(value.clone())],
            _ => {
                let events = self.views.entry(thread.clone()).or_default().events(thread, item);
                events.into_iter().map(|it| What::Turn(item.turn, it)).collect()
            }
        };
        // A turn that is resumed gives its answer again from the start.
        let (is_answer, is_end) = (is_answer(item), ends_turn(item).is_some() || starts_turn(&item.body));
        let mut told = Vec::new();
        if self.must_take_back(thread, &events, is_answer, is_end) {
            told.push(self.taken_back(thread, item.turn));
        }
        told.extend(self.rest(number - 1, thread, events));
        if is_answer || is_end {
            self.answered.insert(thread.clone(), *number);
            self.forget(thread);
        }
        self.cursor.number = *number;
        self.cursor.n_events = 0;
        if let Some(last) = told.last_mut() {
            last.id = self.cursor.clone();
        }
        told
    }

    /// Returns the offsets of what was told of a thread's answer that is not in the log yet.
    fn offsets(&self, thread: &ThreadId) -> Offsets {
        let mut answers = self.cursor.answers.iter();
        let of_thread = answers.find(|(began, _)| self.threads.get(began) == Some(thread));
        of_thread.map(|(_, offsets)| *offsets).unwrap_or_default()
    }

    fn forget(&mut self, thread: &ThreadId) {
        let threads = &self.threads;
        self.cursor.answers.retain(|began, _| threads.get(began) != Some(thread));
    }

    /// Whether more text or thinking was told than the log has: its writer was lost before it saved all, or the answer was
    /// rejected.
    fn must_take_back(&self, thread: &ThreadId, events: &[What], is_answer: bool, is_end: bool) -> bool {
        let (told, mut logged) = (self.offsets(thread), Offsets::default());
        for event in events {
            match event {
                What::Turn(_, Event::TextDelta { text }) => logged.text += text.len(),
                What::Turn(_, Event::ThinkingDelta { text }) => logged.thinking += text.len(),
                _ => {}
            }
        }
        let is_more = told.text > logged.text || told.thinking > logged.thinking;
        (is_answer && is_more) || (is_end && told != Offsets::default())
    }

    fn taken_back(&mut self, thread: &ThreadId, turn: TurnNo) -> Told {
        let began = self.cursor.answers.keys().find(|it| self.threads.get(it) == Some(thread)).copied();
        self.forget(thread);
        let mut id = self.cursor.clone();
        // Without it, the id would be that of an earlier event.
        id.answers.extend(began.map(|it| (it, Offsets::default())));
        let reason = "the answer was not recorded".to_owned();
        let what = What::Turn(turn, Event::AttemptDiscarded { reason });
        Told { id, thread: thread.clone(), what }
    }

    /// Returns the events of an item that were not told, without what was told of their texts.
    fn rest(&mut self, before: u64, thread: &ThreadId, events: Vec<What>) -> Vec<Told> {
        let mut offsets = self.offsets(thread);
        // Items that tell nothing may lie in between, or items of a log that was deleted since.
        let n_told = if self.cursor.number == before { self.cursor.n_events } else { 0 };
        (self.cursor.number, self.cursor.n_events) = (before, 0);
        let mut told = Vec::new();
        for (idx, mut what) in events.into_iter().enumerate() {
            let is_left = match &mut what {
                What::Turn(_, Event::TextDelta { text }) => cut(text, &mut offsets.text),
                What::Turn(_, Event::ThinkingDelta { text }) => cut(text, &mut offsets.thinking),
                _ => true,
            };
            if idx >= n_told && is_left {
                self.cursor.n_events = idx + 1;
                told.push(Told { id: self.cursor.clone(), thread: thread.clone(), what });
            }
        }
        told
    }
}

/// Whether an item begins a turn, or resumes one.
pub(crate) fn starts_turn(body: &Body) -> bool {
    matches!(body, Body::Change(Change::TurnBegan { .. } | Change::TurnResumed))
}

/// Cuts off the beginning of a text that was told, and returns whether anything is left.
fn cut(text: &mut String, told: &mut usize) -> bool {
    let n_told = text.floor_char_boundary(*told);
    *told -= n_told;
    text.drain(..n_told);
    !text.is_empty()
}
