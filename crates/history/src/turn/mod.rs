//! A turn: the user's message and everything that followed it, as the model sees it.
//!
//! A turn is passed in whole ([`Turn::new`]) or built from a log item by item ([`Turn::apply`]). The properties a
//! window needs (cost, content, whether calls and results are paired) are updated with each message, so messages are
//! never scanned again.
//!
//! The rules for turning items into messages:
//!
//! 1. An item that is not visible to the history contributes nothing. The exception is a turn that began hidden from
//!    the history: the model reads it while it is open, and what is visible of it once it has ended.
//! 2. A message is appended as it is; a system event or a summary becomes a separate user message with its own
//!    wording.
//! 3. An envelope becomes a separate part after the user's text: in the last user message of this turn (messages that
//!    hold tool results do not count), or in a new user message if there is none.
//! 4. Application items and changes contribute no message. The start and the end of the turn set its status.
//! 5. No text can forge the engine's tags: they are neutralised when an item is applied.
//! 6. The cost is the sum of the items' costs. If different counters counted them, the cost is unknown.

mod pairing;
pub(crate) mod transcript;

use std::sync::Arc;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens, message_tokens};

use self::pairing::Pairing;
use crate::item::wording::{envelope_parts, event_message, summary_message};
use crate::neutral::{neutral_message, neutral_unless};
use crate::{Body, Change, Cost, Envelope, Item, Summary, TurnNo, TurnStatus};

/// One turn of a conversation, as the model sees it.
///
/// ```
/// use contexture_history::Turn;
/// use contexture_message::Message;
///
/// let turn = Turn::new("t1", vec![Message::user("Where is it?"), Message::assistant("Here.")]);
/// assert!(turn.has_content() && turn.is_paired());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    id: Arc<str>,
    messages: Vec<Arc<Message>>,
    status: TurnStatus,
    cost: Option<Cost>,
    counted: Counted,
    has_content: bool,
    has_words: bool,
    is_neutral: bool,
    pairing: Pairing,
    /// The index of the last user message, which envelopes are added to.
    user: Option<usize>,
    is_summary: bool,
    is_leading: bool,
    /// Whether it includes items that the history does not show.
    shows_hidden: bool,
    /// The other form of a turn that is hidden from the history: as it reads once it has ended, or while it is open.
    other_form: Option<Box<Turn>>,
}

/// Which counters the summed costs come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    /// No item has contributed a cost yet.
    Nothing,
    /// All costs come from one counter.
    Alike,
    /// The costs come from different counters and cannot be added.
    Mixed,
}

impl Turn {
    /// Returns a completed turn whose cost is not yet known.
    pub fn new(id: impl Into<Arc<str>>, messages: Vec<Message>) -> Self {
        let turn = Self { id: id.into(), is_neutral: false, ..Self::start(TurnNo(0)) };
        turn.holding(messages.into_iter().map(Arc::new).collect())
    }

    /// Returns an empty turn, before its first item.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use contexture_history::{Body, Cost, Item, Seq, Timestamp, Turn, TurnNo, Visibility};
    /// use contexture_message::{Message, Tokens};
    ///
    /// let mut turn = Turn::start(TurnNo(7));
    /// turn.apply(&Item {
    ///     seq: Seq(1),
    ///     turn: TurnNo(7),
    ///     visibility: Visibility::BOTH,
    ///     cost: Cost { counter: "o200k_base".into(), tokens: Tokens(5) },
    ///     author: None,
    ///     at: Timestamp(0),
    ///     body: Body::Message(Arc::new(Message::user("hi"))),
    /// });
    /// assert_eq!((&**turn.id(), turn.messages().len()), ("t7", 1));
    /// ```
    pub fn start(number: TurnNo) -> Self {
        Self {
            id: number.to_string().into(),
            messages: Vec::new(),
            status: TurnStatus::Completed,
            cost: None,
            counted: Counted::Nothing,
            has_content: false,
            has_words: false,
            is_neutral: true,
            pairing: Pairing::default(),
            user: None,
            is_summary: false,
            is_leading: false,
            shows_hidden: false,
            other_form: None,
        }
    }

    /// Returns the turn that replaces archived turns; its id is the name of the archive.
    fn summary(item: &Item, summary: &Summary) -> Self {
        let id = format!("a{}", summary.number).into();
        let mut turn = Self { id, is_summary: true, ..Self::start(item.turn) };
        turn.apply(item);
        turn
    }

    /// The id of the turn that precedes all others.
    pub const LEADING: &str = "prepended";

    /// Returns a turn that precedes the whole history. It is included under any limit and does not count against it.
    /// Each message comes with its cost.
    ///
    /// ```
    /// use contexture_history::{Cost, Limit, Turn, window};
    /// use contexture_message::{Encoding, Message, Tokens};
    ///
    /// let cost = Cost { counter: "o200k_base".into(), tokens: Tokens(5) };
    /// let first = Turn::leading([(Message::user("Before all."), cost)]);
    /// let turns = [first, Turn::new("t1", vec![Message::user("a")]), Turn::new("t2", vec![Message::user("b")])];
    /// let window = window(&turns, Some(Limit::Turns(1)), &Encoding::O200kBase);
    /// let kept: Vec<&str> = window.kept().map(|it| &**it.id()).collect();
    /// assert_eq!(kept, ["prepended", "t2"]);
    /// ```
    pub fn leading(messages: impl IntoIterator<Item = (Message, Cost)>) -> Self {
        let mut turn = Self { id: Self::LEADING.into(), is_leading: true, ..Self::start(TurnNo(0)) };
        for (message, cost) in messages {
            turn.say(neutral_message(&Arc::new(message)), &cost);
        }
        turn
    }

    /// Returns the same turn with a cost that was counted before.
    #[must_use]
    pub fn with_cost(self, cost: Cost) -> Self {
        Self { cost: Some(cost), counted: Counted::Alike, ..self }
    }

    /// Returns the same turn with another status.
    #[must_use]
    pub fn with_status(self, status: TurnStatus) -> Self {
        Self { status, ..self }
    }

    /// Returns the same turn with other messages and an unknown cost.
    ///
    /// A turn that was built from a log stays neutral: parts it already had are trusted, and the engine's tags are
    /// neutralised in all others.
    #[must_use]
    pub fn with_messages(self, messages: Vec<Arc<Message>>) -> Self {
        let messages = match self.is_neutral {
            true => {
                let is_own = |part: &Part| self.messages.iter().any(|it| it.content.contains(part));
                messages.iter().map(|it| neutral_unless(it, is_own)).collect()
            }
            false => messages,
        };
        self.holding(messages)
    }

    /// Returns the same turn with other messages, which the engine composed of its own: no tag is neutralised in them.
    #[must_use]
    pub fn with_composed_messages(self, messages: Vec<Arc<Message>>) -> Self {
        self.holding(messages)
    }

    /// Applies the next item of this turn. The work depends on the item only, not on what came before.
    pub fn apply(&mut self, item: &Item) {
        if let Some(other) = &mut self.other_form {
            other.apply(item);
        }
        match &item.body {
            Body::Change(change) => self.change(item.turn, change),
            Body::Application(_) => {}
            _ if !item.visibility.history && !self.shows_hidden => {}
            Body::Message(message) => self.say(neutral_message(message), &item.cost),
            Body::SystemEvent(event) => self.tell(event_message(event), &item.cost),
            Body::Summary(summary) => self.tell(summary_message(summary), &item.cost),
            Body::Envelope(envelope) => self.enclose(envelope, &item.cost),
        }
        if self.shows_hidden && !item.visibility.history {
            // A hidden item is recorded without a cost.
            (self.cost, self.counted) = (None, Counted::Mixed);
        }
        if self.counted == Counted::Nothing {
            // An empty item costs nothing, whichever counter was used.
            self.cost = Some(Cost { counter: Arc::clone(&item.cost.counter), tokens: Tokens(0) });
        }
    }

    /// Returns the turn's id, such as `t7`.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns its messages, in order.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the number of tool results in it.
    pub fn n_tool_results(&self) -> usize {
        self.messages.iter().map(|it| it.n_tool_results()).sum()
    }

    /// Returns its cost, if known.
    pub fn cost(&self) -> Option<&Cost> {
        self.cost.as_ref()
    }

    /// Returns its status.
    pub fn status(&self) -> TurnStatus {
        self.status
    }

    /// Whether it is a summary that replaces older turns.
    pub fn is_summary(&self) -> bool {
        self.is_summary
    }

    /// Whether it precedes all others, see [`leading`](Turn::leading).
    pub fn is_leading(&self) -> bool {
        self.is_leading
    }

    /// Whether it contributes any content.
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Whether it has content other than tool results, which may have no matching call.
    pub(crate) fn has_words(&self) -> bool {
        self.has_words
    }

    /// Whether every call has exactly one result directly after it, and every result has its call.
    pub fn is_paired(&self) -> bool {
        self.pairing.is_paired()
    }

    /// Whether no text in it can forge the engine's tags: all tags in it were written by the engine.
    pub fn is_neutral(&self) -> bool {
        self.is_neutral
    }

    /// Returns its cost by this counter: the stored cost, or else counted now. Zero if it contributes nothing.
    pub(crate) fn tokens(&self, counter: &dyn TokenCounter, name: &str) -> Tokens {
        match &self.cost {
            _ if !self.has_content => Tokens(0),
            Some(cost) if *cost.counter == *name => cost.tokens,
            _ if self.is_neutral => self.messages.iter().map(|it| message_tokens(counter, it)).sum(),
            // The model reads the neutralised text, so that is what is counted.
            _ => self.messages.iter().map(|it| message_tokens(counter, &neutral_message(it))).sum(),
        }
    }

    /// Changes messages in a way that adds no foreign text. If any message changed, the cost becomes unknown.
    pub(crate) fn map(self, change: impl FnMut(&Arc<Message>) -> Option<Arc<Message>>) -> Self {
        let messages: Vec<_> = self.messages.iter().filter_map(change).collect();
        let is_same = messages.len() == self.messages.len()
            && messages.iter().zip(&self.messages).all(|(new, old)| Arc::ptr_eq(new, old));
        if is_same { self } else { self.holding(messages) }
    }

    /// Returns the turn with shorter results. A known cost is adjusted by the difference of each result, except
    /// in a turn that is not neutral, whose counted text differs from the text it holds.
    pub(crate) fn with_previews(
        self,
        messages: Vec<Arc<Message>>,
        results: impl Iterator<Item = (Tokens, Tokens)>,
        counter: &str,
    ) -> Self {
        let is_known = |it: &Cost| self.is_neutral && *it.counter == *counter;
        let cost = self.cost.clone().filter(is_known).map(|cost| {
            let correct = |sum: Tokens, (before, after)| sum.saturating_sub(before) + after;
            Cost { tokens: results.fold(cost.tokens, correct), ..cost }
        });
        let turn = self.holding(messages);
        match cost {
            Some(cost) => turn.with_cost(cost),
            None => turn,
        }
    }

    /// Returns the turn with `messages` in place of its own.
    fn holding(mut self, messages: Vec<Arc<Message>>) -> Self {
        self.cost = None;
        self.counted = Counted::Mixed;
        self.has_content = false;
        self.has_words = false;
        self.pairing = Pairing::default();
        messages.iter().for_each(|it| self.observe(it));
        self.user = messages.iter().rposition(|it| is_of_the_user(it));
        self.messages = messages;
        self
    }

    /// Appends a message of the conversation.
    fn say(&mut self, message: Arc<Message>, cost: &Cost) {
        if is_of_the_user(&message) {
            self.user = Some(self.messages.len());
        }
        self.push(message, cost);
    }

    /// Appends a message written by the engine.
    fn tell(&mut self, message: Message, cost: &Cost) {
        self.push(Arc::new(message), cost);
    }

    /// Adds an envelope after the user's text.
    fn enclose(&mut self, envelope: &Envelope, cost: &Cost) {
        let parts = envelope_parts(envelope);
        match self.user.and_then(|it| self.messages.get_mut(it)) {
            Some(message) => {
                Arc::make_mut(message).content.extend(parts);
                (self.has_content, self.has_words) = (true, true);
                self.add(cost);
            }
            None => {
                self.user = Some(self.messages.len());
                self.push(Arc::new(Message::parts(Role::User, parts)), cost);
                // The envelope was counted as a part; a whole message costs more.
                (self.cost, self.counted) = (None, Counted::Mixed);
            }
        }
    }

    fn push(&mut self, message: Arc<Message>, cost: &Cost) {
        self.observe(&message);
        self.messages.push(message);
        self.add(cost);
    }

    fn observe(&mut self, message: &Message) {
        self.has_content |= !message.is_blank();
        self.has_words |= !message.is_blank() && !message.content.iter().all(is_result);
        self.pairing.push(message);
    }

    fn add(&mut self, cost: &Cost) {
        match (self.counted, &mut self.cost) {
            (Counted::Nothing, _) => (self.cost, self.counted) = (Some(cost.clone()), Counted::Alike),
            (Counted::Alike, Some(sum)) if sum.counter == cost.counter => sum.tokens += cost.tokens,
            _ => (self.cost, self.counted) = (None, Counted::Mixed),
        }
    }

    fn change(&mut self, number: TurnNo, change: &Change) {
        match change {
            Change::TurnBegan { visibility, .. } => {
                self.status = TurnStatus::InFlight;
                if visibility.is_some_and(|it| !it.history) && self.other_form.is_none() && !self.shows_hidden
                {
                    let ended = Turn { status: self.status, ..Turn::start(number) };
                    (self.shows_hidden, self.other_form) = (true, Some(Box::new(ended)));
                }
            }
            Change::TurnResumed => self.status = TurnStatus::InFlight,
            Change::TurnEnded { status, .. } => self.status = *status,
            _ => {}
        }
        if self.shows_hidden == self.status.is_over() {
            self.take_other_form();
        }
    }

    fn take_other_form(&mut self) {
        if let Some(mut other) = self.other_form.take() {
            std::mem::swap(self, &mut other);
            self.other_form = Some(other);
        }
    }
}

/// Whether it is a user message with more than tool results.
fn is_of_the_user(message: &Message) -> bool {
    message.role == Role::User && !message.content.iter().any(is_result)
}

fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult(_))
}

/// Groups items into turns, by [`Turn::apply`].
///
/// Items come in log order, with those of one turn next to each other. Items appended before the first turn form a
/// turn `t0`; changes of the thread alone form none. The summary of an archive whose turn has not begun (see
/// [`view`](crate::view())) is a separate turn such as `a3`. Resets are not handled here: pass in only what follows
/// one.
///
/// ```
/// let no_items: [contexture_history::Item; 0] = [];
/// assert!(contexture_history::turns(&no_items).is_empty());
/// ```
pub fn turns<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut open = None;
    for item in items {
        match &item.body {
            Body::Summary(summary) if summary.number > 0 && open != Some(item.turn) => {
                turns.push(Turn::summary(item, summary));
                open = None;
                continue;
            }
            _ => {}
        }
        if open != Some(item.turn) && item.starts_turn() {
            open = Some(item.turn);
            turns.push(Turn::start(item.turn));
        }
        if let Some(turn) = turns.last_mut().filter(|_| open == Some(item.turn)) {
            turn.apply(item);
        }
    }
    turns
}
