//! Locates a request in a session: the thread that it continues, and what to do there.
//!
//! The main thread and the newest branches are asked what the client's list means for them; the best one is taken. A
//! branch is a copy of the thread up to the place where it was left: nothing is lost, and nothing is stored twice in
//! it.

use std::sync::Arc;

use contexture_history::{Item, Limit, TurnNo, TurnStatus};
use contexture_message::{ErrorCode, Message, Part, Role, ToolOutput, ToolResult};
use contexture_session::codec::blob_hash;
use contexture_session::{IsolatedStart, NewItem, Session, SessionError, Snapshot, Thread};
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
const ITEMS: usize = 512;

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
    /// The thread before its items were read.
    snapshot: Arc<Snapshot>,
}

impl Candidate {
    async fn of(thread: Thread) -> Result<Self, SessionError> {
        let snapshot = thread.refresh().await?;
        let reset = snapshot.state().history_after;
        let mut items = recent(&thread).await?;
        let is_whole = items.len() < ITEMS || items.first().is_some_and(|it| it.seq <= reset.next());
        items.retain(|it| it.seq > reset);
        Ok(Self { stored: StoredThread::read(&items, is_whole), thread, snapshot })
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
    let is_elsewhere = matches!(meaning, Recognised::Branches { .. } | Recognised::Foreign);
    if let Some(call) = client_history.unmatched_result().filter(|_| is_elsewhere) {
        return Err(unexpected(call));
    }
    let running = candidate.stored.turns.last().filter(|it| it.1 == TurnStatus::InFlight).map(|it| it.0);
    let label = Some(LABEL.to_owned());
    match (meaning, running) {
        (Recognised::Retried(turn), Some(running)) if turn == running => {
            Ok((candidate.thread, ChatStep::Wait(turn)))
        }
        (Recognised::Continues { .. } | Recognised::Unexpected(_), Some(running)) => {
            Ok((candidate.thread, ChatStep::Wait(running)))
        }
        (Recognised::Branches { at: Some(at), .. }, _) => {
            // The same request again, at the same time, gets the same branch.
            let branch = match hints.key {
                Some(key) => candidate.thread.fork_once(key, Some(at), label).await?,
                None => candidate.thread.fork(Some(at), label).await?,
            };
            let candidate = Candidate::of(branch).await?;
            let meaning = recognise(&candidate.stored, client_history, hints);
            continue_thread(candidate, meaning, client_history).await
        }
        (Recognised::Branches { at: None, .. } | Recognised::Foreign, _) => {
            let (mut thread, messages) = (candidate.thread, imported(client_history));
            let mut snapshot = candidate.snapshot;
            if !candidate.stored.is_empty() {
                let name = hints.key.map(|it| blob_hash(it).chars().take(32).collect());
                let start = IsolatedStart { name, label, initial_messages: messages, ..Default::default() };
                thread = session.create_isolated(start).await?;
                snapshot = thread.refresh().await?;
            } else if !messages.is_empty() {
                snapshot = thread.add_at(snapshot.state().end, messages).await?;
            }
            let user = user_message(client_history.user.clone());
            Ok((thread, ChatStep::Run { user, after: snapshot.state().turn }))
        }
        (Recognised::Retried(turn), _) => Ok((candidate.thread, ChatStep::Replay(turn))),
        (meaning, None) => continue_thread(candidate, meaning, client_history).await,
    }
}

async fn continue_thread(
    Candidate { thread, stored, snapshot }: Candidate,
    meaning: Recognised,
    client_history: &ClientHistory,
) -> Result<(Thread, ChatStep), Problem> {
    let after = snapshot.state().turn;
    let step = match meaning {
        Recognised::Continues { results, user, .. } if user.is_empty() && !results.is_empty() => {
            ChatStep::Answer(results)
        }
        Recognised::Continues { results, user, .. } => {
            // The user speaks instead of waiting: the turn that waits ends, but its calls have their results.
            let name = |id: &str| stored.waiting.iter().find(|it| it.id == id).map(|it| it.name.clone());
            if let Some(message) = results_message(&results, name) {
                thread.add_at(snapshot.state().end, vec![message]).await?;
            }
            ChatStep::Run { user: user_message(user), after }
        }
        Recognised::Unexpected(call) => return Err(unexpected(&call)),
        Recognised::Retried(turn) => ChatStep::Replay(turn),
        // A copy ends where the list continues; in every other case the user's message is new there.
        Recognised::Branches { .. } | Recognised::Foreign => match client_history.results.first() {
            Some((call, _)) => return Err(unexpected(call)),
            None => ChatStep::Run { user: user_message(client_history.user.clone()), after },
        },
    };
    Ok((thread, step))
}

/// Returns the messages of a conversation that was held elsewhere. Its results have their calls.
fn imported(ClientHistory { known, results, .. }: &ClientHistory) -> Vec<Message> {
    let results = results_message(results, |id| called(known, id));
    known.iter().cloned().chain(results).collect()
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
