//! Recall through memory: conversations become threads, threads are captured, and the tool `memory_search` is asked.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use contexture::SystemTime;
use contexture::agent::{Agent, ToolRequest};
use contexture::capabilities::memory::{Memories, MemoryPorts, Namespace, memory};
use contexture::compose::Scope;
use contexture::model::Scripted;
use contexture_history::Seq;
use contexture_message::{Message, Role};
use contexture_session::{SessionConfig, SessionId, SessionStart, Sessions, Tenant, Thread};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use serde_json::json;

use super::sets::Conversation;

/// Returns the turns that the tool finds for each question, best first.
pub(super) fn answers(path: &Path, conversation: &Conversation) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    // Tools have a time limit, whose clock is the runtime's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(asked(path, conversation))
}

async fn asked(path: &Path, conversation: &Conversation) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    let store = Arc::new(SqliteStore::open(path, SqliteConfig::new(Arc::new(SystemTime)))?);
    let ports = MemoryPorts { index: store.clone(), log: store.clone(), time: Arc::new(SystemTime) };
    let memories = Memories::new(ports);
    let space = memories.space(&Tenant::default(), Namespace::of_user("ada"))?;
    let sessions = Sessions::new(store, contexture::session_ports(None), SessionConfig::default());
    let mut turns = BTreeMap::new();
    let mut threads = Vec::new();
    for (idx, session) in conversation.sessions.iter().enumerate() {
        let said = session.turns.iter().map(|it| (it.id.as_str(), it.speaker.as_str(), it.text.as_str()));
        let thread = thread(&sessions, &format!("session-{idx}"), said.collect(), &mut turns).await?;
        space.capture(thread.id()).await?;
        threads.push(thread);
    }
    let Some(thread) = threads.first() else { return Ok(Vec::new()) };
    let scope = Scope { user: Some("ada".to_owned()), ..Scope::default() };
    let tools = memory(memories).as_tools(&scope).map_err(|err| err.to_string())?;
    let agent = Agent::builder(Scripted::new([]), Arc::new(SystemTime), contexture::SystemSecrets);
    let agent = tools.into_iter().fold(agent, |agent, tool| agent.executor(tool)).build()?;
    let mut answers = Vec::new();
    for question in &conversation.questions {
        let request = ToolRequest::new("memory_search", json!({"query": question.question, "limit": 20}));
        let answer = agent.call(thread, request).await?;
        answers.push(found(answer.as_str().unwrap_or_default(), &turns));
    }
    Ok(answers)
}

/// Writes a session as a thread, and notes which of its items is which turn of the set.
async fn thread(
    sessions: &Sessions,
    name: &str,
    said: Vec<(&str, &str, &str)>,
    turns: &mut BTreeMap<String, String>,
) -> Result<Thread, Box<dyn Error>> {
    let start = SessionStart { id: Some(SessionId::parse(name)?), label: None };
    let session = sessions.create(start).await?;
    let thread = session.main().clone();
    let first = said.first().map_or("", |(_, speaker, _)| speaker);
    let message = |(_, speaker, text): &(&str, &str, &str)| match *speaker == first {
        true => Message::user(format!("{speaker}: {text}")),
        false => Message::assistant(format!("{speaker}: {text}")),
    };
    thread.add_messages(said.iter().map(message).collect()).await?;
    let items = thread.after(Seq(0), usize::MAX).await?;
    let spoken = items
        .iter()
        .filter(|it| it.body.as_message().is_some_and(|it| matches!(it.role, Role::User | Role::Assistant)));
    turns
        .extend(spoken.zip(&said).map(|(it, (id, _, _))| (format!("{name}:{}", it.seq.0), (*id).to_owned())));
    Ok(thread)
}

/// Reads the ids at the beginning of the lines of an answer.
fn found(answer: &str, turns: &BTreeMap<String, String>) -> Vec<String> {
    let ids = answer.lines().filter_map(|it| it.strip_prefix('[')?.split_once("] ").map(|(id, _)| id));
    ids.filter_map(|it| turns.get(it).cloned()).collect()
}
