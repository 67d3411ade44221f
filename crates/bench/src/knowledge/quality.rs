//! How good search is: the store's search, and SQLite's own, on the same data in the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use contexture_history::Timestamp;
use contexture_knowledge::{Document, IndexPorts, Indexer, Media};
use contexture_message::counter_for;
use contexture_session::SourceId;
use contexture_session::rank::{Analyzer, Fields, Language, RankConfig, RankQuery};
use contexture_session::sources::{BaseHits, NewChunk, NewSource, SourceIndex, SourceInfo};
use futures::executor::block_on;
use serde_json::{Map, Value, json};

use super::fts5::Fts5;
use super::remembered;
use super::sets::{Collection, Conversation, Spans};
use super::store_with_base;

/// The figures of all sets that were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// For each set, and each way to search it, the measures by name.
    pub figures: Vec<(String, &'static str, BTreeMap<&'static str, f64>)>,
    /// What could not be measured, and why.
    pub skipped: Vec<String>,
}

const OURS: &str = "contexture";
const PLAIN: &str = "fts5";
/// Through the tool `memory_search`, which returns at most 20 hits.
const MEMORY: &str = "memory";

/// What the tool of a memory has to find of the evidence of conversations, among ten hits.
const LOWEST_RECALL: f64 = 0.70;

impl Quality {
    /// Returns the sets of conversations of which the tool of a memory finds too little.
    pub fn too_low(&self) -> Vec<String> {
        let low = self.figures.iter().filter_map(|(set, way, figures)| {
            let found = *figures.get("recall@10").filter(|it| *way == MEMORY && **it < LOWEST_RECALL)?;
            Some(format!(
                "recall@10 of `{set}` through memory is {found:.3}, at least {LOWEST_RECALL} is wanted"
            ))
        });
        low.collect()
    }
}

/// Measures every set in a folder: `cacm*.json`, `locomo*.json` and `chunking*.json`. What is not there is skipped.
pub fn quality(folder: &Path, scratch: &Path) -> Result<Quality, Box<dyn Error>> {
    let mut quality = Quality::default();
    let Ok(files) = fs::read_dir(folder) else {
        quality.skipped.push(format!("{} is not there", folder.display()));
        return Ok(quality);
    };
    let mut names: Vec<String> = files
        .filter_map(|it| it.ok()?.file_name().into_string().ok())
        .filter(|it| it.ends_with(".json"))
        .collect();
    names.sort();
    for name in names {
        let measure = match &name {
            it if it.starts_with("cacm") => collection,
            it if it.starts_with("locomo") => conversations,
            it if it.starts_with("chunking") => spans,
            _ => continue,
        };
        let text = fs::read_to_string(folder.join(&name))?;
        let place = Scratch::new(scratch)?;
        for (way, figures) in measure(&text, &place)? {
            quality.figures.push((name.trim_end_matches(".json").to_owned(), way, figures));
        }
    }
    if quality.figures.is_empty() {
        quality.skipped.push(format!("{} has no sets", folder.display()));
    }
    Ok(quality)
}

type Figures = Vec<(&'static str, BTreeMap<&'static str, f64>)>;

/// Files of one measurement, removed at its end.
pub(super) struct Scratch(std::path::PathBuf);

impl Scratch {
    pub(super) fn new(folder: &Path) -> std::io::Result<Self> {
        let path = folder.join(format!("contexture-bench-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn indexer(store: &Arc<dyn SourceIndex>) -> Indexer {
    let ports = IndexPorts { store: Arc::clone(store), counter: counter_for(None), converter: None };
    Indexer::new(ports, Default::default())
}

fn collection(text: &str, place: &Scratch) -> Result<Figures, Box<dyn Error>> {
    let set: Collection = serde_json::from_str(text)?;
    let (store, base) = store_with_base(&place.file("cacm.db"))?;
    let document = |it: &super::sets::CollectionDocument| {
        Ok(Document::new(SourceId::parse(it.id.as_str())?, Media::Text, it.text.as_str()))
    };
    let documents = set.documents.iter().map(document).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    block_on(indexer(&store).add(&base, documents, &|_| {}))?;
    let mut plain = Fts5::new(None)?;
    plain.add((0..).zip(&set.documents).map(|(no, it)| (no, it.text.as_str())))?;
    let (mut ours, mut theirs) = (Ranks::default(), Ranks::default());
    for query in set.queries.iter().filter(|it| !it.relevant.is_empty()) {
        let relevant: BTreeSet<&str> = query.relevant.iter().map(String::as_str).collect();
        let ranked = RankQuery { text: query.query.clone(), ..RankQuery::default() };
        let found = block_on(store.search_base(base.clone(), ranked, 1_000))?;
        let ids = unique(found.hits.iter().map(|it| it.source.id.as_str()));
        ours.add(ids.iter().map(|it| relevant.contains(it)), relevant.len());
        let found = plain.search(&query.query, 1_000)?;
        let ids = found.iter().filter_map(|it| set.documents.get(usize::try_from(*it).ok()?));
        theirs.add(ids.map(|it| relevant.contains(it.id.as_str())), relevant.len());
    }
    Ok(vec![(OURS, ours.figures()), (PLAIN, theirs.figures())])
}

/// Documents that were found, each once: a document counts where its best chunk is.
fn unique<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    ids.filter(|it| seen.insert(*it)).collect()
}

/// Sums over the queries of a collection.
#[derive(Default)]
struct Ranks {
    queries: f64,
    average_precision: f64,
    ndcg: f64,
    recall: f64,
}

impl Ranks {
    fn add(&mut self, is_relevant: impl Iterator<Item = bool>, n_relevant: usize) {
        let discount = |idx: usize| 1.0 / ((idx + 2) as f64).log2();
        let (mut found, mut precision, mut gain, mut early) = (0.0, 0.0, 0.0, 0.0);
        for (idx, _) in is_relevant.enumerate().filter(|(_, it)| *it) {
            found += 1.0;
            precision += found / (idx + 1) as f64;
            gain += if idx < 10 { discount(idx) } else { 0.0 };
            early += if idx < 100 { 1.0 } else { 0.0 };
        }
        let ideal: f64 = (0..n_relevant.min(10)).map(discount).sum();
        self.queries += 1.0;
        self.average_precision += precision / n_relevant as f64;
        self.ndcg += gain / ideal;
        self.recall += early / n_relevant as f64;
    }

    fn figures(&self) -> BTreeMap<&'static str, f64> {
        let mean = |sum: f64| sum / self.queries.max(1.0);
        [
            ("map", mean(self.average_precision)),
            ("ndcg@10", mean(self.ndcg)),
            ("recall@100", mean(self.recall)),
        ]
        .into()
    }
}

fn conversations(text: &str, place: &Scratch) -> Result<Figures, Box<dyn Error>> {
    let set: Vec<Conversation> = serde_json::from_str(text)?;
    let (mut ours, mut theirs) = (Recalls::default(), Recalls::default());
    for (idx, conversation) in set.iter().enumerate() {
        let (store, base) = store_with_base(&place.file(&format!("conversation-{idx}.db")))?;
        let turns: Vec<&str> =
            conversation.sessions.iter().flat_map(|it| &it.turns).map(|it| it.id.as_str()).collect();
        let mut analyzer = Analyzer::new(Language::English);
        let sources = conversation.sessions.iter().map(|session| {
            let said = session.turns.iter().map(|it| format!("{}: {}", it.speaker, it.text));
            source(&mut analyzer, &session.id, said.collect())
        });
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<String> = sources.iter().flat_map(|it| &it.chunks).map(|it| it.text.clone()).collect();
        block_on(store.replace_sources(base.clone(), sources))?;
        let mut plain = Fts5::new(None)?;
        plain.add((0..).zip(texts.iter().map(String::as_str)))?;
        for question in &conversation.questions {
            let evidence: BTreeSet<&str> = question.evidence.iter().filter_map(Value::as_str).collect();
            if evidence.is_empty() {
                continue;
            }
            let config = RankConfig::conversation();
            let query = RankQuery { text: question.question.clone(), config, ..RankQuery::default() };
            let found: BaseHits = block_on(store.search_base(base.clone(), query, 50))?;
            // Chunks are numbered in the order of the turns, from 1.
            let found = found.hits.iter().map(|it| it.chunk.no - 1);
            ours.add(&evidence, found.filter_map(|it| turns.get(it as usize).copied()));
            let found = plain.search(&question.question, 50)?;
            theirs.add(&evidence, found.iter().filter_map(|it| turns.get(*it as usize).copied()));
        }
    }
    let mut remembered = Recalls::default();
    for (idx, conversation) in set.iter().enumerate() {
        let answers = remembered::answers(&place.file(&format!("memory-{idx}.db")), conversation)?;
        for (question, found) in conversation.questions.iter().zip(answers) {
            let evidence: BTreeSet<&str> = question.evidence.iter().filter_map(Value::as_str).collect();
            if !evidence.is_empty() {
                remembered.add(&evidence, found.iter().map(String::as_str));
            }
        }
    }
    Ok(vec![(OURS, ours.figures()), (MEMORY, remembered.figures()), (PLAIN, theirs.figures())])
}

fn source(analyzer: &mut Analyzer, id: &str, texts: Vec<String>) -> Result<NewSource, Box<dyn Error>> {
    let info = SourceInfo {
        id: SourceId::parse(id)?,
        title: String::new(),
        origin: None,
        media_type: "text/plain".to_owned(),
        metadata: Map::new(),
        version: String::new(),
        bytes: 0,
        at: Timestamp(0),
        first: 0,
        chunks: 0,
    };
    let chunk = |text: String| {
        let terms = analyzer.index(Fields { body: &text, ..Fields::default() });
        NewChunk { text, terms, ..NewChunk::default() }
    };
    Ok(NewSource { info, chunks: texts.into_iter().map(chunk).collect() })
}

const CUTS: [(usize, &str); 4] = [(5, "recall@5"), (10, "recall@10"), (20, "recall@20"), (50, "recall@50")];

/// Sums over the questions of conversations.
#[derive(Default)]
struct Recalls {
    questions: f64,
    sums: [f64; CUTS.len()],
}

impl Recalls {
    fn add<'a>(&mut self, evidence: &BTreeSet<&str>, found: impl Iterator<Item = &'a str>) {
        let found: Vec<&str> = found.collect();
        self.questions += 1.0;
        for ((cut, _), sum) in CUTS.iter().zip(&mut self.sums) {
            let among = found.iter().take(*cut).filter(|it| evidence.contains(*it)).count();
            *sum += among as f64 / evidence.len() as f64;
        }
    }

    fn figures(&self) -> BTreeMap<&'static str, f64> {
        let mean = |sum: &f64| sum / self.questions.max(1.0);
        CUTS.iter().map(|(_, name)| *name).zip(self.sums.iter().map(mean)).collect()
    }
}

fn spans(text: &str, place: &Scratch) -> Result<Figures, Box<dyn Error>> {
    const CHUNKS: usize = 5;
    let set: Spans = serde_json::from_str(text)?;
    let (store, base) = store_with_base(&place.file("chunking.db"))?;
    let document = |(name, text): (&String, &String)| {
        Ok(Document::new(SourceId::parse(name.as_str())?, Media::Text, text.as_str()))
    };
    let documents = set.corpora.iter().map(document).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    block_on(indexer(&store).add(&base, documents, &|_| {}))?;
    let mut all = Vec::new();
    for name in set.corpora.keys() {
        let selection = contexture_session::ChunkSelection::Range {
            source: SourceId::parse(name.as_str())?,
            positions: 0..u32::MAX,
        };
        all.extend(block_on(store.chunks(base.clone(), selection))?);
    }
    let mut plain = Fts5::new(None)?;
    plain.add((0..).zip(all.iter().map(|it| it.text.as_str())))?;
    let counter = counter_for(None);
    let (mut ours, mut theirs) = (SpanSums::default(), SpanSums::default());
    for question in &set.questions {
        let query = RankQuery { text: question.question.clone(), ..RankQuery::default() };
        let found = block_on(store.search_base(base.clone(), query, CHUNKS))?;
        let found = found.hits.iter().map(|it| &it.chunk);
        ours.add(&question.corpus, &question.spans, found.collect(), &*counter);
        let found = plain.search(&question.question, CHUNKS)?;
        let found = found.iter().filter_map(|it| all.get(*it as usize));
        theirs.add(&question.corpus, &question.spans, found.collect(), &*counter);
    }
    Ok(vec![(OURS, ours.figures()), (PLAIN, theirs.figures())])
}

/// Sums over the questions of a set with spans.
#[derive(Default)]
struct SpanSums {
    questions: f64,
    recall: f64,
    precision: f64,
    tokens: f64,
}

impl SpanSums {
    fn add(
        &mut self,
        corpus: &str,
        spans: &[(u64, u64)],
        found: Vec<&contexture_session::StoredChunk>,
        counter: &dyn contexture_message::TokenCounter,
    ) {
        let in_corpus = |it: &&&contexture_session::StoredChunk| it.source.as_str() == corpus;
        let overlap = |(start, end): (u64, u64)| -> u64 {
            let each = found.iter().filter(in_corpus);
            each.map(|it| it.chars.end.min(end).saturating_sub(it.chars.start.max(start))).sum()
        };
        let covered: u64 = spans.iter().map(|it| overlap(*it)).sum();
        let wanted: u64 = spans.iter().map(|(start, end)| end - start).sum();
        let read: u64 = found.iter().map(|it| it.chars.end - it.chars.start).sum();
        self.questions += 1.0;
        self.recall += covered as f64 / wanted.max(1) as f64;
        self.precision += covered as f64 / read.max(1) as f64;
        self.tokens += f64::from(found.iter().map(|it| counter.count(&it.text).0).sum::<u32>());
    }

    fn figures(&self) -> BTreeMap<&'static str, f64> {
        let mean = |sum: f64| sum / self.questions.max(1.0);
        [("recall", mean(self.recall)), ("precision", mean(self.precision)), ("tokens", mean(self.tokens))]
            .into()
    }
}

impl Quality {
    /// Returns the figures as one line of JSON.
    pub fn to_json(&self) -> Value {
        let mut sets = Map::new();
        for (set, way, figures) in &self.figures {
            let rounded: Map<String, Value> = figures
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!((value * 10_000.0).round() / 10_000.0)))
                .collect();
            sets.entry(set.clone()).or_insert_with(|| json!({}))[*way] = Value::Object(rounded);
        }
        json!({"job": "quality", "sets": sets, "skipped": self.skipped})
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (set, way, figures) in &self.figures {
            write!(f, "{set:<16} {way:<12}")?;
            for (name, value) in figures {
                write!(f, " {name} {value:.4}")?;
            }
            writeln!(f)?;
        }
        self.skipped.iter().try_for_each(|it| writeln!(f, "skipped: {it}"))
    }
}
