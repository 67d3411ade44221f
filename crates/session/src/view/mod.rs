//! The model's view of a thread, item by item, and how parts of it are archived.

use contexture_history::compaction::{Plan, Strategy};
use contexture_history::{Archived, Body, Change, Fact, Item, Seq, Summary, TurnNo};
use contexture_message::Tokens;

pub(crate) mod load;
pub(crate) mod omitted;
pub(crate) mod snapshot;

use crate::log::draft::Draft;
use crate::{NewItem, SessionError, State};

/// The model's view of a thread, item by item, at one moment. See [`Thread::view`](crate::Thread::view).
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The items in the order in which the model reads them; a summary replaces the items it covers.
    pub items: Vec<Item>,
    /// Whether there are turns before these that neither the window nor an archive holds.
    pub has_older: bool,
    /// The state of the thread when this was read.
    pub(crate) state: State,
    /// The archives that left something out without a replacement.
    pub(crate) left_out: Vec<Archived>,
}

/// A range of a view that something else takes the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArchive {
    /// The replacement text; `None` leaves the range out.
    pub text: Option<String>,
    /// Facts that are kept word for word in either case.
    pub facts: Vec<Fact>,
    /// Why the range is left out, if it is.
    pub left_out: Option<String>,
    /// The first and the last position it covers.
    pub range: (Seq, Seq),
    /// The turns of the first and of the last item in it.
    pub turns: (TurnNo, TurnNo),
    /// The strategy that triggered it.
    pub strategy: Strategy,
    /// The cost of the range.
    pub before: Tokens,
}

impl View {
    /// Returns the turn that runs or waits, if one does.
    pub fn open(&self) -> Option<TurnNo> {
        self.state.open.map(|it| it.turn)
    }

    /// Returns the archive that a plan over the items of this view makes: a text in the place of the range, or why it
    /// is left out, and in either case the facts that stay.
    pub fn archive(&self, plan: &Plan, text: Result<String, String>, facts: Vec<Fact>) -> NewArchive {
        let reach = self.reach(plan);
        let (text, left_out, first) = match text {
            Ok(text) => (Some(text), None, reach),
            Err(reason) => (None, Some(reason), self.left_out_from(reach)),
        };
        NewArchive {
            text,
            facts,
            left_out,
            range: (first, plan.last),
            turns: self.turns(plan, first),
            strategy: plan.strategy,
            before: plan.before,
        }
    }

    /// Returns where a range starts: right after the archive before it, or at the start of the history. Anything in
    /// between is a record, which the model never reads.
    fn reach(&self, plan: &Plan) -> Seq {
        let before = plan.span.start.checked_sub(1).and_then(|it| self.items.get(it)).map(|it| &it.body);
        let end = match before {
            Some(Body::Summary(summary)) => Some(summary.last),
            Some(_) => None,
            None => {
                let archived =
                    self.state.archives.iter().map(|it| it.last).filter(|it| *it < plan.first).max();
                archived.max((!self.has_older).then_some(self.state.history_after))
            }
        };
        end.map_or(plan.first, |it| plan.first.min(it.next()))
    }

    /// Returns where the omitted range starts. It absorbs an omitted range that ends right before it, so repeated
    /// omissions leave a single archive.
    fn left_out_from(&self, first: Seq) -> Seq {
        let before = self.left_out.iter().find(|it| it.last.next() == first);
        before.map_or(first, |it| it.first)
    }

    /// Returns the turns that a plan covers, those of archives in it included.
    fn turns(&self, plan: &Plan, first: Seq) -> (TurnNo, TurnNo) {
        let inside = self.state.archives.iter().filter(|it| first <= it.first && it.last <= plan.last);
        inside.fold(plan.turns, |(first, last), it| (first.min(it.turns.0), last.max(it.turns.1)))
    }
}

/// Archives a range, if the archives are those that were read.
pub(crate) fn archive_draft(
    state: &State,
    read: &State,
    new: &NewArchive,
    thread: &str,
) -> Result<Draft, SessionError> {
    if (state.history_after, &state.archives) != (read.history_after, &read.archives) {
        return Err(SessionError::ViewChanged { thread: thread.to_owned() });
    }
    let (first, last) = new.range;
    if first < Seq(1) || last < first || state.end < last {
        let what = format!("items {first} to {last} to archive");
        return Err(SessionError::NotInThread { thread: thread.to_owned(), what });
    }
    let inside = state.archives.iter().filter(|it| first <= it.first && it.last <= last);
    let summary = Summary {
        text: new.text.clone().unwrap_or_default(),
        facts: new.facts.clone(),
        first,
        last,
        number: state.n_archives + 1,
        turns: new.turns,
        strategy: Some(new.strategy),
        before: new.before,
        replaces: inside.cloned().collect(),
        left_out: new.left_out.clone(),
        event: None,
    };
    Ok(vec![(state.turn, NewItem::of(Body::Summary(summary.told())))])
}

/// Takes an archive back, if it is still the newest one that holds.
pub(crate) fn undo_draft(
    state: &State,
    number: u64,
    restores: &[Archived],
    thread: &str,
) -> Result<Draft, SessionError> {
    if newest(state).is_none_or(|it| it.number != number) {
        return Err(SessionError::ViewChanged { thread: thread.to_owned() });
    }
    let undone = Change::ArchiveUndone { number, restores: restores.to_vec() };
    Ok(vec![(state.turn, NewItem::of(Body::Change(undone)))])
}

/// Returns the newest archive that holds.
pub(crate) fn newest(state: &State) -> Option<&Archived> {
    state.archives.iter().max_by_key(|it| it.number)
}

/// Whether an item changes how loaded items before it are read.
pub(crate) fn changes_view(item: &Item, before: &State) -> bool {
    match &item.body {
        Body::Summary(_) | Body::Change(Change::ArchiveUndone { .. } | Change::Aged { .. }) => true,
        // A resumed turn no longer counts, so there is room for an older one.
        Body::Change(Change::TurnResumed) => before.open.is_none(),
        _ => false,
    }
}

/// Returns the position after which items must be read: everything up to it is archived without a gap.
pub(crate) fn read_after(state: &State) -> Seq {
    state.archives.iter().fold(state.history_after, |after, archived| {
        if archived.first <= after.next() { after.max(archived.last) } else { after }
    })
}
