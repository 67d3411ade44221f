//! `[knowledge.NAME]` and `[embedder]` of `contexture.toml`.

use std::fmt;

use contexture_knowledge::retrieve::HttpRetrieverConfig;
use contexture_session::rank::{Language, RankConfig};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A knowledge base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BaseConfig {
    /// What the base is about, for the catalogue and the tools.
    pub description: Option<String>,
    /// The language of the documents, for stop words and stems.
    pub language: Language,
    /// The size of a chunk, in tokens, at least 16.
    #[serde(deserialize_with = "chunk_tokens")]
    pub chunk_tokens: usize,
    /// `local`, or the settings of a search engine.
    pub retriever: RetrieverConfig,
    /// How much counts for what in a local search.
    #[serde(deserialize_with = "ranking")]
    pub ranking: RankConfig,
    /// A program and its arguments that turns files which are no text, such as PDF, into text: it reads the file from
    /// its standard input and writes Markdown or text to its standard output. `{path}` is the file's name.
    pub converter: Vec<String>,
}

impl Default for BaseConfig {
    fn default() -> Self {
        Self {
            description: None,
            language: Language::default(),
            chunk_tokens: contexture_knowledge::ChunkConfig::default().tokens,
            retriever: RetrieverConfig::Local,
            ranking: RankConfig::documents(),
            converter: Vec::new(),
        }
    }
}

/// Smaller chunks are fragments of sentences.
const MIN_CHUNK_TOKENS: usize = 16;

fn chunk_tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let tokens = usize::deserialize(deserializer)?;
    let fault =
        || D::Error::custom(format!("`chunk_tokens` is {tokens}; it must be at least {MIN_CHUNK_TOKENS}"));
    if tokens < MIN_CHUNK_TOKENS { Err(fault()) } else { Ok(tokens) }
}

fn ranking<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RankConfig, D::Error> {
    let config = RankConfig::deserialize(deserializer)?;
    config.fault().map_or(Ok(config), |fault| Err(D::Error::custom(fault)))
}

/// How a base is searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RetrieverConfig {
    /// By the index in the store.
    #[default]
    Local,
    /// By a search engine.
    Http(Box<HttpRetrieverConfig>),
}

impl Serialize for RetrieverConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RetrieverConfig::Local => serializer.serialize_str("local"),
            RetrieverConfig::Http(config) => config.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RetrieverConfig {
    // An untagged enum would report a fault in the settings without its position.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LocalOrMap;

        impl<'de> Visitor<'de> for LocalOrMap {
            type Value = RetrieverConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`local`, or the settings of a search engine with its `url`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RetrieverConfig, E> {
                match text {
                    "local" => Ok(RetrieverConfig::Local),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RetrieverConfig, A::Error> {
                let config = HttpRetrieverConfig::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RetrieverConfig::Http(Box::new(config)))
            }
        }

        deserializer.deserialize_any(LocalOrMap)
    }
}

/// What turns texts into vectors: an endpoint compatible with OpenAI's `/v1/embeddings`, or a static model in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderConfig {
    /// The base URL, such as `http://127.0.0.1:11434/v1`.
    pub url: Option<String>,
    /// The name of the model.
    pub model: Option<String>,
    /// The environment variable that holds the value of the `authorization` header.
    pub authorization_env: Option<String>,
    /// The folder of a static model (Model2Vec), relative to the project: `tokenizer.json`, `model.safetensors` and
    /// `config.json`. It is used in place of an endpoint.
    pub path: Option<String>,
}
