//! Context providers that most prompts want. Their texts are in `templates/`.

use contexture_message::{Message, Role};

use crate::segment::Volatility;
use crate::{Call, ContextProvider, OnError, Text};

/// Returns a provider that states who the assistant is or acts for, and today's date.
///
/// The date is that of [`Scope::now`](crate::Scope::now), without the time of day, so that the request begins with
/// the same bytes until midnight. Without a time the date is left out, and without an identity so is the identity.
/// The identity may be a template; if it fails, the pass fails.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_compose::{Prompt, ResolveOptions, Scope, identity_and_date};
///
/// let prompt = Prompt::builder("p").provider(identity_and_date("You act for the Acme help desk.")).build()?;
/// let scope = Scope { now: Some("2026-03-01T08:30:00Z".into()), ..Scope::default() };
/// let pass = prompt.resolve(ResolveOptions::default().scope(scope)).await?;
/// let said = pass.request().messages[0].as_text();
/// assert_eq!(said, Some("You act for the Acme help desk.\nToday's date is 2026-03-01."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn identity_and_date(identity: impl Into<Text>) -> ContextProvider {
    let identity: Text = identity.into();
    let volatility = identity.volatility().max(Volatility::Conversation);
    let provider = ContextProvider::new("identity", move |call: Call, _| {
        let identity = identity.clone();
        async move { Ok(said(&identity.evaluate(&call).wait_original().await?, &call)) }
    });
    provider.volatility(volatility).on_error(OnError::Fail)
}

/// Returns a provider that puts one text before the history, as a message of a role. Its text may be a template; if it
/// fails, the pass fails. A blank text adds no message.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_compose::{Prompt, ResolveOptions, Text, text_provider};
/// use contexture_message::Role;
///
/// let notice = text_provider("notice", Role::System, Text::template("Maintenance on {{ input.day }}.")?);
/// let prompt = Prompt::builder("p").provider(notice).build()?;
/// let pass = prompt.resolve(ResolveOptions::new(serde_json::json!({"day": "Monday"}))).await?;
/// assert_eq!(pass.request().messages[0].as_text(), Some("Maintenance on Monday."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub fn text_provider(name: impl Into<String>, role: Role, text: impl Into<Text>) -> ContextProvider {
    let text: Text = text.into();
    let volatility = text.volatility();
    let provider = ContextProvider::new(name, move |call: Call, _| {
        let text = text.clone();
        async move {
            let text = text.resolve(&call).await?;
            let message = (!text.trim().is_empty()).then(|| Message::text(role, text));
            Ok(message.into_iter().collect())
        }
    });
    provider.volatility(volatility).on_error(OnError::Fail)
}

fn said(identity: &str, call: &Call) -> Vec<Message> {
    let date = call.scope.now.as_deref().and_then(date).map(date_text);
    let identity = Some(identity.trim().to_owned()).filter(|it| !it.is_empty());
    let lines: Vec<String> = identity.into_iter().chain(date).collect();
    if lines.is_empty() { Vec::new() } else { vec![Message::system(lines.join("\n"))] }
}

fn date_text(date: &str) -> String {
    include_str!("templates/date.txt").trim_end().replace("{date}", date)
}

/// Returns the date part of an RFC 3339 time, unchanged.
fn date(now: &str) -> Option<&str> {
    let date = now.trim_start().get(..10)?;
    let is_date = date.bytes().enumerate().all(|(idx, it)| match idx {
        4 | 7 => it == b'-',
        _ => it.is_ascii_digit(),
    });
    is_date.then_some(date)
}
