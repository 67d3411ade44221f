//! How fast indexing and searching are, beside SQLite's own `bm25()`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture_knowledge::embed::PackedVectors;
use contexture_knowledge::{Document, IndexPorts, Indexer, Media};
use contexture_message::counter_for;
use contexture_session::rank::RankQuery;
use contexture_session::sources::{ChunkSelection, ChunkVector};
use contexture_session::{SourceId, SourceIndex};
use futures::executor::block_on;
use serde_json::{Value, json};

use super::fts5::Fts5;
use super::quality::Scratch;
use super::store_with_base;
use super::words::Writer;
use crate::measure::peak_rss_mb;

/// About how many words a chunk of 400 tokens has.
const WORDS_PER_CHUNK: usize = 290;
/// How many chunks a document has.
const CHUNKS_PER_DOCUMENT: usize = 10;
const QUERIES: usize = 300;
const DIMENSIONS: usize = 256;

/// Indexes about `n` chunks and searches them. Returns one line of JSON.
pub fn speed(n: usize, scratch: &Path) -> Result<Value, Box<dyn Error>> {
    let place = Scratch::new(scratch)?;
    let (store, base) = store_with_base(&place.file("speed.db"))?;
    let counter = counter_for(None);
    let ports = IndexPorts { store: Arc::clone(&store), counter: Arc::clone(&counter), converter: None };
    let indexer = Indexer::new(ports, Default::default());
    let mut writer = Writer::new(7);
    let (mut took, mut chunks, mut tokens, mut n_documents) = (Duration::ZERO, 0, 0, 0_usize);
    while chunks < n as u64 {
        let make = |_| {
            n_documents += 1;
            let text = writer.text(WORDS_PER_CHUNK * CHUNKS_PER_DOCUMENT);
            Ok(Document::new(SourceId::parse(format!("document-{n_documents}"))?, Media::Text, text))
        };
        // Making the texts is not part of indexing, and they need not be in memory all at once.
        let documents = (0..1_000).map(make).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        tokens += documents.iter().take(1).map(|it| u64::from(counter.count(&it.text).0)).sum::<u64>();
        let began = Instant::now();
        chunks += block_on(indexer.add(&base, documents, &|_| {}))?.chunks;
        took += began.elapsed();
    }
    let index_rss_mb = peak_rss_mb();
    let tokens_per_chunk =
        tokens as f64 / (n_documents as f64 / 1_000.0) / (chunks as f64 / n_documents as f64);
    let plain = plain_copy(&store, &base, &place, n_documents)?;
    let queries: Vec<String> = (0..QUERIES).map(|_| writer.query()).collect();
    let ours = times(&queries, |query| {
        let query = RankQuery { text: query.to_owned(), ..RankQuery::default() };
        Ok(block_on(store.search_base(base.clone(), query, 10))?.hits.len())
    })?;
    let theirs = times(&queries, |query| Ok(plain.search(query, 10)?.len()))?;
    let scan = flat_scan(chunks)?;
    let ms = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
    Ok(json!({
        "job": "knowledge",
        "n": chunks,
        "documents": n_documents,
        "tokens_per_chunk": tokens_per_chunk.round(),
        "index_chunks_per_s": (chunks as f64 / took.as_secs_f64()).round(),
        "index_rss_mb": index_rss_mb,
        "search_median_ms": ms(ours.0),
        "search_p95_ms": ms(ours.1),
        "fts5_median_ms": ms(theirs.0),
        "fts5_p95_ms": ms(theirs.1),
        "flat_scan_ms": ms(scan),
        "rss_mb": peak_rss_mb(),
    }))
}

/// Adds the same chunks to an FTS5 table.
fn plain_copy(
    store: &Arc<dyn SourceIndex>,
    base: &contexture_session::BaseKey,
    place: &Scratch,
    n_documents: usize,
) -> Result<Fts5, Box<dyn Error>> {
    let mut plain = Fts5::new(Some(&place.file("plain.db")))?;
    for no in 1..=n_documents {
        let source = SourceId::parse(format!("document-{no}"))?;
        let selection = ChunkSelection::Range { source, positions: 0..u32::MAX };
        let chunks = block_on(store.chunks(base.clone(), selection))?;
        plain.add(chunks.iter().map(|it| (it.no as i64, it.text.as_str())))?;
    }
    Ok(plain)
}

/// Returns the median and the 95th percentile of searches.
pub(super) fn times(
    queries: &[String],
    mut search: impl FnMut(&str) -> Result<usize, Box<dyn Error>>,
) -> Result<(Duration, Duration), Box<dyn Error>> {
    // Warm up with other queries than those that are measured.
    let (warm, measured) = queries.split_at(queries.len() / 6);
    for query in warm {
        search(query)?;
    }
    let mut times = Vec::new();
    for query in measured {
        let began = Instant::now();
        search(query)?;
        times.push(began.elapsed());
    }
    times.sort();
    let at = |percent: usize| {
        times.get((times.len().saturating_sub(1)) * percent / 100).copied().unwrap_or_default()
    };
    Ok((at(50), at(95)))
}

/// Returns the median time of comparing a query with as many vectors as there are chunks.
fn flat_scan(chunks: u64) -> Result<Duration, Box<dyn Error>> {
    let value = |no: u64, at: usize| (no.wrapping_mul(31).wrapping_add(at as u64 * 17) % 255) as u8;
    let vector =
        |no: u64| ChunkVector { no, values: (0..DIMENSIONS).map(|at| value(no, at).cast_signed()).collect() };
    let vectors = PackedVectors::new((1..=chunks).map(vector).collect());
    let query = vector(3).values;
    let mut times = Vec::new();
    for _ in 0..21 {
        let began = Instant::now();
        let found = vectors.similarities(&query, 100);
        times.push(began.elapsed());
        if found.best.is_empty() {
            return Err("the scan found nothing".into());
        }
    }
    times.sort();
    Ok(times[times.len() / 2])
}
