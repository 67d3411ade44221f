//! Forgetting: a record, a turn, a session, a source or everything, with all that was derived from it.
//!
//! What is forgotten leaves the records, their versions, the digests and the index of what was said, in one commit with
//! a tombstone that keeps it from being learnt again. Then its copies leave the logs and the passes: see
//! [`scrub`](super::scrub). The commit notes what is to be scrubbed, so a crash in between is made up for by the next
//! turn.

use std::collections::{BTreeMap, BTreeSet};

use contexture_history::Timestamp;
use contexture_history::compaction::{holds, normal};
use contexture_session::sources::{ExpectedVersion, SourceChange, SourceInfo};
use contexture_session::{SourceId, StoreError};
use serde::{Deserialize, Serialize};

use super::episodes::{EpisodeData, Utterance, block, utterances};
use super::erase::Scrubbed;
use super::error::MemoryError;
use super::record::{Layer, Record, short_hash};
use super::scrub::Scrub;
use super::sources::{self, Kind, document};
use super::space::{MemorySpace, RecordFilter};
use super::tombstones::Tombstone;

/// What to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(inline)]
pub enum Forget {
    /// A record, by its id.
    Record(String),
    /// A turn of a thread.
    Turn {
        /// The thread.
        thread: String,
        /// The turn, such as `t7`.
        turn: String,
    },
    /// A session with all of its threads.
    Session(String),
    /// What was imported from a source.
    Source(String),
    /// Everything in the namespace.
    Everything,
}

/// How to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgetOptions {
    /// Only says what would be forgotten.
    pub dry_run: bool,
    /// Also makes the bytes unreadable in the files of the store, which takes as long as rewriting them.
    pub erase: bool,
    /// Leaves forgotten turns in the logs of their threads; only this memory forgets them.
    pub keep_turns: bool,
}

/// What was forgotten. It has no words of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Receipt {
    /// Names the receipt.
    pub id: String,
    /// When, in milliseconds since 1970.
    #[schemars(with = "i64")]
    pub at: Timestamp,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The records, those that were derived included.
    pub records: Vec<String>,
    /// How many earlier versions of them there were.
    pub versions: usize,
    /// How many messages left the index of what was said.
    pub messages: usize,
    /// How many items of threads and runs had a copy of it.
    #[serde(default)]
    pub items: usize,
    /// How many passes showed it.
    #[serde(default)]
    pub passes: usize,
    /// How many tombstones keep it from being learnt again.
    pub tombstones: usize,
    /// Whether the bytes in the files of the store were made unreadable.
    pub erased: bool,
}

/// What a namespace holds, read for a decision.
struct Contents {
    records: Vec<Record>,
    /// Earlier versions, with their texts.
    versions: Vec<(SourceInfo, Vec<String>)>,
    blocks: Vec<(SourceInfo, Vec<Utterance>)>,
    folders: Vec<SourceInfo>,
    threads: Vec<String>,
}

/// What to remove.
#[derive(Default)]
struct Doomed {
    records: BTreeSet<String>,
    /// Words that must not stand in digests and episodes.
    words: Vec<String>,
    /// Threads, with the turns, all if there are none.
    turns: BTreeMap<String, BTreeSet<String>>,
    folders: bool,
}

impl MemorySpace {
    /// Forgets. A concurrent write is not lost: what it wrote is read again first.
    pub async fn forget(&self, what: &Forget, options: ForgetOptions) -> Result<Receipt, MemoryError> {
        loop {
            let contents = self.contents().await?;
            let doomed = doomed(what, &contents)?;
            let now = self.now();
            let (mut change, receipt) = self.forgetting(what, &contents, &doomed, now)?;
            let scrub = doomed.scrub(&contents, now, options.keep_turns);
            if options.dry_run {
                let Scrubbed { items, passes, .. } = self.scrubbable(&scrub).await?;
                return Ok(Receipt { dry_run: true, items, passes, ..receipt });
            }
            let pending = Kind::Pending.id(&receipt.id)?;
            let version = now.0.to_string();
            change
                .put
                .push(self.with_analyzer(|it| document(pending.clone(), version, &scrub, &[], (now, it))));
            match self.commit(change).await {
                Err(StoreError::Stale { .. }) => continue,
                done => done?,
            }
            let scrubbed = self.finish(pending, &scrub).await?;
            if options.erase {
                self.index().erase_removed().await?;
            }
            let Scrubbed { items, passes, .. } = scrubbed;
            return Ok(Receipt { items, passes, erased: options.erase, ..receipt });
        }
    }

    /// Scrubs, and notes that it is done unless a turn is running.
    async fn finish(&self, pending: SourceId, scrub: &Scrub) -> Result<Scrubbed, MemoryError> {
        let scrubbed = self.scrub(scrub).await?;
        if !scrubbed.is_running {
            self.commit(SourceChange { remove: vec![pending], ..SourceChange::default() }).await?;
        }
        Ok(scrubbed)
    }

    /// Scrubs what was forgotten while turns were running, or before a crash.
    pub(crate) async fn finish_forgetting(&self) -> Result<(), MemoryError> {
        for info in self.all(Kind::Pending, "").await? {
            let scrub: Scrub = sources::data(&info)?;
            self.finish(info.id, &scrub).await?;
        }
        Ok(())
    }

    async fn contents(&self) -> Result<Contents, MemoryError> {
        let filter = RecordFilter { with_past: true, ..RecordFilter::default() };
        let mut blocks = Vec::new();
        for (info, texts) in self.with_texts(self.all(Kind::Episode, "").await?).await? {
            let said = utterances(&info, texts)?;
            blocks.push((info, said));
        }
        let threads = self.all(Kind::Cursor, "").await?;
        Ok(Contents {
            records: self.list(&filter).await?,
            versions: self.versions().await?,
            blocks,
            folders: self.all(Kind::Folder, "").await?,
            threads: threads.iter().filter_map(|it| Kind::Cursor.name(&it.id)).map(str::to_owned).collect(),
        })
    }

    async fn versions(&self) -> Result<Vec<(SourceInfo, Vec<String>)>, MemoryError> {
        self.with_texts(self.all(Kind::Version, "").await?).await
    }

    fn forgetting(
        &self,
        what: &Forget,
        contents: &Contents,
        doomed: &Doomed,
        now: Timestamp,
    ) -> Result<(SourceChange, Receipt), MemoryError> {
        let mut change = SourceChange::default();
        for record in contents.records.iter().filter(|it| doomed.records.contains(&it.id)) {
            let id = Kind::Record.id(&record.id)?;
            let version = Some(record.stored_version());
            change.expected.push(ExpectedVersion { id: id.clone(), version });
            change.remove.push(id);
        }
        let versions: Vec<_> = doomed.versions(contents).map(|(info, _)| info.id.clone()).collect();
        let folders: Vec<_> =
            contents.folders.iter().filter(|_| doomed.folders).map(|it| it.id.clone()).collect();
        let mut messages = 0;
        for (info, said) in &contents.blocks {
            let kept = self.kept(info, said, doomed)?;
            if kept.len() == said.len() {
                continue;
            }
            messages += said.len() - kept.len();
            change
                .expected
                .push(ExpectedVersion { id: info.id.clone(), version: Some(info.version.clone()) });
            match rewritten(self, info, &kept)? {
                Some(block) => change.put.push(block),
                None => change.remove.push(info.id.clone()),
            }
        }
        let words = doomed.words.iter().map(|it| Tombstone::of_text(it, now));
        let turns = doomed
            .turns
            .iter()
            .map(|(thread, turns)| Tombstone::of_turns(thread, turns.iter().cloned().collect(), now));
        let tombstones: Vec<Tombstone> = words.chain(turns).collect();
        for it in &tombstones {
            change.put.push(it.document(self)?);
        }
        let receipt = Receipt {
            id: format!("forget-{}", short_hash(&format!("{what:?}\n{}", now.0))),
            at: now,
            records: doomed.records.iter().cloned().collect(),
            versions: versions.len(),
            messages,
            tombstones: tombstones.len(),
            ..Receipt::default()
        };
        change.remove.extend(versions.into_iter().chain(folders));
        Ok((change, receipt))
    }

    /// Returns what stays of a block.
    fn kept(
        &self,
        info: &SourceInfo,
        said: &[Utterance],
        doomed: &Doomed,
    ) -> Result<Vec<Utterance>, MemoryError> {
        let thread = sources::data::<EpisodeData>(info)?.thread;
        let is_doomed = |it: &Utterance| {
            let turns = doomed.turns.get(&thread);
            let words = normal(&it.text);
            turns.is_some_and(|turns| turns.is_empty() || turns.contains(&it.said.turn))
                || doomed.words.iter().any(|it| holds(&words, it))
        };
        Ok(said.iter().filter(|it| !is_doomed(it)).cloned().collect())
    }
}

/// Returns a block with what stays of it.
fn rewritten(
    space: &MemorySpace,
    info: &SourceInfo,
    kept: &[Utterance],
) -> Result<Option<contexture_session::sources::NewSource>, MemoryError> {
    let place = Kind::Episode.name(&info.id).and_then(|it| it.rsplit_once('/'));
    let place = place.and_then(|(thread, number)| Some((thread, number.parse().ok()?)));
    match place.filter(|_| !kept.is_empty()) {
        Some((thread, number)) => space.with_analyzer(|it| block(thread, number, kept, it)).map(Some),
        None => Ok(None),
    }
}

/// Decides what goes.
fn doomed(what: &Forget, contents: &Contents) -> Result<Doomed, MemoryError> {
    let mut doomed = Doomed::default();
    match what {
        Forget::Record(id) => {
            let record = contents.records.iter().find(|it| it.id == *id);
            let record = record.ok_or_else(|| MemoryError::NotFound { id: id.clone() })?;
            doomed.words.push(normal(&record.text));
        }
        Forget::Turn { thread, turn } => {
            doomed.turns.entry(thread.clone()).or_default().insert(turn.clone());
        }
        Forget::Session(session) => {
            let is_of = |it: &&String| **it == *session || it.starts_with(&format!("{session}/"));
            let threads = contents.threads.iter().filter(is_of).cloned().chain([session.clone()]);
            doomed.turns.extend(threads.map(|it| (it, BTreeSet::new())));
        }
        Forget::Source(_) => {}
        Forget::Everything => {
            doomed.turns.extend(contents.threads.iter().map(|it| (it.clone(), BTreeSet::new())));
            doomed.folders = true;
        }
    }
    let is_direct = |record: &Record| match what {
        Forget::Everything => true,
        Forget::Source(source) => {
            record.provenance.iter().any(|it| it.source.as_deref() == Some(source.as_str()))
        }
        Forget::Record(id) => record.id == *id || doomed.has_words(record),
        Forget::Turn { .. } | Forget::Session(_) => doomed.has_turns(record),
    };
    doomed.records = contents.records.iter().filter(|it| is_direct(it)).map(|it| it.id.clone()).collect();
    add_derived(&mut doomed.records, &contents.records);
    // All of it is forgotten, not only the words of the record that was named.
    // A digest is made of turns, which have tombstones of their own; one that was imported is not.
    let has_words = |it: &Record| it.layer != Layer::Digests || matches!(what, Forget::Source(_));
    let words = contents.records.iter().filter(|it| doomed.records.contains(&it.id) && has_words(it));
    let words: BTreeSet<String> = words.map(|it| normal(&it.text)).chain(doomed.words).collect();
    doomed.words = words.into_iter().filter(|it| !it.is_empty()).collect();
    doomed.words.extend(earlier_words(&doomed, contents));
    Ok(doomed)
}

/// Returns the words of earlier versions of the records, those of digests apart.
fn earlier_words(doomed: &Doomed, contents: &Contents) -> BTreeSet<String> {
    let digests: BTreeSet<&str> =
        contents.records.iter().filter(|it| it.layer == Layer::Digests).map(|it| it.id.as_str()).collect();
    let is_word = |info: &SourceInfo| record_of_version(info).is_some_and(|it| !digests.contains(it));
    let versions = doomed.versions(contents).filter(|(info, _)| is_word(info));
    let words = versions.flat_map(|(_, texts)| texts).map(|it| normal(it));
    words.filter(|it| !it.is_empty() && !doomed.words.contains(it)).collect()
}

/// Returns the id of the record that a document is an earlier version of.
fn record_of_version(info: &SourceInfo) -> Option<&str> {
    Kind::Version.name(&info.id).and_then(|it| it.rsplit_once('/')).map(|(id, _)| id)
}

impl Doomed {
    /// Returns the earlier versions of the records.
    fn versions<'a>(&'a self, contents: &'a Contents) -> impl Iterator<Item = &'a (SourceInfo, Vec<String>)> {
        let is_of = |info: &SourceInfo| record_of_version(info).is_some_and(|it| self.records.contains(it));
        contents.versions.iter().filter(move |(info, _)| is_of(info))
    }

    /// Returns what has to leave the logs.
    fn scrub(&self, contents: &Contents, at: Timestamp, keep_turns: bool) -> Scrub {
        let is_word = |it: &&Record| self.records.contains(&it.id) && it.layer != Layer::Digests;
        let texts = contents.records.iter().filter(is_word).map(|it| it.text.clone());
        let earlier = self.versions(contents).flat_map(|(_, texts)| texts.iter().cloned());
        let turns = if keep_turns { BTreeMap::new() } else { self.turns.clone() };
        Scrub { at, texts: texts.chain(earlier).collect(), turns }
    }

    /// Whether a record has the words, or is a digest that repeats them.
    fn has_words(&self, record: &Record) -> bool {
        let words = normal(&record.text);
        match record.layer {
            Layer::Digests => self.words.iter().any(|it| holds(&words, it)),
            _ => self.words.contains(&words),
        }
    }

    fn has_turns(&self, record: &Record) -> bool {
        self.turns.iter().any(|(thread, turns)| match turns.is_empty() {
            true => record.is_from(thread, None),
            false => turns.iter().any(|it| record.is_from(thread, Some(it))),
        })
    }
}

/// Adds the records that were derived from these, however indirectly.
fn add_derived(doomed: &mut BTreeSet<String>, records: &[Record]) {
    loop {
        let is_derived = |record: &&Record| {
            let from =
                |it: &super::record::Provenance| it.record.as_ref().is_some_and(|it| doomed.contains(it));
            !doomed.contains(&record.id) && record.provenance.iter().any(from)
        };
        let further: Vec<String> = records.iter().filter(is_derived).map(|it| it.id.clone()).collect();
        if further.is_empty() {
            return;
        }
        doomed.extend(further);
    }
}
