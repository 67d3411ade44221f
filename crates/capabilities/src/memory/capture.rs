//! Capture: from the log of a thread to records and episodes.
//!
//! There is no queue. A cursor says how far a thread was captured; what lies behind it in the log is what is left to
//! do, after a crash as much as after a turn. The cursor moves in the commit of what was captured and is compared there,
//! so each item is captured once, by whichever process gets there first.
//!
//! Only turns of the namespace's own user are captured, see [`TurnReader`].
//!
//! Rules are found by the rules that find the facts of a summary ([`contexture_history::compaction::instructions`]): in
//! the user's own words, never in hidden text, answers or results. Facts come from an [`Extractor`], if there is one.

use contexture_compose::{BoxError, BoxFuture};
use contexture_history::compaction::instructions;
use contexture_history::{Body, Item, Seq, Summary, Timestamp};
use contexture_session::sources::{ExpectedVersion, SourceChange};
use contexture_session::{SessionId, SourceId, Span, StoreError, ThreadId, ThreadKey};
use serde::{Deserialize, Serialize};

use super::episodes::{BLOCK, Utterance, block, block_id, utterance, utterances};
use super::error::MemoryError;
use super::record::{Author, Layer, NewRecord, Provenance, Record, RecordEdit, Status, Trust, edited};
use super::sources::{self, Kind, document, record_document};
use super::space::{MemorySpace, SearchRequest, core_stamp_id};
use super::tombstones::Tombstones;
use super::turn_reader::TurnReader;

/// So many items are captured in one commit.
const ITEMS: usize = 256;
/// So many known facts are shown to an extractor.
const KNOWN: usize = 12;
/// So many facts of one extraction are kept.
const MAX_FACTS: usize = 32;

/// When a thread is captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// Never by itself; tools and the application write.
    Off,
    /// At the end of each turn, before its outcome is returned, without an extractor.
    Inline,
    /// At the end of each turn, with the extractor.
    #[default]
    AfterTurn,
    /// As `after_turn`, while the outcome is returned.
    Background,
}

/// Whether what a model wants to remember is accepted or proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accept {
    /// It counts at once.
    Auto,
    /// It waits for approval.
    #[default]
    Review,
}

impl Accept {
    pub(crate) fn status(self) -> Status {
        match self {
            Accept::Auto => Status::Accepted,
            Accept::Review => Status::Proposed,
        }
    }
}

/// Finds facts in what was said. The facts are checked before they are kept.
pub trait Extractor: Send + Sync {
    /// Returns the facts.
    fn extract(&self, call: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>>;
}

/// What to search for facts.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractCall {
    /// What was said, oldest first: the speaker and the text.
    pub said: Vec<(contexture_message::Role, String)>,
    /// Facts that are known already, by id: those that may be repeated or superseded.
    pub known: Vec<(String, String)>,
    /// The thread, for models that route calls by it.
    pub thread: String,
}

/// A fact that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtractedFact {
    /// The fact, as a sentence that can be understood alone.
    pub text: String,
    /// The position in what was said, from 0, where it was found.
    pub said: usize,
    /// The id of a known fact that holds no more because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// Whether it tells how things are done, rather than how they are.
    #[serde(default)]
    pub is_procedure: bool,
}

/// How far a thread was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cursor {
    /// The last item that was captured.
    pub(crate) seq: u64,
    /// The last item that an extractor has seen.
    pub(crate) extracted: u64,
    /// How many messages the episodes have.
    pub(crate) messages: u64,
    /// When the log was created. One that was created again is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
    /// The turn of the last item that was captured.
    pub(crate) reader: TurnReader,
    /// The turn of the last item that an extractor has seen.
    pub(crate) extractor: TurnReader,
}

impl Cursor {
    fn version(&self) -> String {
        let created = self.created.map_or(0, |it| it.0);
        format!("{}.{}.{created}", self.seq, self.extracted)
    }

    /// Returns how far the log was captured that is there now, which was created then.
    fn of_log(&self, created: Timestamp) -> Cursor {
        match self.created.is_none_or(|it| it == created) {
            true => Cursor { created: Some(created), ..self.clone() },
            false => Cursor { created: Some(created), ..Cursor::default() },
        }
    }
}

/// What a capture did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Captured {
    /// How many records were added.
    pub records: usize,
    /// How many messages became searchable.
    pub messages: usize,
}

impl MemorySpace {
    async fn cursor(&self, thread: &str) -> Result<Option<Cursor>, MemoryError> {
        let found = self.documents(vec![Kind::Cursor.id(thread)?]).await?;
        found.first().map(sources::data).transpose()
    }

    /// Notes that a thread belongs to the namespace, so that it is captured even if its process dies before it can.
    /// Returns the stamp of the rules, which is read along.
    pub(crate) async fn register(&self, thread: &ThreadId) -> Result<Option<String>, MemoryError> {
        let cursor = Kind::Cursor.id(thread.as_str())?;
        let ids = [cursor.clone()].into_iter().chain(core_stamp_id()).collect();
        let found = self.documents(ids).await?;
        let stamp = found.iter().find(|it| it.id != cursor).map(|it| it.version.clone());
        if found.iter().any(|it| it.id == cursor) {
            return Ok(stamp);
        }
        match self.commit(self.moving(thread.as_str(), None, &Cursor::default())?).await {
            Err(StoreError::Stale { .. }) => {}
            done => done?,
        }
        Ok(stamp)
    }

    /// Returns the change that moves a cursor.
    fn moving(&self, thread: &str, from: Option<&Cursor>, to: &Cursor) -> Result<SourceChange, MemoryError> {
        let id = Kind::Cursor.id(thread)?;
        let expected = ExpectedVersion { id: id.clone(), version: from.map(Cursor::version) };
        let now = self.now();
        let put = self.with_analyzer(|it| document(id, to.version(), to, &[], (now, it)));
        Ok(SourceChange { expected: vec![expected], remove: Vec::new(), put: vec![put] })
    }

    /// Captures the threads of the namespace that a process left behind.
    pub async fn catch_up(&self) -> Result<Captured, MemoryError> {
        let mut total = Captured::default();
        self.finish_forgetting().await?;
        for info in self.all(Kind::Cursor, "").await? {
            let Some(name) = Kind::Cursor.name(&info.id) else { continue };
            let Ok(thread) = ThreadId::parse(name) else { continue };
            match self.capture(&thread).await {
                Err(MemoryError::Store(StoreError::NotFound { .. })) => self.drop_thread(&thread).await?,
                captured => {
                    let captured = captured?;
                    total.records += captured.records;
                    total.messages += captured.messages;
                }
            }
        }
        Ok(total)
    }

    /// Captures what a thread has beyond its cursor, without a model.
    pub async fn capture(&self, thread: &ThreadId) -> Result<Captured, MemoryError> {
        let key = ThreadKey { tenant: self.tenant().clone(), thread: thread.clone() };
        let mut total = Captured::default();
        loop {
            let known = self.cursor(thread.as_str()).await?;
            let head = self.ports().log.head(key.clone()).await?;
            let Some(head) = head else { return Err(StoreError::no_thread(thread).into()) };
            let from = known.clone().unwrap_or_default().of_log(head.info.created);
            let span = Span::After { seq: Seq(from.seq), max: ITEMS };
            let items = self.ports().log.read(key.clone(), span).await?;
            if items.is_empty() {
                return Ok(total);
            }
            let (change, captured) = self.capturing(thread.as_str(), (known.as_ref(), from), &items).await?;
            match self.commit(change).await {
                // Another process has captured them.
                Err(StoreError::Stale { .. }) => {}
                done => {
                    done?;
                    total.records += captured.records;
                    total.messages += captured.messages;
                }
            }
        }
    }

    /// Returns the change that captures items, and moves the cursor from where it is `known` to be. They continue what
    /// `from` has captured.
    async fn capturing(
        &self,
        thread: &str,
        (known, from): (Option<&Cursor>, Cursor),
        items: &[Item],
    ) -> Result<(SourceChange, Captured), MemoryError> {
        let gone = Tombstones::of(self).await?;
        let mut to = from.clone();
        let found = self.found_in(thread, items, &gone, &mut to.reader);
        to.seq = items.last().map_or(from.seq, |it| it.seq.0);
        to.messages += found.said.len() as u64;
        let mut change = self.moving(thread, known, &to)?;
        if from.seq == 0 {
            // Those of a log that was deleted.
            change.remove.extend(self.episodes(thread).await?);
        }
        let captured =
            Captured { records: self.adding(&mut change, found.records).await?, messages: found.said.len() };
        self.add_episodes(&mut change, thread, from.messages, found.said).await?;
        Ok((change, captured))
    }

    /// Returns the blocks of a thread.
    async fn episodes(&self, thread: &str) -> Result<Vec<SourceId>, MemoryError> {
        let blocks = self.all(Kind::Episode, &format!("{thread}/")).await?;
        // A thread of the same session has a longer name.
        let is_of = |it: &SourceId| {
            let name = Kind::Episode.name(it).and_then(|it| it.rsplit_once('/'));
            name.is_some_and(|(of, _)| of == thread)
        };
        Ok(blocks.into_iter().map(|it| it.id).filter(is_of).collect())
    }

    /// Removes what was captured of a thread that is gone, except what became records.
    async fn drop_thread(&self, thread: &ThreadId) -> Result<(), MemoryError> {
        let mut remove = vec![Kind::Cursor.id(thread.as_str())?];
        remove.extend(self.episodes(thread.as_str()).await?);
        Ok(self.commit(SourceChange { remove, ..SourceChange::default() }).await?)
    }

    /// Removes what was captured of a session that is gone, except what became records.
    pub(crate) async fn drop_session(&self, session: &SessionId) -> Result<(), MemoryError> {
        let main = session.as_str();
        for info in self.all(Kind::Cursor, main).await? {
            let Some(name) = Kind::Cursor.name(&info.id) else { continue };
            let is_of = name.strip_prefix(main).is_some_and(|it| it.is_empty() || it.starts_with('/'));
            if let Some(thread) = ThreadId::parse(name).ok().filter(|_| is_of) {
                self.drop_thread(&thread).await?;
            }
        }
        let shown = vec![Kind::Session.id(main)?];
        if !self.documents(shown.clone()).await?.is_empty() {
            self.commit(SourceChange { remove: shown, ..SourceChange::default() }).await?;
        }
        Ok(())
    }

    /// Adds records to a change, unless they are known. Returns how many there are.
    async fn adding(&self, change: &mut SourceChange, new: Vec<NewRecord>) -> Result<usize, MemoryError> {
        let mut added = 0;
        for new in new {
            let (id, now) = (new.id(), self.now());
            let is_named = change.expected.iter().any(|it| Kind::Record.name(&it.id) == Some(&id));
            let further = match self.get(&id).await? {
                _ if is_named => continue,
                Some(known) if known.holds_at(now) || known.status != Status::Accepted => continue,
                Some(known) => {
                    let (next, before) = edited(known.clone(), RecordEdit::default(), now);
                    let next = Record { valid_from: now, valid_to: None, superseded_by: None, ..next };
                    self.replacing(&known, (next, before))?
                }
                None => self.creating(&new.record(id, now))?,
            };
            added += 1;
            change.expected.extend(further.expected);
            change.remove.extend(further.remove);
            change.put.extend(further.put);
        }
        Ok(added)
    }

    /// Adds messages to the last block of a thread, and begins new ones.
    async fn add_episodes(
        &self,
        change: &mut SourceChange,
        thread: &str,
        known: u64,
        said: Vec<Utterance>,
    ) -> Result<(), MemoryError> {
        if said.is_empty() {
            return Ok(());
        }
        let mut number = known / BLOCK;
        let mut open =
            if known.is_multiple_of(BLOCK) { Vec::new() } else { self.block(thread, number).await? };
        // Forgotten messages leave their places empty: the count of the cursor decides where a block ends.
        let mut room = BLOCK - known % BLOCK;
        for utterance in said {
            if room == 0 {
                change.put.push(self.with_analyzer(|it| block(thread, number, &open, it))?);
                (number, room, open) = (number + 1, BLOCK, Vec::new());
            }
            open.push(utterance);
            room -= 1;
        }
        change.put.push(self.with_analyzer(|it| block(thread, number, &open, it))?);
        Ok(())
    }

    /// Reads the messages of a block.
    pub(crate) async fn block(&self, thread: &str, number: u64) -> Result<Vec<Utterance>, MemoryError> {
        let found = self.documents(vec![block_id(thread, number)?]).await?;
        let Some((info, texts)) = self.with_texts(found).await?.pop() else { return Ok(Vec::new()) };
        utterances(&info, texts)
    }

    /// Lets an extractor find facts in what was captured since it was asked last. Returns how many were added.
    pub async fn extract(
        &self,
        thread: &ThreadId,
        extractor: &dyn Extractor,
        accept: Accept,
    ) -> Result<usize, MemoryError> {
        let Some(from) = self.cursor(thread.as_str()).await? else { return Ok(0) };
        let key = ThreadKey { tenant: self.tenant().clone(), thread: thread.clone() };
        let span = Span::After { seq: Seq(from.extracted), max: ITEMS };
        let mut items = self.ports().log.read(key, span).await?;
        items.retain(|it| it.seq.0 <= from.seq);
        let Some(last) = items.last().map(|it| it.seq.0) else { return Ok(0) };
        let gone = Tombstones::of(self).await?;
        let mut reader = from.extractor.clone();
        let said = self.found_in(thread.as_str(), &items, &gone, &mut reader).said;
        let facts = match said.is_empty() {
            true => Vec::new(),
            false => {
                let call = self.extract_call(thread, &said).await?;
                let failed = |err: BoxError| MemoryError::Invalid(format!("the extractor failed: {err}"));
                extractor.extract(call).await.map_err(failed)?
            }
        };
        let to = Cursor { extracted: last, extractor: reader, ..from.clone() };
        let mut change = self.moving(thread.as_str(), Some(&from), &to)?;
        let mut added = 0;
        for fact in facts.into_iter().take(MAX_FACTS) {
            let Some(new) = admitted(thread.as_str(), &fact, &said, accept, &gone) else { continue };
            let supersedes = fact.supersedes.filter(|_| accept == Accept::Auto);
            added += self.adding_fact(&mut change, new, supersedes).await?;
        }
        match self.commit(change).await {
            // Another process has asked its extractor about the same items.
            Err(StoreError::Stale { .. }) => Ok(0),
            done => Ok(done.map(|()| added)?),
        }
    }

    async fn adding_fact(
        &self,
        change: &mut SourceChange,
        new: NewRecord,
        supersedes: Option<String>,
    ) -> Result<usize, MemoryError> {
        let id = new.id();
        let added = self.adding(change, vec![new]).await?;
        let known = match supersedes.filter(|it| added > 0 && *it != id) {
            Some(old) => self.get(&old).await?.filter(|it| it.layer == Layer::Facts),
            None => None,
        };
        let is_named =
            |known: &Record| change.expected.iter().any(|it| Kind::Record.name(&it.id) == Some(&known.id));
        if let Some(known) = known.filter(|it| !is_named(it)) {
            let now = self.now();
            let past = RecordEdit { valid_to: Some(now), superseded_by: Some(id), ..RecordEdit::default() };
            let further = self.replacing(&known, edited(known.clone(), past, now))?;
            change.expected.extend(further.expected);
            change.put.extend(further.put);
        }
        Ok(added)
    }

    async fn extract_call(&self, thread: &ThreadId, said: &[Utterance]) -> Result<ExtractCall, MemoryError> {
        let words = said.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n");
        let request = SearchRequest { layers: vec![Layer::Facts], ..SearchRequest::new(words, KNOWN) };
        let known = self.search(&request).await?;
        Ok(ExtractCall {
            said: said.iter().map(|it| (it.said.role, it.text.clone())).collect(),
            known: known.into_iter().map(|it| (it.id, it.text)).collect(),
            thread: thread.to_string(),
        })
    }

    /// Forgets how far a thread was captured, so that the next capture begins at its start. What is known is not
    /// learnt twice, and what was forgotten is not learnt again.
    pub async fn recapture(&self, thread: &ThreadId) -> Result<Captured, MemoryError> {
        self.drop_thread(thread).await?;
        self.capture(thread).await
    }

    /// Finds rules, digests and what was said in turns of the namespace, except what was forgotten.
    fn found_in(&self, thread: &str, items: &[Item], gone: &Tombstones, reader: &mut TurnReader) -> Findings {
        let mut findings = Findings { records: Vec::new(), said: Vec::new() };
        for item in items {
            let Some(began) = reader.read(self.namespace(), item) else { continue };
            if gone.covers_turn(thread, &item.turn.to_string(), began) {
                continue;
            }
            let rules = rules(thread, item).into_iter().filter(|it| !gone.covers_words(&it.text, began));
            let is_own = |it: &Summary| reader.is_own_since(it.turns.0.0);
            let digest = digest(thread, item, is_own).filter(|it| !gone.covers_part(&it.text, began));
            findings.records.extend(rules.chain(digest));
            findings.said.extend(utterance(item).filter(|it| !gone.covers_part(&it.text, began)));
        }
        findings
    }
}

/// What rules find in items.
struct Findings {
    records: Vec<NewRecord>,
    said: Vec<Utterance>,
}

fn provenance(thread: &str, item: &Item) -> Provenance {
    Provenance {
        thread: Some(thread.to_owned()),
        turn: Some(item.turn.to_string()),
        items: vec![item.seq.0],
        ..Provenance::default()
    }
}

/// Returns the standing instructions of the user in an item.
fn rules(thread: &str, item: &Item) -> Vec<NewRecord> {
    let Body::Message(message) = &item.body else { return Vec::new() };
    if !item.visibility.history {
        return Vec::new();
    }
    let standing = instructions(message).into_iter().filter(|it| it.is_standing);
    let record = |text: String| NewRecord {
        author: Author::User,
        provenance: vec![provenance(thread, item)],
        valid_from: Some(item.at),
        ..NewRecord::new(Layer::Rules, text)
    };
    standing.map(|it| record(it.text)).collect()
}

/// Returns the summary in an item as a digest, if all that it covers is the namespace's own.
fn digest(thread: &str, item: &Item, is_own: impl Fn(&Summary) -> bool) -> Option<NewRecord> {
    let Body::Summary(summary) = &item.body else { return None };
    if !is_own(summary) {
        return None;
    }
    let covered = (summary.first.0..=summary.last.0).take(ITEMS).collect();
    let provenance = Provenance { items: covered, ..provenance(thread, item) };
    let turns = (summary.turns.0.0..=summary.turns.1.0).map(|it| Provenance {
        thread: Some(thread.to_owned()),
        turn: Some(format!("t{it}")),
        ..Provenance::default()
    });
    let record = NewRecord {
        author: Author::Model,
        trust: Trust::Derived,
        provenance: std::iter::once(provenance).chain(turns.take(ITEMS)).collect(),
        valid_from: Some(item.at),
        ..NewRecord::new(Layer::Digests, summary.text.trim())
    };
    Some(record).filter(|it| !it.text.is_empty())
}

/// Returns a fact of an extractor as a record, if it was found in what was said and not forgotten.
fn admitted(
    thread: &str,
    fact: &ExtractedFact,
    said: &[Utterance],
    accept: Accept,
    gone: &Tombstones,
) -> Option<NewRecord> {
    let from = &said.get(fact.said)?.said;
    let text = fact.text.trim();
    if text.is_empty() || gone.covers_words(text, from.at) {
        return None;
    }
    let provenance = Provenance {
        thread: Some(thread.to_owned()),
        turn: Some(from.turn.clone()),
        items: vec![from.seq],
        ..Provenance::default()
    };
    let layer = if fact.is_procedure { Layer::Procedures } else { Layer::Facts };
    Some(NewRecord {
        // How things are done here is not for a model to decide.
        status: if fact.is_procedure { Status::Proposed } else { accept.status() },
        author: Author::Model,
        trust: Trust::Derived,
        provenance: vec![provenance],
        valid_from: Some(Timestamp(from.at.0)),
        ..NewRecord::new(layer, text)
    })
}

/// Returns a record as the document that holds it now.
pub(crate) fn current_document(
    space: &MemorySpace,
    record: &Record,
) -> Result<contexture_session::sources::NewSource, MemoryError> {
    let id = Kind::Record.id(&record.id)?;
    Ok(space.with_analyzer(|it| record_document(record, id, it)))
}
