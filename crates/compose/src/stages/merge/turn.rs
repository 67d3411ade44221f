//! The messages of the running turn.

use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_message::{Message, Part, Role};

use crate::evaluated::{OwnPart, OwnText, OwnUser};
use crate::segment::{SharedText, Volatility, is_engines, is_of_the_user};
use crate::stages::rewrite::Rewritten;
use crate::{Call, Error, Source};

/// Returns the messages of this turn so far. In a turn from a log, engine tags come from the engine and are kept.
pub(super) fn in_flight(rewritten: &Rewritten<'_>) -> Vec<Arc<Message>> {
    let (turn, plain) = (rewritten.turn.iter(), rewritten.plain.iter());
    let logged = turn.flat_map(|turn| {
        let neutral = |it| if turn.is_neutral() { Arc::clone(it) } else { neutral_message(it) };
        turn.messages().iter().map(neutral)
    });
    logged.chain(plain.map(neutral_message)).filter(|it| !it.is_blank()).collect()
}

/// The prompt's user slot, as it is sent.
pub(super) struct UserSlot {
    pub(super) messages: Vec<Message>,
    pub(super) volatility: Volatility,
    /// Whether the prompt's text is left out because the user says something.
    pub(super) is_replaced: bool,
}

/// Resolves the user slot next to what the user says. Messages that the user says too are left out; the text for
/// calls without a user message is left out if there is one. Adaptations are placed around what remains.
pub(super) fn user_slot(
    user: OwnUser,
    said: &[&Arc<Message>],
    rewritten: &Rewritten<'_>,
    call: &Call,
) -> Result<UserSlot, Error> {
    let OwnUser { before, messages, after, is_slot } = user;
    let mut volatility = Volatility::Static;
    let mut rendered = |source: &Source, text: &OwnText| {
        let (text, of_text) = text.render(source, call)?;
        volatility = volatility.max(of_text);
        Ok::<_, Error>(text)
    };
    let is_replaced = !is_slot && !said.is_empty() && !messages.is_empty();
    let mut kept = Vec::with_capacity(messages.len());
    for parts in messages.into_iter().filter(|_| !is_replaced) {
        let mut message = Message::parts(Role::User, Vec::with_capacity(parts.len()));
        for part in parts {
            message.content.push(match part {
                OwnPart::Media(part) => part,
                OwnPart::Text(text) => {
                    let text = rendered(&Source::User, &text)?;
                    Part::text(rewritten.reword(text.as_str().to_owned())?)
                }
            });
        }
        let message = Arc::unwrap_or_clone(neutral_message(&Arc::new(message)));
        if !message.is_blank() && !said.iter().any(|it| is_said(it, &message)) {
            kept.push(message);
        }
    }
    let mut adaptation = |texts: Vec<(Source, OwnText)>| {
        let texts = texts.iter().map(|(source, text)| rendered(source, text));
        texts.collect::<Result<Vec<SharedText>, Error>>()
    };
    let (before, after) = (adaptation(before)?, adaptation(after)?);
    let messages = surrounded(before, kept, after, rewritten)?;
    Ok(UserSlot { messages, volatility, is_replaced })
}

/// Puts texts before the first text and after the last.
fn surrounded(
    before: Vec<SharedText>,
    mut messages: Vec<Message>,
    after: Vec<SharedText>,
    rewritten: &Rewritten<'_>,
) -> Result<Vec<Message>, Error> {
    let is_blank = |texts: &[SharedText]| texts.iter().all(|it| it.trim().is_empty());
    if is_blank(&before) && is_blank(&after) {
        return Ok(messages);
    }
    if messages.is_empty() {
        messages.push(Message::parts(Role::User, Vec::new()));
    }
    let own = |part: Option<&mut Part>| match part {
        Some(Part::Text { text, .. }) => Some(std::mem::take(text)),
        _ => None,
    };
    if let Some(first) = messages.first_mut().filter(|_| !is_blank(&before)) {
        let text = own(first.content.first_mut());
        let whole = joined(before.iter().map(SharedText::as_str).chain(text.as_deref()));
        first.content.splice(..usize::from(text.is_some()), [Part::text(rewritten.reword(whole)?)]);
    }
    if let Some(last) = messages.last_mut().filter(|_| !is_blank(&after)) {
        let text = own(last.content.last_mut());
        let whole = joined(text.as_deref().into_iter().chain(after.iter().map(SharedText::as_str)));
        let place = last.content.len() - usize::from(text.is_some());
        last.content.splice(place.., [Part::text(rewritten.reword(whole)?)]);
    }
    Ok(messages)
}

/// Joins pieces with blank lines. A piece that starts with one does not get a second.
fn joined<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    let mut whole = String::new();
    for piece in pieces.filter(|it| !it.trim().is_empty()) {
        if whole.is_empty() {
            whole.push_str(piece);
        } else {
            whole.push_str("\n\n");
            let piece = piece.strip_prefix("\n\n").or_else(|| piece.strip_prefix('\n')).unwrap_or(piece);
            whole.push_str(piece);
        }
    }
    whole
}

/// Returns whether the user's message says the same as the prompt's, ignoring what the engine appended. The user's
/// attachments make no difference; those of the prompt do if the user has others.
fn is_said(said: &Message, own: &Message) -> bool {
    let (theirs, ours) = (texts(said), texts(own));
    let is_same = [theirs.concat(), theirs.join("\n")].iter().any(|it| it.trim() == ours.concat().trim());
    let mut media = own.content.iter().filter(|it| !matches!(it, Part::Text { .. }));
    is_same && media.all(|it| said.content.contains(it))
}

fn texts(message: &Message) -> Vec<&str> {
    let words = message.content.iter().filter(|it| !is_engines(it));
    words.filter_map(|it| if let Part::Text { text, .. } = it { Some(text.as_str()) } else { None }).collect()
}

/// Splits the messages in flight after the user messages that began the turn.
pub(super) fn split_words(mut messages: Vec<Arc<Message>>) -> (Vec<Arc<Message>>, Vec<Arc<Message>>) {
    let spoken = messages.iter().position(|it| it.role != Role::User && it.role != Role::System);
    let begun = &messages[..spoken.unwrap_or(messages.len())];
    let end = begun.iter().rposition(|it| is_of_the_user(it)).map_or(0, |it| it + 1);
    let rest = messages.split_off(end);
    (messages, rest)
}
