//! Shortens large tool results of whole turns.
//!
//! Does the same as [`shorten`](super::shorten), over the messages of all turns. Turns known to hold nothing large are
//! skipped, so that old turns cost nothing.

use std::sync::Arc;

use contexture_message::{Part, TokenCounter, Tokens};

use super::results::Shortening;
use super::{Frontier, ResultLimits};
use crate::transform::has_media;
use crate::{Item, Transform, Turn, TurnStatus, item_cost, transform};

/// A tool result, or the text of a user or assistant message, that a request includes in a shorter form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortenedResult {
    /// The id of its turn.
    pub turn: Arc<str>,
    /// Its handle: the call id of a result; for a message see [`message_handle`](super::message_handle).
    pub call_id: String,
    /// The tool's name, or the role.
    pub name: String,
    /// The full cost.
    pub before: Tokens,
    /// The cost of the shorter form.
    pub after: Tokens,
}

/// Turns with shorter results.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewedTurns {
    /// The new form of each turn, or `None` if it did not change.
    pub turns: Vec<Option<Turn>>,
    /// The results that changed, in order.
    pub changed: Vec<ShortenedResult>,
}

/// Replaces large results with previews in the turns that have any.
///
/// Unchanged turns are not copied. A changed turn keeps a known cost, reduced by what its results saved.
///
/// ```
/// use contexture_history::Turn;
/// use contexture_history::compaction::{Frontier, ResultLimits, preview_turns};
/// use contexture_message::{Encoding, Message, Part, Role, ToolOutput, ToolResult};
///
/// let output = ToolOutput::Text("one line of a log\n".repeat(500));
/// let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output };
/// let large = Message::parts(Role::Tool, vec![Part::ToolResult(result)]);
/// let turns = [Turn::new("t1", vec![Message::user("hi")]), Turn::new("t2", vec![large])];
/// let made = preview_turns(&turns, Frontier(1), &ResultLimits::default(), &Encoding::O200kBase);
/// assert!(made.turns[0].is_none() && made.turns[1].is_some());
/// assert_eq!((&*made.changed[0].turn, made.changed[0].call_id.as_str()), ("t2", "c1"));
/// ```
pub fn preview_turns<'a>(
    turns: impl IntoIterator<Item = &'a Turn>,
    frontier: Frontier,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> PreviewedTurns {
    let mut shortening = Shortening::new(frontier, limits, counter);
    let name = counter.profile().name;
    let smallest =
        limits.caps.values().fold(limits.of(true).min(limits.of(false)), |least, it| least.min(*it));
    let mut made = PreviewedTurns { turns: Vec::new(), changed: Vec::new() };
    for turn in turns {
        if is_small(turn, &name, smallest) {
            shortening.pass_over(results(turn).count());
            made.turns.push(None);
            continue;
        }
        let first = made.changed.len();
        let mut messages = Vec::with_capacity(turn.messages().len());
        for message in turn.messages() {
            let tell = &mut |handle: &str, name: &str, before, after| {
                let (call_id, name) = (handle.to_owned(), name.to_owned());
                made.changed.push(ShortenedResult {
                    turn: Arc::clone(turn.id()),
                    call_id,
                    name,
                    before,
                    after,
                });
            };
            messages.push(shortening.message(turn.id(), message, tell));
        }
        let changed = &made.changed[first..];
        made.turns.push((!changed.is_empty()).then(|| {
            let by = changed.iter().map(|it| (it.before, it.after));
            turn.clone().with_previews(messages, by, &name)
        }));
    }
    made
}

/// Shows tool results of ended turns as previews if they exceed the limit for recent results, as an agent does by itself.
///
/// For requests that are resolved without an agent. The turn in flight keeps its results: the model has not read them.
///
/// ```
/// use contexture_history::compaction::bounded_results;
/// use contexture_history::{Transforms, Turn};
/// use contexture_message::{Message, Part, Role, ToolOutput, ToolResult};
///
/// let output = ToolOutput::Text("one line of a log\n".repeat(5_000));
/// let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output };
/// let large = Turn::new("t1", vec![Message::parts(Role::Tool, vec![Part::ToolResult(result)])]);
/// let transforms = Transforms::default().then(bounded_results());
/// assert_ne!(transforms.run(vec![large.clone()]).turns, [large]);
/// ```
pub fn bounded_results() -> impl Transform + 'static {
    let counter = contexture_message::counter_for(None);
    let limits = ResultLimits::default();
    transform("bounded_results", move |turns: Vec<Turn>| {
        let bounded = |turn: Turn| match turn.status() {
            TurnStatus::InFlight => turn,
            _ => {
                preview_turns([&turn], Frontier(0), &limits, &*counter).turns.pop().flatten().unwrap_or(turn)
            }
        };
        turns.into_iter().map(bounded).collect()
    })
}

/// Returns the cost of each item as it is shown, with previews in place of large results. Items are in the order in
/// which the model reads them.
pub fn shown_costs(
    items: &[Item],
    frontier: Frontier,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Vec<Tokens> {
    let mut shortening = Shortening::new(frontier, limits, counter);
    let name = counter.profile().name;
    let whole = |item: &Item| match *item.cost.counter == *name {
        true => item.cost.tokens,
        false => item_cost(counter, &item.body, item.visibility),
    };
    let shown = items.iter().map(|item| {
        let mut tokens = whole(item);
        if let Some(message) = item.body.as_message().filter(|_| item.visibility.history) {
            let tell = &mut |_: &str, _: &str, before, after| tokens = tokens.saturating_sub(before) + after;
            shortening.message(&item.turn.to_string(), message, tell);
        }
        tokens
    });
    shown.collect()
}

/// Returns turns with previews in place of large results, and the ids of the calls whose results changed.
///
/// ```
/// use contexture_history::Turn;
/// use contexture_history::compaction::{Frontier, ResultLimits, shorten_turns};
/// use contexture_message::{Encoding, Message};
///
/// let turns = vec![Turn::new("t1", vec![Message::user("hi")])];
/// let (same, changed) =
///     shorten_turns(turns.clone(), Frontier(0), &ResultLimits::default(), &Encoding::O200kBase);
/// assert!(changed.is_empty() && same == turns);
/// ```
pub fn shorten_turns(
    turns: Vec<Turn>,
    frontier: Frontier,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> (Vec<Turn>, Vec<String>) {
    let made = preview_turns(&turns, frontier, limits, counter);
    let turns = turns.into_iter().zip(made.turns).map(|(turn, new)| new.unwrap_or(turn)).collect();
    (turns, made.changed.into_iter().map(|it| it.call_id).collect())
}

/// Whether the whole turn costs no more than one result may, and has no media, which is replaced whatever its cost.
fn is_small(turn: &Turn, counter: &str, smallest: Tokens) -> bool {
    let is_cheap = turn.cost().is_some_and(|it| *it.counter == *counter && it.tokens <= smallest);
    is_cheap && !results(turn).any(has_media)
}

fn results(turn: &Turn) -> impl Iterator<Item = &Part> {
    let parts = turn.messages().iter().flat_map(|it| &it.content);
    parts.filter(|it| matches!(it, Part::ToolResult(_)))
}
