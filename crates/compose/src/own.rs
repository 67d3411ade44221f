//! The prompt's own texts, before they are joined with the entries'.

use contexture_message::Role;
use futures::future::{try_join_all, try_join5};
use serde_json::Value;

use crate::define::Around;
use crate::panics::caught_in;
use crate::segment::{SharedText, Volatility};
use crate::setup::Setup;
use crate::{Call, Definition, Error, MessageText, Source, Text};

/// What the prompt itself says.
pub(crate) struct Own {
    /// The system text with the adaptations around it.
    pub(crate) system: Vec<(Source, OwnText)>,
    /// The user text with the adaptations around it.
    pub(crate) user: Vec<(Source, OwnText)>,
    /// The prompt's own list of messages, without the one that is this turn's.
    pub(crate) messages: Vec<(Role, OwnText)>,
    /// What takes the place of the tag block.
    pub(crate) section: Option<OwnText>,
    /// The values of the context slot, and how often they change.
    pub(crate) context: Vec<(Value, Volatility)>,
}

impl Own {
    /// Whether any text still waits for what only `merge` knows.
    pub(crate) fn has_templates(&self) -> bool {
        let own = self.system.iter().chain(&self.user).map(|(_, text)| text);
        let listed = self.messages.iter().map(|(_, text)| text).chain(&self.section);
        own.chain(listed).any(|it| matches!(it, OwnText::Template(_)))
    }
}

/// A text that is there, or a template that waits for what only `merge` knows.
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
                let rendered =
                    text.render_now(call).map_err(|err| Error::of_function(owner, "the text", err))?;
                Ok((rendered, text.volatility()))
            }
        }
    }
}

/// Runs the prompt's own functions, all at once.
pub(crate) async fn own_texts(setup: &Setup<'_>, call: &Call) -> Result<Own, Error> {
    let definition = setup.prompt.definition();
    let system = around(setup, definition.system.as_ref(), Source::prompt(), |it| &it.system);
    let (listed, last) = listed_messages(definition);
    let user_text = definition.prompt.as_ref().or(definition.user.as_ref()).or(last);
    let user = match &setup.options.user {
        // The turn has its text: another run of the function could give another one.
        Some(_) => Vec::new(),
        None => around(setup, user_text, Source::user(), |it| &it.prompt),
    };
    let messages = listed.iter().map(|it| (Source::prompt(), &it.text)).collect();
    let section = definition.context_section.iter().map(|it| (Source::prompt(), it)).collect();
    let context = definition.context.iter().map(|it| caught_in(|| it.evaluate(call)));
    let failed = |err| Error::of_function(&Source::prompt(), "the context", err);

    let (system, user, messages, section, context) =
        try_join5(all(system, call), all(user, call), all(messages, call), all(section, call), async {
            try_join_all(context).await.map_err(failed)
        })
        .await?;
    let roles = listed.iter().map(|it| it.role);
    let volatility = definition.context.iter().map(crate::TagValue::volatility);
    let mut system = system;
    if let Some(text) = setup.options.instructions.as_deref().filter(|it| !it.trim().is_empty()) {
        let text = OwnText::Ready(SharedText::authored(text), Volatility::Conversation);
        system.push((Source::instructions(), text));
    }
    let mut user = user;
    if let Some(text) = &setup.options.user {
        user.push((Source::user(), OwnText::Ready(SharedText::authored(text), Volatility::Turn)));
    }
    Ok(Own {
        system,
        user,
        messages: roles.zip(messages.into_iter().map(|(_, text)| text)).collect(),
        section: section.into_iter().next().map(|(_, text)| text),
        context: context.into_iter().zip(volatility).collect(),
    })
}

/// Splits the prompt's own list: a user message at its end is this turn's, if nothing else is.
fn listed_messages(definition: &Definition) -> (&[MessageText], Option<&Text>) {
    match definition.messages.split_last() {
        Some((last, rest)) if last.role == Role::User && definition.user.is_none() => {
            (rest, Some(&last.text))
        }
        _ => (&definition.messages, None),
    }
}

/// Puts the adaptations around a text, the least specific first.
fn around<'a>(
    setup: &Setup<'a>,
    text: Option<&'a Text>,
    source: Source,
    pick: impl Fn(&'a crate::Adaptation) -> &'a Around,
) -> Vec<(Source, &'a Text)> {
    let adaptations =
        || setup.adaptations.iter().map(|(key, it)| (Source::named("adaptation", key), pick(it)));
    let before = adaptations().filter_map(|(source, it)| Some((source, it.prepend.as_ref()?)));
    let after = adaptations().filter_map(|(source, it)| Some((source, it.append.as_ref()?)));
    before.chain(text.map(|it| (source, it))).chain(after).collect()
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
