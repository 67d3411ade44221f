//! The jobs on a store: durable appends, loading, the newest messages.
//!
//! They run on an SQLite file in the scratch folder, or on the database that the data names.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture::history::Limit;
use contexture::message::Message;
use contexture::session::{Session, SessionConfig, SessionStart, Sessions, Store, Thread};
use contexture::store_postgres::PostgresConfig;
use contexture::store_postgres::PostgresStore;
use contexture::store_sqlite::SqliteConfig;
use contexture::store_sqlite::SqliteStore;
use contexture::{SystemTime, session_ports};
use futures::future::try_join_all;
use tokio::runtime::Runtime;

use crate::data::{SessionData, StorePlace};
use crate::{Answer, Runner};

/// How many messages a turn of the store jobs has.
pub(crate) const TURN: usize = 4;
/// How many messages the newest are.
pub(crate) const TAIL: usize = 64;
/// How many messages are appended at once while a session is filled.
const FILL: usize = 200;

/// A folder that goes away with the job.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(parent: &Path) -> std::io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = parent.join(name);
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn bytes(&self) -> u64 {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        files.filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A store with sessions in it.
pub(crate) struct Place {
    pub(crate) runtime: Runtime,
    sessions: Sessions,
    scratch: Scratch,
}

impl Place {
    pub(crate) fn open(place: &StorePlace) -> Result<Self, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let scratch = Scratch::new(&place.scratch)?;
        let store: Arc<dyn Store> = match &place.url {
            Some(url) => Arc::new(runtime.block_on(PostgresStore::connect(url, PostgresConfig::default()))?),
            None => {
                let config = SqliteConfig::new(Arc::new(SystemTime));
                Arc::new(SqliteStore::open(scratch.0.join("contexture.db"), config)?)
            }
        };
        let sessions = Sessions::new(store, session_ports(None), SessionConfig::default());
        Ok(Self { runtime, sessions, scratch })
    }

    pub(crate) fn filled(&self, messages: &[Message]) -> Result<Session, Box<dyn Error>> {
        self.runtime.block_on(async {
            let session = self.sessions.create(SessionStart::default()).await?;
            for chunk in messages.chunks(FILL) {
                session.main().add_messages(chunk.to_vec()).await?;
            }
            Ok(session)
        })
    }
}

/// Takes the next messages to append, again from the start when there are no more.
struct Next {
    messages: Vec<Message>,
    at: usize,
}

impl Next {
    fn new(data: &SessionData) -> Self {
        Self { messages: data.more.clone(), at: 0 }
    }

    fn take(&mut self) -> Vec<Message> {
        let taken: Vec<Message> = self.messages.iter().cycle().skip(self.at).take(TURN).cloned().collect();
        self.at = (self.at + TURN) % self.messages.len().max(1);
        taken
    }
}

/// Appends four messages to a session that has so many.
pub(crate) fn append(data: &SessionData) -> Result<Runner<'_>, Box<dyn Error>> {
    let place = Place::open(&data.place)?;
    let session = place.filled(&data.messages)?;
    let mut next = Next::new(data);
    let (before, mut turns) = (place.scratch.bytes(), 0_u32);
    Ok(Box::new(move || {
        let messages = next.take();
        place.runtime.block_on(session.main().add_messages(messages))?;
        turns += 1;
        // Looking at the files costs microseconds: once in a while is enough.
        let grown = turns.is_power_of_two().then(|| place.scratch.bytes().saturating_sub(before));
        let disk_mb_per_turn = grown.map(|it| it as f64 / 1e6 / f64::from(turns));
        Ok(Answer::Items { items: TURN, disk_mb_per_turn })
    }))
}

/// So many sessions append four messages each at once.
pub(crate) fn append_many(data: &SessionData) -> Result<Runner<'_>, Box<dyn Error>> {
    let place = Place::open(&data.place)?;
    let open = |_| Ok(place.filled(&data.messages)?.main().clone());
    let threads: Vec<Thread> = (0..data.sessions).map(open).collect::<Result<_, Box<dyn Error>>>()?;
    let mut next = Next::new(data);
    Ok(Box::new(move || {
        // The whole place: its folder must not go before the store.
        let place = &place;
        let appends: Vec<_> = threads.iter().map(|it| it.add_messages(next.take())).collect();
        place.runtime.block_on(try_join_all(appends))?;
        Ok(Answer::Items { items: TURN * threads.len(), disk_mb_per_turn: None })
    }))
}

/// Reads the whole session back.
pub(crate) fn load(data: &SessionData) -> Result<Runner<'_>, Box<dyn Error>> {
    read(data, None)
}

/// Reads the newest 64 messages.
pub(crate) fn tail(data: &SessionData) -> Result<Runner<'_>, Box<dyn Error>> {
    read(data, Some(Limit::Turns(TAIL)))
}

fn read(data: &SessionData, limit: Option<Limit>) -> Result<Runner<'_>, Box<dyn Error>> {
    let place = Place::open(&data.place)?;
    let session = place.filled(&data.messages)?;
    Ok(Box::new(move || {
        let place = &place;
        let items = place.runtime.block_on(session.main().all(limit))?;
        Ok(Answer::Log(items))
    }))
}

/// A file of lines: the plainest durable log there is.
pub(crate) struct Lines {
    file: File,
    scratch: Scratch,
    ends: Vec<u64>,
}

impl Lines {
    pub(crate) fn empty(place: &StorePlace) -> Result<Self, Box<dyn Error>> {
        let scratch = Scratch::new(&place.scratch)?;
        let path = scratch.0.join("log.jsonl");
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        Ok(Self { file, scratch, ends: vec![0] })
    }

    fn filled(data: &SessionData) -> Result<Self, Box<dyn Error>> {
        let mut lines = Self::empty(&data.place)?;
        lines.append(&data.messages)?;
        Ok(lines)
    }

    pub(crate) fn append(&mut self, messages: &[Message]) -> Result<(), Box<dyn Error>> {
        let mut text = Vec::new();
        let start = self.ends.last().copied().unwrap_or(0);
        for message in messages {
            serde_json::to_writer(&mut text, message)?;
            text.push(b'\n');
            self.ends.push(start + text.len() as u64);
        }
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        Ok(())
    }

    fn newest(&mut self, count: usize) -> Result<Vec<Message>, Box<dyn Error>> {
        let start = self.ends[self.ends.len() - 1 - count.min(self.ends.len() - 1)];
        self.file.seek(SeekFrom::Start(start))?;
        let mut text = String::new();
        self.file.read_to_string(&mut text)?;
        Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }
}

/// Writes four lines to a file and waits for the disk.
pub(crate) fn append_floor(data: &SessionData) -> Result<Runner<'_>, Box<dyn Error>> {
    let mut lines = Lines::filled(data)?;
    let mut next = Next::new(data);
    Ok(Box::new(move || {
        lines.append(&next.take())?;
        Ok(Answer::Items { items: TURN, disk_mb_per_turn: None })
    }))
}

/// Writes four lines for each session to one file and waits for the disk once.
pub(crate) fn append_many_floor(data: &SessionData) -> Result<Runner<'_>, Box<dyn Error>> {
    let mut lines = Lines::filled(data)?;
    let mut next = Next::new(data);
    Ok(Box::new(move || {
        let messages: Vec<Message> = (0..data.sessions).flat_map(|_| next.take()).collect();
        lines.append(&messages)?;
        Ok(Answer::Items { items: messages.len(), disk_mb_per_turn: None })
    }))
}

/// Reads and parses the file, or its last lines.
pub(crate) fn read_floor(data: &SessionData, count: usize) -> Result<Runner<'_>, Box<dyn Error>> {
    let mut lines = Lines::filled(data)?;
    Ok(Box::new(move || {
        let messages = lines.newest(count)?;
        debug_assert!(lines.scratch.0.is_dir());
        Ok(Answer::Messages(messages.into_iter().map(Arc::new).collect()))
    }))
}
