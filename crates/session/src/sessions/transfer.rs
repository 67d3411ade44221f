//! Sessions as text: export, import, and copies.
//!
//! An exported session is JSONL: a line for the session, a line for each thread followed by its items, and a final
//! line with the totals. It contains everything that a store holds of a session, so it can be moved between stores. An
//! import reads and checks everything before it writes; if writing fails, what was written is removed. Each thread is
//! written whole or not at all; a process that is killed in between leaves the threads it has written.

use std::sync::Arc;

use contexture_history::{
    Archived, Body, Change, Cost, Item, Seq, Timestamp, TurnNo, TurnStatus, Visibility,
};
use contexture_message::Tokens;
use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use super::Sessions;
use crate::store::{
    Append, ForkPoint, Guard, Head, LogKind, LogState, NewLog, NewSession, SessionInfo, Span, ThreadInfo,
    pages,
};
use crate::thread::fork::position;
use crate::{SessionError, SessionId, SessionKey, State, StoreError, ThreadId, ThreadKey};

/// The version of the format; a higher one is refused.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Session(SessionLine),
    Thread(ThreadLine),
    Item(ItemLine),
    End(EndLine),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionLine {
    version: u32,
    id: SessionId,
    #[serde(default)]
    label: Option<String>,
    created: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThreadLine {
    id: ThreadId,
    kind: LogKind,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    base: Option<ForkPoint>,
    created: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemLine {
    seq: Seq,
    turn: TurnNo,
    at: Timestamp,
    tokens: Tokens,
    counter: Arc<str>,
    visibility: Visibility,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    body: Body,
}

/// The last line: without it the text was cut off.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    threads: usize,
    items: usize,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The session's id.
    pub session: SessionId,
    /// How many threads it has.
    pub threads: usize,
    /// How many items they have together.
    pub items: usize,
}

/// Hands a session to `write`, line by line, without line ends.
pub async fn export<E: From<SessionError>>(
    sessions: &Sessions,
    id: &SessionId,
    mut write: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let key = SessionKey { tenant: sessions.tenant().clone(), session: id.clone() };
    let threads = sessions.store().threads(key).await.map_err(SessionError::from)?;
    let Some(main) = threads.first() else {
        return Err(SessionError::from(StoreError::no_session(id)).into());
    };
    let session =
        SessionLine { version: VERSION, id: id.clone(), label: main.label.clone(), created: main.created };
    write(&line(&Line::Session(session))?)?;
    let mut end = EndLine::default();
    for ThreadInfo { thread: id, kind, label, base, created, .. } in threads {
        end.threads += 1;
        let key = ThreadKey { tenant: sessions.tenant().clone(), thread: id.clone() };
        write(&line(&Line::Thread(ThreadLine { id, kind, label, base, created }))?)?;
        let mut items = pages::items_after(&**sessions.store(), key, Seq(0));
        while let Some(item) = items.try_next().await.map_err(SessionError::from)? {
            write(&line(&Line::Item(ItemLine::from(item)))?)?;
            end.items += 1;
        }
    }
    write(&line(&Line::End(end))?)
}

fn line(line: &Line) -> Result<String, SessionError> {
    // Serialising fails only for maps with non-string keys, which no item has.
    serde_json::to_string(line).map_err(|err| SessionError::Import { line: 0, detail: err.to_string() })
}

/// Writes an exported session into a store, under its own name or another.
pub async fn import<'a>(
    sessions: &Sessions,
    lines: impl IntoIterator<Item = &'a str>,
    rename: Option<SessionId>,
) -> Result<Imported, SessionError> {
    let (exported, threads) = read(lines)?;
    let session = rename.unwrap_or_else(|| exported.id.clone());
    let key = SessionKey { tenant: sessions.tenant().clone(), session: session.clone() };
    let new = NewSession { key: key.clone(), label: exported.label.clone(), at: exported.created };
    sessions.store().create_session(new).await?;
    let items = threads.iter().map(|it| it.items.len()).sum();
    let imported = Imported { session, threads: threads.len(), items };
    match write(sessions, &key, &exported.id, threads).await {
        Ok(()) => Ok(imported),
        Err(err) => {
            sessions.store().delete_session(key).await?;
            Err(err)
        }
    }
}

async fn write(
    sessions: &Sessions,
    key: &SessionKey,
    old: &SessionId,
    threads: Vec<ExportedThread>,
) -> Result<(), SessionError> {
    for ExportedThread { thread, items } in threads {
        let id = renamed(&thread.id, old, &key.session)?;
        if thread.kind == LogKind::Isolated {
            let mut new = NewLog::isolated(key.clone(), id.clone(), thread.created);
            new.label = thread.label;
            if let Some(base) = thread.base {
                new.base = Some(ForkPoint { thread: renamed(&base.thread, old, &key.session)?, ..base });
            }
            sessions.store().create_log(new).await?;
        }
        append_all(sessions, ThreadKey { tenant: key.tenant.clone(), thread: id }, items).await?;
    }
    Ok(())
}

async fn append_all(sessions: &Sessions, key: ThreadKey, items: Vec<Item>) -> Result<(), SessionError> {
    if items.is_empty() {
        return Ok(());
    }
    let append = Append {
        state: Some(LogState::from(&State::replay(&items))),
        keys: Append::keys_of(&items),
        ..Append::new(Some(Seq(0)), items, Guard::Free)
    };
    sessions.store().append(key, append).await?;
    Ok(())
}

/// Copies a session's main thread, up to a position if given, into a new session.
pub async fn fork_session(
    sessions: &Sessions,
    id: &SessionId,
    at: Option<Seq>,
    start: crate::SessionStart,
) -> Result<Imported, SessionError> {
    let main = SessionKey { tenant: sessions.tenant().clone(), session: id.clone() }.main();
    let head = Head::read(&**sessions.store(), &main).await?;
    let head = head.ok_or_else(|| StoreError::no_session(id))?;
    let end = position(&head, at)?;
    let max = usize::try_from(end.0).unwrap_or(usize::MAX);
    let items = sessions.store().read(main, Span::After { seq: Seq(0), max }).await?;
    let count = items.len();
    let session = sessions.create(start).await?;
    let copy = SessionKey { tenant: sessions.tenant().clone(), session: session.id().clone() };
    if let Err(err) = append_all(sessions, copy.main(), items).await {
        sessions.store().delete_session(copy).await?;
        return Err(err);
    }
    Ok(Imported { session: copy.session, threads: 1, items: count })
}

/// Threads are named after their session; `read` has checked that these are.
fn renamed(thread: &ThreadId, old: &SessionId, new: &SessionId) -> Result<ThreadId, SessionError> {
    match thread.as_str().strip_prefix(old.as_str()) {
        Some(rest) => Ok(ThreadId::parse(format!("{new}{rest}"))?),
        None => Ok(thread.clone()),
    }
}

struct ExportedThread {
    thread: ThreadLine,
    items: Vec<Item>,
}

/// Reads and checks everything.
fn read<'a>(
    lines: impl IntoIterator<Item = &'a str>,
) -> Result<(SessionLine, Vec<ExportedThread>), SessionError> {
    let mut reader = ImportReader::default();
    let mut last = 0;
    for (idx, text) in lines.into_iter().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
        last = idx + 1;
        let wrong = |detail: String| SessionError::Import { line: idx + 1, detail };
        let line = serde_json::from_str(text).map_err(|err| wrong(err.to_string()))?;
        reader.take(line).map_err(wrong)?;
    }
    let incomplete = |detail: &str| Err(SessionError::Import { line: last, detail: detail.to_owned() });
    match reader {
        ImportReader { session: Some(session), threads, is_whole: true } => Ok((session, threads)),
        ImportReader { session: None, .. } => incomplete("there is no session"),
        _ => incomplete("the text was cut off: its end is missing"),
    }
}

/// The lines read so far.
#[derive(Default)]
struct ImportReader {
    session: Option<SessionLine>,
    threads: Vec<ExportedThread>,
    is_whole: bool,
}

impl ImportReader {
    fn take(&mut self, line: Line) -> Result<(), String> {
        if self.is_whole {
            return Err("something follows the end".to_owned());
        }
        match (line, &self.session) {
            (Line::Session(line), None) => self.begin(line),
            (Line::Session(_), Some(_)) => Err("a second session begins".to_owned()),
            (_, None) => Err("the session comes first".to_owned()),
            (Line::Thread(thread), Some(session)) => {
                check_thread(&thread, &session.id, self.threads.is_empty())?;
                self.threads.push(ExportedThread { thread, items: Vec::new() });
                Ok(())
            }
            (Line::Item(item), _) => match self.threads.last_mut() {
                Some(thread) => thread.push(item),
                None => Err("an item before any thread".to_owned()),
            },
            (Line::End(end), _) => self.end(&end),
        }
    }

    fn begin(&mut self, line: SessionLine) -> Result<(), String> {
        if line.version != VERSION {
            return Err(format!("the format has version {}, this program knows {VERSION}", line.version));
        }
        self.session = Some(line);
        Ok(())
    }

    fn end(&mut self, said: &EndLine) -> Result<(), String> {
        let items = self.threads.iter().map(|it| it.items.len()).sum();
        let found = EndLine { threads: self.threads.len(), items };
        if found != *said || found.threads == 0 {
            return Err(format!("the end says {said:?}, there were {found:?}"));
        }
        self.is_whole = true;
        Ok(())
    }
}

/// A session's own names: the main thread has the session's, and comes first.
fn check_thread(thread: &ThreadLine, session: &SessionId, is_first: bool) -> Result<(), String> {
    let id = thread.id.as_str();
    let rest = id.strip_prefix(session.as_str());
    let is_named = match thread.kind {
        LogKind::Main => rest == Some(""),
        LogKind::Isolated => rest.is_some_and(|it| it.len() > 1 && it.starts_with('/')),
        LogKind::Run | LogKind::Journal => false,
    };
    match is_named && is_first == (thread.kind == LogKind::Main) {
        true => Ok(()),
        false => Err(format!("thread `{id}` does not belong here in session `{session}`")),
    }
}

impl ExportedThread {
    fn push(&mut self, line: ItemLine) -> Result<(), String> {
        let (end, turn) = self.items.last().map_or((Seq(0), TurnNo(0)), |it| (it.seq, it.turn));
        if line.seq != end.next() {
            return Err(format!("item {} does not follow item {end}", line.seq));
        }
        if line.turn < turn || line.turn > turn.next() {
            return Err(format!("turn {} does not follow turn {turn}", line.turn));
        }
        if let Body::Change(Change::TurnEnded { status: TurnStatus::InFlight, .. }) = line.body {
            return Err("a turn can't end as in_flight".to_owned());
        }
        if !ranges(&line.body).iter().all(|(first, last)| first <= last && *last < line.seq) {
            return Err(format!("item {} is about items that do not come before it", line.seq));
        }
        self.items.push(Item::from(line));
        Ok(())
    }
}

/// Returns the log ranges that an item refers to, and the positions of the archive records it names.
fn ranges(body: &Body) -> Vec<(Seq, Seq)> {
    let of = |it: &Archived| [(it.first, it.last), (it.record, it.record)];
    match body {
        Body::Summary(summary) => {
            let own = (summary.first, summary.last);
            summary.replaces.iter().flat_map(of).chain([own]).collect()
        }
        Body::Change(Change::ArchiveUndone { restores, .. }) => restores.iter().flat_map(of).collect(),
        _ => Vec::new(),
    }
}

impl From<Item> for ItemLine {
    fn from(item: Item) -> Self {
        let Item { seq, turn, visibility, cost, author, at, body } = item;
        ItemLine { seq, turn, at, tokens: cost.tokens, counter: cost.counter, visibility, author, body }
    }
}

impl From<ItemLine> for Item {
    fn from(line: ItemLine) -> Self {
        let ItemLine { seq, turn, at, tokens, counter, visibility, author, body } = line;
        Item { seq, turn, visibility, cost: Cost { counter, tokens }, author, at, body }
    }
}

/// Returns all sessions of a tenant, page by page.
pub async fn list_all(sessions: &Sessions) -> Result<Vec<SessionInfo>, SessionError> {
    let all = pages::sessions(&**sessions.store(), sessions.tenant().clone());
    Ok(all.try_filter(|it| std::future::ready(!it.session.is_reserved())).try_collect().await?)
}
