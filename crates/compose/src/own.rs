//! The prompt's own texts, before they are merged with those of the entries.

use contexture_message::{Part, Role};
use futures::future::{try_join_all, try_join5};
use serde_json::Value;

use crate::panics::{caught, caught_in};
use crate::segment::{SharedText, Volatility};
use crate::setup::Setup;
use crate::tags::block_tag_name;
use crate::{Adaptation, Call, Definition, Error, MessageText, Source, Text, UserMessage, UserPart};

/// The prompt's own texts and values.
#[derive(Clone)]
pub(crate) struct Own {
    /// The system text with the adaptations around it.
    pub(crate) system: Vec<(Source, OwnText)>,
    /// The user slot, or the text for calls without a user message.
    pub(crate) user: OwnUser,
    /// The prompt's own list of messages, without the one that is this turn's user message.
    pub(crate) messages: Vec<(Role, OwnText)>,
    /// The text that replaces the tag block.
    pub(crate) section: Option<OwnText>,
    /// The values of the context slot, and how often they change.
    pub(crate) context: Vec<(Value, Volatility)>,
}

impl Own {
    /// Returns whether any text is a template that only `merge` can render.
    pub(crate) fn has_templates(&self) -> bool {
        let own = self.system.iter().map(|(_, text)| text);
        let listed = self.messages.iter().map(|(_, text)| text).chain(&self.section);
        own.chain(self.user.texts()).chain(listed).any(|it| matches!(it, OwnText::Template(_)))
    }
}

/// The prompt's own user messages, with the adaptations around them.
#[derive(Clone, Default)]
pub(crate) struct OwnUser {
    pub(crate) before: Vec<(Source, OwnText)>,
    pub(crate) messages: Vec<Vec<OwnPart>>,
    pub(crate) after: Vec<(Source, OwnText)>,
    /// Whether it is sent next to what the user says. If not, it is only for calls without a user message.
    pub(crate) is_slot: bool,
}

impl OwnUser {
    fn texts(&self) -> impl Iterator<Item = &OwnText> {
        let parts = self.messages.iter().flatten().filter_map(|it| match it {
            OwnPart::Text(text) => Some(text),
            OwnPart::Media(_) => None,
        });
        self.before.iter().chain(&self.after).map(|(_, text)| text).chain(parts)
    }
}

/// A part of the prompt's own user messages.
#[derive(Clone)]
pub(crate) enum OwnPart {
    Text(OwnText),
    Media(Part),
}

/// An evaluated text, or a template that only `merge` can render.
#[derive(Clone)]
pub(crate) enum OwnText {
    Ready(SharedText, Volatility),
    Template(Text),
}

impl OwnText {
    /// Returns the text and how often it changes.
    pub(crate) fn render(&self, owner: &Source, call: &Call) -> Result<(SharedText, Volatility), Error> {
        match self {
            OwnText::Ready(text, volatility) => Ok((text.clone(), *volatility)),
            OwnText::Template(text) => {
                let spelled = spelled(text, call);
                let call = spelled.as_ref().unwrap_or(call);
                let rendered =
                    text.render_now(call).map_err(|err| Error::of_function(owner, "the text", err))?;
                Ok((rendered, text.volatility()))
            }
        }
    }
}

/// Returns the call with the keys of `config.context` as the text spells them: `userPreferences` is
/// `user-preferences`. Returns `None` if all are spelled like their tags, or if the text iterates over the whole map,
/// where each key must occur once.
fn spelled(text: &Text, call: &Call) -> Option<Call> {
    let known = call.config.get("context")?.as_object().filter(|it| !it.is_empty())?;
    let reads = text.variables_in_all();
    let in_context =
        |it: &[String]| matches!(it, [config, context, ..] if config == "config" && context == "context");
    if reads.iter().any(|it| in_context(it) && it.len() == 2) {
        return None;
    }
    let keys = reads.iter().filter(|it| in_context(it)).filter_map(|it| it.get(2));
    let other = keys.filter(|it| !known.contains_key(*it)).filter_map(|key| {
        let value = known.get(&block_tag_name(key).ok()?)?;
        Some((key.clone(), value.clone()))
    });
    let other: Vec<(String, Value)> = other.collect();
    if other.is_empty() {
        return None;
    }
    let mut config = (*call.config).clone();
    if let Some(context) = config.get_mut("context").and_then(Value::as_object_mut) {
        context.extend(other);
    }
    Some(call.with_config(config))
}

/// Runs the prompt's own functions concurrently.
pub(crate) async fn own_texts(setup: &Setup<'_>, call: &Call) -> Result<Own, Error> {
    let definition = setup.prompt.definition();
    let mut system = adapted(setup, |it| it.prepend_system.as_ref());
    system.extend(definition.system.as_ref().map(|it| (Source::prompt(), it)));
    system.extend(adapted(setup, |it| it.append_system.as_ref()));
    let failed = |err| Error::of_function(&Source::prompt(), "the messages", err);
    let all_listed = caught(|| definition.messages.list(call)).map_err(failed)?;
    let (listed, last) = listed_messages(definition, &all_listed);
    let messages = listed.iter().map(|it| (Source::prompt(), &it.text)).collect();
    let section = definition.context_section.iter().map(|it| (Source::prompt(), it)).collect();
    let context = definition.context.iter().map(|it| caught_in(|| it.evaluate(call)));
    let failed = |err| Error::of_function(&Source::prompt(), "the context", err);

    let (system, user, messages, section, context) = try_join5(
        all(system, call),
        own_user(setup, last, call),
        all(messages, call),
        all(section, call),
        async { try_join_all(context).await.map_err(failed) },
    )
    .await?;
    let roles = listed.iter().map(|it| it.role);
    let volatility = definition.context.iter().map(crate::TagValue::volatility);
    let mut system = system;
    if let Some(text) = setup.options.conversation.instructions.as_deref().filter(|it| !it.trim().is_empty())
    {
        let text = OwnText::Ready(SharedText::authored(text), Volatility::Conversation);
        system.push((Source::instructions(), text));
    }
    Ok(Own {
        system,
        user,
        messages: roles.zip(messages.into_iter().map(|(_, text)| text)).collect(),
        section: section.into_iter().next().map(|(_, text)| text),
        context: context.into_iter().zip(volatility).collect(),
    })
}

/// Splits the prompt's own list: a user message at its end is this turn's, if the prompt has no user slot.
fn listed_messages<'a>(
    definition: &Definition,
    messages: &'a [MessageText],
) -> (&'a [MessageText], Option<&'a Text>) {
    match messages.split_last() {
        Some((last, rest)) if last.role == Role::User && definition.user.is_empty() => {
            (rest, Some(&last.text))
        }
        _ => (messages, None),
    }
}

/// Lists the texts of the adaptations, the least specific first.
fn adapted<'a>(
    setup: &Setup<'a>,
    pick: impl Fn(&'a Adaptation) -> Option<&'a Text>,
) -> Vec<(Source, &'a Text)> {
    let adaptations = setup.adaptations.iter();
    adaptations.filter_map(|(key, it)| Some((Source::named("adaptation", key), pick(it)?))).collect()
}

/// Resolves the prompt's own user messages: its user slot, or the text for calls without a user message.
async fn own_user(setup: &Setup<'_>, last: Option<&Text>, call: &Call) -> Result<OwnUser, Error> {
    if let Some(settled) = settled_user(setup) {
        return Ok(settled);
    }
    let definition = setup.prompt.definition();
    let text = definition.prompt.as_ref().or(last).map(|it| UserMessage::text(it.clone()));
    let (messages, is_slot) = match text {
        Some(text) => (vec![text], false),
        None => (definition.user.clone(), true),
    };
    let texts = messages.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        UserPart::Text(text) => Some((Source::user(), text)),
        UserPart::Media(_) => None,
    });
    let texts = all(texts.collect(), call).await?;
    let mut texts = texts.into_iter().map(|(_, text)| text);
    let mut part = |it: &UserPart| match it {
        UserPart::Text(_) => texts.next().map(OwnPart::Text),
        UserPart::Media(part) => Some(OwnPart::Media(part.clone())),
    };
    let messages = messages.iter().map(|it| it.content.iter().filter_map(&mut part).collect()).collect();
    let before = all(adapted(setup, |it| it.prepend_prompt.as_ref()), call).await?;
    let after = all(adapted(setup, |it| it.append_prompt.as_ref()), call).await?;
    Ok(OwnUser { before, messages, after, is_slot })
}

/// Returns the user messages that were fixed for the turn. Running the functions again could give another text.
pub(crate) fn settled_user(setup: &Setup<'_>) -> Option<OwnUser> {
    let settled = setup.options.conversation.user.as_ref()?;
    let messages = settled.iter().map(|it| it.content.iter().map(ready).collect()).collect();
    Some(OwnUser { messages, is_slot: true, ..OwnUser::default() })
}

fn ready(part: &Part) -> OwnPart {
    match part {
        Part::Text { text } => OwnPart::Text(OwnText::Ready(SharedText::authored(text), Volatility::Turn)),
        media => OwnPart::Media(media.clone()),
    }
}

async fn all(texts: Vec<(Source, &Text)>, call: &Call) -> Result<Vec<(Source, OwnText)>, Error> {
    try_join_all(texts.into_iter().map(|(source, text)| one(source, text, call))).await
}

async fn one(source: Source, text: &Text, call: &Call) -> Result<(Source, OwnText), Error> {
    if text.is_template() {
        return Ok((source, OwnText::Template(text.clone())));
    }
    match caught_in(|| async { text.evaluate(call).wait().await }).await {
        Ok(ready) => Ok((source, OwnText::Ready(ready, text.volatility()))),
        Err(err) => Err(Error::of_function(&source, "the text", err)),
    }
}
