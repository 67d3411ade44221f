//! A static model from local files (Model2Vec): a table of word vectors, no network and no accelerator.

use std::path::Path;
use std::sync::Arc;

use contexture_compose::BoxFuture;
use model2vec_rs::model::StaticModel;
use sha2::{Digest, Sha256};

use super::{Embedder, EmbedderError};

const WEIGHTS: &str = "model.safetensors";

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
    /// Reads the model in a folder: `tokenizer.json`, `model.safetensors` and `config.json`. Its name has the hash of
    /// its weights: vectors of another version are made again, wherever its files are.
    pub fn open(folder: &Path) -> Result<Self, EmbedderError> {
        let failed =
            |detail: String| EmbedderError::Unavailable { model: folder.display().to_string(), detail };
        let weights =
            std::fs::read(folder.join(WEIGHTS)).map_err(|err| failed(format!("{WEIGHTS}: {err}")))?;
        let hash = Sha256::digest(&weights);
        let hash: String = hash.iter().take(8).map(|it| format!("{it:02x}")).collect();
        drop(weights);
        let model =
            StaticModel::from_pretrained(folder, None, None, None).map_err(|err| failed(err.to_string()))?;
        Ok(Self { name: format!("static-{hash}"), model: Arc::new(model) })
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
