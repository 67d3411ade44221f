//! Resolves the prompt's own texts, before they are merged with those of the entries.

use contexture_message::{Message, Part, Role};
use futures_util::future::{try_join_all, try_join5};

use crate::define::{catch_panic, catch_panic_in};
use crate::evaluated::{OwnPart, OwnText, OwnTexts, OwnUser};
use crate::segment::{SharedText, Volatility};
use crate::stages::setup::Setup;
use crate::{Adaptation, Call, Definition, Error, MessageText, Source, Text, UserMessage, UserPart};

/// Runs the prompt's own functions concurrently.
pub(crate) async fn own_texts(setup: &Setup<'_>, call: &Call) -> Result<OwnTexts, Error> {
    let definition = &setup.prompt.definition;
    let mut system = adapted(setup, |it| it.prepend_system.as_ref());
    system.extend(definition.system.as_ref().map(|it| (Source::Prompt, it)));
    system.extend(adapted(setup, |it| it.append_system.as_ref()));
    let failed = |err| Error::of_function(&Source::Prompt, "the messages", err);
    let all_listed = catch_panic(|| definition.messages.list(call)).map_err(failed)?;
    let (listed, last) = listed_messages(definition, &all_listed);
    let messages = listed.iter().map(|it| (Source::Prompt, &it.text)).collect();
    let section = definition.context_section.iter().map(|it| (Source::Prompt, it)).collect();
    let context = definition.context.iter().map(|it| catch_panic_in(|| it.resolve(call)));
    let failed = |err| Error::of_function(&Source::Prompt, "the context", err);

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
        system.push((Source::Instructions, text));
    }
    Ok(OwnTexts {
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
    adaptations.filter_map(|(key, it)| Some((Source::Adaptation((*key).into()), pick(it)?))).collect()
}

/// Resolves the prompt's own user messages: its user slot, or the text for calls without a user message.
async fn own_user(setup: &Setup<'_>, last: Option<&Text>, call: &Call) -> Result<OwnUser, Error> {
    if let Some(settled) = settled_user(setup) {
        return Ok(settled);
    }
    let definition = &setup.prompt.definition;
    let text = definition.prompt.as_ref().or(last).map(|it| UserMessage::text(it.clone()));
    let (messages, is_slot) = match text {
        Some(text) => (vec![text], false),
        None => (definition.user.clone(), true),
    };
    let texts = messages.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        UserPart::Text(text) => Some((Source::User, text)),
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

/// Returns the prompt's own user text as far as it is known before any async function runs, for contributors that
/// search by it.
pub(crate) fn known_user_text(setup: &Setup<'_>, call: &Call) -> String {
    if let Some(settled) = &setup.options.conversation.user {
        return settled.iter().map(Message::joined_text).collect::<Vec<_>>().join("\n");
    }
    let definition = &setup.prompt.definition;
    let listed = catch_panic(|| definition.messages.list(call)).unwrap_or_default();
    let (_, last) = listed_messages(definition, &listed);
    let slot = definition.user.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        UserPart::Text(text) => Some(text),
        UserPart::Media(_) => None,
    });
    let texts: Vec<&Text> = match definition.prompt.as_ref().or(last) {
        Some(text) => vec![text],
        None => slot.collect(),
    };
    // A text that can't be rendered yet is reported where it is needed.
    let known = texts.into_iter().filter_map(|it| catch_panic(|| it.render_now(call)).ok());
    known.map(|it| it.as_str().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Returns the user messages that were fixed for the turn. Running the functions again could give another text.
pub(crate) fn settled_user(setup: &Setup<'_>) -> Option<OwnUser> {
    let settled = setup.options.conversation.user.as_ref()?;
    let messages = settled.iter().map(|it| it.content.iter().map(ready).collect()).collect();
    Some(OwnUser { messages, is_slot: true, ..OwnUser::default() })
}

fn ready(part: &Part) -> OwnPart {
    match part {
        Part::Text { text, .. } => {
            OwnPart::Text(OwnText::Ready(SharedText::authored(text), Volatility::Turn))
        }
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
    match catch_panic_in(|| async { text.evaluate(call).wait().await }).await {
        Ok(ready) => Ok((source, OwnText::Ready(ready, text.volatility()))),
        Err(err) => Err(Error::of_function(&source, "the text", err)),
    }
}
