//! Vectors of chunks: optional, beside the lexical index.
//!
//! An [`Embedder`] turns texts into vectors. They are kept as eight-bit integers ([`quantized`]) with the name of the
//! model, and compared one by one: [`PackedVectors`] holds those of a base in memory. After a change of the model
//! [`embed_missing`] makes them again; until it is done, searches rank without them and say so.

mod http;
mod missing;
mod packed;
mod scripted;
#[cfg(feature = "static-model")]
mod static_model;

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_session::sources::{ChunkNo, ChunkVector, SourceIndex};
use contexture_session::{BaseKey, StoreError};

pub use http::HttpEmbedder;
pub use missing::MissingEmbedder;
pub use packed::{PackedVectors, VectorCache, quantized};
pub use scripted::HashEmbedder;
#[cfg(feature = "static-model")]
pub use static_model::StaticEmbedder;

/// How many chunks are embedded at once.
const BATCH: usize = 64;

/// Turns texts into vectors.
///
/// Implementations return one vector per text, in order, all of the same length, and equal vectors for equal texts.
pub trait Embedder: Send + Sync {
    /// Returns the name of the model. Vectors of different models are never compared.
    fn model(&self) -> &str;

    /// Returns the vectors of texts.
    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>>;
}

/// Why texts have no vectors.
#[derive(Debug, thiserror::Error)]
pub enum EmbedderError {
    /// The embedder can't be reached, or refused.
    #[error("embedder `{model}` is not available: {detail}")]
    Unavailable {
        /// The model.
        model: String,
        /// The reason.
        detail: String,
    },
    /// The embedder returned something else than one vector per text.
    #[error("embedder `{model}` returned {found} vectors for {expected} texts")]
    WrongCount {
        /// The model.
        model: String,
        /// How many texts there were.
        expected: usize,
        /// How many vectors came back.
        found: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Embeds texts and checks that there is a vector for each.
pub(crate) async fn embed(
    embedder: &dyn Embedder,
    texts: Vec<String>,
) -> Result<Vec<Vec<f32>>, EmbedderError> {
    let expected = texts.len();
    let vectors = embedder.embed(texts).await?;
    match vectors.len() == expected {
        true => Ok(vectors),
        false => {
            let model = embedder.model().to_owned();
            Err(EmbedderError::WrongCount { model, expected, found: vectors.len() })
        }
    }
}

/// Embeds the chunks of a base that have no vector of the embedder's model. Returns how many there were. It can be
/// repeated and interrupted at any time; `progress` is called with the number so far.
pub async fn embed_missing(
    store: &Arc<dyn SourceIndex>,
    base: &BaseKey,
    embedder: &dyn Embedder,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<u64, EmbedderError> {
    let model = embedder.model().to_owned();
    let (mut after, mut done): (ChunkNo, u64) = (0, 0);
    loop {
        let chunks = store.without_vector(base.clone(), model.clone(), after, BATCH).await?;
        let Some(last) = chunks.last() else { return Ok(done) };
        after = last.no;
        let texts = chunks.iter().map(|it| it.text.clone()).collect();
        let vectors = embed(embedder, texts).await?;
        let vectors = chunks.iter().zip(vectors);
        let vectors: Vec<ChunkVector> =
            vectors.map(|(chunk, vector)| ChunkVector { no: chunk.no, values: quantized(&vector) }).collect();
        done += vectors.len() as u64;
        store.put_vectors(base.clone(), model.clone(), vectors).await?;
        progress(done);
    }
}
