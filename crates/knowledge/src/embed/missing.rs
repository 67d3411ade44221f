//! An embedder that is configured but can't be used.

use contexture_compose::BoxFuture;

use super::{Embedder, EmbedderError};

/// Stands for an embedder that could not be opened. Searches rank without it and say why; embedding fails with the
/// reason.
#[derive(Clone, Debug)]
pub struct MissingEmbedder {
    model: String,
    detail: String,
}

impl MissingEmbedder {
    /// Returns a stand-in for a model, with the reason why it can't be used.
    pub fn new(model: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { model: model.into(), detail: detail.into() }
    }
}

impl Embedder for MissingEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn embed(&self, _texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>> {
        let Self { model, detail } = self.clone();
        Box::pin(async { Err(EmbedderError::Unavailable { model, detail }) })
    }
}
