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

/// The most memory that cached vectors take, in bytes: those of a million chunks with 512 dimensions.
const MAX_CACHED: usize = 512 * 1024 * 1024;

/// Vectors of bases that were searched lately. A view of the store: the version of the base tells whether it is current.
/// It is bounded: bases that were not searched for the longest time give way.
#[derive(Debug, Default)]
pub struct VectorCache(Mutex<CachedVectors>);

#[derive(Debug, Default)]
struct CachedVectors {
    bases: BTreeMap<(BaseKey, String), CachedBase>,
    /// Counts the searches, to order them.
    clock: u64,
}

/// The vectors of a base in one of its versions.
#[derive(Debug)]
struct CachedBase {
    version: u64,
    vectors: Arc<PackedVectors>,
    used: u64,
}

impl CachedVectors {
    fn get(&mut self, key: &(BaseKey, String), version: u64) -> Option<Arc<PackedVectors>> {
        self.clock += 1;
        let cached = self.bases.get_mut(key).filter(|it| it.version == version)?;
        cached.used = self.clock;
        Some(Arc::clone(&cached.vectors))
    }

    fn put(&mut self, key: (BaseKey, String), version: u64, vectors: Arc<PackedVectors>, most: usize) {
        self.bases.insert(key, CachedBase { version, vectors, used: self.clock });
        while self.bases.len() > 1
            && self.bases.values().map(|it| it.vectors.values.len()).sum::<usize>() > most
        {
            let oldest = self.bases.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| key.clone());
            oldest.map(|it| self.bases.remove(&it));
        }
    }
}

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
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key, version);
        if let Some(vectors) = known {
            return Ok(vectors);
        }
        let vectors = Arc::new(load(store, base, model).await?);
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.put(key, version, Arc::clone(&vectors), MAX_CACHED);
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

#[cfg(test)]
mod tests {
    use contexture_session::{BaseId, Tenant};

    use super::*;

    #[test]
    fn bases_that_were_not_searched_for_long_give_way() {
        let key = |name: &str| {
            let base = BaseKey { tenant: Tenant::default(), base: BaseId::parse(name).unwrap() };
            (base, "m".to_owned())
        };
        let four = || Arc::new(PackedVectors::new(vec![ChunkVector { no: 1, values: vec![1; 4] }]));
        let mut cached = CachedVectors::default();
        for name in ["a", "b"] {
            assert!(cached.get(&key(name), 1).is_none());
            cached.put(key(name), 1, four(), 8);
        }
        assert!(cached.get(&key("a"), 1).is_some());
        assert!(cached.get(&key("a"), 2).is_none(), "another version has other vectors");
        cached.put(key("c"), 1, four(), 8);
        let left: Vec<&str> = cached.bases.keys().map(|(it, _)| it.base.as_str()).collect();
        assert_eq!(left, ["a", "c"]);
        cached.put(key("d"), 1, four(), 1);
        assert_eq!(cached.bases.len(), 1, "the newest stays, whatever its size");
    }
}
