//! The memory of one namespace: reading, writing and searching records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use contexture_history::Timestamp;
use contexture_history::compaction::normal;
use contexture_session::rank::{AnalyzerPool, Language, RankConfig, RankQuery, Signal};
use contexture_session::sources::{
    BaseSettings, ChunkHit, ChunkSelection, ExpectedVersion, MAX_HITS, NewSource, SourceChange, SourceIndex,
    SourceInfo, StoredChunk,
};
use contexture_session::{BaseKey, SessionId, SourceId, Store, StoreError, Tenant, Time};
use serde::{Deserialize, Serialize};

use super::episodes::EpisodeData;
use super::error::MemoryError;
use super::namespace::{Namespace, is_memory};
use super::record::{Layer, NewRecord, RULE, Record, RecordEdit, Status, edited, short_hash};
use super::scrub::{Scrub, scrub_new_record};
use super::sources::{self, Kind, NoData, document, record_document, record_of, version_id};

/// So many documents are read at a time.
const PAGE: usize = 256;
/// So many forgotten things are looked for in records that are written later.
const MAX_SCRUBS: usize = 64;
/// So many earlier versions of a record are kept.
const MAX_VERSIONS: u64 = 64;
/// How much more a record counts that was used [`MOST_USES`] times or more.
const USE_WEIGHT: f64 = 0.1;
const MOST_USES: u64 = 10;
/// A text of a record may have so many bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// What memory needs from its program.
#[derive(Clone, Debug)]
pub struct MemoryPorts {
    /// Where records are kept and searched.
    pub index: Arc<dyn SourceIndex>,
    /// The threads that are captured, and the passes that showed what is remembered.
    pub log: Arc<dyn Store>,
    /// The clock.
    pub time: Arc<dyn Time>,
}

/// The memories of all tenants and namespaces. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memories(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where memory is kept; a program may say so later.
    ports: Mutex<Option<MemoryPorts>>,
    language: Language,
    analyzers: AnalyzerPool,
    /// What was forgotten lately, by tenant: records of calls that were made before may be written afterwards.
    scrubs: Mutex<VecDeque<(Tenant, Scrub)>>,
}

impl Memories {
    /// Returns the memories in a store.
    pub fn new(ports: MemoryPorts) -> Self {
        Self::in_language(Some(ports), Language::default())
    }

    /// Returns memories whose store is [provided](Self::provide) later. Until then there are none.
    pub fn unprovided() -> Self {
        Self::in_language(None, Language::default())
    }

    /// Returns the memories in a store, whose texts are mostly in one language.
    pub fn in_language(ports: Option<MemoryPorts>, language: Language) -> Self {
        Self(Arc::new(Inner {
            ports: Mutex::new(ports),
            language,
            analyzers: AnalyzerPool::default(),
            scrubs: Mutex::default(),
        }))
    }

    /// Says where memory is kept from now on.
    pub fn provide(&self, ports: MemoryPorts) {
        *self.0.ports.lock().unwrap_or_else(PoisonError::into_inner) = Some(ports);
    }

    /// Whether it is known where memory is kept.
    pub fn is_provided(&self) -> bool {
        self.0.ports.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Notes what was forgotten, for records that are written later.
    pub(crate) fn expect(&self, tenant: &Tenant, scrub: &Scrub) {
        let mut scrubs = self.0.scrubs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = (tenant.clone(), scrub.clone());
        if !scrubs.contains(&known) {
            scrubs.push_back(known);
        }
        if scrubs.len() > MAX_SCRUBS {
            scrubs.pop_front();
        }
    }

    /// Removes what was forgotten from a record of a journal that is about to be written, of a call at a time: a turn
    /// that is running may show what another one has forgotten meanwhile.
    pub fn scrub_record(&self, tenant: &Tenant, at: Timestamp, record: &mut serde_json::Value) {
        let scrubs = self.0.scrubs.lock().unwrap_or_else(PoisonError::into_inner);
        let applies = |(of, scrub): &&(Tenant, Scrub)| of == tenant && at <= scrub.at;
        scrubs.iter().filter(applies).for_each(|(_, it)| scrub_new_record(record, it));
    }

    fn ports(&self) -> Result<MemoryPorts, MemoryError> {
        let ports = self.0.ports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ports.ok_or_else(|| MemoryError::Invalid("there is no store for memory here".to_owned()))
    }

    /// Returns the memory of one namespace. Nothing is created before the first write.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use contexture_compose::BoxFuture;
    /// # use contexture_history::Timestamp;
    /// # use contexture_session::{MemoryStore, Tenant, Time};
    /// # #[derive(Debug)]
    /// # struct Fixed;
    /// # impl Time for Fixed {
    /// #     fn now(&self) -> Timestamp { Timestamp(0) }
    /// #     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
    /// # }
    /// # futures::executor::block_on(async {
    /// use contexture_capabilities::memory::{Layer, Memories, MemoryPorts, Namespace, NewRecord, SearchRequest};
    ///
    /// # let store = Arc::new(MemoryStore::new(Arc::new(Fixed)));
    /// let ports = MemoryPorts { index: store.clone(), log: store, time: Arc::new(Fixed) };
    /// let ada = Memories::new(ports).space(&Tenant::default(), Namespace::of_user("ada"))?;
    /// ada.add(NewRecord::new(Layer::Facts, "Ada's invoices are due on Fridays.")).await?;
    /// let hits = ada.search(&SearchRequest::new("when is the invoice due", 5)).await?;
    /// assert_eq!(hits[0].text, "Ada's invoices are due on Fridays.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn space(&self, tenant: &Tenant, namespace: Namespace) -> Result<MemorySpace, MemoryError> {
        let (ports, key) = (self.ports()?, namespace.key(tenant)?);
        Ok(MemorySpace { memories: self.clone(), ports, namespace, key })
    }

    /// Removes what memories have read in a session that was deleted: how far they were, and what was said. Records that
    /// were made of it stay.
    pub async fn drop_session(&self, tenant: &Tenant, session: &SessionId) -> Result<(), MemoryError> {
        for namespace in self.namespaces(tenant).await? {
            self.space(tenant, namespace)?.drop_session(session).await?;
        }
        Ok(())
    }

    /// Lists the namespaces of a tenant that have been written to.
    pub async fn namespaces(&self, tenant: &Tenant) -> Result<Vec<Namespace>, MemoryError> {
        let index = self.ports()?.index;
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = index.bases(tenant.clone(), after, PAGE).await?;
            let memories = page.iter().filter(|it| is_memory(&it.base));
            let read = memories.filter_map(|it| Namespace::from_canonical(it.settings.description.as_ref()?));
            found.extend(read);
            match page.last().filter(|_| page.len() == PAGE) {
                Some(last) => after = Some(last.base.clone()),
                None => break,
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The memory of one namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemorySpace {
    memories: Memories,
    ports: MemoryPorts,
    namespace: Namespace,
    key: BaseKey,
}

/// Which records to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Only those of this layer.
    pub layer: Option<Layer>,
    /// Only those with this status.
    pub status: Option<Status>,
    /// As of this time: each record in the version that held then. Without it, the newest versions.
    pub as_of: Option<Timestamp>,
    /// Also those that hold no more.
    pub with_past: bool,
}

/// What to search for.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    /// Words or a question.
    pub query: String,
    /// How many hits at most.
    pub limit: usize,
    /// The layers to search; all if empty.
    pub layers: Vec<Layer>,
    /// What held at this time; by default now.
    pub as_of: Option<Timestamp>,
    /// Hits below this score are left out.
    pub min_score: f64,
}

impl SearchRequest {
    /// Returns a search of all layers.
    pub fn new(query: impl Into<String>, limit: usize) -> Self {
        Self { query: query.into(), limit, layers: Vec::new(), as_of: None, min_score: 0.0 }
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct MemoryHit {
    /// The id of the record, or `THREAD:POSITION` of an item of the log.
    pub id: String,
    /// The layer.
    pub layer: Layer,
    /// The text.
    pub text: String,
    /// The score, from 0 to 1. Records that answers have used count up to a tenth more.
    pub score: f64,
    /// What each signal adds to it, before uses.
    pub shares: BTreeMap<Signal, f64>,
    /// The thread it comes from, if it comes from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The turn it comes from, such as `t7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// When it was said or written, in milliseconds since 1970.
    #[schemars(with = "i64")]
    pub at: Timestamp,
    /// How often answers used it.
    pub uses: u64,
}

impl MemorySpace {
    /// Returns whose memory it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn memories(&self) -> &Memories {
        &self.memories
    }

    /// Notes that the memory is shown in a session, so that what is forgotten can leave it too.
    pub(crate) async fn show_in(&self, session: &SessionId) -> Result<(), MemoryError> {
        let id = Kind::Session.id(session.as_str())?;
        if !self.documents(vec![id.clone()]).await?.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let put = self.with_analyzer(|it| document(id, "1".to_owned(), &NoData {}, &[], (now, it)));
        self.put(vec![put]).await
    }

    /// Returns the sessions in which the memory was shown or captured.
    pub(crate) async fn sessions(&self) -> Result<BTreeSet<SessionId>, MemoryError> {
        let mut sessions = BTreeSet::new();
        for kind in [Kind::Session, Kind::Cursor] {
            let found = self.all(kind, "").await?;
            let names = found.iter().filter_map(|it| kind.name(&it.id)?.split('/').next());
            sessions.extend(names.filter_map(|it| SessionId::parse(it).ok()));
        }
        Ok(sessions)
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.key.tenant
    }

    pub(crate) fn ports(&self) -> &MemoryPorts {
        &self.ports
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ports().time.now()
    }

    pub(crate) fn index(&self) -> &dyn SourceIndex {
        &*self.ports().index
    }

    pub(crate) fn base_key(&self) -> BaseKey {
        self.key.clone()
    }

    /// Runs something with an analyzer of the memory's language.
    pub(crate) fn with_analyzer<T>(
        &self,
        run: impl FnOnce(&mut contexture_session::rank::Analyzer) -> T,
    ) -> T {
        let inner = &self.memories.0;
        let mut analyzer = inner.analyzers.take(inner.language);
        let result = run(&mut analyzer);
        inner.analyzers.put(analyzer);
        result
    }

    /// Makes a change, and the namespace first if this is its first write.
    pub(crate) async fn commit(&self, change: SourceChange) -> Result<(), StoreError> {
        let change = self.stamped(change);
        match self.index().change_sources(self.base_key(), change.clone()).await {
            Err(StoreError::NotFound { .. }) => {
                let description = Some(self.namespace.canonical());
                let settings = BaseSettings { language: self.memories.0.language, description };
                self.index().put_base(self.base_key(), settings, self.now()).await?;
                self.index().change_sources(self.base_key(), change).await.map(drop)
            }
            changed => changed.map(drop),
        }
    }

    /// Adds a new stamp to a change of rules, so that a reader of the core block need not read them to see whether they
    /// changed.
    fn stamped(&self, mut change: SourceChange) -> SourceChange {
        let is_rule = |it: &SourceId| Kind::Record.name(it).is_some_and(|it| it.starts_with(RULE));
        let put = change.put.iter().map(|it| (&it.info.id, it.info.version.as_str()));
        let removed = change.remove.iter().map(|it| (it, ""));
        let rules: Vec<_> = put.chain(removed).filter(|(id, _)| is_rule(id)).collect();
        let Some(id) = core_stamp_id().filter(|_| !rules.is_empty()) else { return change };
        let now = self.now();
        let version = short_hash(&format!("{}\n{rules:?}", now.0));
        change.put.push(self.with_analyzer(|it| document(id, version, &NoData {}, &[], (now, it))));
        change
    }

    /// Returns the stamp of the newest change of rules; `None` if there was none.
    pub(crate) async fn core_stamp(&self) -> Result<Option<String>, MemoryError> {
        let found = self.documents(core_stamp_id().into_iter().collect()).await?;
        Ok(found.into_iter().next().map(|it| it.version))
    }

    /// Returns the documents with these ids. A namespace that was never written to has none.
    pub(crate) async fn documents(&self, ids: Vec<SourceId>) -> Result<Vec<SourceInfo>, StoreError> {
        absent_is_empty(self.index().sources_with(self.base_key(), ids).await)
    }

    /// Lists the documents of a kind whose names begin with `start`.
    pub(crate) async fn all(&self, kind: Kind, start: &str) -> Result<Vec<SourceInfo>, MemoryError> {
        let prefix = format!("{}{start}", kind.prefix());
        // The list begins after the id that it is given, and this one comes directly before the prefix, or is no
        // document's: a document's name is never empty.
        let mut after = SourceId::parse(match start.is_empty() {
            true => prefix.clone(),
            false => before(&prefix),
        })
        .map_err(|err| MemoryError::Invalid(err.to_string()))?;
        let mut found = Vec::new();
        loop {
            let page = self.index().sources(self.base_key(), Some(after), PAGE).await;
            let page = absent_is_empty(page)?;
            let is_past = |it: &SourceInfo| *it.id.as_str() > *prefix && !it.id.as_str().starts_with(&prefix);
            let next = page.last().filter(|it| page.len() == PAGE && !is_past(it)).map(|it| it.id.clone());
            found.extend(page.into_iter().filter(|it| it.id.as_str().starts_with(&prefix)));
            match next {
                Some(last) => after = last,
                None => return Ok(found),
            }
        }
    }

    /// Returns documents with their texts, chunk by chunk, in the order of their ids. One that is replaced between the
    /// two reads is read again; one that is removed is left out.
    pub(crate) async fn with_texts(
        &self,
        infos: Vec<SourceInfo>,
    ) -> Result<Vec<(SourceInfo, Vec<String>)>, MemoryError> {
        let mut found = BTreeMap::new();
        let mut unread = infos;
        loop {
            let mut replaced = Vec::new();
            for page in unread.chunks(PAGE) {
                for (info, texts) in page.iter().zip(self.texts(page).await?) {
                    match texts {
                        Some(texts) => drop(found.insert(info.id.clone(), (info.clone(), texts))),
                        None => replaced.push(info.id.clone()),
                    }
                }
            }
            if replaced.is_empty() {
                return Ok(found.into_values().collect());
            }
            unread = self.documents(replaced).await?;
        }
    }

    /// Returns the texts of documents; `None` for one that was replaced or removed since its `info` was read.
    async fn texts(&self, infos: &[SourceInfo]) -> Result<Vec<Option<Vec<String>>>, MemoryError> {
        let numbers = infos.iter().flat_map(chunk_numbers).collect();
        let selection = ChunkSelection::Numbers(numbers);
        let chunks = absent_is_empty(self.index().chunks(self.base_key(), selection).await)?;
        let by_number: BTreeMap<u64, StoredChunk> = chunks.into_iter().map(|it| (it.no, it)).collect();
        let text = |no: u64| Some(by_number.get(&no)?.text.clone());
        Ok(infos.iter().map(|it| chunk_numbers(it).map(text).collect()).collect())
    }

    /// Returns documents as records.
    async fn records_of(&self, infos: Vec<SourceInfo>) -> Result<Vec<Record>, MemoryError> {
        let found = self.with_texts(infos).await?;
        found.iter().map(|(info, texts)| record_of(info, texts.first().map_or("", String::as_str))).collect()
    }

    /// Returns a record in its newest version.
    pub async fn get(&self, id: &str) -> Result<Option<Record>, MemoryError> {
        let found = self.documents(vec![Kind::Record.id(id)?]).await?;
        Ok(self.records_of(found).await?.pop())
    }

    pub(crate) async fn existing(&self, id: &str) -> Result<Record, MemoryError> {
        self.get(id).await?.ok_or_else(|| MemoryError::NotFound { id: id.to_owned() })
    }

    /// Lists records, oldest first.
    pub async fn list(&self, filter: &RecordFilter) -> Result<Vec<Record>, MemoryError> {
        let start = if filter.layer == Some(Layer::Rules) { RULE } else { "" };
        let mut infos = self.all(Kind::Record, start).await?;
        if filter.as_of.is_some() {
            infos.extend(self.all(Kind::Version, "").await?);
        }
        let now = self.now();
        let mut records = self.records_of(infos).await?;
        records.retain(|it| {
            filter.layer.is_none_or(|layer| it.layer == layer)
                && filter.status.is_none_or(|status| it.status == status)
                && match filter.as_of {
                    Some(at) => it.holds_at(at),
                    None => filter.with_past || it.valid_to.is_none_or(|end| now < end),
                }
        });
        records.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        Ok(records)
    }

    /// Returns all versions of a record, oldest first.
    pub async fn history(&self, id: &str) -> Result<Vec<Record>, MemoryError> {
        let earlier = self.all(Kind::Version, &format!("{id}/")).await?;
        let mut records = self.records_of(earlier).await?;
        records.push(self.existing(id).await?);
        Ok(records)
    }

    /// Adds a record. One with the same key or the same words that holds already is returned as it is.
    pub async fn add(&self, new: NewRecord) -> Result<Record, MemoryError> {
        check_text(&new.text)?;
        if new.layer == Layer::Episodes {
            return Err(MemoryError::Invalid("episodes are written by the log alone".to_owned()));
        }
        let id = new.id();
        loop {
            let (now, known) = (self.now(), self.get(&id).await?);
            let change = match &known {
                Some(known) if new.key.is_some() || known.status != Status::Accepted => {
                    return Ok(known.clone());
                }
                Some(known) if known.holds_at(now) => return Ok(known.clone()),
                // It held before, and is said again.
                Some(known) => self.replacing(known, revived(known.clone(), new.clone(), now))?,
                None => self.creating(&new.clone().record(id.clone(), now))?,
            };
            match self.commit(change).await {
                Err(StoreError::Stale { .. }) => {}
                done => {
                    done?;
                    return self.existing(&id).await;
                }
            }
        }
    }

    /// Returns the change that creates a record.
    pub(crate) fn creating(&self, record: &Record) -> Result<SourceChange, MemoryError> {
        let id = Kind::Record.id(&record.id)?;
        let put = self.with_analyzer(|it| record_document(record, id.clone(), it));
        let expected = ExpectedVersion { id, version: None };
        Ok(SourceChange { expected: vec![expected], remove: Vec::new(), put: vec![put] })
    }

    /// Returns the change that puts the next version of a record in its place, and keeps the one before.
    pub(crate) fn replacing(
        &self,
        known: &Record,
        (next, before): (Record, Record),
    ) -> Result<SourceChange, MemoryError> {
        let id = Kind::Record.id(&known.id)?;
        let version = version_id(&known.id, known.version)?;
        let expected = ExpectedVersion { id: id.clone(), version: Some(known.stored_version()) };
        let put = self
            .with_analyzer(|it| vec![record_document(&next, id, it), record_document(&before, version, it)]);
        let oldest = next.version.checked_sub(MAX_VERSIONS + 1).filter(|it| *it > 0);
        let remove = oldest.map(|it| version_id(&known.id, it)).transpose()?.into_iter().collect();
        Ok(SourceChange { expected: vec![expected], remove, put })
    }

    /// Changes a record. With `expected`, only in that version: otherwise the error has the record as it is now.
    /// Without it the change applies to whatever version there is. Returns the new version.
    pub async fn edit(
        &self,
        id: &str,
        expected: Option<u64>,
        edit: RecordEdit,
    ) -> Result<Record, MemoryError> {
        edit.text.as_deref().map_or(Ok(()), check_text)?;
        if edit.layer.is_some_and(|it| (it == Layer::Rules) != id.starts_with(RULE)) {
            let text = "a rule stays a rule, and nothing else becomes one: add a record in place of it";
            return Err(MemoryError::Invalid(text.to_owned()));
        }
        loop {
            let known = match (self.get(id).await?, expected) {
                (Some(known), Some(expected)) if known.version != expected => {
                    let current = Some(Box::new(known));
                    return Err(MemoryError::Stale { id: id.to_owned(), expected, current });
                }
                (Some(known), _) => known,
                (None, Some(expected)) => {
                    return Err(MemoryError::Stale { id: id.to_owned(), expected, current: None });
                }
                (None, None) => return Err(MemoryError::NotFound { id: id.to_owned() }),
            };
            let (next, before) = edited(known.clone(), edit.clone(), self.now());
            match self.commit(self.replacing(&known, (next.clone(), before))?).await {
                Err(StoreError::Stale { .. }) => {}
                done => return Ok(done.map(|()| next)?),
            }
        }
    }

    /// Adds a record in place of another, which holds no more from now on, as one commit.
    pub async fn supersede(
        &self,
        old: &str,
        expected: Option<u64>,
        new: NewRecord,
    ) -> Result<Record, MemoryError> {
        check_text(&new.text)?;
        let id = new.id();
        if let Some(known) = self.get(&id).await? {
            return Ok(known);
        }
        loop {
            let (now, known) = (self.now(), self.existing(old).await?);
            if let Some(expected) = expected.filter(|it| *it != known.version) {
                let current = Some(Box::new(known));
                return Err(MemoryError::Stale { id: old.to_owned(), expected, current });
            }
            let added = new.clone().record(id.clone(), now);
            let past =
                RecordEdit { valid_to: Some(now), superseded_by: Some(id.clone()), ..RecordEdit::default() };
            let mut change = self.replacing(&known, edited(known.clone(), past, now))?;
            let creating = self.creating(&added)?;
            change.expected.extend(creating.expected);
            change.put.extend(creating.put);
            match self.commit(change).await {
                Err(StoreError::Stale { .. }) => {}
                done => return Ok(done.map(|()| added)?),
            }
        }
    }

    /// Accepts or rejects a record.
    pub async fn decide(
        &self,
        id: &str,
        status: Status,
        expected: Option<u64>,
    ) -> Result<Record, MemoryError> {
        // What was decided before needs no further version.
        let is_decided = |it: &Record| it.status == status && expected.is_none_or(|at| at == it.version);
        if let Some(known) = self.get(id).await?.filter(is_decided) {
            return Ok(known);
        }
        self.edit(id, expected, RecordEdit { status: Some(status), ..RecordEdit::default() }).await
    }

    /// Counts that an answer used records. What can't be counted is left: a count is evidence, not an account.
    pub async fn count_uses(&self, ids: &[String]) -> Result<(), MemoryError> {
        for id in ids {
            // Three attempts: the others are those of writers who have counted something too.
            for _ in 0..3 {
                let Some(known) = self.get(id).await? else { break };
                let now = self.now();
                let used = Record { uses: known.uses + 1, used_at: Some(now), ..known.clone() };
                let source = Kind::Record.id(id)?;
                let put = self.with_analyzer(|it| record_document(&used, source.clone(), it));
                let expected = ExpectedVersion { id: source, version: Some(known.stored_version()) };
                let change = SourceChange { expected: vec![expected], remove: Vec::new(), put: vec![put] };
                match self.commit(change).await {
                    Err(StoreError::Stale { .. }) => {}
                    done => {
                        done?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Searches the memory. Best hits first; of those with the same words the best one.
    pub async fn search(&self, request: &SearchRequest) -> Result<Vec<MemoryHit>, MemoryError> {
        let config = RankConfig::conversation();
        let language = self.memories.0.language;
        let query = RankQuery { text: request.query.clone(), language, config, ..RankQuery::default() };
        // More than asked for: what holds no more, or is of another layer, is left out afterwards.
        let max = (request.limit * 4 + 40).min(MAX_HITS);
        let found = match self.index().search_base(self.base_key(), query, max).await {
            Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
            found => found?,
        };
        let at = request.as_of.unwrap_or_else(|| self.now());
        let is_wanted = |it: &MemoryHit| {
            it.score >= request.min_score && (request.layers.is_empty() || request.layers.contains(&it.layer))
        };
        let is_past = request.as_of.is_some();
        let read = found.hits.into_iter().filter_map(|it| read_hit(it, at, is_past).transpose());
        let mut read = read.collect::<Result<Vec<MemoryHit>, MemoryError>>()?;
        // Stable: hits in a tie stay in the order of the ranking.
        read.sort_by(|one, other| other.score.total_cmp(&one.score));
        let (mut hits, mut seen) = (Vec::new(), Vec::new());
        for hit in read.into_iter().filter(is_wanted) {
            let words = normal(&hit.text);
            if hits.len() == request.limit || seen.contains(&words) {
                continue;
            }
            seen.push(words);
            hits.push(hit);
        }
        Ok(hits)
    }

    /// Replaces documents without comparing anything, for imports.
    pub(crate) async fn put(&self, put: Vec<NewSource>) -> Result<(), MemoryError> {
        Ok(self.commit(SourceChange { put, ..SourceChange::default() }).await?)
    }
}

/// Returns the id of the document whose version is the stamp of the rules.
pub(crate) fn core_stamp_id() -> Option<SourceId> {
    Kind::CoreStamp.id("rules").ok()
}

/// Returns what a search found as a hit, if it held at the time.
fn read_hit(hit: ChunkHit, at: Timestamp, is_past: bool) -> Result<Option<MemoryHit>, MemoryError> {
    let ChunkHit { chunk, source, scored } = hit;
    let (score, shares) = (scored.score, scored.shares);
    if Kind::Episode.name(&source.id).is_some() {
        let data: EpisodeData = sources::data(&source)?;
        let said = data.said.get(chunk.position as usize).filter(|it| it.at <= at);
        return Ok(said.map(|it| MemoryHit {
            id: format!("{}:{}", data.thread, it.seq),
            layer: Layer::Episodes,
            text: chunk.text,
            score,
            shares,
            thread: Some(data.thread.clone()),
            turn: Some(it.turn.clone()),
            at: it.at,
            uses: 0,
        }));
    }
    let is_version = Kind::Version.name(&source.id).is_some();
    if !is_version && Kind::Record.name(&source.id).is_none() {
        return Ok(None);
    }
    let record = record_of(&source, &chunk.text)?;
    // An earlier version that is the newest no more counts only in the past.
    if !record.holds_at(at) || (is_version && !is_past) {
        return Ok(None);
    }
    let from = record.provenance.iter().find(|it| it.thread.is_some());
    Ok(Some(MemoryHit {
        id: record.id.clone(),
        layer: record.layer,
        text: chunk.text,
        score: with_uses(score, record.uses),
        shares,
        thread: from.and_then(|it| it.thread.clone()),
        turn: from.and_then(|it| it.turn.clone()),
        at: record.valid_from,
        uses: record.uses,
    }))
}

/// Raises the score of a record that answers have used, by a tenth at most.
fn with_uses(score: f64, uses: u64) -> f64 {
    // At most ten, so the cast is exact.
    (score * (1.0 + USE_WEIGHT * uses.min(MOST_USES) as f64 / MOST_USES as f64)).min(1.0)
}

/// Returns the next version of a record that held before and is said again.
fn revived(known: Record, new: NewRecord, now: Timestamp) -> (Record, Record) {
    let (next, before) = edited(known, RecordEdit::default(), now);
    let provenance = next.provenance.iter().cloned().chain(new.provenance).collect();
    let next = Record { valid_from: now, valid_to: new.valid_to, superseded_by: None, provenance, ..next };
    (next, before)
}

fn check_text(text: &str) -> Result<(), MemoryError> {
    if text.chars().all(|it| it.is_whitespace() || it.is_control()) {
        return Err(MemoryError::Invalid("a record needs a text".to_owned()));
    }
    match text.len() > MAX_TEXT_BYTES {
        true => Err(MemoryError::Invalid(format!(
            "a text of {} bytes is too long for a record, {MAX_TEXT_BYTES} are allowed",
            text.len()
        ))),
        false => Ok(()),
    }
}

/// A namespace that was never written to is empty.
fn absent_is_empty<T: Default>(result: Result<T, StoreError>) -> Result<T, StoreError> {
    match result {
        Err(StoreError::NotFound { .. }) => Ok(T::default()),
        result => result,
    }
}

/// Returns the numbers of a document's chunks.
fn chunk_numbers(info: &SourceInfo) -> std::ops::Range<u64> {
    info.first..info.first + u64::from(info.chunks)
}

/// Returns a text that comes before all that begin with this one, and after what comes before them.
fn before(text: &str) -> String {
    let mut shorter = text.to_owned();
    shorter.pop();
    shorter
}
