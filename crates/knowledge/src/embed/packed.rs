//! The vectors of a base in memory, and how they are compared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_session::rank::Similarities;
use contexture_session::sources::{ChunkNo, ChunkVector, SourceIndex};
use contexture_session::{BaseKey, StoreError};

/// How many vectors are read at once.
const PAGE: usize = 10_000;

/// Returns a vector as eight-bit integers: only its direction counts, so the largest value becomes 127.
///
/// ```
/// assert_eq!(contexture_knowledge::embed::quantized(&[0.5, -0.25, 0.0]), [127, -64, 0]);
/// assert_eq!(contexture_knowledge::embed::quantized(&[0.0, f32::NAN]), [0, 0]);
/// ```
pub fn quantized(vector: &[f32]) -> Vec<i8> {
    let largest = vector.iter().copied().filter(|it| it.is_finite()).map(f32::abs).fold(0.0, f32::max);
    let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    // Values that are no numbers become 0.
    vector.iter().map(|it| (it * scale).round() as i8).collect()
}

/// The vectors of one model in one version of a base.
#[derive(Clone, Debug, Default)]
pub struct PackedVectors {
    /// The number of the chunk of each vector.
    nos: Arc<[ChunkNo]>,
    dimensions: usize,
    values: Vec<i8>,
    /// 1 / length of each vector.
    scales: Vec<f32>,
}

impl PackedVectors {
    /// Packs vectors, which come in the order of their chunks. Those of another length than the first are left out.
    pub fn new(vectors: Vec<ChunkVector>) -> Self {
        let dimensions = vectors.first().map_or(0, |it| it.values.len());
        let vectors: Vec<ChunkVector> =
            vectors.into_iter().filter(|it| it.values.len() == dimensions && dimensions > 0).collect();
        let mut values = Vec::with_capacity(vectors.len() * dimensions);
        vectors.iter().for_each(|it| values.extend_from_slice(&it.values));
        let scales = vectors.iter().map(|it| scale(&it.values)).collect();
        Self { nos: vectors.iter().map(|it| it.no).collect(), dimensions, values, scales }
    }

    /// Returns how many vectors there are.
    pub fn len(&self) -> usize {
        self.nos.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nos.is_empty()
    }

    /// Compares all vectors with that of a query. `best` are the most similar ones, at most `max`.
    pub fn similarities(&self, query: &[i8], max: usize) -> Similarities {
        if query.len() != self.dimensions || self.is_empty() {
            return Similarities::default();
        }
        let query_scale = scale(query);
        let rows = self.values.chunks_exact(self.dimensions).zip(&self.scales);
        let values: Vec<f32> =
            rows.map(|(row, scale)| dot(row, query) as f32 * scale * query_scale).collect();
        let mut best: Vec<usize> = (0..values.len()).collect();
        let order =
            |one: &usize, other: &usize| values[*other].total_cmp(&values[*one]).then_with(|| other.cmp(one));
        if best.len() > max {
            best.select_nth_unstable_by(max, order);
            best.truncate(max);
        }
        best.sort_unstable_by(order);
        let best = best.into_iter().map(|it| self.nos[it]).collect();
        Similarities { nos: Arc::clone(&self.nos), values, best }
    }
}

fn scale(values: &[i8]) -> f32 {
    let length = dot(values, values) as f32;
    if length > 0.0 { 1.0 / length.sqrt() } else { 0.0 }
}

/// Returns the dot product. Sixteen sums at once, so that the compiler can use wide instructions.
fn dot(one: &[i8], other: &[i8]) -> i32 {
    const LANES: usize = 16;
    let mut sums = [0_i32; LANES];
    let (one_rows, one_rest) = one.as_chunks::<LANES>();
    let (other_rows, other_rest) = other.as_chunks::<LANES>();
    for (one, other) in one_rows.iter().zip(other_rows) {
        for lane in 0..LANES {
            sums[lane] += i32::from(i16::from(one[lane]) * i16::from(other[lane]));
        }
    }
    let rest: i32 =
        one_rest.iter().zip(other_rest).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
    sums.iter().sum::<i32>() + rest
}

/// Vectors of bases that were searched lately. A view of the store: the version of the base tells whether it is current.
#[derive(Debug, Default)]
pub struct VectorCache(Mutex<BTreeMap<(BaseKey, String), VersionedVectors>>);

/// The version of a base, and the vectors that it has.
type VersionedVectors = (u64, Arc<PackedVectors>);

impl VectorCache {
    /// Returns the vectors of a model in a version of a base.
    pub async fn get(
        &self,
        store: &Arc<dyn SourceIndex>,
        base: &BaseKey,
        version: u64,
        model: &str,
    ) -> Result<Arc<PackedVectors>, StoreError> {
        let key = (base.clone(), model.to_owned());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((_, vectors)) = known.filter(|(of, _)| *of == version) {
            return Ok(vectors);
        }
        let vectors = Arc::new(load(store, base, model).await?);
        let entry = (version, Arc::clone(&vectors));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, entry);
        Ok(vectors)
    }
}

async fn load(
    store: &Arc<dyn SourceIndex>,
    base: &BaseKey,
    model: &str,
) -> Result<PackedVectors, StoreError> {
    let mut vectors: Vec<ChunkVector> = Vec::new();
    loop {
        let after = vectors.last().map_or(0, |it| it.no);
        let page = store.vectors(base.clone(), model.to_owned(), after, PAGE).await?;
        let is_last = page.len() < PAGE;
        vectors.extend(page);
        if is_last {
            return Ok(PackedVectors::new(vectors));
        }
    }
}
