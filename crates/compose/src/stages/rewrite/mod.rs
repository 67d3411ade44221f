//! Runs the transforms on the history and the turn in flight.
//!
//! Turns the turns that were passed in into those that are sent, with the effect of each transform. The turn in
//! flight is the last turn that transforms see, so that they can also remove a secret from this turn's results. A
//! turn that a transform leaves out is recorded with the transform's name. Without transforms nothing is copied.

mod held_blocks;
mod previews;

use std::borrow::Cow;
use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_history::{TransformChange, TransformPanic, Transformed, Transforms};
use contexture_message::Message;

pub(crate) use self::held_blocks::HeldBlocks;
pub use self::previews::ShortenedResult;
use crate::{Conversation, Error, ErrorKind, Source, Turn, TurnStatus};

/// The conversation of one request, after the transforms.
pub(crate) struct Rewritten<'a> {
    /// The history, oldest first.
    pub(crate) history: Cow<'a, [Turn]>,
    /// The part of the turn in flight that a log holds, or the whole turn once it was rewritten.
    pub(crate) turn: Option<Cow<'a, Turn>>,
    /// Plain messages of the turn in flight, which come after `turn`.
    pub(crate) plain: &'a [Arc<Message>],
    /// The effect of each transform.
    pub(crate) changes: Vec<TransformChange>,
    /// The turns that were left out, and why.
    pub(crate) left_out: Vec<(Source, String)>,
    /// The tool results that are shown as previews.
    pub(crate) shortened: Vec<ShortenedResult>,
    transforms: Cow<'a, Transforms>,
}

/// Runs the prompt's own transforms, then those of the request.
pub(crate) fn rewrite<'a>(
    conversation: &'a Conversation,
    own: &'a Transforms,
    further: &Transforms,
) -> Result<Rewritten<'a>, Error> {
    let transforms = match further.is_empty() {
        true => Cow::Borrowed(own),
        false => Cow::Owned(own.clone().chain(further)),
    };
    let given = Rewritten {
        history: Cow::Borrowed(&conversation.history),
        turn: conversation.logged().map(Cow::Borrowed),
        plain: &conversation.in_flight,
        changes: Vec::new(),
        left_out: Vec::new(),
        shortened: Vec::new(),
        transforms,
    };
    if given.transforms.is_empty() { Ok(given) } else { given.transformed() }
}

impl<'a> Rewritten<'a> {
    fn transformed(self) -> Result<Self, Error> {
        let in_flight = self.in_flight();
        let id = in_flight.as_ref().map(|it| Arc::clone(it.id()));
        let turns = self.history.iter().cloned().chain(in_flight).collect();
        let Transformed { mut turns, changes } = self.transforms.try_run(turns).map_err(panicked)?;
        let is_same = |it: &Turn| Some(it.id()) == id.as_ref();
        let is_in_flight = |it: &Turn| it.status() == TurnStatus::InFlight && is_same(it);
        // A transform that rebuilds a turn may lose its status.
        let position = turns.iter().rposition(is_in_flight).or_else(|| turns.iter().rposition(is_same));
        let turn = position.map(|it| turns.remove(it));
        let left_out = left_out(&changes, id.as_ref());
        let (history, turn) = (Cow::Owned(turns), turn.map(Cow::Owned));
        Ok(Self { history, turn, plain: &[], changes, left_out, ..self })
    }

    /// Returns the turn in flight as one turn.
    fn in_flight(&self) -> Option<Turn> {
        let turn = self.turn.as_deref();
        if turn.is_none() && self.plain.is_empty() {
            return None;
        }
        let given = turn.cloned().unwrap_or_else(|| Turn::new(Source::InFlight.to_string(), Vec::new()));
        let given = given.with_status(TurnStatus::InFlight);
        if self.plain.is_empty() {
            return Some(given);
        }
        // Plain messages are neutralised before they join messages of the engine, so that nothing in them can pass
        // for one.
        let messages = given.messages().iter().cloned().chain(self.plain.iter().map(neutral_message));
        let messages = messages.collect();
        Some(given.with_messages(messages))
    }

    /// Returns the whole conversation as context providers see it: the history, then the turn in flight.
    pub(crate) fn conversation(&self) -> Arc<[Turn]> {
        self.history.iter().cloned().chain(self.in_flight()).collect()
    }

    /// Returns the prompt's own user text after the transforms.
    pub(crate) fn reword(&self, text: String) -> Result<String, Error> {
        match self.transforms.try_reword(&text).map_err(panicked)? {
            Cow::Borrowed(_) => Ok(text),
            Cow::Owned(reworded) => Ok(reworded),
        }
    }
}

fn left_out(changes: &[TransformChange], in_flight: Option<&Arc<str>>) -> Vec<(Source, String)> {
    let mut left_out = Vec::new();
    for TransformChange { name, left_out: ids, .. } in changes {
        let source = |id: &Arc<str>| match Some(id) == in_flight {
            true => Source::InFlight,
            false => Source::History(Arc::clone(id)),
        };
        left_out.extend(ids.iter().map(|it| (source(it), format!("left out by transform `{name}`"))));
    }
    left_out
}

fn panicked(panic: TransformPanic) -> Error {
    ErrorKind::Transform(panic).into()
}
