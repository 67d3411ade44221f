//! Transforms rewrite the history for one request.
//!
//! A [`Transform`] is a function from turns to turns. [`Transforms`] runs several, left to right, and reports what
//! each of them did. Nothing is persisted: the log does not change, and the next request starts from it again.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use contexture_message::{Message, Part, ToolOutput};

use crate::item::wording::media_note;
use crate::window::newest_turns;
use crate::{Turn, TurnStatus};

/// Rewrites the history of one request.
///
/// Implementations are pure: equal turns give equal turns. They may drop, add and change turns; a turn keeps its cost
/// only if it is returned unchanged. The running turn is the last one and is
/// [in flight](TurnStatus::InFlight). See [`transform`] to build one from a function.
pub trait Transform: Send + Sync {
    /// Returns the name used in reports.
    fn name(&self) -> &str;

    /// Returns the rewritten turns, oldest first.
    fn apply(&self, turns: Vec<Turn>) -> Vec<Turn>;

    /// Rewrites user text that is not part of a turn yet, such as user text in the prompt itself. The default returns
    /// it unchanged. The same text may be passed twice, so rewriting must be idempotent.
    fn reword<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
}

/// Makes a transform from a function.
///
/// ```
/// use contexture_history::{Transforms, Turn, transform};
/// use contexture_message::Message;
///
/// let newest_first = transform("reversed", |turns: Vec<Turn>| turns.into_iter().rev().collect());
/// let turns = vec![Turn::new("t1", vec![Message::user("a")]), Turn::new("t2", vec![Message::user("b")])];
/// let transformed = Transforms::default().then(newest_first).run(turns);
/// assert_eq!(&**transformed.turns[0].id(), "t2");
/// assert_eq!(transformed.changes[0].name, "reversed");
/// ```
pub fn transform(
    name: impl Into<String>,
    rewrite: impl Fn(Vec<Turn>) -> Vec<Turn> + Send + Sync + 'static,
) -> impl Transform + 'static {
    Named { name: name.into(), rewrite }
}

struct Named<F> {
    name: String,
    rewrite: F,
}

impl<F: Fn(Vec<Turn>) -> Vec<Turn> + Send + Sync> Transform for Named<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, turns: Vec<Turn>) -> Vec<Turn> {
        (self.rewrite)(turns)
    }
}

/// Transforms in the order in which they run.
#[derive(Clone, Default)]
pub struct Transforms(Vec<Arc<dyn Transform>>);

/// The result of [`Transforms::run`].
#[derive(Clone, Debug, PartialEq)]
pub struct Transformed {
    /// The rewritten turns.
    pub turns: Vec<Turn>,
    /// What each transform did, in order.
    pub changes: Vec<TransformChange>,
}

/// What one transform did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformChange {
    /// The transform's name.
    pub name: String,
    /// How many messages went in.
    pub before: usize,
    /// How many messages came out.
    pub after: usize,
    /// The ids of the turns that it dropped, oldest first.
    pub left_out: Vec<Arc<str>>,
}

/// A transform that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformPanic {
    /// The transform's name.
    pub name: String,
    /// The panic message, if it was text.
    pub message: String,
}

impl fmt::Display for TransformPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transform `{}` panicked: {}", self.name, self.message)
    }
}

impl std::error::Error for TransformPanic {}

impl Transforms {
    /// Returns the same transforms followed by one more.
    #[must_use]
    pub fn then(mut self, transform: impl Transform + 'static) -> Self {
        self.0.push(Arc::new(transform));
        self
    }

    /// Returns these transforms followed by `others`.
    #[must_use]
    pub fn chain(mut self, others: &Transforms) -> Self {
        self.0.extend(others.0.iter().cloned());
        self
    }

    /// Whether there are no transforms.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs all transforms, left to right.
    pub fn run(&self, turns: Vec<Turn>) -> Transformed {
        let start = Transformed { turns, changes: Vec::new() };
        self.0.iter().fold(start, |before, transform| applied(&**transform, before))
    }

    /// Runs all transforms, left to right. If one panics, returns an error that names it.
    ///
    /// ```
    /// use contexture_history::{Transforms, transform};
    ///
    /// let broken = Transforms::default().then(transform("broken", |_| panic!("no")));
    /// # std::panic::set_hook(Box::new(|_| {}));
    /// let panic = broken.try_run(Vec::new()).expect_err("it panics");
    /// assert_eq!(panic.to_string(), "transform `broken` panicked: no");
    /// ```
    pub fn try_run(&self, turns: Vec<Turn>) -> Result<Transformed, TransformPanic> {
        let start = Transformed { turns, changes: Vec::new() };
        self.0.iter().try_fold(start, |before, transform| {
            // The input was moved into the transform, so no half-made state is visible after a panic.
            caught(&**transform, || applied(&**transform, before))
        })
    }

    /// Rewrites user text that is not part of a turn yet, see [`Transform::reword`].
    pub fn try_reword<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, TransformPanic> {
        self.0.iter().try_fold(Cow::Borrowed(text), |text, transform| {
            let reworded = caught(&**transform, || match transform.reword(&text) {
                Cow::Borrowed(same) if same.len() == text.len() => None,
                other => Some(other.into_owned()),
            })?;
            Ok(reworded.map_or(text, Cow::Owned))
        })
    }
}

fn applied(transform: &dyn Transform, Transformed { turns, mut changes }: Transformed) -> Transformed {
    let (before, ids) = (n_messages(&turns), turns.iter().map(|it| Arc::clone(it.id())).collect());
    let turns = transform.apply(turns);
    let (name, after, left_out) = (transform.name().to_owned(), n_messages(&turns), missing(ids, &turns));
    changes.push(TransformChange { name, before, after, left_out });
    Transformed { turns, changes }
}

/// Returns the ids that no turn has any more. If turns share an id, the older ones are assumed to be gone.
fn missing(mut ids: Vec<Arc<str>>, turns: &[Turn]) -> Vec<Arc<str>> {
    let mut there: HashMap<&str, usize> = HashMap::new();
    turns.iter().for_each(|it| *there.entry(it.id()).or_default() += 1);
    ids.reverse();
    ids.retain(|id| match there.get_mut(&**id) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    ids.reverse();
    ids
}

fn caught<T>(transform: &dyn Transform, run: impl FnOnce() -> T) -> Result<T, TransformPanic> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| TransformPanic {
        name: transform.name().to_owned(),
        message: panic_message(&*payload),
    })
}

/// Returns the panic message, if the payload is text.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

impl fmt::Debug for Transforms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| it.name())).finish()
    }
}

fn n_messages(turns: &[Turn]) -> usize {
    turns.iter().map(|it| it.messages().len()).sum()
}

/// Leaves out thinking, and messages that consist of nothing else.
///
/// A turn in flight keeps it: providers require the thinking of a run along with the results of its tools.
pub fn without_thinking() -> impl Transform + 'static {
    let is_thinking = |it: &Part| matches!(it, Part::Thinking(_));
    let silenced = move |message: &Arc<Message>| {
        if !message.content.iter().any(is_thinking) {
            return Some(Arc::clone(message));
        }
        let content: Vec<Part> = message.content.iter().filter(|it| !is_thinking(it)).cloned().collect();
        (!content.is_empty()).then(|| rewritten(message, content))
    };
    transform("without_thinking", move |turns| {
        let over = |turn: Turn| match turn.status() {
            TurnStatus::InFlight => turn,
            _ => turn.map(silenced),
        };
        turns.into_iter().map(over).collect()
    })
}

/// Replaces images and files, including those in tool results, with a note that counts them.
pub fn without_media() -> impl Transform + 'static {
    let described = |message: &Arc<Message>| match message.content.iter().any(has_media) {
        true => Some(rewritten(message, noted(&message.content))),
        false => Some(Arc::clone(message)),
    };
    transform("without_media", move |turns| turns.into_iter().map(|it| it.map(described)).collect())
}

/// Keeps the newest turns, as a window of `{turns: count}` does.
pub fn last_turns(count: usize) -> impl Transform + 'static {
    transform("last_turns", move |mut turns: Vec<Turn>| {
        let span = newest_turns(&turns, count);
        let newest = turns.split_off(span.first);
        let is_kept = |idx: usize| idx < span.n_leading || Some(idx) == span.older();
        let kept = turns.into_iter().enumerate().filter(|(idx, _)| is_kept(*idx)).map(|(_, it)| it);
        kept.chain(newest).collect()
    })
}

pub(crate) fn rewritten(message: &Message, content: Vec<Part>) -> Arc<Message> {
    Arc::new(Message { role: message.role, content, id: message.id.clone(), name: message.name.clone() })
}

pub(crate) fn has_media(part: &Part) -> bool {
    match part {
        Part::Image(_) | Part::File(_) => true,
        Part::ToolResult(result) => {
            matches!(&result.output, ToolOutput::Content(parts) if parts.iter().any(has_media))
        }
        Part::Text { .. } | Part::Evidence(_) | Part::Thinking(_) | Part::ToolCall(_) => false,
    }
}

/// Returns the parts without images and files, with one note in place of the first of them.
pub(crate) fn noted(parts: &[Part]) -> Vec<Part> {
    let n_images = parts.iter().filter(|it| matches!(it, Part::Image(_))).count();
    let n_files = parts.iter().filter(|it| matches!(it, Part::File(_))).count();
    let mut note = Some(Part::text(media_note(n_images, n_files)));
    let without = |part: &Part| match part {
        Part::Image(_) | Part::File(_) => note.take(),
        Part::ToolResult(result) => {
            let mut result = result.clone();
            if let ToolOutput::Content(parts) = &result.output {
                result.output = ToolOutput::Content(noted(parts));
            }
            Some(Part::ToolResult(result))
        }
        Part::Text { .. } | Part::Evidence(_) | Part::Thinking(_) | Part::ToolCall(_) => Some(part.clone()),
    };
    parts.iter().filter_map(without).collect()
}
