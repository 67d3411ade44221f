//! Locates a request in a session: the thread that it continues, and what to do there.
//!
//! The main thread and the newest branches are asked what the client's list means for them; the best one is taken. A
//! branch is a copy of the thread up to the place where it was left: nothing is lost, and nothing is stored twice in
//! it.

use contexture_history::{Item, Limit, TurnNo, TurnStatus};
use contexture_message::{ErrorCode, Message, Part, Role, ToolOutput, ToolResult};
use contexture_session::{IsolatedStart, NewItem, Session, SessionError, Thread};
use serde_json::json;

use super::recognise::{ClientHistory, Hints, Recognised, recognise};
use super::stored_thread::StoredThread;
use crate::Problem;
use crate::http::input::shown;

/// The label of branches.
const LABEL: &str = "chat";
/// The note that a client sends its whole history.
const NOTE: &str = "contexture.chat";
/// How many branches are considered.
const BRANCHES: usize = 8;
/// How many items of a thread are considered.
pub(super) const ITEMS: usize = 512;

/// What to do on a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChatStep {
    /// Run a new turn, if this is still the newest one.
    Run { user: Option<Message>, after: TurnNo },
    /// Results for the turn that waits.
    Answer(Vec<(String, ToolOutput)>),
    /// Nothing: the request had this turn before.
    Replay(TurnNo),
    /// Nothing yet: what the request means is known once this turn is over.
    Wait(TurnNo),
}

/// Nothing waits for the result of this call: it would be lost.
fn unexpected(call: &str) -> Problem {
    let text = format!("nothing waits for a result of call `{}`", shown(call));
    Problem::new(ErrorCode::ToolResultUnexpected, text).at("messages")
}

/// A thread that a request may continue.
struct Candidate {
    thread: Thread,
    stored: StoredThread,
    /// The newest turn.
    turn: TurnNo,
}

impl Candidate {
    async fn of(thread: Thread) -> Result<Self, SessionError> {
        let snapshot = thread.refresh().await?;
        let (turn, reset) = (snapshot.state().turn, snapshot.state().history_after);
        let mut items = recent(&thread).await?;
        let is_whole = items.len() < ITEMS || items.first().is_some_and(|it| it.seq <= reset.next());
        items.retain(|it| it.seq > reset);
        Ok(Self { stored: StoredThread::read(&items, is_whole), thread, turn })
    }

    /// Whether its client is known to send its whole history.
    fn resends(&self) -> bool {
        self.thread.get().note(NOTE).is_some()
    }
}

/// Returns the newest items of a thread, up to the limit.
pub(crate) async fn recent(thread: &Thread) -> Result<Vec<Item>, SessionError> {
    thread.all(Some(Limit::Turns(ITEMS))).await
}

/// Finds the place of a client's list in a session.
pub(crate) async fn locate(
    session: &Session,
    client_history: &ClientHistory,
    hints: Hints<'_>,
) -> Result<(Thread, ChatStep), Problem> {
    let mut candidates = Vec::new();
    for thread in threads(session).await? {
        candidates.push(Candidate::of(thread).await?);
    }
    // A hint noted on one thread holds for the whole session.
    let resends = hints.resends || candidates.iter().any(Candidate::resends);
    let hints = Hints { resends, ..hints };
    let mut best = (Candidate::of(session.main().clone()).await?, Recognised::Foreign);
    for candidate in candidates {
        let meaning = recognise(&candidate.stored, client_history, hints);
        if meaning.rank() > best.1.rank() {
            best = (candidate, meaning);
        }
    }
    let placed = apply_match(session, best, client_history, hints).await?;
    note(&placed.0, client_history).await?;
    Ok(placed)
}

/// Lists the main thread and the newest branches, newest first.
async fn threads(session: &Session) -> Result<Vec<Thread>, SessionError> {
    let main = session.main().id();
    let mut infos = session.threads().await?;
    infos.retain(|it| it.thread == *main || it.label.as_deref() == Some(LABEL));
    infos.sort_by_key(|it| std::cmp::Reverse(it.updated));
    let mut threads = Vec::new();
    for info in infos.iter().take(BRANCHES) {
        threads.push(session.thread(&info.thread).await?);
    }
    Ok(threads)
}

async fn apply_match(
    session: &Session,
    (candidate, meaning): (Candidate, Recognised),
    client_history: &ClientHistory,
    hints: Hints<'_>,
) -> Result<(Thread, ChatStep), Problem> {
    match meaning {
        Recognised::Branches { at: Some(at), .. } => {
            let branch = candidate.thread.fork(Some(at), Some(LABEL.to_owned())).await?;
            let candidate = Candidate::of(branch.clone()).await?;
            let meaning = recognise(&candidate.stored, client_history, hints);
            let placed = continue_thread(candidate, meaning, client_history).await;
            if placed.is_err() {
                // A request that is refused leaves nothing.
                session.release(branch.id()).await?;
            }
            placed
        }
        Recognised::Branches { at: None, .. } | Recognised::Foreign => {
            if let Some(call) = client_history.unmatched_result() {
                return Err(unexpected(call));
            }
            if candidate.stored.is_empty() {
                return import(candidate, client_history).await;
            }
            let start = IsolatedStart { label: Some(LABEL.to_owned()), ..IsolatedStart::default() };
            let thread = session.create_isolated(start).await?;
            import(Candidate::of(thread).await?, client_history).await
        }
        Recognised::Retried(turn) => Ok((candidate.thread, ChatStep::Replay(turn))),
        Recognised::Continues { .. } | Recognised::Unexpected(_) => match candidate.stored.turns.last() {
            Some((turn, TurnStatus::InFlight)) => {
                let step = ChatStep::Wait(*turn);
                Ok((candidate.thread, step))
            }
            _ => continue_thread(candidate, meaning, client_history).await,
        },
    }
}

async fn continue_thread(
    Candidate { thread, stored, turn: after }: Candidate,
    meaning: Recognised,
    client_history: &ClientHistory,
) -> Result<(Thread, ChatStep), Problem> {
    let step = match meaning {
        Recognised::Continues { results, user, .. } if user.is_empty() && !results.is_empty() => {
            ChatStep::Answer(results)
        }
        Recognised::Continues { results, user, .. } => {
            // The user speaks instead of waiting: the turn that waits ends, but its calls have their results.
            let name = |id: &str| stored.waiting.iter().find(|it| it.id == id).map(|it| it.name.clone());
            if let Some(message) = results_message(&results, name) {
                thread.add_messages(vec![message]).await?;
            }
            ChatStep::Run { user: user_message(user), after }
        }
        Recognised::Unexpected(call) => return Err(unexpected(&call)),
        // A copy ends where the list continues; in every other case the user's message is new there.
        Recognised::Branches { .. } | Recognised::Foreign | Recognised::Retried(_) => {
            match client_history.results.first() {
                Some((call, _)) => return Err(unexpected(call)),
                None => ChatStep::Run { user: user_message(client_history.user.clone()), after },
            }
        }
    };
    Ok((thread, step))
}

/// Takes over a conversation that was held elsewhere. Its results have their calls.
async fn import(
    Candidate { thread, turn: mut after, .. }: Candidate,
    client_history: &ClientHistory,
) -> Result<(Thread, ChatStep), Problem> {
    let ClientHistory { known, results, user, .. } = client_history;
    let mut messages = known.clone();
    messages.extend(results_message(results, |id| called(known, id)));
    if !messages.is_empty() {
        after = thread.add_messages(messages).await?.state().turn;
    }
    Ok((thread, ChatStep::Run { user: user_message(user.clone()), after }))
}

/// Returns a message with results, each with the name of its tool.
fn results_message(
    results: &[(String, ToolOutput)],
    name: impl Fn(&str) -> Option<String>,
) -> Option<Message> {
    let result = |(call_id, output): &(String, ToolOutput)| {
        let (call_id, name) = (call_id.clone(), name(call_id).unwrap_or_default());
        Part::ToolResult(ToolResult { call_id, name, output: output.clone() })
    };
    (!results.is_empty()).then(|| Message::parts(Role::Tool, results.iter().map(result).collect()))
}

fn called(messages: &[Message], id: &str) -> Option<String> {
    messages.iter().flat_map(|it| &it.content).find_map(|it| match it {
        Part::ToolCall(call) if call.id == id => Some(call.name.clone()),
        _ => None,
    })
}

fn user_message(parts: Vec<Part>) -> Option<Message> {
    (!parts.is_empty()).then(|| Message::parts(Role::User, parts))
}

/// Notes that the client sends its whole history, once. A turn that is open is not disturbed.
async fn note(thread: &Thread, client_history: &ClientHistory) -> Result<(), SessionError> {
    let snapshot = thread.get();
    if !client_history.is_only_user() && snapshot.note(NOTE).is_none() && snapshot.state().open.is_none() {
        thread.add(vec![NewItem::note(NOTE, Some(json!({"resends": true})))]).await?;
    }
    Ok(())
}
