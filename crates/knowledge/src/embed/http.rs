//! An embedder behind an OpenAI-compatible `/v1/embeddings`.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_compose::ports::{HttpCaller, HttpReply, HttpRequest};
use serde::Deserialize;
use serde_json::json;

use super::{Embedder, EmbedderError};

/// The largest answer that is read.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Calls an embeddings endpoint.
#[derive(Clone)]
pub struct HttpEmbedder {
    url: String,
    model: String,
    /// The name of the secret that is sent as a bearer token.
    key: Option<String>,
    http: Arc<dyn HttpCaller>,
}

impl std::fmt::Debug for HttpEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEmbedder")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl HttpEmbedder {
    /// Returns an embedder. `url` is the base of the API, such as `http://127.0.0.1:11434/v1`, or the whole address of
    /// the endpoint; `authorization` the name under which the caller finds the value of the `authorization` header.
    pub fn new(
        url: impl Into<String>,
        model: impl Into<String>,
        authorization: Option<String>,
        http: Arc<dyn HttpCaller>,
    ) -> Self {
        let url = url.into();
        let url = match url.trim_end_matches('/') {
            whole if whole.ends_with("/embeddings") => whole.to_owned(),
            base => format!("{base}/embeddings"),
        };
        Self { url, model: model.into(), key: authorization, http }
    }

    fn unavailable(&self, detail: impl ToString) -> EmbedderError {
        EmbedderError::Unavailable { model: self.model.clone(), detail: detail.to_string() }
    }

    async fn call(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedderError> {
        let expected = texts.len();
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: BTreeMap::new(),
            secret_headers: self.key.iter().map(|it| ("authorization".to_owned(), it.clone())).collect(),
            body: Some(json!({"model": self.model, "input": texts, "encoding_format": "float"})),
            max_bytes: MAX_BYTES,
        };
        let reply = self.http.call(request).await.map_err(|err| self.unavailable(err))?;
        let vectors = self.vectors(&reply)?;
        let found = vectors.len();
        // Answers name the place of each vector; what has none stays empty and is found out here.
        let ordered: Vec<Vec<f32>> = (0..expected).filter_map(|it| vectors.get(&it).cloned()).collect();
        match ordered.len() == expected {
            true => Ok(ordered),
            false => Err(EmbedderError::WrongCount { model: self.model.clone(), expected, found }),
        }
    }

    fn vectors(&self, reply: &HttpReply) -> Result<BTreeMap<usize, Vec<f32>>, EmbedderError> {
        if reply.status != 200 {
            return Err(self.unavailable(format!("it answered with status {}", reply.status)));
        }
        let answer: Answer = serde_json::from_slice(&reply.body).map_err(|err| self.unavailable(err))?;
        Ok(answer.data.into_iter().map(|it| (it.index, it.embedding)).collect())
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder for HttpEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedderError>> {
        Box::pin(self.call(texts))
    }
}
