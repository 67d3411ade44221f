//! A stored thread as this endpoint shows it to a client.
//!
//! A client sees the user's messages, the model's text and the calls of its own tools. Calls of tools that ran here
//! and hidden items are not visible to it. Both sides of the comparison use the same [`HistoryToken`]s.

use std::collections::{BTreeMap, BTreeSet};

use contexture_agent::waiting_calls;
use contexture_history::{Body, Change, Item, Seq, TurnNo, TurnStatus};
use contexture_message::{Message, Part, Role, ToolCall};

/// An element that both sides know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HistoryToken {
    /// The user's text and media; consecutive messages are merged.
    User(Vec<Part>),
    /// The model's text, without spaces: clients trim what they keep.
    Said(String),
    /// A call of a tool, by its id. Results are not compared: clients shorten old ones.
    Call(String),
}

impl HistoryToken {
    /// Returns the user's message in the form that is compared.
    pub(crate) fn user(content: &[Part]) -> HistoryToken {
        let said = content.iter().filter_map(|it| match it {
            Part::Text { text, .. } => Some(text.trim()).filter(|it| !it.is_empty()).map(Part::text),
            Part::Image(_) | Part::File(_) => Some(it.clone()),
            _ => None,
        });
        HistoryToken::User(said.collect())
    }
}

/// Converts a message to tokens; adjacent tokens of one kind are merged by the caller.
pub(crate) fn tokenize(message: &Message, mut add: impl FnMut(HistoryToken)) {
    match message.role {
        Role::User => add(HistoryToken::user(&message.content)),
        Role::Assistant => {
            let text: String = message.joined_text().chars().filter(|it| !it.is_whitespace()).collect();
            if !text.is_empty() {
                add(HistoryToken::Said(text));
            }
            for part in &message.content {
                if let Part::ToolCall(call) = part {
                    add(HistoryToken::Call(call.id.clone()));
                }
            }
        }
        Role::System | Role::Tool => {}
    }
}

/// Lists the calls whose results a message has.
fn results_of(message: &Message) -> impl Iterator<Item = String> + '_ {
    message.content.iter().filter_map(|it| match it {
        Part::ToolResult(result) => Some(result.call_id.clone()),
        _ => None,
    })
}

/// A token of a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredToken {
    pub(crate) token: HistoryToken,
    pub(crate) turn: TurnNo,
    /// Where a copy that contains this token and nothing after it ends.
    pub(crate) after: Seq,
}

/// A thread as a client knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredThread {
    tokens: Vec<StoredToken>,
    /// The statuses of the turns, in order.
    pub(crate) turns: Vec<(TurnNo, TurnStatus)>,
    /// The turns that began with an idempotency key.
    pub(crate) keys: BTreeMap<String, TurnNo>,
    /// Whether the thread has nothing older than this.
    pub(crate) is_whole: bool,
    /// Calls that wait for the client.
    pub(crate) waiting: Vec<ToolCall>,
    /// Calls that have their results.
    pub(crate) answered: BTreeSet<String>,
    /// Where the newest turn was suspended before it was last resumed, if it was.
    pub(crate) resumed_at: Option<Seq>,
}

impl StoredThread {
    /// Reads the newest items of a thread.
    pub(crate) fn read(items: &[Item], is_whole: bool) -> Self {
        let mut stored = Self { is_whole, ..Self::default() };
        items.iter().for_each(|it| stored.add(it));
        if let Some((turn, TurnStatus::Suspended)) = stored.turns.last() {
            let from = items.iter().position(|it| it.turn == *turn).unwrap_or(0);
            stored.waiting = waiting_calls(&items[from..]);
        }
        stored
    }

    fn add(&mut self, item: &Item) {
        let (turn, after) = (item.turn, item.seq);
        let mut set = |status: TurnStatus| match self.turns.last_mut() {
            Some(last) if last.0 == turn => last.1 = status,
            _ => self.turns.push((turn, status)),
        };
        match &item.body {
            Body::Change(Change::TurnBegan { key, .. }) => {
                set(TurnStatus::InFlight);
                self.keys.extend(key.clone().map(|it| (it, turn)));
                self.resumed_at = None;
            }
            Body::Change(Change::TurnResumed) => {
                set(TurnStatus::InFlight);
                self.resumed_at = self.tokens.last().map(|it| it.after);
            }
            Body::Change(Change::TurnEnded { status, .. }) => {
                set(*status);
                // A copy that ends here has the turn as it was left.
                if let Some(last) = self.tokens.last_mut().filter(|it| it.turn == turn) {
                    last.after = after;
                }
            }
            Body::Message(message) if item.visibility.history => {
                if self.turns.last().is_none_or(|it| it.0 != turn) {
                    self.turns.push((turn, TurnStatus::Completed));
                }
                tokenize(message, |token| self.tokens.push(StoredToken { token, turn, after }));
                self.answered.extend(results_of(message));
            }
            Body::Message(_)
            | Body::Change(_)
            | Body::Application(_)
            | Body::SystemEvent(_)
            | Body::Envelope(_)
            | Body::Summary(_) => {}
        }
    }

    /// Whether nothing was said yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.is_whole
    }

    /// Returns the status of a turn.
    pub(crate) fn status(&self, turn: TurnNo) -> TurnStatus {
        self.turns.iter().find(|it| it.0 == turn).map_or(TurnStatus::Completed, |it| it.1)
    }

    /// Returns the tokens known to a client that knows these calls and no others; adjacent tokens of one kind are
    /// joined.
    pub(crate) fn tokens_known_to(&self, calls: &BTreeSet<&str>) -> Vec<StoredToken> {
        let mut joined: Vec<StoredToken> = Vec::new();
        for stored in &self.tokens {
            if matches!(&stored.token, HistoryToken::Call(id) if !calls.contains(id.as_str())) {
                // A skipped call still belongs to the token before it.
                if let Some(last) = joined.last_mut().filter(|it| it.turn == stored.turn) {
                    last.after = stored.after;
                }
                continue;
            }
            let last = joined.last_mut().filter(|it| it.turn == stored.turn);
            let is_joined = last.is_some_and(|it| {
                let is_joined = join(&mut it.token, &stored.token);
                it.after = if is_joined { stored.after } else { it.after };
                is_joined
            });
            if !is_joined {
                joined.push(stored.clone());
            }
        }
        joined
    }
}

/// Joins a token to the one before it, if they are of one kind.
pub(crate) fn join(before: &mut HistoryToken, token: &HistoryToken) -> bool {
    match (before, token) {
        (HistoryToken::Said(text), HistoryToken::Said(more)) => text.push_str(more),
        (HistoryToken::User(parts), HistoryToken::User(more)) => parts.extend(more.iter().cloned()),
        _ => return false,
    }
    true
}
