//! A static model from local files (Model2Vec): a table of word vectors, no network and no accelerator.

use std::path::Path;
use std::sync::Arc;

use contexture_compose::BoxFuture;
use model2vec_rs::model::StaticModel;

use super::{Embedder, EmbedderError};

/// Looks up word vectors in a table.
#[derive(Clone)]
pub struct StaticEmbedder {
    name: String,
    model: Arc<StaticModel>,
}

impl std::fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticEmbedder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl StaticEmbedder {
    /// Reads the model in a folder: `tokenizer.json`, `model.safetensors` and `config.json`.
    pub fn open(name: impl Into<String>, folder: &Path) -> Result<Self, EmbedderError> {
        let name = name.into();
        let model = StaticModel::from_pretrained(folder, None, None, None)
            .map_err(|err| EmbedderError::Unavailable { model: name.clone(), detail: err.to_string() })?;
        Ok(Self { name, model: Arc::new(model) })
    }
}

impl Embedder for StaticEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>> {
        Box::pin(async move { Ok(self.model.encode(&texts)) })
    }
}
