//! The input of a turn: resolved and guarded before anything is written. A request that can't be sent leaves no trace.

use std::sync::Arc;

use contexture_compose::{InFlightTurn, Pass};
use contexture_history::Turn;
use contexture_message::{Message, Role};
use contexture_session::{NewItem, Snapshot, Thread};
use tokio_util::sync::CancellationToken;

use super::items::own_messages;
use crate::AgentError;
use crate::event::{Remark, Sink};
use crate::relief::{Compactions, LogWriter, MAX_RUNGS, Relief, overflow};
use crate::request::Resolver;

/// The input of a turn, resolved and guarded.
pub(crate) struct Opening {
    /// The thread before the turn.
    pub(crate) before: Arc<Snapshot>,
    /// The record of items that count as old from now on.
    pub(crate) aged: Option<NewItem>,
    pub(crate) pass: Pass,
    pub(crate) user: Vec<Message>,
    pub(crate) remarks: Vec<Remark>,
}

/// Opens a turn. If the required content does not fit, makes room for it first.
pub(crate) async fn open_with_room(
    resolver: &mut Resolver,
    thread: &Thread,
    user: Option<Message>,
    skills: &[String],
    sink: &Sink,
    cancel: &CancellationToken,
) -> Result<(Opening, Compactions), AgentError> {
    let before = thread.get();
    resolver.read_state(thread, &before);
    resolver.load_skills(&before, skills).await?;
    let aged = resolver.age(thread, None).await?;
    let mut opened = open(resolver, &before, user.clone()).await.map(|it| Opening { aged, ..it });
    let mut done = Compactions::default();
    for _ in 0..MAX_RUNGS {
        let Some(overflow) = opened.as_ref().err().and_then(overflow) else { break };
        let unrecorded = user.as_ref().map(|it| unrecorded_turn(&thread.get(), std::slice::from_ref(it)));
        let log = LogWriter::Thread(thread);
        let mut relief = Relief { resolver, log, unrecorded, cancel, sink, done: &mut done };
        if !relief.step(overflow).await? && !resolver.ignore_learned() {
            break;
        }
        opened = open(resolver, &thread.get(), user.clone()).await;
    }
    Ok((opened?, done))
}

/// Resolves the prompt and guards the input: the user's message and the prompt's own messages. Without a user message,
/// the prompt's own messages take its place. Both are fixed for the whole turn, so that no later pass brings back what
/// a guardrail removed.
pub(crate) async fn open(
    resolver: &mut Resolver,
    before: &Arc<Snapshot>,
    user: Option<Message>,
) -> Result<Opening, AgentError> {
    let given: Vec<Message> = user.into_iter().collect();
    let pass = resolver.resolve(before, InFlightTurn::New(unrecorded_turn(before, &given)), None).await?;
    resolver.check_tools(&pass)?;
    let own = own_messages(&pass);
    let (mut user, own) = if given.is_empty() { (own, Vec::new()) } else { (given, own) };
    let mut remarks = Vec::new();
    if user.is_empty() {
        // Guardrails also run for a turn without any input.
        user.push(Message::parts(Role::User, Vec::new()));
    }
    let (mut user, is_rewritten) = resolver.guard_messages(&pass, user, &mut remarks).await?;
    user.retain(|it| !it.is_blank());
    let (own, is_own_rewritten) = resolver.guard_messages(&pass, own, &mut remarks).await?;
    resolver.own_messages = Some(own.into());
    let pass = match is_rewritten || is_own_rewritten {
        true => resolver.resolve(before, InFlightTurn::New(unrecorded_turn(before, &user)), None).await?,
        false => pass,
    };
    let before = Arc::clone(before);
    Ok(Opening { before, aged: None, pass, user, remarks })
}

/// Returns the turn before any of it is recorded, under its future id.
fn unrecorded_turn(before: &Snapshot, user: &[Message]) -> Turn {
    Turn::new(before.turn().next().to_string(), user.to_vec())
}
