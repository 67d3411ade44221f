//! An embedder for tests: no model, no network.

use contexture_compose::BoxFuture;
use contexture_history::search::{Side, each_word};

use super::{Embedder, EmbedderError};

/// Makes vectors of the hashes of words: texts with common words are similar.
#[derive(Clone, Debug)]
pub struct HashEmbedder {
    model: String,
    dimensions: usize,
}

impl HashEmbedder {
    /// Returns an embedder that calls itself `model`.
    pub fn new(model: impl Into<String>, dimensions: usize) -> Self {
        Self { model: model.into(), dimensions: dimensions.max(1) }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.dimensions];
        each_word(text, Side::Text, |_, word| {
            let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325, step);
            let place = usize::try_from(hash >> 8).unwrap_or(0) % self.dimensions;
            vector[place] += if hash & 1 == 0 { 1.0 } else { -1.0 };
            true
        });
        vector
    }
}

impl Embedder for HashEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>> {
        Box::pin(async move { Ok(texts.iter().map(|it| self.vector(it)).collect()) })
    }
}
