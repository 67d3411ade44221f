//! Aligns what a client sends with what is stored.
//!
//! In come a thread as a client knows it and the client's list, out comes what the list means for that thread. The
//! rule, in full:
//!
//! 1. The list has a known part, up to its last assistant message, and a new part after it: tool results and the
//!    user's text. System messages are instructions and not part of it.
//! 2. The known part is searched for from the newest end of the thread, comparing backwards until the list or the
//!    loaded part of the thread is used up. So a client may leave out its oldest messages, and a thread may be
//!    compacted.
//! 3. If it ends at the end of the thread, the new part continues the thread, or answers the calls that it waits for.
//! 4. If it ends earlier, something was edited or requested again: the thread branches there. A request that is marked
//!    as a retry gets the turn it had before, or still has.
//! 5. A list without an assistant message is all new to a client that sends only what is new, and the beginning for
//!    one that is known to send everything.
//! 6. Results are never left out: those of a list that has nothing else belong to the calls that wait, and a result
//!    that nothing waits for, and that is not stored, is unexpected.
//! 7. Turns that failed or were stopped may be known in part: a client received less than was generated, or dropped
//!    all of it.
//! 8. Before all that: a request with the idempotency key of a turn is the request of that turn, whatever became of
//!    it.
//!
//! Nothing is read or written here.

use std::collections::BTreeSet;

use contexture_history::{Seq, TurnNo, TurnStatus};
use contexture_message::{Message, Part, Role, ToolOutput};

use super::stored_thread::{HistoryToken, StoredThread, StoredToken, join, tokenize};

/// The messages that a client sends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientHistory {
    /// The messages of the known part, as they came.
    pub(crate) known: Vec<Message>,
    tokens: Vec<HistoryToken>,
    /// The tool results after it.
    pub(crate) results: Vec<(String, ToolOutput)>,
    /// The user's text after it.
    pub(crate) user: Vec<Part>,
}

impl ClientHistory {
    /// Takes a list apart. System messages are not part of it.
    pub(crate) fn of(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut known: Vec<Message> = messages.into_iter().filter(|it| it.role != Role::System).collect();
        let n_known = known.iter().rposition(|it| it.role == Role::Assistant).map_or(0, |it| it + 1);
        let mut client_history = Self::default();
        for message in known.split_off(n_known) {
            for part in message.content {
                match part {
                    Part::ToolResult(result) => client_history.results.push((result.call_id, result.output)),
                    part => client_history.user.push(part),
                }
            }
        }
        for message in &known {
            tokenize(message, |token| {
                let is_joined = client_history.tokens.last_mut().is_some_and(|it| join(it, &token));
                if !is_joined {
                    client_history.tokens.push(token);
                }
            });
        }
        Self { known, ..client_history }
    }

    /// Whether it contains only user messages.
    pub(crate) fn is_only_user(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether what is new in it are results that continue a turn.
    pub(crate) fn is_only_results(&self) -> bool {
        self.user.is_empty() && !self.results.is_empty()
    }

    /// Returns a call of a result that the list has no call for.
    pub(crate) fn unmatched_result(&self) -> Option<&str> {
        let calls = self.calls();
        self.results.iter().map(|it| it.0.as_str()).find(|it| !calls.contains(it))
    }

    fn calls(&self) -> BTreeSet<&str> {
        let each = self.tokens.iter().filter_map(|it| match it {
            HistoryToken::Call(id) => Some(id.as_str()),
            HistoryToken::User(_) | HistoryToken::Said(_) => None,
        });
        each.collect()
    }
}

/// Hints about a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints<'a> {
    /// It has sent its whole history before.
    pub(crate) resends: bool,
    /// It marks the request as a retry.
    pub(crate) is_retry: bool,
    /// The idempotency key of the request: it may be a retry of the turn that began with this key.
    pub(crate) key: Option<&'a str>,
    /// The user's messages are rewritten before they are stored, so they can't be compared.
    pub(crate) rewrites: bool,
}

/// How a list relates to a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Recognised {
    /// It continues at the end of the thread.
    Continues {
        /// The results of calls that wait.
        results: Vec<(String, ToolOutput)>,
        /// The user's message.
        user: Vec<Part>,
        /// Whether the list shows that it belongs to the thread; one that contains only the user's next message does
        /// not.
        is_sure: bool,
    },
    /// It was sent before, and had this turn.
    Retried(TurnNo),
    /// It has a result that nothing waits for; this is the call.
    Unexpected(String),
    /// It continues at an earlier position.
    Branches {
        /// The end of the copy that it continues; without one nothing of the thread is shared.
        at: Option<Seq>,
        /// How much is shared.
        shared: usize,
    },
    /// It has nothing to do with the thread.
    Foreign,
}

impl Recognised {
    /// How well it fits: the best of several threads is taken.
    pub(crate) fn rank(&self) -> (u8, usize) {
        match self {
            Recognised::Retried(_) => (4, 0),
            Recognised::Continues { results, .. } if !results.is_empty() => (4, 0),
            Recognised::Continues { is_sure: true, .. } => (3, 0),
            Recognised::Branches { shared, .. } if *shared > 0 => (2, *shared),
            Recognised::Continues { .. } => (1, 1),
            Recognised::Branches { .. } | Recognised::Unexpected(_) => (1, 0),
            Recognised::Foreign => (0, 0),
        }
    }

    fn next_message(user: Vec<Part>, is_sure: bool) -> Self {
        Recognised::Continues { results: Vec::new(), user, is_sure }
    }
}

/// Matches a client's list with a thread.
pub(crate) fn recognise(stored: &StoredThread, list: &ClientHistory, hints: Hints<'_>) -> Recognised {
    let keyed = hints.key.filter(|_| !list.is_only_results()).and_then(|it| stored.keys.get(it));
    if let Some(turn) = keyed {
        return Recognised::Retried(*turn);
    }
    let stored_tokens = stored.tokens_known_to(&list.calls());
    let align = Align { stored, stored_tokens: &stored_tokens, list, hints };
    match (list.is_only_user(), list.results.is_empty()) {
        (true, true) => align.only_user(),
        (true, false) => align.only_results(),
        (false, _) => {
            let found = (1..=stored_tokens.len()).rev().find(|position| align.ends_at(*position));
            found.map_or(Recognised::Foreign, |position| align.behind(position))
        }
    }
}

/// Whether a turn has an outcome that can be returned again, now or once it is over.
fn has_outcome(status: TurnStatus) -> bool {
    match status {
        TurnStatus::Completed | TurnStatus::Suspended | TurnStatus::InFlight => true,
        TurnStatus::Failed | TurnStatus::Interrupted => false,
    }
}

struct Align<'a> {
    stored: &'a StoredThread,
    stored_tokens: &'a [StoredToken],
    list: &'a ClientHistory,
    hints: Hints<'a>,
}

impl Align<'_> {
    /// Whether the request may be one that a turn answers.
    fn is_retry(&self) -> bool {
        match self.hints.key {
            // A turn was not found by it. The keys of results alone are not recorded.
            Some(_) => self.list.is_only_results(),
            None => self.hints.is_retry,
        }
    }

    /// Matches results that come without their calls.
    fn only_results(&self) -> Recognised {
        self.resumed_before().unwrap_or_else(|| self.answers(|_| false))
    }

    /// Matches results that are stored already: with them the newest turn was resumed.
    fn resumed_before(&self) -> Option<Recognised> {
        let (newest, status) = *self.stored.turns.last()?;
        let results = &self.list.results;
        let is_known = results.iter().all(|it| self.stored.answered.contains(&it.0));
        let is_again = self.list.is_only_results() && is_known && self.stored.resumed_at.is_some();
        (is_again && has_outcome(status) && self.is_retry()).then_some(Recognised::Retried(newest))
    }

    /// Matches results at the end of a thread; `is_stored` tells which calls may already have their results.
    fn answers(&self, is_stored: impl Fn(&str) -> bool) -> Recognised {
        let is_waiting = |id: &str| self.stored.waiting.iter().any(|it| it.id == id);
        let unexpected = self.list.results.iter().find(|it| !is_waiting(&it.0) && !is_stored(&it.0));
        if let Some((call, _)) = unexpected {
            return Recognised::Unexpected(call.clone());
        }
        let results = self.list.results.iter().filter(|it| is_waiting(&it.0)).cloned().collect();
        Recognised::Continues { results, user: self.list.user.clone(), is_sure: true }
    }

    fn only_user(&self) -> Recognised {
        let next_message = |is_sure| Recognised::next_message(self.list.user.clone(), is_sure);
        if self.stored.is_empty() {
            return next_message(true);
        }
        let n_turns = self.stored.turns.len();
        if self.hints.resends || (n_turns == 1 && self.stored.is_whole) {
            let behind = self.behind(0);
            let is_other = matches!(behind, Recognised::Branches { .. }) && !self.says_again(0);
            // One turn does not reveal whether a client sends everything; different text counts as a new message.
            return if is_other && !self.hints.resends { next_message(false) } else { behind };
        }
        let is_user = |it: &StoredToken| matches!(it.token, HistoryToken::User(_));
        let newest = self.stored_tokens.iter().rposition(is_user).unwrap_or(0);
        // A client that sends only new messages may repeat itself; two turns do not reveal yet whether it does.
        let is_again = (self.is_retry() || n_turns <= 2) && self.says_again(newest);
        if is_again { self.behind(newest) } else { next_message(false) }
    }

    /// Whether the known part ends at a position of the thread.
    fn ends_at(&self, position: usize) -> bool {
        let ours = self.stored_tokens[..position].iter().rev();
        let both = self.list.tokens.iter().rev().zip(ours);
        let n_shared = both.take_while(|(theirs, ours)| self.is_same(theirs, ours)).count();
        n_shared == self.list.tokens.len() || (n_shared == position && !self.stored.is_whole)
    }

    fn is_same(&self, theirs: &HistoryToken, ours: &StoredToken) -> bool {
        match (theirs, &ours.token) {
            (HistoryToken::User(_), HistoryToken::User(_)) if self.hints.rewrites => true,
            (HistoryToken::Said(theirs), HistoryToken::Said(said)) if self.is_broken(ours.turn) => {
                theirs.starts_with(said.as_str()) || said.starts_with(theirs.as_str())
            }
            (theirs, ours) => theirs == ours,
        }
    }

    /// Whether a turn ended before it was done.
    fn is_broken(&self, turn: TurnNo) -> bool {
        match self.stored.status(turn) {
            TurnStatus::Failed | TurnStatus::Interrupted => true,
            TurnStatus::InFlight | TurnStatus::Completed | TurnStatus::Suspended => false,
        }
    }

    fn is_newest(&self, turn: TurnNo) -> bool {
        self.stored.turns.last().is_some_and(|it| it.0 == turn)
    }

    /// Matches the new part at a position.
    fn behind(&self, position: usize) -> Recognised {
        let before = position.checked_sub(1).map(|it| &self.stored_tokens[it]);
        let Some(next) = self.stored_tokens.get(position) else {
            let answers = || self.answers(|call| self.stored.answered.contains(call));
            return self.resumed_before().unwrap_or_else(answers);
        };
        // The client has sent no results since, so the answer is the end of the turn.
        let in_turn = before.filter(|it| it.turn == next.turn).map(|it| it.after);
        let is_last = self.is_newest(next.turn) && self.stored.resumed_at == in_turn;
        let has_outcome = has_outcome(self.stored.status(next.turn));
        if self.is_retry() && is_last && has_outcome && self.says_again(position) {
            return Recognised::Retried(next.turn);
        }
        match self.rest_after_broken(next) {
            Some(rest) => Recognised::next_message(rest, true),
            None => Recognised::Branches { at: before.map(|it| it.after), shared: position },
        }
    }

    /// Whether the new part repeats what was said at a position.
    fn says_again(&self, position: usize) -> bool {
        let Some(next) = self.stored_tokens.get(position) else { return false };
        let ClientHistory { results, user, .. } = self.list;
        match &next.token {
            HistoryToken::User(_) => results.is_empty() && self.is_same(&HistoryToken::user(user), next),
            // Only results bring a turn on.
            HistoryToken::Said(_) | HistoryToken::Call(_) => self.list.is_only_results(),
        }
    }

    /// Returns the user's text beyond the newest turn, if that turn broke off and the client received nothing of it.
    fn rest_after_broken(&self, next: &StoredToken) -> Option<Vec<Part>> {
        let (HistoryToken::User(before), HistoryToken::User(said)) =
            (&next.token, HistoryToken::user(&self.list.user))
        else {
            return None;
        };
        let rest = said.strip_prefix(before.as_slice()).filter(|it| !it.is_empty())?;
        (self.is_newest(next.turn) && self.is_broken(next.turn)).then(|| rest.to_vec())
    }
}
