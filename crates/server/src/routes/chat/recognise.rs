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
//!    as a retry gets the turn it had before.
//! 5. A list without an assistant message is all new to a client that sends only what is new, and the beginning for
//!    one that is known to send everything.
//! 6. Results are never left out: those of a list that has nothing else belong to the calls that wait, and a result
//!    that nothing waits for, and that is not stored, is unexpected.
//! 7. Turns that failed or were stopped may be known in part: a client received less than was generated, or dropped
//!    all of it.
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
pub(crate) struct Hints {
    /// It has sent its whole history before.
    pub(crate) resends: bool,
    /// It marks the request as a retry.
    pub(crate) is_retry: bool,
    /// The user's messages are rewritten before they are stored, so they can't be compared.
    pub(crate) rewrites: bool,
}

/// How a list relates to a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Recognised {
    /// It continues at the end of the thread, with a user message, if there is one.
    Continues(Vec<Part>),
    /// It contains only the user's next message.
    OnlyUser(Vec<Part>),
    /// It answers waiting calls, possibly with a user message.
    Answers {
        /// The results of calls that wait.
        results: Vec<(String, ToolOutput)>,
        /// The user's message.
        user: Vec<Part>,
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
            Recognised::Answers { .. } | Recognised::Retried(_) => (4, 0),
            Recognised::Continues(_) => (3, 0),
            Recognised::Branches { shared, .. } if *shared > 0 => (2, *shared),
            Recognised::OnlyUser(_) => (1, 1),
            Recognised::Branches { .. } | Recognised::Unexpected(_) => (1, 0),
            Recognised::Foreign => (0, 0),
        }
    }
}

/// Matches a client's list with a thread.
pub(crate) fn recognise(stored: &StoredThread, client_history: &ClientHistory, hints: Hints) -> Recognised {
    if client_history.is_only_user() && !client_history.results.is_empty() {
        return only_results(stored, client_history, hints);
    }
    if client_history.is_only_user() {
        return only_user(stored, client_history, hints);
    }
    let stored_tokens = stored.tokens_known_to(&client_history.calls());
    let align = Align { stored, stored_tokens: &stored_tokens, hints };
    match (1..=stored_tokens.len()).rev().find(|position| align.ends_at(*position, &client_history.tokens)) {
        Some(position) => align.behind(position, client_history),
        None => Recognised::Foreign,
    }
}

/// Matches results that come without their calls.
fn only_results(stored: &StoredThread, client_history: &ClientHistory, hints: Hints) -> Recognised {
    let newest = stored.turns.last().filter(|it| is_over(it.1)).map(|it| it.0);
    let is_known = client_history.results.iter().all(|it| stored.answered.contains(&it.0));
    match newest {
        Some(turn) if hints.is_retry && is_known && stored.resumed_at.is_some() => Recognised::Retried(turn),
        _ => answers(stored, client_history, |_| false),
    }
}

/// Matches results at the end of a thread; `is_stored` tells which calls may already have their results.
fn answers(
    stored: &StoredThread,
    client_history: &ClientHistory,
    is_stored: impl Fn(&str) -> bool,
) -> Recognised {
    let is_waiting = |id: &str| stored.waiting.iter().any(|it| it.id == id);
    let unexpected = client_history.results.iter().find(|it| !is_waiting(&it.0) && !is_stored(&it.0));
    if let Some((call, _)) = unexpected {
        return Recognised::Unexpected(call.clone());
    }
    let results: Vec<_> = client_history.results.iter().filter(|it| is_waiting(&it.0)).cloned().collect();
    let user = client_history.user.clone();
    match results.is_empty() {
        true => Recognised::Continues(user),
        false => Recognised::Answers { results, user },
    }
}

/// Whether a turn has an outcome that can be returned again.
fn is_over(status: TurnStatus) -> bool {
    matches!(status, TurnStatus::Completed | TurnStatus::Suspended)
}

fn only_user(stored: &StoredThread, client_history: &ClientHistory, hints: Hints) -> Recognised {
    let user = || client_history.user.clone();
    if stored.is_empty() {
        return Recognised::Continues(user());
    }
    let stored_tokens = stored.tokens_known_to(&BTreeSet::new());
    let align = Align { stored, stored_tokens: &stored_tokens, hints };
    let n_turns = stored.turns.len();
    if hints.resends || (n_turns == 1 && stored.is_whole) {
        let behind = align.behind(0, client_history);
        let is_other = matches!(behind, Recognised::Branches { .. }) && !align.says_again(0, client_history);
        // One turn does not reveal whether a client sends everything; different text counts as a new message.
        return if is_other && !hints.resends { Recognised::OnlyUser(user()) } else { behind };
    }
    let newest = stored_tokens.iter().rposition(|it| matches!(it.token, HistoryToken::User(_))).unwrap_or(0);
    // A client that sends only new messages may repeat itself; two turns do not reveal yet whether it does.
    let is_again = (hints.is_retry || n_turns <= 2) && align.says_again(newest, client_history);
    if is_again { align.behind(newest, client_history) } else { Recognised::OnlyUser(user()) }
}

struct Align<'a> {
    stored: &'a StoredThread,
    stored_tokens: &'a [StoredToken],
    hints: Hints,
}

impl Align<'_> {
    /// Whether the known part ends at a position of the thread.
    fn ends_at(&self, position: usize, known: &[HistoryToken]) -> bool {
        let mut theirs = known.iter().rev();
        let mut ours = self.stored_tokens[..position].iter().rev();
        loop {
            match (theirs.next(), ours.next()) {
                (None, _) => return true,
                (Some(_), None) => return !self.stored.is_whole,
                (Some(theirs), Some(ours)) if self.is_same(theirs, ours) => {}
                (Some(_), Some(_)) => return false,
            }
        }
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

    /// Matches the new part at a position.
    fn behind(&self, position: usize, client_history: &ClientHistory) -> Recognised {
        let at = position.checked_sub(1).map(|it| self.stored_tokens[it].after);
        let Some(next) = self.stored_tokens.get(position) else { return self.at_the_end(client_history) };
        if let Some(turn) = self.is_retry_of(position, client_history) {
            return Recognised::Retried(turn);
        }
        match self.rest_after_broken(next, client_history) {
            Some(rest) => Recognised::Continues(rest),
            None => Recognised::Branches { at, shared: position },
        }
    }

    fn at_the_end(&self, client_history: &ClientHistory) -> Recognised {
        answers(self.stored, client_history, |call| self.stored.answered.contains(call))
    }

    /// Returns the turn that the same request had before, if the request is marked as a retry and the turn has an
    /// outcome.
    fn is_retry_of(&self, position: usize, client_history: &ClientHistory) -> Option<TurnNo> {
        let turn = self.stored_tokens.get(position)?.turn;
        let is_newest = self.stored.turns.last().is_some_and(|it| it.0 == turn);
        let came_to_something = is_over(self.stored.status(turn));
        // The client has sent no results since, so the answer is the end of the turn.
        let behind = position.checked_sub(1).map(|it| &self.stored_tokens[it]).filter(|it| it.turn == turn);
        let is_last = self.stored.resumed_at == behind.map(|it| it.after);
        let is_same = self.hints.is_retry && is_newest && came_to_something && is_last;
        (is_same && self.says_again(position, client_history)).then_some(turn)
    }

    /// Whether the new part repeats what was said at a position.
    fn says_again(&self, position: usize, client_history: &ClientHistory) -> bool {
        let Some(next) = self.stored_tokens.get(position) else { return false };
        match &next.token {
            HistoryToken::User(_) => {
                client_history.results.is_empty()
                    && self.is_same(&HistoryToken::user(&client_history.user), next)
            }
            // Only results bring a turn on.
            HistoryToken::Said(_) | HistoryToken::Call(_) => {
                client_history.user.is_empty() && !client_history.results.is_empty()
            }
        }
    }

    /// Returns the user's text beyond the newest turn, if that turn broke off and the client received nothing of it.
    fn rest_after_broken(&self, next: &StoredToken, client_history: &ClientHistory) -> Option<Vec<Part>> {
        let HistoryToken::User(before) = &next.token else { return None };
        let is_newest = self.stored.turns.last().is_some_and(|it| it.0 == next.turn);
        if !(is_newest && self.is_broken(next.turn)) {
            return None;
        }
        let HistoryToken::User(said) = HistoryToken::user(&client_history.user) else { return None };
        said.strip_prefix(before.as_slice()).filter(|it| !it.is_empty()).map(<[Part]>::to_vec)
    }
}
