//! Reminders for one turn, in a separate hidden envelope.

use std::sync::Arc;

use contexture_compose::{InFlightTurn, Pass, Prompt, ResolveOptions};
use contexture_history::{
    Body, Cost, Envelope, EnvelopeTag, Item, Seq, Timestamp, Turn, TurnNo, TurnStatus, Visibility,
};
use contexture_message::{Message, Tokens};
use contexture_session::NewItem;

use crate::event::Remark;

const MOST: usize = 16;
const MOST_CHARS: usize = 2_000;

/// Returns the envelope with the reminders, if there are any. Adds a remark for each one that was cut or left out.
pub(crate) fn envelope(reminders: &[String], remarks: &mut Vec<Remark>) -> Option<NewItem> {
    text(reminders, remarks).map(|it| NewItem::envelope(EnvelopeTag::SystemReminders, it))
}

/// Resolves a prompt as a run with these reminders would: the result is what would be sent. The user's message, if
/// any, is in `turn` or `in_flight` of the conversation.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_agent::resolve_reminded;
/// use contexture_compose::{InFlightTurn, Prompt, ResolveOptions};
/// use contexture_history::Turn;
/// use contexture_message::Message;
///
/// let prompt = Prompt::builder("p").system("Be kind.").build()?;
/// let turn = Turn::new("in_flight", vec![Message::user("hi")]);
/// let options = ResolveOptions::default().turn(InFlightTurn::New(turn));
/// let pass = resolve_reminded(&prompt, options, &["Be brief.".to_owned()]).await?;
/// assert_eq!(pass.request().messages[1].content.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn resolve_reminded(
    prompt: &Prompt,
    mut options: ResolveOptions,
    reminders: &[String],
) -> Result<Pass, contexture_compose::Error> {
    if text(reminders, &mut Vec::new()).is_none() {
        return prompt.resolve(options).await;
    }
    // A turn with reminders is resolved as it will be recorded: with the envelope of its blocks, then that of the
    // reminders.
    let pass = prompt.resolve(options.clone()).await?;
    let conversation = &mut options.conversation;
    let messages = conversation.turn.as_ref().map(|it| it.turn().messages()).unwrap_or_default();
    let messages: Vec<Message> =
        messages.iter().chain(&conversation.in_flight).map(|it| (**it).clone()).collect();
    let number = TurnNo(conversation.history.len() as u64 + 1);
    let Some(turn) = recorded(number, &messages, &pass, reminders, &[]) else { return Ok(pass) };
    conversation.in_flight.clear();
    options.additions.blocks.clear();
    prompt.resolve(options.turn(InFlightTurn::Recorded(turn))).await
}

/// Returns a turn as it will be recorded with its reminders and further envelopes: the events of the pass, its
/// messages, the envelopes of the pass, then those. Returns nothing if the pass alone has everything.
pub(crate) fn recorded(
    number: TurnNo,
    messages: &[Message],
    pass: &Pass,
    reminders: &[String],
    enclosed: &[Envelope],
) -> Option<Turn> {
    let reminders = text(reminders, &mut Vec::new());
    let events = &pass.extras().events;
    if reminders.is_none() && enclosed.is_empty() && events.is_empty() {
        return None;
    }
    let events = events.iter().cloned().map(Body::SystemEvent);
    let messages = messages.iter().map(|it| Body::Message(Arc::new(it.clone())));
    let reminders = reminders.map(|it| Envelope::text(EnvelopeTag::SystemReminders, it));
    let own = pass.envelope().into_iter().chain(pass.reminders());
    let enclosed = own.chain(reminders).chain(enclosed.iter().cloned()).map(Body::Envelope);
    let mut turn = Turn::start(number);
    events.chain(messages).chain(enclosed).for_each(|it| turn.apply(&uncounted(it)));
    Some(turn.with_status(TurnStatus::InFlight))
}

/// Returns an item without a token count: the pass counts it.
fn uncounted(body: Body) -> Item {
    let cost = Cost { counter: Arc::from(""), tokens: Tokens(0) };
    let (seq, turn, at) = (Seq(1), TurnNo(1), Timestamp(0));
    Item { seq, turn, visibility: Visibility::BOTH, cost, author: None, at, body }
}

fn text(reminders: &[String], remarks: &mut Vec<Remark>) -> Option<String> {
    let given: Vec<&str> = reminders.iter().map(|it| it.trim()).filter(|it| !it.is_empty()).collect();
    if given.len() > MOST {
        remarks.push(remark(format!("{} reminders are left out, {MOST} are allowed", given.len() - MOST)));
    }
    let lines: Vec<String> = given.iter().take(MOST).map(|it| clipped(it, remarks)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn clipped(text: &str, remarks: &mut Vec<Remark>) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => {
            remarks.push(remark(format!("a reminder is cut: {MOST_CHARS} characters are allowed")));
            format!("{}…", &text[..end])
        }
    }
}

fn remark(message: String) -> Remark {
    Remark { source: "reminders".to_owned(), message }
}
