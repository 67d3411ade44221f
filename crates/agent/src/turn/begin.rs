//! Begins a turn for a request, or recovers the one that an earlier run began with the same key.

use std::sync::Arc;

use contexture_compose::{Pass, Prompt};
use contexture_message::{Message, Role};
use contexture_session::{Begun, NewItem, Thread, TurnConfig};
use tokio_util::sync::CancellationToken;

use super::Entered;
use super::executor::{Executor, NextPass, Opened, Since, limits_of};
use super::opening::{Opening, open_with_room};
use super::recover::{Recovery, is_known, recover, replayed};
use super::state::{Origin, TurnState};
use crate::AgentError;
use crate::agent::Inner;
use crate::beside::event_record;
use crate::compaction::caps;
use crate::event::Sink;
use crate::request::{CacheState, Resolver, is_thawed, reminders_envelope};
use crate::skills::LoadedSkill;
use crate::spec::{ResumePolicy, RunRequest, check_attachments};

/// Begins the turn of a request.
pub(super) async fn begin(
    agent: Arc<Inner>,
    prompt: Prompt,
    thread: Thread,
    request: RunRequest,
    sink: Sink,
) -> Result<Entered, AgentError> {
    let RunRequest {
        spec,
        user,
        items,
        blocks,
        attachments,
        visibility,
        reminders,
        skills,
        refresh,
        key,
        resume,
        policy,
        after,
        cancel,
    } = request;
    spec.check()?;
    check_attachments(&attachments)?;
    let visibility = visibility.or(prompt.definition().visibility);
    // User input always gets the user role, whatever role the caller set. A blank message counts as none.
    let is_blank = user.as_ref().is_some_and(Message::is_blank);
    let user = user.filter(|_| !is_blank).map(|it| Message { role: Role::User, ..it });
    let cache = CacheState { refresh, ..CacheState::default() };
    let mut resolver = Resolver { blocks, attachments, cache, ..Resolver::new(agent, prompt, spec) };
    let place = thread.clone().with_policy(policy);
    let recovery = resume.map(|policy| Recovery { policy, has_user: user.is_some() });
    if is_known(&place, key.as_deref(), &cancel).await? {
        // The log already has the input of this turn, so it is not resolved or guarded as if it were new.
        if recovery.is_some() {
            resolver.named_tools()?;
            resolver.check_client_tools(&place.get()).await?;
            resolver.read_state(&place, &*place.refresh().await?);
        }
        let config = TurnConfig { key, resume: recovery.is_some(), policy, ..TurnConfig::default() };
        let closing = Recovery { policy: ResumePolicy::CloseCalls, has_user: user.is_some() };
        return match begun(&thread, config, &cancel).await? {
            Begun::Replayed(outcome) => Ok(Entered::Replayed(Box::new(replayed(&resolver.prompt, outcome)))),
            // Keys are never forgotten, so this cannot be a new turn.
            Begun::Resumed(turn) | Begun::Running(turn) => {
                recover(resolver, turn, recovery.unwrap_or(closing), (sink, cancel)).await
            }
        };
    }
    let opened = async {
        resolver.check_client_tools(&place.get()).await?;
        let user = resolver.said(&place.get(), user).await?;
        open_with_room(&mut resolver, &place, user, &skills, &sink, &cancel).await
    };
    let opened = cancel.run_until_cancelled(opened).await;
    let (Opening { before, aged, pass, user, mut remarks }, compactions) =
        opened.ok_or(AgentError::Cancelled)??;

    let reminders = reminders_envelope(&reminders, &mut remarks);
    let n_shown = items.iter().filter(|it| it.is_shown_to_model()).count();
    let enclosed: Vec<NewItem> = resolver.skill_envelopes().into_iter().map(NewItem::from).collect();
    let events = pass.extras().events.clone();
    let is_any_added = n_shown + enclosed.len() + events.len() > 0 || reminders.is_some();
    // A run that names no message may let the model speak again; a blank one was meant to say something.
    if is_blank && user.is_empty() && !is_any_added && !before.turns().is_empty() && ends_in_answer(&pass) {
        let reason =
            "it is empty, and the thread ends with an answer: there is nothing for the model to answer";
        return Err(AgentError::RequestInvalid { at: "user".to_owned(), reason: reason.to_owned() });
    }
    let n_hidden = n_shown
        + usize::from(reminders.is_some())
        + usize::from(aged.is_some())
        + enclosed.len()
        + events.len();
    let own = pass.envelope().into_iter().chain(pass.reminders()).map(NewItem::from);
    let opening = opening_items(user, own.chain(reminders).chain(enclosed)).chain(items);
    // From here on, the thread has them.
    let loaded = std::mem::take(&mut resolver.skills).changed;
    let loaded = loaded.iter().map(LoadedSkill::record);
    // The shortened views of this pass are recorded with the turn that needs them.
    let caps = resolver.caps.take().map(|it| caps::record(&it));
    let warnings = remarks.iter().map(|it| event_record(&it.event()));
    let events = events.into_iter().map(NewItem::from);
    let before_user = aged.into_iter().chain(caps).chain(loaded).chain(events);
    let items: Vec<NewItem> = before_user.chain(opening).chain(warnings).collect();
    let (n_items, author) = (items.len() as u64, resolver.spec.scope.user.clone());
    let config = TurnConfig { key, resume: resume.is_some(), policy, after, items, visibility, author };
    let turn = match (begun(&thread, config, &cancel).await?, recovery) {
        // Another process began the turn in the meantime and was lost.
        (Begun::Resumed(turn), Some(recovery)) => {
            return recover(resolver, turn, recovery, (sink, cancel)).await;
        }
        (Begun::Running(turn) | Begun::Resumed(turn), _) => turn,
        (Begun::Replayed(outcome), _) => {
            return Ok(Entered::Replayed(Box::new(replayed(&resolver.prompt, outcome))));
        }
    };
    // The pass is still valid unless another writer appended something, the turn adds hidden context that the pass
    // does not include, or beginning this turn ended one that was open.
    let now = turn.snapshot();
    let n_ended = u64::from(before.state().open.is_some());
    let end = before.state().end.plus(n_ended + 1 + n_items);
    let is_next = turn.thread().id() == thread.id() && now.state().end == end;
    let since = match n_ended == 0 && is_next {
        true if n_hidden == 0 => Since::Nothing,
        true => Since::HiddenContext,
        false => Since::OtherWriter,
    };
    let frozen = if is_next { resolver.to_freeze(&before, &pass) } else { Vec::new() };
    resolver.cache.is_frozen = is_next;
    if !is_next {
        // The other writer may have frozen the prefix and refreshed the provider's cache.
        resolver.cache.idle = None;
        resolver.cache.refresh = refresh || is_thawed(&now);
    }
    let state = TurnState::replay(&[], Origin::Begun, limits_of(&resolver));
    let pass = NextPass::Opened(Box::new(Opened { pass, frozen, since }));
    let executor = Executor::new(resolver, turn, state, pass, (sink, cancel));
    Ok(Entered::Running(Box::new(executor.after(compactions, remarks))))
}

/// Begins a turn, after any other turn that runs on the thread.
async fn begun(thread: &Thread, config: TurnConfig, cancel: &CancellationToken) -> Result<Begun, AgentError> {
    let begun = cancel.run_until_cancelled(thread.begin(config)).await;
    Ok(begun.ok_or(AgentError::Cancelled)??)
}

/// Returns the items that open a turn. The hidden envelopes follow the first message.
fn opening_items(
    user: Vec<Message>,
    envelopes: impl Iterator<Item = NewItem>,
) -> impl Iterator<Item = NewItem> {
    let mut user = user.into_iter().map(NewItem::from);
    user.next().into_iter().chain(envelopes).chain(user)
}

/// Whether the model spoke last in a request.
fn ends_in_answer(pass: &Pass) -> bool {
    pass.request().messages.last().is_some_and(|it| it.role == Role::Assistant)
}
