//! Checks of [`SourceIndex`].

use std::sync::Arc;

use contexture_history::Timestamp;
use futures::future::{BoxFuture, join_all};
use serde_json::json;

use super::support::{SystemTime, TestNames};
use crate::rank::{Analyzer, Fields, Language, RankConfig, RankQuery, Similarities};
use crate::sources::{
    BaseHits, BaseSettings, ChunkSelection, ChunkVector, ExpectedVersion, NewChunk, NewSource, SourceChange,
    SourceIndex, SourceInfo, SourcesChanged,
};
use crate::{BaseId, BaseKey, MemoryStore, Names as _, SourceId, StoreError, Tenant};

/// Opens the store once more, as another process would.
pub type OpenSources = Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn SourceIndex>> + Send + Sync>;

fn new_key() -> BaseKey {
    let tenant = Tenant::parse(TestNames.next()).expect("a tenant");
    BaseKey { tenant, base: BaseId::parse("base").expect("a name") }
}

fn id(name: &str) -> SourceId {
    SourceId::parse(name).expect("a valid id")
}

/// A document whose chunks are the paragraphs of a text.
fn source(name: &str, text: &str) -> NewSource {
    let mut analyzer = Analyzer::new(Language::English);
    let headings = vec!["Guide".to_owned(), name.to_owned()];
    let mut at = 0;
    let chunk = |(section, part): (u32, &str)| {
        let start = at;
        at += part.len() as u64 + 2;
        let bytes = start..start + part.len() as u64;
        let terms = analyzer.index(Fields { title: name, headings: &headings, body: part });
        NewChunk {
            text: part.to_owned(),
            headings: headings.clone(),
            section,
            chars: bytes.clone(),
            bytes,
            terms,
        }
    };
    let chunks = (0..).zip(text.split("\n\n")).map(chunk).collect();
    let info = SourceInfo {
        id: id(name),
        title: name.to_owned(),
        origin: Some(format!("file:{name}")),
        media_type: "text/plain".to_owned(),
        metadata: json!({"kind": name}).as_object().cloned().unwrap_or_default(),
        version: format!("v{}", text.len()),
        bytes: text.len() as u64,
        at: Timestamp(1_000),
        first: 0,
        chunks: 0,
    };
    NewSource { info, chunks }
}

struct Fixture {
    store: Arc<dyn SourceIndex>,
    key: BaseKey,
}

impl Fixture {
    async fn new(open: &OpenSources) -> Self {
        Self::on(open().await, new_key()).await
    }

    async fn on(store: Arc<dyn SourceIndex>, key: BaseKey) -> Self {
        store.put_base(key.clone(), BaseSettings::default(), Timestamp(5)).await.expect("a base");
        Self { store, key }
    }

    async fn replace(&self, sources: Vec<NewSource>) {
        self.store.replace_sources(self.key.clone(), sources).await.expect("a commit");
    }

    async fn search(&self, query: RankQuery, max: usize) -> BaseHits {
        self.store.search_base(self.key.clone(), query, max).await.expect("a search")
    }

    /// Returns `document/position` of what is found.
    async fn find(&self, text: &str) -> Vec<String> {
        let mut query = RankQuery { text: text.to_owned(), ..RankQuery::default() };
        // Feedback finds more than the words that were asked for.
        query.config.signals.feedback = 0.0;
        let found = self.search(query, 100).await;
        found.hits.iter().map(|it| format!("{}/{}", it.source.id, it.chunk.position)).collect()
    }
}

/// A document with its chunks is returned as it was added, whatever characters are in it.
pub async fn sources_come_back_as_they_were(open: OpenSources) {
    let base = Fixture::new(&open).await;
    let new = source("a/ü.md", "nul\0byte and Łódź\n\nsecond 東京\n\n");
    base.replace(vec![new.clone()]).await;
    let again = open().await;
    let found = again.sources_with(base.key.clone(), vec![id("a/ü.md"), id("none")]).await.expect("a read");
    let expected = SourceInfo { first: 1, chunks: 3, ..new.info.clone() };
    assert_eq!(found, [expected]);
    let all = ChunkSelection::Range { source: id("a/ü.md"), positions: 0..u32::MAX };
    let chunks = again.chunks(base.key.clone(), all).await.expect("a read");
    for ((no, chunk), new) in (1..).zip(&chunks).zip(&new.chunks) {
        assert_eq!((chunk.no, chunk.position, chunk.of), (no, chunk.position, 3));
        assert_eq!((&chunk.text, &chunk.headings, chunk.section), (&new.text, &new.headings, new.section));
        assert_eq!((&chunk.bytes, &chunk.chars), (&new.bytes, &new.chars));
    }
    assert_eq!(
        chunks.iter().map(|it| (it.before(), it.after())).collect::<Vec<_>>(),
        [(None, Some(2)), (Some(1), Some(3)), (Some(2), None)]
    );
    let some = ChunkSelection::Numbers(vec![3, 1, 3, 99]);
    let some = again.chunks(base.key.clone(), some).await.expect("a read");
    assert_eq!(some.iter().map(|it| it.no).collect::<Vec<_>>(), [1, 3]);
    let range = ChunkSelection::Range { source: id("a/ü.md"), positions: 1..2 };
    let range = again.chunks(base.key.clone(), range).await.expect("a read");
    assert_eq!(range.iter().map(|it| it.position).collect::<Vec<_>>(), [1]);
    assert_eq!(base.find("byte").await, ["a/ü.md/0"]);
    assert_eq!(base.find("東京").await, ["a/ü.md/1"]);
    assert_eq!(base.find("").await, Vec::<String>::new());
}

/// A document is replaced with everything that belongs to it, and its numbers are not used again.
pub async fn replacing_leaves_nothing_behind(open: OpenSources) {
    let base = Fixture::new(&open).await;
    base.replace(vec![source("one", "old words\n\nmore old words"), source("two", "other things")]).await;
    let before = base.store.base(base.key.clone()).await.expect("a read").expect("a base");
    assert_eq!((before.documents, before.chunks), (2, 3));
    base.replace(vec![source("one", "new text")]).await;
    let after = base.store.base(base.key.clone()).await.expect("a read").expect("a base");
    assert_eq!((after.documents, after.chunks), (2, 2));
    assert!(after.version > before.version && after.length < before.length);
    assert_eq!(base.find("old words").await, Vec::<String>::new());
    assert_eq!(base.find("new").await, ["one/0"]);
    let found = base.store.sources_with(base.key.clone(), vec![id("one")]).await.expect("a read");
    assert_eq!((found[0].first, found[0].chunks), (4, 1));
    let gone = base.store.chunks(base.key.clone(), ChunkSelection::Numbers(vec![1, 2])).await;
    assert!(gone.expect("a read").is_empty());
    let removed = base.store.remove_sources(base.key.clone(), vec![id("one"), id("none")]).await;
    assert_eq!(removed.expect("a commit"), 1);
    assert_eq!(base.find("new").await, Vec::<String>::new());
    base.replace(vec![source("one", "")]).await;
    let empty = base.store.base(base.key.clone()).await.expect("a read").expect("a base");
    assert_eq!((empty.documents, empty.chunks), (2, 2));
}

/// Documents and bases are listed in the order of their names, page by page.
pub async fn sources_and_bases_are_listed(open: OpenSources) {
    let base = Fixture::new(&open).await;
    let names = ["b", "a", "ä", "B", "a/1"];
    base.replace(names.iter().map(|it| source(it, "text")).collect()).await;
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = base.store.sources(base.key.clone(), after.clone(), 2).await.expect("a list");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        listed.extend(page.into_iter().map(|it| it.id.to_string()));
    }
    assert_eq!(listed, ["B", "a", "a/1", "b", "ä"]);
    let other = BaseKey { base: BaseId::parse("another").expect("a name"), ..base.key.clone() };
    let settings = BaseSettings { description: Some("what it is".to_owned()), language: Language::German };
    let info = base.store.put_base(other.clone(), settings.clone(), Timestamp(9)).await.expect("a base");
    assert_eq!((&info.settings, info.created), (&settings, Timestamp(9)));
    let bases = base.store.bases(base.key.tenant.clone(), None, 9).await.expect("a list");
    assert_eq!(bases.iter().map(|it| it.base.as_str()).collect::<Vec<_>>(), ["another", "base"]);
    let bases = base.store.bases(base.key.tenant.clone(), Some(other.base.clone()), 9).await.expect("a list");
    assert_eq!(bases.iter().map(|it| it.documents).collect::<Vec<_>>(), [5]);
    assert!(base.store.delete_base(base.key.clone()).await.expect("a commit"));
    assert!(!base.store.delete_base(base.key.clone()).await.expect("a commit"));
    assert_eq!(base.store.base(base.key.clone()).await.expect("a read"), None);
    let again = Fixture::on(base.store, base.key).await;
    assert_eq!(again.find("text").await, Vec::<String>::new());
}

/// What has no base is an error, and says so.
pub async fn missing_bases_are_told(open: OpenSources) {
    let (store, key) = (open().await, new_key());
    let is_missing = |err: StoreError| matches!(err, StoreError::NotFound { what: "knowledge base", .. });
    let text = || "text".to_owned();
    assert!(is_missing(store.replace_sources(key.clone(), Vec::new()).await.expect_err("no base")));
    assert!(is_missing(store.remove_sources(key.clone(), Vec::new()).await.expect_err("no base")));
    assert!(is_missing(store.sources(key.clone(), None, 1).await.expect_err("no base")));
    assert!(is_missing(store.sources_with(key.clone(), Vec::new()).await.expect_err("no base")));
    let none = ChunkSelection::Numbers(Vec::new());
    assert!(is_missing(store.chunks(key.clone(), none).await.expect_err("no base")));
    let query = RankQuery { text: text(), ..RankQuery::default() };
    assert!(is_missing(store.search_base(key.clone(), query, 1).await.expect_err("no base")));
    assert!(is_missing(store.put_vectors(key.clone(), text(), Vec::new()).await.expect_err("no base")));
    assert!(is_missing(store.without_vector(key.clone(), text(), 0, 1).await.expect_err("no base")));
    assert!(is_missing(store.vectors(key, text(), 0, 1).await.expect_err("no base")));
}

/// Nothing of a tenant is visible to another, nor of a base in another, in any operation.
pub async fn bases_are_apart(open: OpenSources) {
    let secret = Fixture::new(&open).await;
    secret.replace(vec![source("plan", "the secret plan\n\nand its details")]).await;
    let vector = |no| ChunkVector { no, values: vec![1, 2] };
    let put = secret.store.put_vectors(secret.key.clone(), "m".to_owned(), vec![vector(1), vector(2)]);
    put.await.expect("a commit");
    let beside = BaseKey { base: BaseId::parse("beside").expect("a name"), ..secret.key.clone() };
    for key in [new_key(), beside] {
        let other = Fixture::on(Arc::clone(&secret.store), key.clone()).await;
        assert_eq!(other.find("secret plan").await, Vec::<String>::new());
        other.replace(vec![source("own", "an own plan")]).await;
        assert_eq!(other.find("secret plan").await, ["own/0"]);
        let store = &other.store;
        assert_eq!(store.sources_with(key.clone(), vec![id("plan")]).await.expect("a read"), []);
        let listed = store.sources(key.clone(), None, 9).await.expect("a read");
        assert_eq!(listed.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["own"]);
        let chunks = store.chunks(key.clone(), ChunkSelection::Numbers(vec![1, 2])).await.expect("a read");
        assert_eq!(chunks.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["an own plan"]);
        let range = ChunkSelection::Range { source: id("plan"), positions: 0..9 };
        assert_eq!(store.chunks(key.clone(), range).await.expect("a read"), []);
        assert_eq!(store.vectors(key.clone(), "m".to_owned(), 0, 9).await.expect("a read"), []);
        let stolen = ChunkVector { no: 2, values: vec![9] };
        store.put_vectors(key.clone(), "m".to_owned(), vec![stolen]).await.expect("a commit");
        assert_eq!(store.remove_sources(key.clone(), vec![id("plan")]).await.expect("a commit"), 0);
        assert!(store.delete_base(key).await.expect("a commit"));
    }
    assert_eq!(secret.find("secret").await, ["plan/0"]);
    let vectors = secret.store.vectors(secret.key.clone(), "m".to_owned(), 0, 9).await.expect("a read");
    assert_eq!(vectors, [vector(1), vector(2)]);
    let bases = secret.store.bases(secret.key.tenant.clone(), None, 9).await.expect("a list");
    assert_eq!(bases.len(), 1);
}

/// Vectors are kept by model, and go with their chunks.
pub async fn vectors_go_with_their_chunks(open: OpenSources) {
    let base = Fixture::new(&open).await;
    base.replace(vec![source("one", "a\n\nb"), source("two", "c")]).await;
    let without = async |model: &str, after| {
        let found = base.store.without_vector(base.key.clone(), model.to_owned(), after, 9).await;
        found.expect("a read").iter().map(|it| it.no).collect::<Vec<_>>()
    };
    let vectors = async |model: &str, after, max| {
        let found = base.store.vectors(base.key.clone(), model.to_owned(), after, max).await.expect("a read");
        found.into_iter().map(|it| (it.no, it.values)).collect::<Vec<_>>()
    };
    let put = async |model: &str, nos: &[u64], value: i8| {
        let vectors = nos.iter().map(|no| ChunkVector { no: *no, values: vec![value, -128, 127] }).collect();
        base.store.put_vectors(base.key.clone(), model.to_owned(), vectors).await.expect("a commit");
    };
    assert_eq!(without("m", 0).await, [1, 2, 3]);
    put("m", &[1, 3, 77], 1).await;
    assert_eq!(without("m", 0).await, [2]);
    assert_eq!(without("m", 2).await, Vec::<u64>::new());
    assert_eq!(vectors("m", 0, 9).await, [(1, vec![1, -128, 127]), (3, vec![1, -128, 127])]);
    assert_eq!(vectors("m", 0, 1).await.len(), 1);
    put("other", &[3], 5).await;
    assert_eq!(vectors("m", 0, 9).await.len(), 1);
    assert_eq!(vectors("other", 1, 9).await, [(3, vec![5, -128, 127])]);
    base.replace(vec![source("one", "a\n\nb")]).await;
    assert_eq!(vectors("m", 0, 9).await, []);
    assert_eq!(without("m", 0).await, [3, 4, 5]);
}

/// Writers of one base that come together lose nothing, and its sums are right.
pub async fn writers_of_a_base_lose_nothing(open: OpenSources) {
    let base = Fixture::new(&open).await;
    let stores = [open().await, open().await];
    let write = |no: usize| {
        let (store, key) = (Arc::clone(&stores[no % 2]), base.key.clone());
        let text = (0..=no % 5).map(|it| format!("word{no} part{it}")).collect::<Vec<_>>().join("\n\n");
        // Half of them write the same documents.
        let new = source(&format!("document-{}", no % 12), &text);
        async move { store.replace_sources(key, vec![new]).await.expect("a commit") }
    };
    join_all((0..24).map(write)).await;
    let info = base.store.base(base.key.clone()).await.expect("a read").expect("a base");
    let listed = base.store.sources(base.key.clone(), None, 99).await.expect("a list");
    assert_eq!((info.documents, listed.len()), (12, 12));
    assert_eq!(info.chunks, listed.iter().map(|it| u64::from(it.chunks)).sum::<u64>());
    for document in &listed {
        let all = ChunkSelection::Range { source: document.id.clone(), positions: 0..99 };
        let chunks = base.store.chunks(base.key.clone(), all).await.expect("a read");
        let numbers: Vec<u64> = chunks.iter().map(|it| it.no).collect();
        assert_eq!(
            numbers,
            (document.first..document.first + u64::from(document.chunks)).collect::<Vec<_>>()
        );
        let word = chunks[0].text.split(' ').next().unwrap_or_default().to_owned();
        let found = base.find(&word).await;
        assert_eq!(found.len(), chunks.len(), "{word}: {found:?}");
    }
}

/// A change that expects another version is refused as a whole, and says which version there is.
pub async fn stale_changes_are_refused(open: OpenSources) {
    let base = Fixture::new(&open).await;
    let expect = |name: &str, version: Option<&str>| ExpectedVersion {
        id: id(name),
        version: version.map(str::to_owned),
    };
    let change = async |expected: Vec<ExpectedVersion>, remove: &[&str], put: Vec<NewSource>| {
        let remove = remove.iter().map(|it| id(it)).collect();
        base.store.change_sources(base.key.clone(), SourceChange { expected, remove, put }).await
    };
    let stale = |result: Result<SourcesChanged, StoreError>| match result {
        Err(StoreError::Stale { document, expected, found }) => (document, expected, found),
        other => panic!("not stale: {other:?}"),
    };
    let first = change(vec![expect("a", None)], &[], vec![source("a", "apple"), source("b", "banana")]).await;
    assert_eq!(first.expect("a commit").removed, 0);
    let again = change(vec![expect("a", None)], &["b"], vec![source("a", "cherry")]).await;
    assert_eq!(stale(again), ("a".to_owned(), None, Some("v5".to_owned())));
    // One that holds does not help another that does not.
    let expected = vec![expect("a", Some("v5")), expect("b", Some("v5"))];
    let half = change(expected, &["a"], vec![source("c", "damson")]).await;
    assert_eq!(stale(half), ("b".to_owned(), Some("v5".to_owned()), Some("v6".to_owned())));
    let gone = change(vec![expect("z", Some("v1"))], &["a"], Vec::new()).await;
    assert_eq!(stale(gone), ("z".to_owned(), Some("v1".to_owned()), None));
    assert_eq!(base.find("apple banana cherry damson").await.len(), 2);
    // What is removed and added in one change is there afterwards.
    let expected = vec![expect("a", Some("v5")), expect("b", Some("v6"))];
    let changed = change(expected, &["a", "b", "none"], vec![source("a", "fig")]).await.expect("a commit");
    let info = base.store.base(base.key.clone()).await.expect("a read").expect("a base");
    assert_eq!((changed.removed, changed.version, info.documents), (2, info.version, 1));
    assert_eq!(base.find("apple banana damson fig").await, ["a/0"]);
}

/// Of writers that have read one version one succeeds; those that read again lose nothing.
pub async fn changes_of_one_version_lose_nothing(open: OpenSources) {
    const WRITERS: usize = 64;
    let base = Fixture::new(&open).await;
    base.replace(vec![source("count", "0")]).await;
    let stores = [open().await, open().await, open().await];
    let write = |no: usize| {
        let (store, key) = (Arc::clone(&stores[no % 3]), base.key.clone());
        async move {
            loop {
                let read = store.sources_with(key.clone(), vec![id("count")]).await.expect("a read");
                let all = ChunkSelection::Range { source: id("count"), positions: 0..9 };
                let chunks = store.chunks(key.clone(), all).await.expect("a read");
                let Some(text) = chunks.first().map(|it| it.text.clone()) else { continue };
                let mut new = source("count", &format!("{text} {no}"));
                new.info.version = format!("{no}-{}", new.info.bytes);
                let expected = ExpectedVersion { id: id("count"), version: Some(read[0].version.clone()) };
                // The text and the version were read one after the other: the bytes say whether they belong together.
                if read[0].bytes != text.len() as u64 {
                    continue;
                }
                let change = SourceChange { expected: vec![expected], remove: Vec::new(), put: vec![new] };
                match store.change_sources(key.clone(), change).await {
                    Err(StoreError::Stale { .. }) => {}
                    changed => return changed.map(drop).expect("a commit"),
                }
            }
        }
    };
    join_all((0..WRITERS).map(write)).await;
    let all = ChunkSelection::Range { source: id("count"), positions: 0..9 };
    let chunks = base.store.chunks(base.key.clone(), all).await.expect("a read");
    let mut written: Vec<usize> =
        chunks[0].text.split(' ').skip(1).map(|it| it.parse().expect("a number")).collect();
    written.sort_unstable();
    assert_eq!(written, (0..WRITERS).collect::<Vec<_>>());
}

/// A source of numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A text of words, of which few are frequent and most are rare.
    fn text(&mut self, words: u64) -> String {
        let word = |it: u64| format!("w{}", it * it / 40);
        let words: Vec<String> = (0..words).map(|_| word(self.below(60))).collect();
        words.join(" ")
    }
}

/// Whatever happens to a base, all stores find the same with the same scores: they agree with the one in memory.
pub async fn stores_rank_alike(open: OpenSources) {
    let store = Fixture::new(&open).await;
    let memory = Fixture::on(Arc::new(MemoryStore::new(Arc::new(SystemTime))), store.key.clone()).await;
    let mut dice = Dice(7);
    for round in 0..12 {
        let mut sources = Vec::new();
        for _ in 0..6 {
            let name = format!("d{}", dice.below(30));
            let parts: Vec<String> = (0..=dice.below(4)).map(|_| dice.text(20)).collect();
            sources.push(source(&name, &parts.join("\n\n")));
        }
        let removed = vec![id(&format!("d{}", dice.below(30)))];
        for base in [&store, &memory] {
            base.replace(sources.clone()).await;
            base.store.remove_sources(base.key.clone(), removed.clone()).await.expect("a commit");
        }
        let config = if round % 2 == 0 { RankConfig::documents() } else { RankConfig::conversation() };
        let dense = (round % 3 == 0).then(|| {
            let nos: Arc<[u64]> = (1..400).collect();
            let values = nos.iter().map(|_| dice.below(100) as f32 / 100.0).collect();
            Arc::new(Similarities { best: vec![3, 5, 8, 200], nos, values })
        });
        for words in 1..6 {
            let text = dice.text(words);
            let now = Some(Timestamp(1_000_000));
            let query = RankQuery { text, config, now, dense: dense.clone(), ..RankQuery::default() };
            assert_eq!(store.search(query.clone(), 50).await, memory.search(query, 50).await);
        }
    }
}

/// Also with more texts than are ranked.
pub async fn frequent_terms_rank_alike(open: OpenSources) {
    let store = Fixture::new(&open).await;
    let memory = Fixture::on(Arc::new(MemoryStore::new(Arc::new(SystemTime))), store.key.clone()).await;
    let mut dice = Dice(11);
    let sources: Vec<NewSource> = (0..4)
        .map(|no| {
            let parts: Vec<String> = (0..500).map(|_| dice.text(6)).collect();
            source(&format!("d{no}"), &parts.join("\n\n"))
        })
        .collect();
    for base in [&store, &memory] {
        base.replace(sources.clone()).await;
    }
    for text in ["w0", "w0 w1", "w0 w2 w50 w87"] {
        let query = RankQuery { text: text.to_owned(), ..RankQuery::default() };
        let found = store.search(query.clone(), 700).await;
        assert!((600..=700).contains(&found.hits.len()), "{text}: {}", found.hits.len());
        assert_eq!(found, memory.search(query, 700).await);
    }
}
